"""``nt.batch``: value and derivative at many points."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..caches.arguments import Constant, Flattened, is_mark, require_active
from ..caches.base import parameter_names, python_function
from ..caches.batch import OVER_POINTS, Batch, Lookup
from ..caches.dense_jacobian import samples_of
from ..caches.derived import Derived, UnitSeeds, active_leaves, outputs_of
from ..caches.points import Rows, at_point, batched_leaves, common_length, sample_points
from ..caches.registry import shelf_of
from ..caches.results import per_argument, require_derivative
from ..caches.variant import Variant
from ..derive.lanes import Lanes
from ..errors import OutputError, SpecError, UnsupportedOperationError
from ..nested.recorded_derivatives import gradients, pullback, pushforward
from ..recording.record import Output, Recording
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.complex_pairs import Pair, is_complex, join, split
from . import inner_batch
from .made import made_by
from .mapping import mapped_call
from .verb_calls import bare_arguments, dispatch, with_statics


def batch(f, in_axes=0, *, value_only=False, static_argnums=None, static_argnames=None):
    """Return a function that evaluates ``f`` and its derivative at many points in one sweep.

    Each point is a lane: arrays shared by all points are not repeated. Points that take different
    branches of ``f`` are swept apart, with exact results; where no guard describes the branch (text, a
    caught exception, state that ``f`` changes) the function runs at each point. What comes out for a point
    does not depend on the other points, to the last bit.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of one point; returns a scalar or an array (of real arguments it may be
        complex).
    in_axes : int or None or tuple of them
        Which axis of each argument numbers the points; None for an argument shared by all. An int stands
        for the first argument alone: the others are shared. Data of each point that takes no gradient comes
        as a batched `Constant`.
    value_only : bool
        Whether to return the values alone, and to compute no derivative. `vmap` does the same for any axes,
        and for functions that return containers.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``b(X, *others)`` → ``(values, derivatives)``: values with a leading axis of points; of a scalar
        function the gradients, of an array-valued one the Jacobians, each with a leading axis of points.
        With several batched float arguments the derivatives are a tuple. With ``value_only`` it returns the
        values alone.

    Raises
    ------
    ValueError
        If the batched arguments differ in the number of points.
    numpy.linalg.LinAlgError, IndexError
        Or what else ``f`` raises at one of the points.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> values, gradients = nt.batch(lambda x: np.sum(x**2))(X)
    >>> values, gradients[1]
    (array([ 5., 25., 61.]), array([6., 8.]))
    >>> nt.batch(lambda x: np.stack([x[0] * x[1], x[0]]))(X)[1][0]
    array([[2., 1.],
           [1., 0.]])
    """
    statics = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(batch, f, _batch, in_axes=in_axes, value_only=bool(value_only), **statics)


def _batch(f, in_axes, value_only, static_argnums, static_argnames):
    """Return what serves ``batch(f, ...)``."""
    target, names = python_function(f), parameter_names(f)
    shelf = shelf_of(target)

    def call(*args):
        args = with_statics(f, args, static_argnums, static_argnames)
        axes, trees = _axes(in_axes, args), bare_arguments(args)
        if value_only:
            return mapped_call(target, names, shelf, axes, 0, trees, {})
        return dispatch(
            trees,
            lambda: _Call(target, names, shelf, args, trees, axes).result(),
            lambda: inner_batch.batch(
                target,
                args,
                axes,
                lambda plain: _Call(target, names, shelf, plain, bare_arguments(plain), axes).result(),
            ),
        )

    return call


def _axes(in_axes, args) -> tuple:
    """Return the axis of each argument that numbers the points, None where there is none."""
    given = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,)
    if not all(axis is None or isinstance(axis, (int, np.integer)) for axis in given):
        raise SpecError(f"in_axes={in_axes!r}: must be an int, or a tuple of ints and None")
    axes = (in_axes, *[None] * (len(args) - 1)) if not isinstance(in_axes, (tuple, list)) else in_axes
    if len(axes) != len(args) or all(axis is None for axis in axes):
        raise SpecError(f"in_axes={in_axes!r} does not fit {len(args)} arguments, or batches none of them")
    for k, (arg, axis) in enumerate(zip(args, axes, strict=True)):
        if axis is not None and is_mark(arg) and arg.__class__ is not Constant:
            raise SpecError(f"argument {k} is a {type(arg).__name__}, which all points share: in_axes None")
    return tuple(axes)


class _Call:
    """One call of a batched function."""

    def __init__(self, function, names, shelf, args, trees, axes):
        self.function, self.names, self.shelf = function, names, shelf
        self.axes = axes
        leaves = batched_leaves(trees, axes)
        self.count = common_length(leaves)
        self._shared = [
            a if is_mark(a) or axis is not None else Constant(a) for a, axis in zip(args, axes, strict=True)
        ]
        self._kept: tuple[int, Flattened] | None = None
        flat = self.flat = self.at(0) if self.count else next(self._samples())
        require_active(flat)
        self.slots = frozenset(
            k
            for k, (_, spec, _) in enumerate(flat.traced())
            if spec.argument >= 0 and axes[spec.argument] is not None
        )
        self.points = [
            part if axis == 0 else np.moveaxis(part, axis, 0)
            for leaf, axis in leaves
            for part in (split(leaf) if is_complex(leaf) else (np.asarray(leaf),))
        ]

    def at(self, k: int) -> Flattened:
        """Return the arguments at one point."""
        if self._kept is None or self._kept[0] != k:
            args = [
                arg if axis is None else at_point(arg, axis, k)
                for arg, axis in zip(self._shared, self.axes, strict=True)
            ]
            self._kept = k, Flattened(tuple(args), {}, self.names)
        return self._kept[1]

    def _samples(self) -> Iterator[Flattened]:
        """Yield the arguments at made-up points, for a batch that has none."""
        trees = [
            itertools.repeat(arg) if axis is None else sample_points(arg, axis)
            for arg, axis in zip(self._shared, self.axes, strict=True)
        ]
        for args in zip(*trees, strict=False):
            yield Flattened(args, {}, self.names)

    def result(self):
        flat = self.flat
        with self.shelf.lent(("batch", flat.signature, self.slots), lambda: self._batches(flat)) as batches:
            while True:
                batch = batches[0]
                try:
                    return self._result(batch, flat) if self.count else self._nothing(batch)
                except UnsupportedOperationError:
                    # Another run would repeat the changes that the function has made to what it captures.
                    if len(batches) == 1 or batch.program.refresh():
                        raise
                    # A rule's pullback cannot be traced: fall back to the reverse sweep, which calls it.
                    batches.pop(0)

    def _batches(self, flat) -> list[Batch]:
        """Return two ways: the gradient's own tape, swept forward only, and the function's tape, swept back.

        The first way is faster, because its cells are reused and stay in the processor's cache (per draw of
        1 024: arK 0.9 µs and 3.2, garch11 2.4 and 4.5; functions of matrices take 0.8 to 1.1 of the time).
        """
        taped, swept = (
            self.shelf.program(self.function, flat, how, config=OVER_POINTS) for how in (gradients, None)
        )
        return [Batch(taped, self.slots, reverse=False), Batch(swept, self.slots, reverse=True)]

    def _result(self, batch: Batch, flat: Flattened):
        first = batch.first(flat)
        recording = first.variant.recording
        value = _value(first.variant, flat, batch)
        if value.dtype.kind != "c" and not value.ndim:
            return self._gradients(batch, flat, first)
        if first.changed:
            raise UnsupportedOperationError(
                "the function changes what it captures; nt.batch would run one that returns an array twice "
                "at the first point: return what it keeps, or take nt.jacobian point by point"
            )
        if value.dtype.kind != "c":
            return self._jacobians(flat, value)
        require_derivative(flat, _primal(recording, batch))
        values, grads = self._jacobians(flat, np.stack([value.real, value.imag]), side_by_side)
        return _joined(values), pytrees.mapped(lambda part: None if part is None else _joined(part), grads)

    def _nothing(self, batch: Batch):
        """Return (values, derivatives) of no points, in the shapes that they have at made-up points."""
        for flat in self._samples():
            try:
                variant = batch.first(flat).variant
            except (ArithmeticError, LookupError, ValueError) as error:
                why = error
                continue
            value = _value(variant, flat, batch)
            require_derivative(flat, _primal(variant.recording, batch))
            part = np.result_type(value.dtype, np.float32) if value.dtype.kind == "c" else np.dtype(bool)
            grads = [
                np.empty((0, *value.shape, *np.shape(leaf)), np.result_type(spec.dtype, part))
                for leaf, spec in active_leaves(flat)
            ]
            return np.empty((0, *value.shape), value.dtype), self._by_argument(flat, grads)
        raise SpecError(
            "no points: the batched axis has length 0, and the shape of the function's result is not known, "
            "because it raises at points of ones, of identity matrices and of zeros"
        ) from why

    def _gradients(self, batch: Batch, flat: Flattened, first: Lookup):
        rows = active_leaves(flat)
        values = Rows(self.count)
        grads = [np.empty((self.count, *np.shape(leaf)), spec.dtype) for leaf, spec in rows]
        active = [k for k, (_, spec, _) in enumerate(flat.traced()) if spec.level == ACTIVE]

        def visit(space, chosen, n):
            recording = space.variant.recording
            value = _real(_value(space.variant, flat, batch))
            (view,) = outputs_of(space, _primal(recording, batch))
            values.put(chosen, view[:n] if view.ndim > value.ndim else view, value.shape, value.dtype)
            if batch.reverse:
                space.seed[...] = 1.0
                space.reverse()
                parts = [space.gradients[k] for k in active]
            else:
                parts = outputs_of(space, recording.result[1])
            for grad, part in zip(grads, parts, strict=True):
                grad[chosen] = part[:n] if part.ndim == grad.ndim else part

        batch.run(self.at, self.points, visit, usual=first)
        return values.array, self._by_argument(flat, grads)

    def _by_argument(self, flat, parts):
        found = iter(parts)
        trees = per_argument(flat, [next(found) if spec.level == ACTIVE else None for spec in flat.specs])
        chosen = [tree for k, tree in enumerate(trees) if k in flat.differentiated]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)

    def _jacobians(self, flat: Flattened, value: np.ndarray, first=None):
        """Return (values, Jacobians) of the function, or of ``first(function)``, whose value is known."""
        rows, shape, dtype = active_leaves(flat), value.shape, value.dtype
        sizes = [int(np.size(leaf)) for leaf, _ in rows]
        size = int(np.prod(shape))
        forward = sum(sizes) <= size
        kind, second = ("jvp", pushforward(False)) if forward else ("vjp", pullback)
        transform = second if first is None else lambda function: second(first(function))
        samples = samples_of(flat) if forward else [np.zeros(shape, dtype)]
        width = sum(sizes) if forward else size
        key = (f"batch {kind}", first, flat.signature, self.slots, shape, tuple(sizes))
        with self.shelf.lent(key, lambda: self._derived_batch(flat, transform, samples, width)) as (
            derived,
            batch,
        ):
            last: dict = {}

            def extended(k: int) -> Flattened:
                if last.get("k") != k:
                    last.update(k=k, flat=derived.extended(self.at(k), samples))
                return last["flat"]

            directions = derived.slots(extended(0))
            values = Rows(self.count)
            grads = [np.empty((self.count, *shape, *np.shape(leaf)), spec.dtype) for leaf, spec in rows]

            def fill(space):
                UnitSeeds([int(np.size(sample)) for sample in samples]).write(
                    [space.inputs[slot] for slot in directions], 0
                )

            def visit(space, chosen, n):
                result, parts = space.variant.recording.result
                found = _real(_value(space.variant, extended(0), batch))
                (view,) = outputs_of(space, result)
                values.put(chosen, view[:n] if view.ndim > found.ndim else view, found.shape, found.dtype)
                views = outputs_of(space, parts)
                if forward and not views:  # a constant
                    parts_of = [np.zeros(())] * len(grads)
                elif forward:
                    matrix = _with_lanes(views[0], n, width, shape).reshape(n, width, size).swapaxes(1, 2)
                    parts_of = np.split(matrix, np.cumsum(sizes)[:-1], axis=2)
                else:
                    parts_of = [
                        _with_lanes(view, n, width, np.shape(leaf)).reshape(n, width, int(np.size(leaf)))
                        for view, (leaf, _) in zip(views, rows, strict=True)
                    ]
                for grad, part in zip(grads, parts_of, strict=True):
                    grad[chosen] = part.reshape(n, *grad.shape[1:]) if part.ndim else part

            batch.run(extended, self.points, visit, fill)
        return values.array, self._by_argument(flat, grads)

    def _derived_batch(self, flat: Flattened, transform, samples, width: int):
        derived = Derived(self.function, OVER_POINTS, transform, lanes=True)
        inner = Lanes(frozenset(derived.slots(derived.extended(flat, samples))))
        return derived, Batch(derived.program, self.slots, reverse=False, inner=(inner, width))


def _primal(recording: Recording, batch: Batch):
    """Return the function's own result in what a batch records."""
    return recording.result if batch.reverse else recording.result[0]


