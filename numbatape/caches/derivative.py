"""The derivative cache: forward mode along one direction, or along several in lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..errors import ArityError, SpecError
from ..nested.recorded_derivatives import pushforward
from ..programs.arguments import Flattened
from ..programs.contract import wrong_cache
from ..programs.results import Layout, scalar_output, value_of
from ..steady_calls.front import Front
from ..steady_calls.outs import result_outs, tangent_outs
from ..threads import one_at_a_time
from ..trace import pytrees
from . import dense_jacobian as dense
from .delivery import Owned, write_into
from .derived import Derived, outputs_of
from .directions import direction_leaves, like_result
from .jacobian import JacobianCache


class DerivativeCache(JacobianCache):
    """A function prepared for `value_and_derivative`; made by `prepare_derivative_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Attributes
    ----------
    lanes
        The number of directions that a call takes at once.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_derivative_cache(np.sin, 0.0)
    <DerivativeCache of sin: mode forward; ...>
    """

    mode = "forward"
    serving = ("_along", "_jacobian")
    choices = ("lanes",)
    by_columns = True
    lanes = 1

    def _ready(self) -> None:
        super()._ready()
        config = self._program.config
        transform = pushforward(config.strong_zero)
        function = self._program.function
        self._single = Derived(function, config, transform, lanes=False)
        self._wide = Derived(function, config, transform, lanes=True)
        # Which arguments have tangents.
        self._moving = [k in self._prepared.differentiated for k in range(len(self._given))]
        self._pushing = Front(self._turn, self._push_apart)
        self._slope = Front(self._turn, self._gradient, None if config.reuse_buffers else self)
        if config.reuse_buffers:
            self.served = Owned(DerivativeCache._its_slope, self)

    def _share(self, other) -> None:
        other._single, other._wide = self._single.clone(), self._wide.clone()

    def _along(self, pairs):
        """Serve a call of `value_and_derivative`."""
        given = [type(pair) is tuple and len(pair) == 2 for pair in pairs]
        if all(given):
            return self._pushing.call(*(x for x, _ in pairs), *(dx for _, dx in pairs))
        if given == self._moving:  # constants come without a tangent
            both = list(zip(pairs, given, strict=True))
            primals = [pair[0] if moves else pair for pair, moves in both]
            return self._pushing.call(*primals, *(pair[1] for pair, moves in both if moves))
        return self._push(pairs)

    def _push_apart(self, *arrays):
        """Do what `_along` does, for primals followed by the tangents of those that are no constants."""
        if len(arrays) == len(self._moving) + sum(self._moving):
            primals, tangents = arrays[: len(self._moving)], iter(arrays[len(self._moving) :])
            each = zip(primals, self._moving, strict=True)
            return self._push(tuple((x, next(tangents)) if moves else x for x, moves in each))
        count = len(arrays) // 2  # constants are left out, so that each primal has a tangent
        return self._push(tuple(zip(arrays[:count], arrays[count:], strict=True)))

    @one_at_a_time
    def _push(self, pairs):
        """Serve any pushforward: the tangents go in as one direction, or as one direction for each lane."""
        primals, tangents = self._split(pairs)
        flat = self._flatten(primals)
        by_argument = self._align(tangents, flat.count)
        lanes = self._lanes_of(flat, by_argument)
        directions = direction_leaves(flat, by_argument, "the tangent", lanes)
        if not lanes:
            self._space = space = self._single.sweep(self._single.extended(flat, directions))
        else:
            samples = dense.samples_of(flat)

            def fill(views):
                for view, direction in zip(views, directions, strict=True):
                    view[...] = direction

            self._space = space = self._wide.sweep(self._wide.extended(flat, samples), lanes, fill)
        result, parts = space.variant.recording.result
        tangent = like_result(space, result, [_own(v) for v in outputs_of(space, parts)], lanes)
        both = value_of(space, result), tangent
        slopes = tangent_outs(space, result, parts, lanes)
        moved = [tangent for tangent in tangents if tangent is not None]
        if slopes is not None and len(moved) == sum(self._moving):
            derived = self._wide if lanes else self._single
            outs = [*result_outs(space, result), *slopes]
            derived.teach(self._pushing, space, both, outs, self._omitted(primals), moved)
        return both

    def _split(self, pairs) -> tuple[tuple, tuple]:
        primals, tangents = [], []
        for k, pair in enumerate(pairs):
            if isinstance(pair, tuple) and len(pair) == 2:
                primals.append(pair[0])
                tangents.append(pair[1])
            else:
                primals.append(pair)  # a constant, which has no tangent
                tangents.append(None)
                if len(pairs) == len(self._given) and k in self._prepared.differentiated:
                    raise ArityError(f"argument {k} must be a pair (x, dx), got {type(pair).__name__}")
        return tuple(primals), tuple(tangents)

    def _align(self, tangents, count: int) -> list:
        """Return one tangent per argument, where a call may have left out those of constants."""
        if len(tangents) == count:
            return list(tangents)
        found = iter(tangents)
        return [next(found) if k in self._prepared.differentiated else None for k in range(count)]

    def _lanes_of(self, flat: Flattened, tangents) -> int:
        """Return the number of lanes of the tangents, 0 for none; raise where only some have lanes."""
        if self.lanes == 1:
            return 0
        for k, tangent in enumerate(tangents):
            if k not in flat.differentiated:
                continue
            shapes = [np.shape(part) for part in pytrees.leaves(tangent)]
            wanted = [np.shape(x) for x, s in zip(flat.leaves, flat.specs, strict=True) if s.argument == k]
            if shapes == wanted:
                raise SpecError(
                    f"argument {k} has a plain tangent; a cache of lanes={self.lanes} takes tangents with "
                    f"a leading axis of {self.lanes}, for all arguments alike"
                )
        return self.lanes

    # ---- derivatives along all unit directions

    def _assembled(self, flat: Flattened):
        return self._wide, *dense.forward(self._wide, flat, self._program.config.chunk_size)[1:]

    def _its_slope(self, *args):
        return self._slope.call(*args)

    @one_at_a_time
    def _gradient(self, *args):
        """Return ``(value, gradients)`` of a scalar function, by chunks of columns."""
        flat = self._flatten(args)
        primal = self._evaluator.forward(flat)
        scalar_output(primal.variant.recording)
        _, value, (_structure, rows) = dense.forward(
            self._wide, flat, self._program.config.chunk_size, primal
        )
        if not self._program.config.friendly_tangents:
            return value, Layout.of(flat).ravel(rows[0])
        both = value, rows[0]
        outs = dense.outs_of(flat, self._wide, by_columns=True)
        if outs is not None:
            self._wide.teach(self._slope, self._wide.last, both, outs, self._omitted(args))
        return both


def _own(view: np.ndarray):
    return view.copy() if view.ndim else view[()]


def prepare_derivative_cache(
    f: Callable[..., Any],
    *args: Any,
    lanes: int = 1,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
    include_callable: bool = False,
) -> DerivativeCache:
    """Trace a function and return its cache for `value_and_derivative`: forward mode.

    The cache also serves `value_and_jacobian` and, for scalar functions, `value_and_gradient`, in
    chunks of ``Config(chunk_size)`` columns.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it: as for `prepare_gradient_cache`. Sizes and values may differ in later calls.
    lanes : int
        1: tangents have the arguments' shapes. N > 1: they have a leading axis of N, one direction
        in each lane, and all are computed in one sweep.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`.
    include_callable : bool
        Whether ``f`` is a callable dataclass that holds arrays: its gradient comes first.

    Returns
    -------
    DerivativeCache
        To be given to `value_and_derivative`.

    Raises
    ------
    ValueError
        If ``lanes`` is no positive integer.
    SpecError
        If the arguments cannot be differentiated.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate; the message names the function and the line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_derivative_cache(lambda x: x**2, np.zeros(2))
    >>> x, dx = np.array([1.0, 3.0]), np.array([1.0, 0.0])
    >>> nt.value_and_derivative(cache, (x, dx))
    (array([1., 9.]), array([2., 0.]))
    >>> nt.value_and_jacobian(cache, x)[1]
    array([[2., 0.],
           [0., 6.]])
    """
    if type(lanes) is not int or lanes < 1:
        raise ValueError(f"lanes={lanes!r}: must be a positive integer")
    cache = DerivativeCache._prepare(f, args, kwargs, config, include_callable)
    cache.lanes = lanes
    return cache


def value_and_derivative(cache: DerivativeCache, *pairs: Any, out: Any = None) -> Any:
    """Return the function's value and its derivative along a direction.

    Parameters
    ----------
    cache : DerivativeCache
        From `prepare_derivative_cache`.
    *pairs : tuple
        One ``(x, dx)`` for each argument; constants bare, or left out. ``dx`` has the structure and the
        shapes of ``x``; with ``lanes=N`` each of its leaves has a leading axis of N.
    out : array or pytree of them, optional
        Arrays to write the derivative to, in its structure (None to skip one).

    Returns
    -------
    value : array, number, or pytree of them
        ``f(x, ...)``.
    derivative : array, number, or pytree of them
        With the value's structure and shapes; with lanes, a leading axis of N more.

    Raises
    ------
    SpecError
        If a direction has another structure or shape than its argument, or if tangents without a leading axis
        come to a cache with lanes.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_derivative_cache(lambda x, y: x * y, 1.0, 1.0, lanes=2)
    >>> nt.value_and_derivative(cache, (2.0, np.array([1.0, 0.0])), (3.0, np.array([0.0, 1.0])))
    (6.0, array([3., 2.]))
    """
    if not isinstance(cache, DerivativeCache):
        raise wrong_cache(cache, "value_and_derivative", "prepare_derivative_cache")
    if out is None:
        return cache._along(pairs)
    value, derivative = cache._along(pairs)
    return value, write_into(out, derivative, "result")
