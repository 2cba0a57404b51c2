"""A function over an axis of its arguments, outside of any trace: one lane per row, swept by `Batch`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..config import Config
from ..control.mapped_axes import Mapped, OutAxes, wholes_of
from ..errors import ForeignTraceError, SpecError, UnsupportedOperationError
from ..programs.arguments import STATIC, Flattened, LeafSpec, plain_array
from ..programs.roles import Constant
from ..trace.complex_pairs import is_complex, split
from .batch import Batch, Lookup, over_points
from .lane_calls import Lesson, teach
from .point_results import Stacks, empty_stacks, stacked
from .points import FILLS
from .registry import Caller, Shelf


def values(function):
    """Record what a function returns, on a tape that is swept forward only."""
    return function


class MappedPoints:
    """One call of a function over an axis.

    Parameters
    ----------
    function, names, shelf
        The function, the names of its parameters, and what is kept of it.
    caller
        Whose workspaces the call uses, and who learns how to repeat it.
    mapped
        The arguments.
    out_axes
        Where the results get the axis.
    config
        How the function is recorded, and over how many threads its rows are spread.
    """

    def __init__(
        self,
        function,
        names,
        shelf: Shelf,
        caller: Caller,
        mapped: Mapped,
        out_axes: OutAxes,
        config: Config,
    ):
        self.function, self.names, self.shelf, self.caller = function, names, shelf, caller
        self.config = config
        self.mapped, self.out_axes = mapped, out_axes
        mapped.leaves = [
            plain_array(leaf, f"nt.vmap: {name}") if isinstance(leaf, np.ndarray) else leaf
            for leaf, name in zip(mapped.leaves, mapped.names, strict=True)
        ]
        self.shared = [
            Constant(leaf) if axis is None and _is_data(leaf) else leaf
            for leaf, axis in zip(mapped.leaves, mapped.axes, strict=True)
        ]
        self._kept: tuple[int, Flattened] | None = None

    def result(self):
        """Return the tree of results."""
        if not self.mapped.count:
            return self._nothing()
        flat = self.at(0)
        slots = frozenset(_slots(flat.specs, self.mapped.axes))
        batch = self._batch(flat, slots)
        first = None
        try:
            first = batch.first(flat)
            return self._swept(batch, first)
        except ForeignTraceError:
            raise  # the function uses values of a trace that is under way
        except UnsupportedOperationError:
            # Another run would repeat the changes that the function has made to what it captures.
            if (first is not None and first.changed) or batch.program.refresh():
                raise
        return self._one_by_one()

    def _batch(self, flat: Flattened, slots) -> Batch:
        def made() -> Batch:
            program = self.shelf.program(self.function, flat, values, config=over_points(self.config))
            return Batch(program, slots, reverse=False, threads=self.config.threads)

        return self.caller.kept(("vmap", flat.signature, slots), made)

    # ---- arguments

    def at(self, k: int) -> Flattened:
        """Return the arguments of one lane."""
        if self._kept is None or self._kept[0] != k:
            self._kept = k, self._flattened(lambda leaf, axis: np.asarray(leaf).take(k, axis))
        return self._kept[1]

    def _flattened(self, row) -> Flattened:
        """Return arguments in which ``row(leaf, axis)`` stands for each mapped leaf."""
        leaves = [
            leaf if axis is None else row(leaf, axis)
            for leaf, axis in zip(self.shared, self.mapped.axes, strict=True)
        ]
        return Flattened(*self.mapped.rebuilt(leaves), self.names)

    def _points(self) -> list[np.ndarray]:
        """Return one array per slot, whose first axis numbers the lanes."""
        found = []
        for leaf, axis in zip(self.mapped.leaves, self.mapped.axes, strict=True):
            if axis is not None:
                for part in split(leaf) if is_complex(leaf) else (np.asarray(leaf),):
                    found.append(np.moveaxis(part, axis, 0) if axis else part)
        return found

    # ---- results

    def _swept(self, batch: Batch, first: Lookup):
        """Return the results of sweeps over lanes."""
        results = Stacks(self.mapped.count, "nt.vmap")

        def visit(space, chosen, count):
            leaves, structure = wholes_of(space.variant.recording.result)
            results.put(chosen, structure, [stacked(space, leaf, count) for leaf in leaves])

        sweeps = batch.run(self.at, self._points(), visit, usual=first)
        result = results.placed(self.out_axes)
        self._teach(batch, sweeps, results, result)
        return result

    def _teach(self, batch: Batch, sweeps, results: Stacks, result) -> None:
        """Let the next call like this one be a steady call, if its results are arrays that sweeps fill."""
        axes = results.axes(self.out_axes)
        if axes is None:
            return

        def sources(space):
            leaves = wholes_of(space.variant.recording.result)[0]
            return [lambda n, leaf=leaf: stacked(space, leaf, n)[0] for leaf in leaves]

        def finished(arrays):
            return [np.moveaxis(x, 0, axis) if axis else x for x, axis in zip(arrays, axes, strict=True)]

        lesson = Lesson(
            self.at(0),
            self.mapped.axes,
            self.mapped.leaves,
            batch.evaluator,
            batch.slots,
            "watched",
            sweeps,
            batch.threads,
            sources,
            results.arrays(),
            finished if any(axes) else list,
        )
        teach(self.caller.front, lesson, result)

    def _one_by_one(self):
        """Return the results of calls of the function itself, for what cannot be traced."""
        results = Stacks(self.mapped.count, "nt.vmap")
        for k in range(self.mapped.count):
            args, kwargs = self.mapped.rebuilt(
                [
                    leaf if axis is None else np.asarray(leaf).take(k, axis)
                    for leaf, axis in zip(self.mapped.leaves, self.mapped.axes, strict=True)
                ]
            )
            leaves, structure = wholes_of(self.function(*args, **kwargs))
            rows = [None if leaf is None else np.asarray(leaf)[None] for leaf in leaves]
            results.put(slice(k, k + 1), structure, [(row, True) for row in rows])
        return results.placed(self.out_axes)

    def _nothing(self):
        """Return results without lanes, in the shapes that the function returns for made-up rows."""
        for flat in self._samples():
            try:
                variant = (
                    self._batch(flat, frozenset(_slots(flat.specs, self.mapped.axes))).first(flat).variant
                )
            except (ArithmeticError, LookupError, ValueError) as error:
                why = error
                continue
            stacks = empty_stacks(variant, flat, variant.recording.result, "nt.vmap")
            return stacks.placed(self.out_axes)
        raise SpecError(
            "nt.vmap: there are no lanes, because the mapped axis has length 0, and the shape of the "
            "function's result is not known, because it raises for rows of ones, of identity matrices and of "
            "zeros"
        ) from why

    def _samples(self) -> Iterator[Flattened]:
        """Yield arguments with made-up rows."""

        for fill in FILLS:

            def row(leaf, axis, fill=fill):
                leaf = np.asarray(leaf)
                return fill(leaf.shape[:axis] + leaf.shape[axis + 1 :]).astype(leaf.dtype)[()]

            yield self._flattened(row)


def _is_data(leaf) -> bool:
    """Whether a leaf is a number or an array, which reaches a tape."""
    return isinstance(leaf, (np.ndarray, np.generic, int, float, complex)) and not isinstance(
        leaf, (str, bytes)
    )


def _slots(specs: list[LeafSpec], axes) -> Iterator[int]:
    """Yield the numbers of a tape's inputs that are mapped; a complex leaf is two inputs."""
    given, number = iter(specs), 0
    for axis in axes:
        spec = next(given)
        parts = [spec, next(given)] if spec.part else [spec]
        for part in parts:
            if part.level != STATIC:
                if axis is not None:
                    yield number
                number += 1
