"""The gradient cache: value and gradient of a scalar function."""

from __future__ import annotations

import numpy as np

from ..engine import kernels
from ..engine.frame import WORD
from ..engine.workspace import Workspace
from ..errors import SpecError
from ..tape.tape import ACTIVE, CONSTANT
from .arguments import STATIC, Flattened
from .base import PreparedCache, scalar_output
from .debug import run_debug

ndarray = np.ndarray


class GradientCache(PreparedCache):
    """A function prepared for `value_and_gradient`; made by `prepare_gradient_cache`.

    A cache belongs to one thread at a time: give each its `clone`.
    """

    def _check_output(self, space: Workspace) -> None:
        scalar_output(space.variant.recording)
        flat = self._program.prepared
        if not any(spec.level == ACTIVE for spec in flat.specs):
            listed = ", ".join(f"{s.path} ({_what(s, v)})" for s, v in zip(flat.specs, flat.leaves, strict=True))
            raise SpecError(
                f"nothing to differentiate: no argument is float64 or float32 (got {listed or 'no arguments'})"
                "; integer arguments are constants, pass them as floats"
            )
        self._make_fast(flat, space)

    def clone(self):
        other = super().clone()
        other._make_fast(other._program.prepared, other._space)
        return other

    # ---- the steady call

    def _make_fast(self, flat: Flattened, space: Workspace) -> None:
        """Build the closure that serves calls on the specs of the last one.

        It checks the arguments' class, dtype and shape, copies them in, enters one kernel (which
        compares watched constants, sweeps forward and back) and copies the gradients out: 0.7 µs
        around the sweeps. Whatever it does not know goes to `_slow`.
        """
        self._space = space
        self._flat = flat
        config = self._program.config
        output = scalar_output(space.variant.recording)
        plain = (
            output is not None
            and not config.debug_mode
            and config.friendly_tangents
            and space.plan.tape.prologue <= len(space.plan.tape)
            and all(spec.kind in ("array", "float") for spec in flat.specs if spec.level == ACTIVE)
            and flat.outer.num_leaves == flat.count  # arguments are leaves, not containers
            and not self._include_callable
            and not self._kwargs
            and all(len(_leaves_of(flat, k)) == 1 for k in _active_arguments(flat))
            and self._evaluator.watch(space, flat)
        )
        if not plain:
            self.call = self._slow
            return
        self.call = self._closure(flat, space, output)

    def _closure(self, flat: Flattened, space: Workspace, output):
        slow = self._slow
        value = space.outputs[output.number].reshape(-1)
        gradient, words = kernels.call_of("gradient", space.address, value, _stopped)
        space.alive = (words, value)
        views = list(zip(*_active_cells(flat, space), strict=True))
        grads = self._result_maker(flat, space)
        environment = self._program.environment
        changed = None if environment.empty else environment.changed
        python_float = type(space.variant.recording.values[output.number]) is float

        if len(views) == 1 and views[0][1].kind == "array" and not python_float:
            cells, spec, shape = views[0]
            dtype = np.dtype(spec.dtype)
            copy, constants = _only_gradient(flat, space), (None,) * (flat.count - 1)
            lone = flat.specs[0].level == ACTIVE and not self._program.config.reuse_buffers

            def call_one(x=_MISSING, *rest):
                if (
                    x.__class__ is ndarray
                    and x.dtype is dtype
                    and x.shape == shape
                    and not rest
                    and (changed is None or not changed())
                ):
                    cells[...] = x
                    if gradient() is not None:
                        return value[0], (copy(), *constants) if lone else grads()
                return slow() if x is _MISSING else slow(x, *rest)

            return call_one

        count = len(views)

        def call_many(*args):
            if len(args) == count and (changed is None or not changed()):
                for x, (cells, spec, shape) in zip(args, views, strict=True):
                    if spec.kind == "float":
                        if x.__class__ is not float:
                            break
                    elif x.__class__ is not ndarray or x.dtype != spec.dtype or x.shape != shape:
                        break
                    cells[...] = x
                else:
                    if gradient() is not None:
                        return (float(value[0]) if python_float else value[0]), grads()
            return slow(*args)

        return call_many

    def _result_maker(self, flat: Flattened, space: Workspace):
        """Return a function that packs the gradients of the last sweep, as its caller gets them."""
        reuse = self._program.config.reuse_buffers
        active = _active_arguments(flat)
        views = dict(zip(active, _active_gradients(flat, space), strict=True))
        arrays = {k: spec.kind == "array" for k, spec in zip(active, _active_specs(flat), strict=True)}
        if reuse and all(arrays.values()):
            fixed = tuple(views.get(k) for k in range(flat.count))
            return lambda: fixed
        if len(active) == 1 and active[0] == 0 and arrays[0]:
            copy, rest = views[0].copy, (None,) * (flat.count - 1)
            if not rest:
                return lambda: (copy(),)
            return lambda: (copy(), *rest)
        order = [(views.get(k), arrays.get(k)) for k in range(flat.count)]

        def pack():
            return tuple(
                None if view is None else (view if reuse else view.copy()) if is_array else view[()]
                for view, is_array in order
            )

        return pack

    # ---- every other call

    def _slow(self, *args):
        flat = self._flatten(args)
        return self._evaluate(flat)

    def _evaluate(self, flat: Flattened, args_to_zero=None, out=None):
        if self._program.config.debug_mode:
            return run_debug(self, flat)
        space = self._evaluator.forward(flat)
        output = scalar_output(space.variant.recording)
        value = self._value(space)
        if output is not None:
            space.seed[...] = 1.0
            space.reverse()
            if space is not self._space or flat.dimensions != self._flat.dimensions or self.call == self._slow:
                self._make_fast(flat, space)
            else:
                self._evaluator.watch(space, flat)
        else:
            for view in space.gradients:
                if view is not None:
                    view[...] = 0.0
            self._space = space
        reuse = self._program.config.reuse_buffers
        if args_to_zero is not None:
            return value, self._accumulated(flat, space, args_to_zero)
        if out is not None:
            return value, _write_out(self._gradients(flat, space, copy=False), out)
        return value, self._gradients(flat, space, copy=not reuse)

    def _accumulated(self, flat: Flattened, space: Workspace, args_to_zero):
        """Add into owned buffers where ``args_to_zero`` says False (`Config(reuse_buffers=True)`)."""
        if len(args_to_zero) != flat.count:
            raise SpecError(
                f"args_to_zero needs one bool for each of {flat.count} arguments, got {len(args_to_zero)}"
            )
        if not all(args_to_zero) and not self._program.config.reuse_buffers:
            raise ValueError(
                "args_to_zero=False accumulates into buffers that the cache owns: results are fresh here; "
                "prepare with nt.Config(reuse_buffers=True)"
            )
        if not self._program.config.reuse_buffers:
            return self._gradients(flat, space)
        leaves = self._gradient_leaves(flat, space, copy=False)
        owned = self._owned.setdefault(flat.dimensions, [None if x is None else np.zeros(np.shape(x), x.dtype) for x in leaves])
        for spec, buffer, leaf in zip(flat.specs, owned, leaves, strict=True):
            if buffer is not None:
                if args_to_zero[spec.argument]:
                    buffer[...] = 0.0
                buffer += leaf
        args, _ = flat.unflatten(owned)
        has = {spec.argument for spec in flat.specs if spec.level == ACTIVE}
        return tuple(a if k in has else None for k, a in enumerate(args))

    def bind(self, *args, out=None):
        """Fix input and gradient buffers; return a callable without arguments.

        The cheapest form, for inner loops: each call reads the argument arrays as they are then,
        writes the gradients and returns the value as a Python float. It promises that constants do
        not change. Binding evaluates once, at what the arrays hold.

        Parameters
        ----------
        *args
            C-contiguous arrays of the prepared dtypes; constants given at preparation may be left
            out.
        out
            A tuple with one C-contiguous array an argument (None for constants), or None for
            arrays that numbatape makes: ``run.out``.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> x, g = np.ones(3), np.empty(3)
        >>> run = nt.prepare_gradient_cache(lambda x: np.sum(x**2), x).bind(x, out=(g,))
        >>> x[0] = 2.0
        >>> run(), g
        (6.0, array([4., 2., 2.]))
        """
        from .bound import bind

        return bind(self, args, out)


