"""The gradient cache: value and gradient of a scalar function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..errors import ShapeError, SpecError
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.contract import wrong_cache
from ..programs.results import (
    Layout,
    buffers_of,
    gradient_leaves,
    gradients_of,
    scalar_output,
    seed_output,
    value_of,
)
from ..programs.variant import VariantWorkspace
from ..steady_calls.front import Front
from ..steady_calls.outs import gradient_outs, result_outs
from ..threads import one_at_a_time
from .base import PreparedCache
from .delivery import require_switches, write_into


class GradientCache(PreparedCache):
    """A function prepared for `value_and_gradient`; made by `prepare_gradient_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(np.sum, np.ones(3))
    >>> cache
    <GradientCache of sum: mode reverse; argument 0 (`a`): (3,) float64; 1 instructions ...>
    """

    repeats = True
    seeded_with_one = True
    served: Callable  # serves the next call, see `Front`; it does not keep the cache alive

    def call(self, *args: Any) -> Any:
        """Serve a call, as `value_and_gradient` does: ``cache.call`` is a function of the arguments alone.

        Parameters
        ----------
        *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
            The function's arguments, like those that the cache was prepared with.

        Returns
        -------
        value : numpy.floating
            The function's value.
        gradients : tuple
            One entry for each argument, None for constants.

        Raises
        ------
        SpecError
            If the arguments do not fit.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(np.sum, np.ones(3))
        >>> cache.call(np.ones(3))
        (np.float64(3.0), (array([1., 1., 1.]),))
        """
        return self.served(*args)

    def _ready(self) -> None:
        scalar_output(self._space.variant.recording)
        self._front = Front(self._turn, self._general, self)
        self._vector: np.ndarray | None = None  # the flat gradient, with `reuse_buffers`

    @one_at_a_time
    def _general(self, *args):
        """Serve any call, and arrange for the next one like it to be steady."""
        flat = self._flatten(args)
        space = self._sweep(flat)
        result = value_of(space), self._results(flat, space)
        config = self._program.config
        if config.friendly_tangents:
            outs = result_outs(space, space.variant.recording.result)
            outs += gradient_outs(flat, space, range(flat.count), config.reuse_buffers)
            left_out = self._omitted(args)
            self._front.learn(flat, self._evaluator, space, result, outs, "gradient", left_out)
        return result

    def _sweep(self, flat: Flattened) -> VariantWorkspace:
        """Sweep forward and back."""
        space = self._evaluator.forward(flat)
        seed_output(space, scalar_output(space.variant.recording))
        self._reverse(space)
        return space

    def _results(self, flat: Flattened, space: VariantWorkspace):
        config = self._program.config
        grads = gradients_of(flat, space, copy=not config.reuse_buffers)
        if config.friendly_tangents:
            return grads
        vector = Layout.of(flat).ravel(grads)
        if config.reuse_buffers:
            if self._vector is not None and self._vector.shape == vector.shape:
                self._vector[...] = vector
            else:
                self._vector = vector
            return self._vector
        return vector

    @one_at_a_time
    def _run(self, args, args_to_zero, out):
        """Serve a call of `value_and_gradient` with options."""
        flat = self._flatten(args)
        before = self._kept(flat, args_to_zero)
        space = self._sweep(flat)
        for view, kept in zip(space.gradients, before, strict=True):
            if kept is not None:
                view += kept
        if out is None or not self._program.config.friendly_tangents:
            made = self._results(flat, space)
            return value_of(space), made if out is None else write_into(out, made, "argument")
        for buffer, view in zip(buffers_of(flat, space, out), space.gradients, strict=True):
            if buffer is not None:
                buffer[...] = view
        return value_of(space), out

    def _kept(self, flat: Flattened, args_to_zero) -> list:
        """Return copies of the gradients that this call adds to, one per input of the tape, None for none."""
        if args_to_zero is None:
            args_to_zero = (True,) * flat.count
        require_switches(args_to_zero, flat.count, self._program.config)
        left: list = []
        rows = zip(gradient_leaves(flat, self._space), flat.specs, flat.leaves, strict=True)
        for view, spec, leaf in rows:
            if spec.kind == "static":
                continue
            if view is None or spec.argument < 0 or args_to_zero[spec.argument]:
                left.append(None)
                continue
            if view.shape != np.shape(leaf):
                raise ShapeError(
                    f"{spec.path}: args_to_zero=False adds to the gradient of the last call, of shape "
                    f"{view.shape}; the argument has shape {np.shape(leaf)} now. Begin with args_to_zero=True"
                )
            left.append(view.copy())
        return left

    def bind(self, *args: Any, out: Any = None) -> Any:
        """Fix input and gradient buffers; return a callable without arguments.

        This is the cheapest form of a call, for inner loops: each call reads the argument arrays as they
        are then, writes the gradients and returns the value as a Python float. The caller promises that
        constants do not change. Binding evaluates the function once, at what the arrays hold.

        Parameters
        ----------
        *args : numpy.ndarray
            C-contiguous arrays of the prepared dtypes; constants given at preparation may be left
            out.
        out : tuple, optional
            One C-contiguous array for each argument (None for constants), to which gradients are written.
            Left out, numbatape makes the arrays.

        Returns
        -------
        callable
            ``run()`` → value; ``run.out`` has the gradient buffers.

        Raises
        ------
        SpecError
            If an argument or a buffer is no C-contiguous array of the prepared dtype and shape.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> x, g = np.ones(3), np.empty(3)
        >>> run = nt.prepare_gradient_cache(lambda x: np.sum(x**2), x).bind(x, out=(g,))
        >>> x[0] = 2.0
        >>> run(), g
        (6.0, array([4., 2., 2.]))
        """
        return imported(".bound", __package__).bind(self, args, out)


def prepare_gradient_cache(
    f: Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
    include_callable: bool = False,
) -> GradientCache:
    """Trace a scalar function and return its cache for `value_and_gradient`.

    Runs ``f`` once, on traced copies: the arguments stay as they are, bit for bit.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of the arguments that returns one real scalar.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it; leaves of float64, float32 and complex dtypes are differentiated. Number of
        arguments, structure, dtypes and numbers of dimensions are fixed by them, sizes and values are not.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`.
    include_callable : bool
        Whether ``f`` is a callable dataclass that holds arrays: its gradient comes first.

    Returns
    -------
    GradientCache
        To be given to `value_and_gradient`.

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
    >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x)), np.zeros(3))
    >>> nt.value_and_gradient(cache, np.zeros(3))
    (np.float64(0.0), (array([1., 1., 1.]),))
    """
    return GradientCache._prepare(f, args, kwargs, config, include_callable)


_MISSING = object()


def value_and_gradient(
    cache: GradientCache, x: Any = _MISSING, *args: Any, args_to_zero: Any = None, out: Any = None
) -> Any:
    """Return the function's value and its gradient with respect to each argument.

    Parameters
    ----------
    cache : GradientCache or DerivativeCache
        From `prepare_gradient_cache`; one of `prepare_derivative_cache` computes the gradient of few
        inputs by forward mode.
    x, *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with; `Constant` and `Static` arguments may be left out, and
        are then what they were at preparation.
    args_to_zero : sequence of bool, optional
        One entry for each argument; False adds to what the last call left in the cache's own buffers
        (``Config(reuse_buffers=True)``).
    out : tuple, optional
        Arrays to write the gradients to, one entry for each argument (None to skip it).

    Returns
    -------
    value : numpy.floating
        The function's value.
    gradients : tuple
        One entry for each argument, of the argument's structure and shapes, None for constants. Fresh arrays,
        unless ``reuse_buffers`` or ``out`` say otherwise. With ``friendly_tangents=False`` one vector.

    Raises
    ------
    SpecError
        If the arguments differ from the prepared ones in number, structure, dtype or dimensions.
    BusyError
        If another call of the cache is under way.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(lambda p: p["a"] * p["b"], {"a": 2.0, "b": 3.0})
    >>> value, (gradient,) = nt.value_and_gradient(cache, {"a": 2.0, "b": 3.0})
    >>> float(gradient["a"]), float(gradient["b"])
    (3.0, 2.0)
    """
    if args_to_zero is None and out is None:
        try:
            call = cache.served
        except AttributeError:
            raise wrong_cache(cache, "value_and_gradient", "prepare_gradient_cache") from None
        if not args and x is not _MISSING:
            return call(x)  # this takes 0.3 µs less than call(*args)
        return call(*(() if x is _MISSING else (x, *args)))
    given = () if x is _MISSING else (x, *args)
    if isinstance(cache, GradientCache):
        return cache._run(given, args_to_zero, out)
    if isinstance(cache, imported(".derivative", __package__).DerivativeCache):
        if args_to_zero is not None and not (isinstance(args_to_zero, (tuple, list)) and all(args_to_zero)):
            raise SpecError(
                f"args_to_zero={args_to_zero!r}: must be a tuple of True here, because forward mode adds "
                "nothing up; use prepare_gradient_cache"
            )
        value, grads = cache.served(*given)
        return value, grads if out is None else write_into(out, grads, "argument")
    raise wrong_cache(cache, "value_and_gradient", "prepare_gradient_cache")
