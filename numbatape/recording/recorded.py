"""What a recording is made of and made by: arguments and options of a run, and what comes out of it."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..capture.effects import Effects
from ..config import PASSES
from ..ops import OPS
from ..savings import frozen
from ..tape import Tape
from ..tape.instruction import GUARD, NONE
from ..trace import pytrees
from ..trace.state import Outside
from ..trace.trace import Trace


@frozen()
class InputLeaf:
    """An argument leaf to trace.

    Attributes
    ----------
    value
        An array, a NumPy scalar, or a Python float or int (weakly typed).
    level
        Whether it takes a gradient.
    wide
        Whether its cells are float64, whatever its dtype is: those of a body are.
    """

    value: Any
    level: int
    wide: bool = False


@frozen(kw_only=True)
class Manner:
    """How a run of a function is recorded.

    Attributes
    ----------
    transform
        Optional: what is recorded is ``transform(function)``, a derivative of the function
        (`numbatape.nested`).
    passes
        Names of the rewrites of the tape that are done (`numbatape.tape.passes`).
    strong
        Whether products of matrices with infinite or NaN entries are recorded entry by entry
        (``Config.strong_zero``).
    values
        ``Config.values``: which implementation's bits elementwise results have.
    data_integers
        Whether to try Python ints as data.
    captures
        Whether captured arrays are known to need tracing; otherwise this is found out.
    assumes
        Whether rules may assume that a number is as it usually is (that a matrix is not singular), if the
        function's only effect is its result. The caller has to check `Recording.assumed`.
    counts
        Whether numbers of entries that constants decide may be sizes, which the caller plans for
        (`Recording.counted`).
    refuted
        Guards on whether a matrix has a factor that fail, whatever NumPy finds (`Recording.attempts`).
    """

    transform: Callable | None = None
    passes: Collection[str] = PASSES
    strong: bool = False
    values: str = "fast"
    data_integers: bool = True
    captures: bool = False
    assumes: bool = False
    counts: bool = False
    refuted: frozenset[int] = frozenset()

    def begin(self, trace: Trace) -> None:
        """Let a new trace compute as it is asked for here."""
        trace.strong, trace.values = self.strong, self.values
        trace.tape.exact = self.values == "numpy"
        trace.validity.refuted = self.refuted
        trace.distributes = bool(self.passes) and self.values != "numpy"
        trace.rolls = "reroll" in self.passes


@pytrees.opaque
@frozen()
class Output:
    """The placeholder of a traced output in a recorded result."""

    number: int


def knows_literals(tape: Tape, known: Iterable[np.ndarray]) -> bool:
    """Whether each literal of a tape is one of some data, or single cells, or positions.

    Passes may make other literals of the data (a stack of several rows), which hold for these contents alone.
    """
    given, storage, code = {*map(id, known)}, tape.values["storage"], tape.code
    arrays = [item for item in tape.literals if item.data.size > 1]
    if len({id(item.data) for item in arrays}) < len(arrays):
        return False  # the data are in several places
    others = np.array([item.storage for item in arrays if id(item.data) not in given], int)
    if not len(others):
        return True
    for name in ("out", "a", "b", "c", "aux"):
        used = (code[name] != NONE) & ((code["op"] != GUARD) | (name != "aux"))
        its = code[used]
        reads = its["op"][np.isin(storage[its[name]], others)]
        if any(op == GUARD or OPS[op >> 1].index != name for op in np.unique(reads).tolist()):
            return False
    return True


class Factor(NamedTuple):
    """An array of the user's that code has multiplied with traced ones by ``@``.

    Attributes
    ----------
    array, data
        The array, and the data of the literal that it became.
    places
        Code and offset of each ``@`` that has done so.
    """

    array: np.ndarray
    data: np.ndarray
    places: tuple[tuple[types.CodeType, int], ...]


@frozen()
class Recording:
    """The outcome of a trace.

    Attributes
    ----------
    tape
        The tape; its outputs are the traced leaves of the result, in order.
    result
        The function's result with an `Output` in place of each traced leaf.
    values
        The traced outputs' values, as NumPy computed them; of a derivative zeros of its shape and dtype.
    levels
        Whether each traced output takes an adjoint: its level on the tape.
    pinned
        Whether the tape holds for the present contents of the constants only.
    failed
        Whether the function caught an exception: the tape holds for the present inputs only.
    memory
        What the tape relies on of arguments' memory (`numbatape.trace.shared_inputs.memory_of`).
    data_integers
        Whether Python ints among the arguments were data; else their values are guards.
    outside
        What the function read that cannot be checked before a call: the tape holds for this call only.
    captures
        Whether captured arrays were traced, as stand-ins.
    effects
        What the function does to what it captures in each call, where a call without a trace can repeat it.
    kept
        Whether the function kept numbers of this call: unless its effects can be repeated it has to run in
        each call.
    assumed
        The numbers of guards whose outcome a rule has assumed: the sweep after the trace checks them.
    attempts
        The numbers of guards on whether a matrix has a factor. NumPy and the kernel may differ in that.
    counted
        For each size that data decide (these are the last inputs), the number of the guard that compares it,
        and its value.
    factors
        Long arrays that the function has multiplied with traced ones.
    written
        The owners of the memory of captured arrays that the function has written to.
    """

    tape: Tape
    result: Any
    values: tuple
    levels: tuple[int, ...]
    pinned: bool
    failed: bool
    memory: tuple[str, ...]
    data_integers: bool
    outside: tuple[Outside, ...]
    captures: bool
    effects: Effects | None = None
    kept: bool = False
    assumed: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    counted: tuple[tuple[int, int], ...] = ()
    factors: tuple[Factor, ...] = ()
    written: tuple[np.ndarray, ...] = ()

    @property
    def has_effects(self) -> bool:
        """Whether the run did anything but compute its result."""
        return bool(self.kept or self.failed or self.outside or self.effects is not None)