_MISSING = object()


def _only_gradient(flat: Flattened, space: Workspace):
    """Return the ``copy`` method of the gradient of the one differentiated leaf."""
    (view,) = _active_gradients(flat, space)
    return view.copy


def _stopped() -> None:
    """The sweep stopped: at a guard, at a constant that changed, or at an error."""


def _what(spec, value) -> str:
    return type(value).__name__ if spec.level == STATIC else str(spec.dtype)


def _leaves_of(flat: Flattened, argument: int) -> list[int]:
    return [k for k, spec in enumerate(flat.specs) if spec.argument == argument]


def _active_arguments(flat: Flattened) -> list[int]:
    return [spec.argument for spec in flat.specs if spec.level == ACTIVE]


def _active_specs(flat: Flattened) -> list:
    return [spec for spec in flat.specs if spec.level == ACTIVE]


def _active_gradients(flat: Flattened, space: Workspace) -> list:
    return [view for view in space.gradients if view is not None]


def _active_cells(flat: Flattened, space: Workspace):
    """Return (cells, spec, shape) columns of the differentiated leaves."""
    traced = [(s, v) for s, v in zip(flat.specs, flat.leaves, strict=True) if s.level != STATIC]
    rows = [
        (cells, spec, np.shape(leaf))
        for (spec, leaf), cells in zip(traced, space.inputs, strict=True)
        if spec.level == ACTIVE
    ]
    return tuple(zip(*rows, strict=True))


