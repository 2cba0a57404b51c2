"""`Program`: a function's traces, shared by the clones of a cache. `Evaluator`: one clone's half."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from ..config import Config
from ..engine import Plan, Workspace, make_plan
from ..engine.frame import WORD
from ..ops import status
from ..tape.tape import CONSTANT
from ..trace.capture import Environment
from ..trace.record import Recording, record
from .arguments import STATIC, Flattened, check_same


class Variant:
    """One trace: the path that some inputs take, with its plans by input dimensions."""

    def __init__(self, recording: Recording, statics, constants: tuple, traced_at: Flattened):
        self.recording = recording
        self.tape = recording.tape
        self.statics = statics
        # The contents of the constants where the tape holds for no others, else None.
        self.constants = constants if recording.pinned else None
        self.outcomes = tuple(guard.outcome for guard in self.tape.guards)
        self.hits = 0
        self._plans: dict[tuple, Plan | None] = {}

    def plan(self, dimensions: tuple) -> Plan | None:
        """Return the plan for some sizes, or None where the trace relied on others."""
        if dimensions not in self._plans:
            sizes = self.tape.sizes
            try:
                broken = sizes.broken_guard(sizes.evaluate(dimensions))
            except ZeroDivisionError:
                broken = True
            self._plans[dimensions] = None if broken else make_plan(self.tape, dimensions)
        return self._plans[dimensions]

    def fits(self, flat: Flattened, constants) -> bool:
        """Whether this trace may hold for some arguments (guards on values aside)."""
        if self.statics != flat.statics or (self.constants is not None and self.constants != constants()):
            return False
        return self.plan(flat.dimensions) is not None


class Program:
    """All traces of one function for one structure of arguments."""

    def __init__(self, function, flat: Flattened, config: Config):
        self.function = function
        self.prepared = flat
        self.config = config
        self.variants: OrderedDict[int, Variant] = OrderedDict()
        self.traces = 0
        self._lock = threading.RLock()
        self._read_environment()

    def _read_environment(self) -> None:
        self.environment = Environment(self.function)
        self.snapshots = [(array, array.copy()) for array in self.environment.arrays]
        self.version = getattr(self, "version", 0) + 1

    def refresh(self) -> None:
        """Forget all traces if a captured value is no longer what it was."""
        stale = self.environment.changed() or any(
            array.shape != copy.shape or array.tobytes() != copy.tobytes() for array, copy in self.snapshots
        )
        if stale:
            with self._lock:
                self.variants.clear()
                self._read_environment()

    def trace(self, flat: Flattened) -> Variant:
        """Run the function on traced arguments and keep the tape."""
        with self._lock:
            recording = record(self.function, flat.inputs(), flat.rebuild)
            self.environment.check_generators()
            self.traces += 1
            variant = Variant(recording, flat.statics, constant_contents(flat), flat)
            self.variants[id(variant)] = variant
            while len(self.variants) > self.config.max_variants:
                self.variants.popitem(last=False)
            return variant

    def find(self, flat: Flattened, prefix=(), at: int = 0, tried=()) -> Variant | None:
        """Return a trace that fits and whose first guards had these outcomes."""
        with self._lock:
            contents = _Once(flat)
            for variant in reversed(self.variants.values()):
                if id(variant) in tried or variant.outcomes[: len(prefix)] != prefix:
                    continue
                if variant.fits(flat, contents):
                    self.variants.move_to_end(id(variant))
                    return variant
        return None


class _Once:
    """Contents of the constants, computed when first asked for."""

    def __init__(self, flat):
        self._flat, self._contents = flat, None

    def __call__(self):
        if self._contents is None:
            self._contents = constant_contents(self._flat)
        return self._contents


def constant_contents(flat: Flattened) -> tuple:
    """Return the bytes of all constant leaves."""
    return tuple(
        np.asarray(leaf).tobytes()
        for leaf, spec in zip(flat.leaves, flat.specs, strict=True)
        if spec.level == CONSTANT
    )


class Evaluator:
    """One thread's workspaces for a program."""

    def __init__(self, program: Program):
        self.program = program
        self._workspaces: OrderedDict[tuple, Workspace] = OrderedDict()
        self._last: dict[tuple, Variant] = {}

    def workspace(self, variant: Variant, dimensions: tuple) -> Workspace:
        key = (id(variant), dimensions)
        found = self._workspaces.get(key)
        if found is None:
            plan = variant.plan(dimensions)
            assert plan is not None
            found = self._workspaces[key] = Workspace(plan)
            found.variant = variant  # keeps the variant, and so its id, alive
            found.constants = None
            self._trim()
        else:
            self._workspaces.move_to_end(key)
        return found

    def _trim(self) -> None:
        config = self.program.config
        limit = config.max_bytes
        while len(self._workspaces) > 1 and (
            len(self._workspaces) > config.max_variants
            or (limit is not None and sum(w.nbytes for w in self._workspaces.values()) > limit)
        ):
            self._workspaces.popitem(last=False)

    def forward(self, flat: Flattened) -> Workspace:
        """Run the forward sweep of the trace that fits; trace the function if none does.

        Raises
        ------
        IndexError, numpy.linalg.LinAlgError
            As NumPy would, with the source line.
        """
        program = self.program
        check_same(program.prepared, flat, program.config.fixed_sizes)
        program.refresh()
        key = (flat.statics, flat.dimensions, program.version)
        variant = self._last.get(key)
        if variant is None or variant.constants is not None:
            variant = program.find(flat)
        tried: set[int] = set()
        fresh = False
        while True:
            if variant is None:
                variant, fresh = program.trace(flat), True
            tried.add(id(variant))
            space = self.workspace(variant, flat.dimensions)
            self._load(space, flat)
            outcome = space.forward()
            while outcome == status.GUARD and fresh:
                outcome = space.accept_guard()
            if outcome == status.GUARD:
                at = self._guard_number(space)
                prefix = variant.outcomes[:at] + (self._seen(space, variant, at),)
                variant = program.find(flat, prefix, at, tried)
                continue
            if outcome != status.DONE:
                raise failure(space, outcome)
            variant.hits += 1
            if len(self._last) > 4 * program.config.max_variants:
                self._last.clear()
            self._last[key] = variant
            return space

    @staticmethod
    def _guard_number(space: Workspace) -> int:
        return int(space.plan.tape.code["aux"][space.stopped])

    @staticmethod
    def _seen(space: Workspace, variant: Variant, at: int):
        value = space.guard_value(space.stopped)
        kind = variant.tape.guards[at].kind
        return value if kind == "float" else int(value) if kind == "int" else bool(value)

    def _load(self, space: Workspace, flat: Flattened) -> None:
        """Copy the arguments into their cells; constants only where they differ."""
        leaves = [
            (leaf, spec) for leaf, spec in zip(flat.leaves, flat.specs, strict=True) if spec.level != STATIC
        ]
        contents = constant_contents(flat) if any(s.level == CONSTANT for _, s in leaves) else ()
        if space.constants != contents:
            space.prologue_done = False
            space.constants = contents
            for (leaf, spec), cells in zip(leaves, space.inputs, strict=True):
                if spec.level == CONSTANT:
                    cells[...] = leaf
        for (leaf, spec), cells in zip(leaves, space.inputs, strict=True):
            if spec.level != CONSTANT:
                cells[...] = leaf

    def watch(self, space: Workspace, flat: Flattened) -> bool:
        """Let the sweep's kernel compare captured arrays and constants; False where it cannot."""
        watched = list(self.program.snapshots)
        for leaf, spec, frozen in zip(flat.leaves, flat.specs, flat.frozen, strict=True):
            if spec.level == CONSTANT and not frozen:
                watched.append((leaf, leaf.copy()))
        if not all(array.flags.c_contiguous for array, _ in watched):
            return False
        rows = [(a.ctypes.data, c.ctypes.data, a.nbytes) for a, c in watched]
        space.watched = watched, np.array(rows or [(0, 0, 0)], np.int64)
        space.frame[WORD["WATCH"]] = space.watched[1].ctypes.data
        space.frame[WORD["WATCH_COUNT"]] = len(rows)
        return True


def failure(space: Workspace, outcome: int) -> Exception:
    """Return the exception that NumPy would raise for a sweep's status."""
    tape = space.plan.tape
    line = tape.line_of(space.stopped)
    where = f" (at {line})" if line else ""
    if outcome == status.INDEX:
        return IndexError(f"an index is out of bounds{where}")
    name = tape.name_of(space.stopped).split(".")[0]
    if name == "cholesky":
        return np.linalg.LinAlgError(f"Matrix is not positive definite{where}")
    return np.linalg.LinAlgError(f"Singular matrix{where}")
