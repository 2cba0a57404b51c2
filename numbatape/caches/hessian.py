"""The Hessian cache: a whole Hessian by products with all unit directions, or by few compressed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..nested.recorded_derivatives import hessian_vector
from ..programs.contract import require_real, wrong_cache
from ..programs.results import Layout, value_of
from ..steady_calls.front import Front
from ..threads import one_at_a_time
from . import compressed
from .bound import Bound
from .bound_hessian import bind_compressed, bind_outputs
from .delivery import write_into
from .dense_hessian import blocks, full_hessian, hessian_outs
from .dense_jacobian import samples_of
from .derived import Derived
from .directions import like_arguments
from .hvp import HvpCache


class HessianCache(HvpCache):
    """A function prepared for `value_gradient_and_hessian`; made by `prepare_hessian_cache`.

    It serves `value_and_hvp`, too. A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_hessian_cache(np.sum, np.ones(3))
    <HessianCache of sum: mode reverse over forward; ...>
    """

    serving = ("_product", "_hessian")

    def _ready(self) -> None:
        require_real(self._prepared, "a Hessian")
        super()._ready()
        config = self._program.config
        transform = hessian_vector(config.second_order_mode, config.strong_zero)
        self._wide = Derived(self._program.function, config, transform, lanes=True)
        self._differentiating = Front(self._turn, self._general)
        self._compressed = None

    def _share(self, other) -> None:
        super()._share(other)
        other._wide = self._wide.clone()

    def _by_pattern(self, flat):
        """Return a sweep of the function, and what is known of the Hessian's pattern.

        The pattern is None where all columns are computed; the sweep is None if that was known without one.
        """
        config = self._program.config
        small = len(flat.active) != 1 or flat.count != 1 or np.size(flat.leaves[0]) < compressed.LEAST
        if small or flat.active[0].kind != "array" or flat.active[0].dtype != np.float64:
            return None, None
        if config.debug_mode or config.chunk_size is not None or not config.friendly_tangents:
            return None, None
        if self._compressed is None:
            self._compressed = compressed.Compressed(self, self._wide)
        return self._compressed.known_for(flat)

    def _compressed_hessian(self, flat, known):
        matrix = self._compressed.hessian(flat, known)
        views = compressed.views_of(known)
        # The views are missing where it took several sweeps, or where a part of the result is constant.
        if views is None:
            value, grads = self._value_and_gradients(flat)
        else:
            space = known.derived.last
            result, grads, _ = space.variant.recording.result
            value, grads = value_of(space, result), like_arguments(flat, value_of(space, grads))
        shape = np.shape(flat.leaves[0])
        (k,) = flat.chosen
        return value, grads[k], matrix.reshape(shape + shape)

    def _value_and_gradients(self, flat):
        """Return (value, gradients), which a Hessian-vector product computes too."""
        space = self._single.sweep(self._single.extended(flat, samples_of(flat)))
        result, grads, _ = space.variant.recording.result
        return value_of(space, result), like_arguments(flat, value_of(space, grads))

    def bind(self, x: Any, out: Any = None) -> Bound:
        """Fix buffers for a function of one array; return a callable without arguments.

        This is the cheapest form of a call, for inner loops: each call reads ``x`` as it is then, writes
        gradient and Hessian and returns the value as a Python float. The caller promises that constants do
        not change.

        Parameters
        ----------
        x : numpy.ndarray
            C-contiguous array of the prepared dtype.
        out : tuple, optional
            ``(gradient, hessian)``: C-contiguous arrays to write to. Left out, numbatape makes the arrays.

        Returns
        -------
        callable
            ``run()`` → value; ``run.out`` has the two arrays.

        Raises
        ------
        SpecError
            If one of the arrays is not C-contiguous, or has another dtype or shape than it should.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> x = np.ones(2)
        >>> run = nt.prepare_hessian_cache(lambda x: np.sum(x**3), x).bind(x)
        >>> x[0] = 2.0
        >>> run(), run.out[1]
        (9.0, array([[12.,  0.],
               [ 0.,  6.]]))
        """
        cache = self.clone()  # A clone has cells of its own, which other calls of the cache do not write to.
        cache._hessian((x,))
        flat = cache._flatten((x,))
        _, known = cache._by_pattern(flat)
        if known is not None:
            return bind_compressed(cache, known, x, out)
        return bind_outputs(cache, cache._wide, x, out)

    def _hessian(self, args):
        """Serve a call of `value_gradient_and_hessian`."""
        return self._differentiating.call(*args)

    @one_at_a_time
    def _general(self, *args):
        """Serve any call: by the compression of a known pattern if few colours do, else by all columns."""
        flat = self._flatten(args)
        primal, known = self._by_pattern(flat)
        if known is not None:
            made = self._compressed_hessian(flat, known)
            outs = compressed.outs_of(known)
            if outs is not None:
                derived = known.derived
                derived.teach(self._differentiating, derived.last, made, outs, self._omitted(args))
            return made
        _, value, grads, whole = full_hessian(self._wide, flat, self._program.config.chunk_size, primal)
        if not self._program.config.friendly_tangents:
            return value, Layout.of(flat).ravel(grads), whole
        chosen = flat.chosen
        if len(chosen) > 1:
            return value, grads, blocks(flat, whole, range(flat.count), single=False)
        made = value, grads[chosen[0]], blocks(flat, whole, chosen, single=True)
        outs = hessian_outs(flat, self._wide.last)
        if outs is not None:
            self._wide.teach(self._differentiating, self._wide.last, made, outs, self._omitted(args))
        return made


def prepare_hessian_cache(
    f: Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
    include_callable: bool = False,
) -> HessianCache:
    """Trace a scalar function and return its cache for `value_gradient_and_hessian`.

    ``Config(chunk_size)`` sets how many columns a sweep computes, ``Config(second_order_mode)`` how the two
    orders are nested.

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
    HessianCache
        To be given to `value_gradient_and_hessian`.

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
    >>> cache = nt.prepare_hessian_cache(lambda x: np.sum(x**3), np.zeros(2))
    >>> nt.value_gradient_and_hessian(cache, np.array([1.0, 2.0]))[2]
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return HessianCache._prepare(f, args, kwargs, config, include_callable)


def value_gradient_and_hessian(cache: HessianCache, *args: Any, out: Any = None) -> Any:
    """Return the function's value, gradient and Hessian.

    Parameters
    ----------
    cache : HessianCache
        From `prepare_hessian_cache`.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.
    out : tuple, optional
        ``(gradient, hessian)``: arrays to write to, in their structure (None to skip one).

    Returns
    -------
    value : numpy.floating
        The function's value.
    gradient : array, number, or pytree of them
        Of the argument's structure and shapes; with several differentiated arguments a tuple.
    hessian : numpy.ndarray or pytree of them
        Of shape input shape + input shape; of a dictionary it is a dictionary of
        dictionaries. With several differentiated arguments a tuple of tuples of blocks.

    Raises
    ------
    SpecError
        If the arguments differ from the prepared ones.
    BusyError
        If another call of the cache is under way.
    TypeError
        If the cache was prepared for products alone.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_hessian_cache(lambda x, y: x * y, 1.0, 1.0)
    >>> [[float(block) for block in row] for row in nt.value_gradient_and_hessian(cache, 2.0, 3.0)[2]]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not isinstance(cache, HessianCache):
        raise wrong_cache(cache, "value_gradient_and_hessian", "prepare_hessian_cache")
    if out is None:
        return cache._hessian(args)
    value, *made = cache._hessian(args)
    return value, *write_into(out, tuple(made), "result")