def _write_out(grads, out):
    """Copy gradients into the caller's arrays; return them."""
    import optree

    flat_grads, spec = optree.tree_flatten(grads, none_is_leaf=True, namespace="numbatape")
    flat_out = spec.flatten_up_to(out if isinstance(grads, ndarray) else tuple(out))
    for target, gradient in zip(flat_out, flat_grads, strict=True):
        if target is None or gradient is None:
            continue
        if not isinstance(target, ndarray) or target.dtype != gradient.dtype or target.shape != np.shape(gradient):
            raise SpecError(
                f"out: needs an array of {gradient.dtype} and shape {np.shape(gradient)}, got "
                f"{getattr(target, 'dtype', type(target).__name__)} {np.shape(target)}"
            )
        target[...] = gradient
    return out


def prepare_gradient_cache(f, *args, kwargs=None, config=None, include_callable=False) -> GradientCache:
    """Trace a scalar function and return its cache for `value_and_gradient`.

    Runs ``f`` once, on traced copies: the arguments stay as they are, bit for bit.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of the arguments that returns one real scalar.
    *args
        Arrays, numbers and pytrees of them (float64 and float32 leaves are differentiated), or
        `Constant` and `Static`. Arity, structure, dtypes and numbers of dimensions are fixed by
        them, sizes and values are not.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`.
    include_callable : bool
        ``f`` is a callable dataclass that holds arrays: its gradient comes first.

    Returns
    -------
    GradientCache

    Raises
    ------
    OutputError
        If ``f`` does not return one real scalar.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate; names the function and the line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x)), np.zeros(3))
    >>> nt.value_and_gradient(cache, np.zeros(3))
    (np.float64(0.0), (array([1., 1., 1.]),))
    """
    from .registry import clear_caches

    if config is not None and getattr(config, "empty_cache", False):
        clear_caches()
    kwargs = _constant_kwargs(kwargs)
    return GradientCache.prepare(f, args, kwargs, config, include_callable)


def _constant_kwargs(kwargs):
    from .arguments import Constant, Static

    return {
        name: value if isinstance(value, (Constant, Static)) else Constant(value)
        for name, value in (kwargs or {}).items()
    }


def value_and_gradient(cache: GradientCache, *args, args_to_zero=None, out=None):
    """Return the function's value and its gradient with respect to each argument.

    Parameters
    ----------
    cache : GradientCache
        From `prepare_gradient_cache`.
    *args
        Like those it was prepared with; `Constant` and `Static` arguments may be left out.
    args_to_zero : sequence of bool, optional
        One an argument; False adds to what earlier calls left in the cache's own buffers
        (``Config(reuse_buffers=True)``).
    out : tuple, optional
        Arrays to write the gradients to, one an argument (None to skip).

    Returns
    -------
    value
        A real scalar, as NumPy gives it.
    gradients : tuple
        One an argument, of the argument's structure, None for constants. Fresh arrays, unless
        ``reuse_buffers`` or ``out`` say otherwise. With ``friendly_tangents=False`` one vector.

    Raises
    ------
    SpecError
        If the arguments differ from the prepared ones in arity, structure, dtype or dimensions.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(lambda p: p["a"] * p["b"], {"a": 2.0, "b": 3.0})
    >>> value, (gradient,) = nt.value_and_gradient(cache, {"a": 2.0, "b": 3.0})
    >>> float(gradient["a"]), float(gradient["b"])
    (3.0, 2.0)
    """
    if args_to_zero is None and out is None:
        return cache.call(*args)
    return cache._evaluate(cache._flatten(args), args_to_zero, out)


__all__ = ["CONSTANT", "WORD", "GradientCache", "prepare_gradient_cache", "value_and_gradient"]
