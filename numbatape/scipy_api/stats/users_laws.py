"""Distributions of the user's: subclasses of ``rv_continuous`` and ``rv_discrete``, by their formulas.

What the class does not define, SciPy computes by integrals and searches, which have no derivative here.
"""

from __future__ import annotations

import functools
import types

import numpy as np

from ...errors import UnsupportedOperationError
from ...trace import operations
from ...usercode.frames import where_in_user_code
from .distributions import StandIn, method_of
from .law_methods import CONTINUOUS, DISCRETE, OF_PARAMETERS
from .laws import Law, positive

CUMULATIVE = ("cdf", "sf", "logcdf", "logsf", "ppf", "isf", "entropy")


def users_distribution(distribution) -> StandIn:
    """Return the stand-in for a distribution of the user's."""
    discrete = not hasattr(distribution, "pdf")
    law = _law(distribution, discrete)
    methods = (DISCRETE if discrete else CONTINUOUS) | OF_PARAMETERS

    def make(original, name: str):
        evaluate = methods.get(name)
        return None if evaluate is None else method_of(original, name, law, evaluate)

    return StandIn(distribution, make)


def _own(distribution, name: str):
    """Return a method that the user's class defines, as it runs in a trace; None if SciPy's is used."""
    for cls in type(distribution).__mro__:
        if cls.__module__.startswith("scipy."):
            return None
        if type(vars(cls).get(name)) is types.FunctionType:
            return functools.partial(operations.rebind(vars(cls)[name]), distribution)
    return None


def _law(distribution, discrete: bool) -> Law:
    """Return the law of a distribution that the user has defined, from the formulas of its class."""
    own = functools.partial(_own, distribution)
    kind = "pmf" if discrete else "pdf"
    log, density = own(f"_log{kind}"), own(f"_{kind}")

    def log_density(x, *shapes):
        if log is not None:
            return log(x, *shapes)
        if density is None:
            raise UnsupportedOperationError(
                f"{distribution.name}.{kind} of a traced array at {where_in_user_code()}: the class of the "
                f"distribution has no formula for it; define _{kind} or _log{kind}"
            )
        return np.log(density(x, *shapes))

    ends, check, moments = own("_get_support"), own("_argcheck"), own("_stats")
    given = {name: own(f"_{name}") for name in CUMULATIVE}
    if moments is not None:
        given |= {name: _moment(distribution, moments, k) for k, name in enumerate(("mean", "var"))}
    return Law(
        log_density,
        distribution.a if ends is None else lambda *shapes: ends(*shapes)[0],
        distribution.b if ends is None else lambda *shapes: ends(*shapes)[1],
        valid=positive if check is None else lambda *shapes: [check(*shapes)],
        discrete=discrete,
        **given,
    )


def _moment(distribution, moments, k: int):
    def moment(*shapes):
        found = moments(*shapes)[k]
        if found is None:
            name, place = f"{distribution.name}.{('mean', 'var')[k]}", where_in_user_code()
            raise UnsupportedOperationError(
                f"{name} of traced parameters at {place}: the method _stats of its class does not return it"
            )
        return found

    return moment
