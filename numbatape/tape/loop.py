"""`Loop` and `Branches`: instructions with bodies, which are tapes of their own.

The body of a loop runs once a step; that of a sub-tape (`numbatape.function`) is a loop of one step. Branches
have several bodies, of which one runs.

A loop stands among a tape's ``calls``, and a ``call`` instruction runs it. The instruction's first operand
has everything that may take an adjoint, one after the other, and its second operand has the rest. The result
has the last carries, then the stacked outputs of all steps, and then (with ``history``) the carries before
each step, which derivatives start from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..errors import NumbatapeError
from ..savings import frozen
from .families import F64
from .size_tables import INPUT
from .tape import Tape

# What an input of a body is: the result of the step before; a row of a stacked operand; the same in all
# steps; a sum, to which each step adds in place and which it does not read.
CARRY, SLICE, CAPTURE, SUM = "carry", "slice", "capture", "sum"
STACK = "stack"  # an output of which each step gives a row


@frozen()
class Port:
    """Where an input of the body comes from.

    Attributes
    ----------
    role
        CARRY, SLICE, CAPTURE or SUM.
    operand
        0 or 1: the instruction's operand that it is a part of.
    start, count
        Size codes: its first cell in the operand, and its cells (of one step).
    """

    role: str
    operand: int
    start: int
    count: int


@frozen()
class Out:
    """Where an output of the body goes.

    Attributes
    ----------
    role
        CARRY, SUM or STACK.
    port
        Number of the body's input that it is the next value of; -1 for a stacked output.
    start, count
        Size codes: its first cell in the instruction's result, and its cells (of one step).
    """

    role: str
    port: int
    start: int
    count: int


class HasBodies:
    """Base of what a ``call`` instruction with bodies runs."""

    family = F64  # all operands are in cells of this family
    name: str
    extents: tuple[int, int, int]
    _fingerprint: str

    def cells(self, size: Callable[[int], int]) -> tuple[int, ...]:
        """Return how many cells the result and the two operands have at least."""
        return tuple(map(size, self.extents))

    def fingerprint(self) -> str:
        """Return what decides the result, for the digest of the tape that it stands on."""
        return self._fingerprint

    def explain(self, error: BaseException) -> None:
        """Add the name of what the user called to an error, once."""
        explain(self.name, error)


@frozen(eq=False)
class Loop(HasBodies):
    """A body that runs once a step.

    Attributes
    ----------
    name
        What the user called, for error messages.
    body
        A tape of its own. All its inputs and outputs have float64 cells.
    dimensions
        Size codes of the tape that the loop stands on, one for each input dimension in the body's sizes.
    length
        How many steps there are: a size code.
    reverse
        Whether the last row of stacked operands comes first.
    ports, outs
        One for each input, and each output, of the body.
    extents
        Size codes: the cells of the result and of the two operands.
    history
        Where the carries before each step are stacked in the result, one start for each carry (in the order
        of the ports, without sums); None if they are not kept.
    steps
        Where the second operand has the number of steps, if it is data; the length is then the most there
        can be. None where the length is their number.
    test, test_ports
        A tape of one number that decides before each step whether there is one, and where its inputs come
        from: carries (a port's start is the number of one) and captures. None if there is no such test.
    counted
        With a test, where the result has the number of steps, and behind it 1.0 if there would be more of
        them than the length, else 0.0.
    strict
        With a test, whether it is an error if there would be more.
    recompute
        Whether a reverse sweep computes the body of a single step again, so that its cells need not be kept.
    samples
        If the body calls users' rules, whose derivatives are traced: the numbers that its inputs had when it
        was traced, None for an input that had none.
    """

    name: str
    body: Tape
    dimensions: tuple[int, ...]
    length: int
    reverse: bool
    ports: tuple[Port, ...]
    outs: tuple[Out, ...]
    extents: tuple[int, int, int]
    history: tuple[int, ...] | None = None
    steps: int | None = None
    test: Tape | None = None
    test_ports: tuple[Port, ...] = ()
    counted: int = -1
    strict: bool = False
    recompute: bool = False
    samples: tuple | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: a body of {len(self.body)} instructions>"

    @cached_property
    def runs_once(self) -> bool:
        """Whether the body runs once, so that nothing is carried from step to step."""
        roles = {port.role for port in self.ports} | {out.role for out in self.outs}
        return self.length == 1 and roles <= {CAPTURE, STACK} and self.test is None and self.steps is None

    @property
    def carries(self) -> list[int]:
        """The numbers of the inputs that are carries."""
        return [k for k, port in enumerate(self.ports) if port.role == CARRY]

    @cached_property
    def own_dimensions(self) -> tuple[int, ...]:
        """The numbers of the dimensions that sizes in its bodies depend on.

        The length of a series that a scan goes through is not among them, because each step gets one row.
        """
        return tuple(sorted({k for body in self.bodies for k in dimensions_used(body)}))

    @property
    def bodies(self) -> tuple[Tape, ...]:
        """The tapes in it."""
        return (self.body,) if self.test is None else (self.body, self.test)

    @property
    def size_codes(self) -> set[int]:
        """The size codes that it refers to."""
        places = (*self.ports, *self.outs, *self.test_ports)
        parts = (code for place in places for code in (place.start, place.count))
        steps = () if self.steps is None else (self.steps,)
        counted = () if self.test is None else (self.counted,)
        return {*self.dimensions, self.length, *self.extents, *(self.history or ()), *parts, *steps, *counted}

    @cached_property
    def _fingerprint(self) -> str:
        places = self.dimensions, self.length, self.reverse, self.ports, self.outs, self.extents
        test = None if self.test is None else (self.test.digest, self.test_ports, self.counted, self.strict)
        text = f"{self.name} {self.body.digest} {places} {self.history} {self.steps} {test} {self.recompute}"
        return hashlib.sha256(text.encode()).hexdigest()

    def with_history(self, sizes) -> Loop:
        """Return the loop with the carries before each step behind its result; ``sizes`` are the tape's."""
        if self.history is not None:
            return self
        starts, end = [], self.extents[0]
        for k in self.carries:
            starts.append(end)
            end = sizes.add(end, sizes.mul(self.length, self.ports[k].count))
        return replace(self, history=tuple(starts), extents=(end, *self.extents[1:]))


@frozen(eq=False)
class Branches(HasBodies):
    """Several bodies, of which one runs: loops of one step that share their operands and their result.

    Either a number chooses the body, or the guards of the bodies do: then the first one runs whose guards
    hold.

    Attributes
    ----------
    name
        What the user called.
    loops
        The bodies. What one of them does not write of the result is zero.
    index
        Where the second operand has the number of the body that runs. A number that is too small, or too
        large, means the first body, or the last. None if guards choose.
    extents
        As in `Loop`.
    chosen
        If guards choose: where the result has the number of the body that ran, for derivatives.
    source
        If guards choose: what records a further body when no guards hold. ``source.missing(arrays)`` returns
        the error to raise, given what fills the inputs of the bodies.
    """

    name: str
    loops: tuple[Loop, ...]
    index: int | None
    extents: tuple[int, int, int]
    chosen: int | None = None
    source: Any = None

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.loops)} bodies>"

    @property
    def bodies(self) -> tuple[Tape, ...]:
        """The tapes in it."""
        return tuple(loop.body for loop in self.loops)

    @property
    def size_codes(self) -> set[int]:
        """The size codes that it refers to, its bodies' included."""
        places = [code for code in (self.index, self.chosen) if code is not None]
        return {*self.extents, *places}.union(*(loop.size_codes for loop in self.loops))

    @cached_property
    def _fingerprint(self) -> str:
        parts = [loop.fingerprint() for loop in self.loops]
        # Which function records what is missing counts, too: bodies are planned once for each digest, and two
        # functions may have the same traces so far.
        text = f"{self.name} {parts} {self.index} {self.extents} {self.chosen} {id(self.source)}"
        return hashlib.sha256(text.encode()).hexdigest()


def dimensions_used(tape: Tape) -> set[int]:
    """Return the numbers of the input dimensions that the sizes of a tape's values depend on."""
    table = tape.sizes
    codes = {code for call in tape.calls for code in call.size_codes}
    codes |= {code for guard in table.guards for code in (guard.left, guard.right)}
    codes.update(tape.storages["size"].tolist(), tape.values["offset"].tolist())
    for layout in {*tape.values["layout"].tolist()}:
        codes.update(tape.layouts[layout].dims, tape.layouts[layout].strides)
    found: set[int] = set()
    waiting, done = [code for code in codes if code < 0], set()
    while waiting:
        code = waiting.pop()
        if code in done:
            continue
        done.add(code)
        operation, left, right = table.rows[-code - 1]
        if operation == INPUT:
            found.add(left)
        else:  # the right operand is a number in some rows
            waiting += [part for part in (left, right) if part < 0]
    return found


def explain(name: str, error: BaseException) -> None:
    """Add a loop's name to an error, once."""
    note = f"(in the body of {name})"
    if not isinstance(error, NumbatapeError) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