def _value(variant: Variant, flat: Flattened, batch: Batch) -> np.ndarray:
    """Return an array like the function's own result, for arguments of some sizes."""

    def like(x):
        return variant.output_like(x.number, flat.dimensions) if x.__class__ is Output else x

    result = _primal(variant.recording, batch)
    if result.__class__ is Pair:
        return np.asarray(like(result.re) + 1j * like(result.im))
    value = np.asarray(like(result))
    if value.dtype.kind not in "biufc":
        raise OutputError(
            f"nt.batch needs a function that returns one number or array, got {type(result).__name__}"
        )
    return value


def _real(value: np.ndarray) -> np.ndarray:
    """Return a result at some point; raise if it is complex, while that of the first point is real."""
    if value.dtype.kind == "c":
        raise OutputError(
            "the function returns real numbers at some points and complex ones at others: nt.batch needs the "
            "same kind everywhere (np.real(z), or x + 0j)"
        )
    return value


def side_by_side(function):
    """Record the real and the imaginary part of a complex result, stacked."""

    def derived(*args, **kwargs):
        z = function(*args, **kwargs)
        return np.stack([np.real(z), np.imag(z)])

    return derived


def _joined(parts: np.ndarray) -> np.ndarray:
    """Return complex numbers of arrays whose axis 1 numbers real and imaginary parts."""
    return join(parts[:, 0], parts[:, 1])


def _with_lanes(view: np.ndarray, points: int, width: int, shape) -> np.ndarray:
    """Return an output with an axis of points and one of directions, either of which it may lack."""
    extra = view.ndim - len(shape)
    if extra == 2:
        return view[:points]
    if extra == 1 and view.shape[0] == width:
        return np.broadcast_to(view, (points, width, *shape))
    if extra == 1:
        return np.broadcast_to(view[:points, None], (points, width, *shape))
    return np.broadcast_to(view, (points, width, *shape))
