"""What the stand-ins for SciPy's solvers share: when they run, what they refuse, how results are made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.optimize

from ..errors import UnsupportedOperationError
from ..numpy_api.stand_ins import named_like
from ..stand_ins.opened import Opened
from ..trace.trace import failing
from ..usercode.frames import UsersLine, not_supported


def refuse(what: str, hint: str) -> UnsupportedOperationError:
    """Return the error for a call with traced values that a stand-in does not serve."""
    return not_supported(f"{what} of traced values", hint)


def where_traced(implementation: Callable) -> Callable:
    """Return what makes a stand-in that calls SciPy's solver unless a traced value is involved.

    Functions that the solver is given may refer to traced values, too: these are found by `Opened`.

    Parameters
    ----------
    implementation
        ``implementation(original, *args, **kwargs)``, where ``original`` is SciPy's solver.
    """

    def make(original):
        def call(*args, **kwargs):
            opened = Opened(original.__name__, (args, kwargs))
            if not opened.found:
                args, kwargs = opened.filled([])
                return UsersLine().call(original, *args, **kwargs)
            with failing(opened.found[0]._trace):
                return implementation(original, *args, **kwargs)

        return named_like(call, original)

    return make


def as_array(value):
    """Return a list of numbers, traced or not, as an array."""
    return np.stack(value) if isinstance(value, (list, tuple)) else value


def result_of(x, **more):
    """Return SciPy's result with a traced solution; a solver that has found none raises before."""
    return scipy.optimize.OptimizeResult(x=x, success=True, **more)
