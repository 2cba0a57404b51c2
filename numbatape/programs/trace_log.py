"""Why a function was traced, trace by trace; a warning where one line or argument causes many traces."""

from __future__ import annotations

import linecache
import numbers
import re
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import RetracingWarning
from ..late import imported
from ..savings import frozen
from ..tape.size_tables import SizeGuard, SizeTable
from ..tape.tape import Line, Tape
from .arguments import STATIC, Flattened, LeafSpec
from .variant import Variant

MOST_NOTES = 100  # a program keeps the last ones
OFTEN = 48  # traces for one reason, after which the user is told: fewer are paths that settle

FOR_TRUTH = "np.where computes both sides, nt.cond and nt.while_loop record all paths at once"
FOR_NUMBERS = (
    "nt.fori_loop records a loop of any number of turns once, a position may stay data, and np.floor makes a "
    "whole number without asking for it"
)
FOR_SIZES = "vector operations hold for every size, and nt.scan records a loop over entries once"
FOR_STATE = "return the values (has_aux=True), or assign an attribute in each call before anything reads it"
FOR_OPTIONS = "a number that the function computes with may come as nt.Constant"
FOR_TEXT = "each text, flag or object has a trace, so leave out what the function does not need"
FOR_CAPTURED = "what changes from call to call may come as an argument, data as nt.Constant"
FOR_CONTENTS = (
    "a text of numbers, or what Python does with them one by one, holds for these numbers alone, so leave it "
    "out or do it outside of the function"
)
FOR_STRUCTURE = "parts that are stacked into one array may have any number, and one dtype needs one trace"


@frozen()
class Reason:
    """Why a function is traced.

    Attributes
    ----------
    text
        The reason as a clause: "the test at FILE:LINE gave True".
    line
        The line of the user's that decides, None if it is no line's.
    cause
        What is counted: the line, or the path of an argument; None for what is no cause to worry.
    cure
        What the user could do.
    """

    text: str
    line: Line | None = None
    cause: str | None = None
    cure: str = ""


@frozen()
class Note:
    """One trace: its number, why it was made, and the shapes of the arguments."""

    number: int
    reason: Reason
    shapes: str

    def __str__(self):
        return f"trace {self.number}, for {self.shapes}: {self.reason.text}"


class TraceLog:
    """The notes of the program of a function."""

    def __init__(self, function):
        self.notes: deque[Note] = deque(maxlen=MOST_NOTES)
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()
        self._is_over = False  # whether the user knows that traces were forgotten
        # Where warnings are about arguments, which no line of the function decides.
        code = getattr(function, "__code__", None)
        self._place = ("<numbatape>", 1) if code is None else (code.co_filename, code.co_firstlineno)

    def add(self, number: int, reason: Reason, flat: Flattened) -> None:
        """Note a trace."""
        self.notes.append(Note(number, reason, _shapes(flat)))
        self.count(reason)

    def count(self, reason: Reason) -> None:
        """Warn where a reason comes again and again."""
        if reason.cause is not None:
            self._counts[reason.cause] += 1
            if self._counts[reason.cause] >= OFTEN and reason.cause not in self._told:
                self._told.add(reason.cause)
                self._tell(reason, f"{reason.text}; this was the reason for {OFTEN} traces")

    def over_budget(self, name: str, budget: int) -> None:
        """Warn, once, that the oldest of a function's traces go, and name what makes most of them."""
        common = self._counts.most_common(1)
        if not common or self._is_over:
            return
        ((cause, count),) = common
        reason = next((note.reason for note in reversed(self.notes) if note.reason.cause == cause), None)
        if reason is not None:
            self._is_over = True
            self._told.add(cause)
            text = f"{name} has more than {budget} traces (Config.max_variants): the oldest go"
            self._tell(reason, f"{text}. {count} are due to {cause}")

    def _tell(self, reason: Reason, text: str) -> None:
        line = reason.line
        message = f"{text}. Results are right, but each trace takes time: {reason.cure}"
        file, number = self._place if line is None else (line.file, line.number)
        warnings.warn_explicit(message, RetracingWarning, file, number)


