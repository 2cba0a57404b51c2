"""`Taped` and `Pullback`: the forward state at a point, and the linear function of cotangents there."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..jit.steady import TUPLE
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.results import gradients_of, value_of
from ..programs.variant import VariantWorkspace
from ..steady_calls.entry import Entry
from ..steady_calls.front import Front
from ..steady_calls.outs import gradient_outs, result_outs
from ..threads import Turn, in_turn, one_at_a_time
from .pullback import cotangent_rows, seed_cotangent

MOST = 8  # workspaces kept for calls of the same sizes, when many pullbacks are dropped


class Taped:
    """A workspace whose forward sweep has run at some point, for one pullback at a time.

    Attributes
    ----------
    front
        Serves the forward sweep at another point of the same sizes.
    """

    def __init__(self, evaluator: Evaluator, flat: Flattened, space: VariantWorkspace):
        self._flat, self._space = flat, space
        self._turn = Turn()
        self.front = Front(self._turn)
        self.value = value_of(space)
        outs = result_outs(space, space.variant.recording.result)
        self.front.learn(flat, evaluator, space, self.value, outs, "watched")

    @one_at_a_time
    def pull(self, cotangent):
        """Return the gradients for a cotangent; what serves further ones takes this method's place."""
        grads = _gradients(self._flat, self._space, cotangent)
        pulling = in_turn(self._turn, functools.partial(_gradients, self._flat, self._space))
        self.pull = self._steady_pull(cotangent, grads, pulling) or pulling
        return grads

    def _steady_pull(self, cotangent, grads, pulling: Callable):
        """Return the builtin for cotangents like one; None where it or a gradient is a container."""
        flat, space = self._flat, self._space
        rows = cotangent_rows(space, cotangent)
        outs = gradient_outs(flat, space, range(flat.count))
        if rows is None or len(rows) != 1 or len(outs) != len(grads) or flat.count != len(flat.marks):
            return None
        return Entry(space, rows, outs, TUPLE, "pullback", None, self._turn).native(pulling)


def _gradients(flat: Flattened, space: VariantWorkspace, cotangent):
    seed_cotangent(space, cotangent)
    space.reverse()
    return gradients_of(flat, space)


class Pullback:
    """The pullback of a function at a point; it owns the forward state, and gives it back when it is dropped.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> _, pullback = nt.vjp(np.sin, np.zeros(2))
    >>> pullback(np.array([1.0, 2.0]))
    (array([1., 2.]),)
    """

    __slots__ = ("_idle", "_taped")

    def __init__(self, taped: Taped, idle: list[Taped]):
        self._taped, self._idle = taped, idle

    def __call__(self, cotangent):
        """Return the gradients for a cotangent of the result's structure, one entry per argument."""
        return self._taped.pull(cotangent)

    def __copy__(self):
        return self  # calls do not change a pullback, and a copy would give the same workspace back again

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a pullback cannot be pickled: call nt.vjp in the process that needs it")

    def __del__(self):
        if len(self._idle) < MOST:
            self._idle.append(self._taped)
