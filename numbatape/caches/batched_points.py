"""A function and its derivative at many points, outside of any trace: one lane a point, swept by `Batch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..config import Config
from ..control.mapped_axes import OutAxes, wholes_of
from ..derive.lanes import Lanes
from ..errors import OutputError, SpecError, UnsupportedOperationError
from ..nested.recorded_derivatives import gradients, pullback, pushforward, with_aux
from ..programs.arguments import Flattened
from ..programs.results import per_argument, require_aux, require_derivative, seed_output
from ..programs.variant import Variant
from ..recording.recorded import Output, Recording
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.complex_pairs import Pair, join
from .batch import Batch, Lookup, over_points
from .dense_jacobian import samples_of
from .derived import Derived, UnitSeeds, active_leaves, outputs_of
from .lane_calls import Lesson, teach
from .point_results import Rows, Stacks, empty_stacks, stacked, with_lanes
from .points import Points
from .registry import Caller, Shelf


class BatchedPoints:
    """One call of a batched function.

    Parameters
    ----------
    function, shelf
        The function, and what is kept of it.
    caller
        Whose workspaces the call uses, and who learns how to repeat it.
    points
        The arguments.
    has_aux
        Whether the function returns ``(value, aux)``.
    config
        How the function is recorded, and over how many threads its points are spread.
    """

    def __init__(self, function, shelf: Shelf, caller: Caller, points: Points, has_aux: bool, config: Config):
        self.function, self.shelf, self.caller, self.points = function, shelf, caller, points
        self.has_aux = has_aux
        self.config, self.threads = over_points(config), config.threads
        self._aux = Stacks(0, "nt.batch")

    def result(self):
        """Return (values, derivatives); with aux, ((values, aux), derivatives)."""
        flat = self.points.flat
        batches = self.caller.kept(("batch", flat.signature, self.points.slots), lambda: self._batches(flat))
        while True:
            batch = batches[0]
            try:
                return self._result(batch, flat) if self.points.count else self._nothing(batch)
            except UnsupportedOperationError:
                # Another run would repeat the changes that the function has made to what it captures.
                if len(batches) == 1 or batch.program.refresh():
                    raise
                # A rule's pullback cannot be traced: fall back to the reverse sweep, which calls it.
                batches.pop(0)

    def _batches(self, flat) -> list[Batch]:
        """Return two ways: the gradient's own tape, swept forward only, and the function's tape, swept back.

        The first way is faster, because its cells are reused and stay in the processor's cache (per draw of
        1 024: arK 0.8 µs and 3.1, garch11 1.6 and 3.3; functions of matrices take 0.8 to 1.1 of the time).
        """
        taped, swept = (
            self.shelf.program(self.function, flat, how, config=self.config)
            for how in (with_aux(gradients) if self.has_aux else gradients, None)
        )
        threads = self.threads
        return [
            Batch(taped, self.points.slots, reverse=False, threads=threads),
            Batch(swept, self.points.slots, reverse=True, threads=threads),
        ]

    def _result(self, batch: Batch, flat: Flattened):
        first = batch.first(flat)
        recording = first.variant.recording
        value = self._value(first.variant, flat, batch)
        if value.dtype.kind != "c" and not value.ndim:
            return self._gradients(batch, flat, first)
        if first.changed:
            raise UnsupportedOperationError(
                "the function changes what it captures; nt.batch would run one that returns an array twice "
                "at the first point: return what it keeps, or take nt.jacobian point by point"
            )
        if value.dtype.kind != "c":
            values, grads = self._jacobians(flat, value)
            return self._with_aux(values), grads
        require_derivative(flat, self._primal(recording, batch))
        halves = side_by_side_and_aux if self.has_aux else side_by_side
        values, grads = self._jacobians(flat, np.stack([value.real, value.imag]), halves)
        grads = pytrees.mapped(lambda part: None if part is None else _joined(part), grads)
        return self._with_aux(_joined(values)), grads

    def _primal(self, recording: Recording, batch: Batch):
        """Return the function's own result (without aux) in what a batch records."""
        if not batch.reverse:
            return recording.result[0]
        if not self.has_aux:
            return recording.result
        require_aux(recording)
        return recording.result[0]

    def _value(self, variant: Variant, flat: Flattened, batch: Batch) -> np.ndarray:
        """Return an array like the function's own result, for arguments of some sizes."""

        def like(x):
            return variant.output_like(x.number, flat) if x.__class__ is Output else x

        result = self._primal(variant.recording, batch)
        if result.__class__ is Pair:
            return np.asarray(like(result.re) + 1j * like(result.im))
        value = np.asarray(None if isinstance(result, (list, tuple, dict)) else like(result))
        if value.dtype.kind not in "biufc":
            raise OutputError(
                f"nt.batch needs a function that returns one number or array, got {type(result).__name__}"
            )
        return value

    def _nothing(self, batch: Batch):
        """Return (values, derivatives) of no points, in the shapes that they have at made-up points."""
        for flat in self.points.samples():
            try:
                variant = batch.first(flat).variant
            except (ArithmeticError, LookupError, ValueError) as error:
                why = error
                continue
            value = self._value(variant, flat, batch)
            require_derivative(flat, self._primal(variant.recording, batch))
            part = np.result_type(value.dtype, np.float32) if value.dtype.kind == "c" else np.dtype(bool)
            grads = [
                np.empty((0, *value.shape, *np.shape(leaf)), np.result_type(spec.dtype, part))
                for leaf, spec in active_leaves(flat)
            ]
            if self.has_aux:
                self._aux = empty_stacks(variant, flat, variant.recording.result[-1], "nt.batch")
            values = np.empty((0, *value.shape), value.dtype)
            return self._with_aux(values), self._by_argument(flat, grads)
        raise SpecError(
            "no points: the batched axis has length 0, and the shape of the function's result is not known, "
            "because it raises at points of ones, of identity matrices and of zeros"
        ) from why

    def _gradients(self, batch: Batch, flat: Flattened, first: Lookup):
        """Return the values and the gradients at all points, and teach the steady call of such batches."""
        rows = active_leaves(flat)
        values = Rows(self.points.count)
        grads = [np.empty((self.points.count, *np.shape(leaf)), spec.dtype) for leaf, spec in rows]
        active = [k for k, (_, spec, _) in enumerate(flat.traced()) if spec.level == ACTIVE]
        self._aux = Stacks(self.points.count, "nt.batch")

        def sources(space):
            """Return what reads the value, the gradients and aux of the points of a sweep."""
            recording = space.variant.recording
            (view,) = outputs_of(space, self._primal(recording, batch))
            if batch.reverse:
                parts = [space.gradients[k] for k in active]
            else:
                parts = outputs_of(space, recording.result[1])
            ndims = [self._value(space.variant, flat, batch).ndim, *(grad.ndim - 1 for grad in grads)]
            read = [_first_lanes(part, ndim) for part, ndim in zip([view, *parts], ndims, strict=True)]
            return [read[0], *self._aux_sources(space), *read[1:]]

        def visit(space, chosen, n):
            value = _real(self._value(space.variant, flat, batch))
            if batch.reverse:
                primal = self._primal(space.variant.recording, batch)
                seed_output(space, primal if primal.__class__ is Output else None)
                space.reverse()
            first, *others = sources(space)
            values.put(chosen, first(n), value.shape, value.dtype)
            for grad, source in zip(grads, others[-len(grads) :], strict=True):
                grad[chosen] = source(n)
            self._put_aux(space, chosen, n)

        sweeps = batch.run(self.points.at, self.points.arrays, visit, usual=first)
        result = self._with_aux(values.array), self._by_argument(flat, grads)
        self._teach(flat, batch, sweeps, sources, [values.array, *self._aux_arrays(), *grads], result)
        return result

    # ---- aux

    def _put_aux(self, space, chosen, n: int, width: int = 0) -> None:
        if self.has_aux:
            leaves, structure = wholes_of(space.variant.recording.result[-1])
            self._aux.put(chosen, structure, [stacked(space, leaf, n, width) for leaf in leaves])

    def _aux_sources(self, space, width: int = 0) -> list[Callable]:
        leaves = wholes_of(space.variant.recording.result[-1])[0] if self.has_aux else []
        return [lambda n, leaf=leaf: stacked(space, leaf, n, width)[0] for leaf in leaves]

    def _aux_arrays(self) -> list:
        return self._aux.arrays() if self.has_aux else []

    def _with_aux(self, values):
        return (values, self._aux.placed(OutAxes(0))) if self.has_aux else values

    # ---- further calls

    def _teach(self, flat: Flattened, batch: Batch, sweeps, sources, arrays, result, directions=None) -> None:
        """Let the next call like this one be a steady call, if its results are arrays that sweeps fill."""
        if [id(leaf) for leaf in pytrees.leaves(result)] != [id(array) for array in arrays]:
            return
        leaves, axes = zip(*self.points.leaves(), strict=True)
        how = "gradient" if batch.reverse else "watched"
        lesson = Lesson(
            flat,
            axes,
            leaves,
            batch.evaluator,
            batch.slots,
            how,
            sweeps,
            batch.threads,
            sources,
            arrays,
            list,
        )
        teach(self.caller.front, lesson, result, directions)

    def _by_argument(self, flat, parts):
        found = iter(parts)
        trees = per_argument(flat, [next(found) if spec.level == ACTIVE else None for spec in flat.specs])
        chosen = [tree for k, tree in enumerate(trees) if k in flat.differentiated]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)

    def _jacobians(self, flat: Flattened, value: np.ndarray, first=None):
        """Return (values, Jacobians) of the function, or of ``first(function)``, whose value is known."""
        parts = _JacobianParts(flat, value.shape, self.points.count)
        forward, width = parts.forward, parts.width
        kind, second = ("jvp", pushforward(self.config.strong_zero)) if forward else ("vjp", pullback)
        if self.has_aux:
            kind, second = f"{kind} and aux", with_aux(second)
        transform = second if first is None else lambda function: second(first(function))
        samples = samples_of(flat) if forward else [np.zeros(value.shape, value.dtype)]
        key = (f"batch {kind}", first, flat.signature, self.points.slots, value.shape, tuple(parts.sizes))
        derived, batch = self.caller.kept(key, lambda: self._derived_batch(flat, transform, samples, width))
        last: dict = {}

        def extended(k: int) -> Flattened:
            if last.get("k") != k:
                last.update(k=k, flat=derived.extended(self.points.at(k), samples))
            return last["flat"]

        point = extended(0)
        directions = derived.slots(point)
        values, self._aux = Rows(self.points.count), Stacks(self.points.count, "nt.batch")

        def fill(space):
            UnitSeeds([int(np.size(sample)) for sample in samples]).write(
                [space.inputs[slot] for slot in directions], 0
            )

        def sources(space):
            """Return what reads the value, the Jacobians and aux of the points of a sweep."""
            result, derivatives = space.variant.recording.result[:2]
            (view,) = outputs_of(space, result)
            read = _first_lanes(view, self._value(space.variant, point, batch).ndim)
            return [read, *self._aux_sources(space, width), *parts.sources(outputs_of(space, derivatives))]

        def visit(space, chosen, n):
            found = _real(self._value(space.variant, point, batch))
            first, *others = sources(space)
            values.put(chosen, first(n), found.shape, found.dtype)
            for grad, source in zip(parts.arrays, others[-len(parts.arrays) :], strict=True):
                grad[chosen] = source(n)
            self._put_aux(space, chosen, n, width)

        sweeps = batch.run(extended, self.points.arrays, visit, fill)
        jacobians = self._by_argument(flat, parts.arrays)
        if first is None:
            result = self._with_aux(values.array), jacobians
            arrays = [values.array, *self._aux_arrays(), *parts.arrays]
            self._teach(point, batch, sweeps, sources, arrays, result, point.count - 1)
        return values.array, jacobians

    def _derived_batch(self, flat: Flattened, transform, samples, width: int):
        options = {"moving": flat.moving, "changes": self.shelf.moving}
        derived = Derived(self.function, self.config, transform, lanes=True, **options)
        inner = Lanes(frozenset(derived.slots(derived.extended(flat, samples))))
        return derived, Batch(derived.program, self.points.slots, False, (inner, width), self.threads)