class Signatures:
    """The signatures of arguments that a function has met, each of which needs traces of its own."""

    def __init__(self):
        self._seen: set[tuple] = set()
        self._last: dict[str, LeafSpec] | None = None
        self._log: TraceLog | None = None

    def add(self, function, flat: Flattened) -> None:
        """Note a signature, and warn where one argument has another structure or dtype again and again."""
        if flat.signature in self._seen:
            return
        self._seen.add(flat.signature)
        specs = {spec.path + spec.part: spec for spec in flat.specs}
        last, self._last = self._last, specs
        if last is None:
            return
        if self._log is None:
            self._log = TraceLog(function)
        self._log.count(_of_signature(specs, last))


def _of_signature(specs: dict[str, LeafSpec], before: dict[str, LeafSpec]) -> Reason:
    """Return what differs between the arguments of two calls of different signatures."""
    for path in (*specs, *before):
        if path not in specs or path not in before:
            spec = specs.get(path) or before[path]
            argument = _argument(spec.path)
            return Reason(f"{argument} had another structure", None, argument, FOR_STRUCTURE)
    for path, spec in specs.items():
        if spec != before[path]:
            text = f"{spec.path} was {spec.describe()}" if spec.level != STATIC else f"{path} was an option"
            return Reason(text, None, _argument(spec.path), FOR_STRUCTURE)
    return Reason("containers of other classes came")


def _argument(path: str) -> str:
    """Return the argument that a part belongs to: "argument 1 (`rows`)" of "argument 1 (`rows`)[0]['a']"."""
    return path.partition(")")[0] + ")" if "(`" in path else re.split(r"[.\[]", path)[0]


def _shapes(flat: Flattened) -> str:
    return ", ".join(str(np.shape(value)) for value, _, _ in flat.traced()) or "no numbers"


# ---- finding the reason


def reason_of(program, flat: Flattened, stop=None) -> Reason:
    """Return why none of a program's traces serves some arguments.

    Parameters
    ----------
    stop
        The guard at which the last sweep stopped (`numbatape.programs.stops.Stop`), None if none has run.
    """
    if not program.traces:
        return Reason("the function was new")
    if stop is not None:
        return _of_guard(stop)
    variants = program.snapshot()
    if not variants:
        if program.keeps is not None:
            names = f" ({', '.join(program.keeps)})" if program.keeps else ""
            text = f"the function has to run in each call, because it changes what it refers to{names}"
            return Reason(text, None, "what it changes", FOR_STATE)
        if program.single_use:
            return Reason("the function has to run in each call, because what it reads or keeps is not known")
        if program.renewed is None:
            return Reason("what the function refers to has changed")
        text = f"{program.renewed}, which the function refers to, has changed"
        return Reason(text, None, program.renewed, FOR_CAPTURED)
    return _of_arguments(variants[-1], flat)


def _of_guard(stop) -> Reason:
    guard = stop.variant.tape.guards[stop.at]
    line = stop.variant.tape.lines[guard.position] if guard.position >= 0 else None
    where = f"at {line}" if line is not None else "of the function"
    if guard.kind == "bool":
        return Reason(f"the test {where} gave {stop.seen}", line, f"the test {where}", FOR_TRUTH)
    return Reason(f"the number {where} was {stop.seen}", line, f"the number {where}", FOR_NUMBERS)


def _of_arguments(variant: Variant, flat: Flattened) -> Reason:
    """Return what differs between some arguments and those that a trace holds for."""
    for value, spec, now, before in zip(flat.leaves, flat.specs, flat.statics, variant.statics, strict=True):
        if now == before:
            continue
        if spec.level != STATIC:
            return Reason(f"{spec.path} was {spec.describe()}", None, spec.path, FOR_STRUCTURE)
        cure = FOR_OPTIONS if isinstance(value, numbers.Real) else FOR_TEXT
        return Reason(f"{spec.path} had another value", None, spec.path, cure)
    broken = broken_size(variant, flat)
    if broken is not None:
        condition, line = broken
        if line is None:
            where = "the sizes that operations relied on"
            return Reason(f"the sizes differ: {condition} does not hold", line, where, FOR_SIZES)
        text = f"the sizes differ: {condition} does not hold, on which {line} relied"
        return Reason(text, line, f"the sizes at {line}", FOR_SIZES)
    if variant.contents is not None:
        text = "contents of constants have changed that decided what was recorded"
        return Reason(text, None, "the contents of constants", FOR_CONTENTS)
    if variant.memory is not None:
        return Reason("arguments lie in memory in another way, on which the function relies")
    return Reason("the function was interrupted or raised for these arguments")


