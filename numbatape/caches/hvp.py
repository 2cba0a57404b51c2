"""The cache of Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..config import Config
from ..errors import SpecError
from ..nested.recorded_derivatives import hessian_vector
from ..programs.contract import wrong_cache
from ..programs.results import Layout, scalar_output, value_of
from ..steady_calls.front import Front
from ..steady_calls.outs import Out, parts_outs, result_outs
from ..threads import one_at_a_time
from .base import PreparedCache
from .delivery import write_into
from .derived import Derived
from .directions import direction_leaves, products_of


class HvpCache(PreparedCache):
    """A function prepared for `value_and_hvp`; made by `prepare_hvp_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_hvp_cache(np.sum, np.ones(3))
    <HvpCache of sum: mode reverse over forward; ...>
    """

    mode = "second order"
    serving: tuple[str, ...] = ("_product",)

    def _ready(self) -> None:
        scalar_output(self._space.variant.recording, "Hessian")
        config = self._program.config
        transform = hessian_vector(config.second_order_mode, config.strong_zero)
        self.mode = config.second_order_mode.replace("_", " ")
        self._single = Derived(self._program.function, config, transform, lanes=False)
        self._multiplying = Front(self._turn, self._multiply)

    def _share(self, other) -> None:
        other._single = self._single.clone()

    def _product(self, vectors, args):
        """Serve a call of `value_and_hvp`."""
        return self._multiplying.call(*args, vectors)

    @one_at_a_time
    def _multiply(self, *given):
        """Serve any product, and arrange for the next one like it to be steady."""
        *first, vectors = given
        args = tuple(first)
        flat = self._flatten(args)
        chosen = flat.chosen
        several = len(chosen) > 1
        given = list(vectors) if several and isinstance(vectors, (tuple, list)) else [vectors]
        if len(given) == flat.count and several:
            trees = given
        elif len(given) == len(chosen):
            found = iter(given)
            trees = [next(found) if k in chosen else None for k in range(flat.count)]
        else:
            raise SpecError(f"the vector must be a tuple of {len(chosen)}, one entry an argument")
        directions = direction_leaves(flat, trees, "the vector")
        space = self._space = self._single.sweep(self._single.extended(flat, directions))
        result = space.variant.recording.result[0]
        grads, products = products_of(flat, space)
        if not self._program.config.friendly_tangents:
            return value_of(space, result), *(Layout.of(flat).ravel(part) for part in (grads, products))
        value = value_of(space, result)
        made = (value, grads, products) if several else (value, grads[chosen[0]], products[chosen[0]])
        outs = self._outs(flat, space, range(flat.count) if several else chosen)
        if outs is not None:
            left_out = self._omitted(args)
            # The table knows the vectors as they were given: a tuple with None always takes the general call.
            self._single.teach(self._multiplying, space, made, outs, left_out, (vectors,))
        return made

    @staticmethod
    def _outs(flat, space, arguments) -> list[Out] | None:
        result, grads, products = space.variant.recording.result
        parts = [parts_outs(flat, space, part, arguments) for part in (grads, products)]
        if parts[0] is None or parts[1] is None:
            return None
        return [*result_outs(space, result), *parts[0], *parts[1]]


def prepare_hvp_cache(
    f: Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
    include_callable: bool = False,
) -> HvpCache:
    """Trace a scalar function and return its cache for `value_and_hvp`.

    ``Config(second_order_mode)`` chooses how the two orders are nested.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it: as for `prepare_gradient_cache`. Sizes and values may differ in later calls.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`.
    include_callable : bool
        Whether ``f`` is a callable dataclass that holds arrays: its gradient comes first.

    Returns
    -------
    HvpCache
        To be given to `value_and_hvp`.

    Raises
    ------
    OutputError
        If ``f`` does not return one real scalar.
    SpecError
        If the arguments cannot be differentiated.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate; the message names the function and the line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_hvp_cache(lambda x: np.sum(x**2), np.zeros(2))
    >>> nt.value_and_hvp(cache, np.array([1.0, 0.0]), np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]), array([2., 0.]))
    """
    return HvpCache._prepare(f, args, kwargs, config, include_callable)


def value_and_hvp(cache: HvpCache, v: Any, *args: Any, out: Any = None) -> Any:
    """Return the function's value, its gradient, and its Hessian times a vector.

    Parameters
    ----------
    cache : HvpCache
        From `prepare_hvp_cache` (or `prepare_hessian_cache`).
    v : array, number, pytree of them, or tuple
        The vector, of the argument's structure and shapes; with several differentiated arguments a
        tuple, one entry for each.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.
    out : tuple, optional
        ``(gradient, product)``: arrays to write to, in their structure (None to skip one).

    Returns
    -------
    value : numpy.floating
        The function's value.
    gradient, product : array, number, or pytree of them
        Of the argument's structure and shapes. With several differentiated arguments the gradient and the
        product (of the joint Hessian) are tuples.

    Raises
    ------
    SpecError
        If the vector or the arguments do not fit.
    BusyError
        If another call of the cache is under way.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_hvp_cache(lambda x, y: x * x * y, 1.0, 1.0)
    >>> value, gradient, product = nt.value_and_hvp(cache, (1.0, 0.0), 2.0, 3.0)
    >>> [float(p) for p in product]
    [6.0, 4.0]
    """
    if not isinstance(cache, HvpCache):
        raise wrong_cache(cache, "value_and_hvp", "prepare_hvp_cache")
    if out is None:
        return cache._product(v, args)
    value, *made = cache._product(v, args)
    return value, *write_into(out, tuple(made), "result")