class _JacobianParts:
    """The Jacobians of a function of some shape at all points, an array for each differentiated leaf.

    Attributes
    ----------
    forward
        Whether directions are those of the arguments, because these have no more entries than the result.
    sizes, width
        How many entries each leaf has, and how many directions there are.
    arrays
        The Jacobians.
    """

    def __init__(self, flat: Flattened, shape: tuple[int, ...], points: int):
        rows = active_leaves(flat)
        self._leaf_shapes = [np.shape(leaf) for leaf, _ in rows]
        self._shape, self._size = shape, int(np.prod(shape))
        self.sizes = [int(np.size(leaf)) for leaf, _ in rows]
        self.forward = sum(self.sizes) <= self._size
        self.width = sum(self.sizes) if self.forward else self._size
        self.arrays = [np.empty((points, *shape, *np.shape(leaf)), spec.dtype) for leaf, spec in rows]

    def sources(self, views: list[np.ndarray]) -> list[Callable[[int], np.ndarray | float]]:
        """Return what reads each Jacobian of the first n points from a sweep's outputs."""
        if not self.forward:
            return [partial(self._rows, views[k], k) for k in range(len(self.arrays))]
        if not views:  # the function's result is a constant
            return [lambda n: 0.0 for _ in self.arrays]
        return [partial(self._columns, views[0], k) for k in range(len(self.arrays))]

    def _columns(self, view: np.ndarray, k: int, n: int) -> np.ndarray:
        """Return what a leaf's directions give, of a view in which all directions are side by side."""
        directions = with_lanes(view, n, self.width, self._shape).reshape(n, self.width, self._size)
        start = sum(self.sizes[:k])
        chosen = directions.swapaxes(1, 2)[:, :, start : start + self.sizes[k]]
        return chosen.reshape(n, *self.arrays[k].shape[1:])

    def _rows(self, view: np.ndarray, k: int, n: int) -> np.ndarray:
        """Return a leaf's cotangents, one for each entry of the result."""
        return with_lanes(view, n, self.width, self._leaf_shapes[k]).reshape(n, *self.arrays[k].shape[1:])


def _first_lanes(view: np.ndarray, ndim: int) -> Callable[[int], np.ndarray]:
    """Return what gives the first lanes of a view; a view without lanes is the same for all points."""
    return (lambda n: view[:n]) if view.ndim > ndim else (lambda n: view)


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


def side_by_side_and_aux(function):
    """Record the real and the imaginary part of a function's first result, stacked, and its second result."""

    def derived(*args, **kwargs):
        z, aux = pytrees.value_and_aux(function(*args, **kwargs))
        return np.stack([np.real(z), np.imag(z)]), aux

    return derived


def _joined(parts: np.ndarray) -> np.ndarray:
    """Return complex numbers of arrays whose axis 1 numbers real and imaginary parts."""
    return join(parts[:, 0], parts[:, 1])