def names_of_sizes(flat: Flattened) -> list[str]:
    """Return what the input dimensions are called: the axes of the arguments."""
    return [
        f"{spec.path}.shape[{axis}]" for value, spec, _ in flat.traced() for axis in range(np.ndim(value))
    ]


def broken_size(variant: Variant, flat: Flattened) -> tuple[str, Line | None] | None:
    """Return the relation between sizes that does not hold for some arguments, and its line."""
    sizes, dimensions, names = variant.tape.sizes, flat.dimensions, names_of_sizes(flat)
    if variant.counted is not None:
        dimensions = variant.counted.last_with(dimensions)
        names += ["a size that data decide"] * (len(dimensions) - len(names))
    try:
        guard = sizes.broken_guard(sizes.evaluate(dimensions))
    except ZeroDivisionError:
        return "a size divides another one and", None
    if guard is None:
        return None
    return _relation(sizes, guard, names), variant.tape.lines[guard.line] if guard.line >= 0 else None


def _relation(sizes: SizeTable, guard: SizeGuard, names: Sequence[str] = ()) -> str:
    text = imported("..tape.listing", __package__).size_text  # few calls have a relation to tell of
    return f"{text(sizes, guard.left, names)} {guard.relation} {text(sizes, guard.right, names)}"


# ---- reports


class GuardReport(list):
    """The guards of a cache: a list with a dictionary for each, which prints as a table.

    Attributes
    ----------
    traces
        One dictionary for each trace that is remembered: ``number``, ``why``, ``line``, ``shapes``.
    why
        Why the last trace was made.
    """

    def __init__(self, guards: Iterable[dict], notes: Iterable[Note]):
        super().__init__(guards)
        self._notes = list(notes)

    @property
    def traces(self) -> list[dict[str, Any]]:
        return [
            {"number": n.number, "why": n.reason.text, "line": n.reason.line, "shapes": n.shapes}
            for n in self._notes
        ]

    @property
    def why(self) -> str:
        return self._notes[-1].reason.text if self._notes else ""

    def __str__(self):
        lines = [f"{guard['line']}  {guard['condition']}  {guard['outcomes']}" for guard in self]
        return "\n".join([*lines, *map(str, self._notes)])

    def _repr_html_(self) -> str:
        table = imported("..tape.html_tables", __package__).table  # notebooks alone need it
        rows = [(g["line"], g["kind"], g["condition"], g["outcomes"], g["variants"]) for g in self]
        guards = table("Guards", ("line", "kind", "condition", "outcomes", "variants"), rows)
        notes = [(note["number"], note["why"], note["shapes"]) for note in self.traces]
        return guards + table("Traces", ("", "why", "shapes"), notes)


def report(programs) -> GuardReport:
    """Return the guards of some programs, and why they were traced."""
    guards: dict[tuple, dict] = {}
    notes: list[Note] = []
    for program in programs:
        notes += program.log.notes
        for variant in program.snapshot():
            met: set[tuple] = set()
            for inside, line, kind, condition, outcome in dict.fromkeys(_conditions(variant.tape, "")):
                key = str(line), kind, condition if kind == "size" else ""
                new = {"line": line, "kind": kind, "condition": condition, "outcomes": {}, "variants": 0}
                entry = guards.setdefault(key, new | {"inside": inside})
                seen = entry["outcomes"]
                seen[outcome] = seen.get(outcome, 0) + variant.hits
                entry["variants"] += key not in met  # a test in a loop may have had both outcomes
                met.add(key)
    return GuardReport(guards.values(), notes)


def _conditions(tape: Tape, inside: str):
    """Yield ``(name of the sub-tape, line, kind, condition, outcome)`` of all guards, those inside too."""
    for guard in tape.guards:
        line = tape.lines[guard.position] if guard.position >= 0 else None
        outcome = "any" if guard.kind == "count" else guard.outcome
        yield inside, line, guard.kind, source_of(line), outcome
    sizes = tape.sizes
    for relied in sizes.guards:
        if relied.line >= 0:
            yield inside, tape.lines[relied.line], "size", _relation(sizes, relied), True
    for called in tape.calls:
        for body in getattr(called, "bodies", ()):  # a user's rule has none
            yield from _conditions(body, called.name)


def source_of(line: Line | None) -> str:
    """Return the text of a source line, as far as it can be found."""
    return "" if line is None else linecache.getline(line.file, line.number).strip()
