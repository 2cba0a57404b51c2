"""What a trace knows beside its tape, by topic: each class here has one concern, and `Trace` one of each.

They hold data. The functions that read and change it are in the files of their topics, which the docstrings
name. Three more topics have methods, and files of their own: `numbatape.trace.constants`, `Derivatives` in
`numbatape.trace.evaluation`, and `Memory` in `numbatape.trace.aliasing`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import LeakError, MissingBodyError, UnsupportedOperationError
from ..tape.instruction import NONE
from ..tape.tape import POOLS, shown_name
from ..usercode.frames import is_index
from ..usercode.ownership import sees_sizes

POOL_COUNT = len(POOLS)
LONG_FACTOR = 1 << 14  # bytes of arrays whose products are noted
MOST_ENTRIES = 2**26  # a bound of positions and counts; a sum of this many positions is still exact


class Outside(NamedTuple):
    """A source of numbers that cannot be checked before a call, and the line that reads it."""

    what: str
    file: str
    line: int

    def __str__(self):
        return f"{self.what} at {shown_name(self.file)}:{self.line}"


class PlainIndexError(LeakError):
    """An array that is not traced is read at traced positions: the next run has a stand-in for it."""


class Validity:
    """For which calls the tape holds, beyond what its guards say, and what went wrong during the trace.

    Attributes
    ----------
    pinned
        Whether constants' contents decided what was recorded, so that the tape holds for these
        contents only.
    failed
        Whether an operation raised. If the function went on, no guard says for which inputs it
        raises, and the tape holds for these inputs only.
    attempts
        The numbers of guards on whether a matrix has a factor (`numbatape.numpy_api.caught_errors`).
    refuted
        Those of which the kernel has found that there is none, whatever NumPy has.
    outside
        What the function read that cannot be checked before a call.
    vouched
        Whether a user's key stands for the guards (`numbatape.guarded`).
    leak
        The first `LeakError`, even if the function caught it, or the first `UnsupportedOperationError` that
        it may have caught.
    missing
        The error of a sub-tape whose numbers were needed, even if the function caught it.
    unforeseen
        What was last done in a loop's body that holds for the numbers of one step only.
    """

    __slots__ = (
        *("attempts", "failed", "leak", "missing", "outside", "pinned", "refuted", "unforeseen", "vouched"),
        "_foreseen",
    )

    def __init__(self):
        self.attempts: list[int] = []
        self.refuted: frozenset[int] = frozenset()
        self._foreseen: Exception | None = None
        self.pinned = self.failed = self.vouched = False
        self.outside: list[Outside] = []
        self.leak: UnsupportedOperationError | None = None
        self.missing: MissingBodyError | None = None
        self.unforeseen: str | None = None

    def foresee(self, error: Exception) -> Exception:
        """Note that the guards say when an error is raised, and return it."""
        self._foreseen = error
        return error

    def close(self) -> None:
        """Forget the error, whose traceback refers to the trace."""
        self._foreseen = None

    def is_foreseen(self, error: Exception) -> bool:
        """Whether the guards say when this error is raised."""
        return error is self._foreseen

    def plain_index(self) -> PlainIndexError:
        """Return the error for an array without a stand-in, noted even if the function catches it."""
        error = PlainIndexError("an array that is not traced is read at traced positions")
        self.leak = self.leak or error
        return error


class Drift(NamedTuple):
    """How far a carry's entries may be from zero after a step: ``max(|carry|, least) + by``.

    ``carry`` names the carry by its storage (`Integers.key_of`).
    """

    carry: tuple[int, int]
    by: int
    least: int


class Integers:
    """Python's ints that are traced: arguments, and sizes as the user's code sees them.

    Attributes
    ----------
    symbolic
        Whether the user's code sees sizes as traced ints.
    counts
        Whether numbers of entries that data decide may be sizes (`numbatape.trace.extents.counted`).
    counted
        By value number: such numbers, as the size codes that they are.
    hashed
        Whether the hash of a traced number was taken, which may be a key of a dictionary now.
    met
        Whether there are traced ints (`numbatape.trace.integers`).
    sizes_met
        Whether the function has asked for a size that depends on the arguments.
    origins
        Finds what depends on sizes only; None as long as nothing does
        (`numbatape.trace.symbolic_sizes.rely_on`).
    fractions
        By value number: how a number was computed from a size (`numbatape.trace.size_fractions`).
    ranges
        By storage, and cell of a pool: how far entries of int64 may be from zero
        (`numbatape.trace.integer_ranges`).
    drifts
        In the same way: what a step of a loop has made of a carry.
    """

    __slots__ = (
        "counted",
        "counts",
        "drifts",
        "fractions",
        "hashed",
        "met",
        "origins",
        "ranges",
        "sizes_met",
        "symbolic",
    )

    def __init__(self):
        self.symbolic = self.counts = self.met = self.sizes_met = self.hashed = False
        self.counted: dict[int, int] = {}
        self.origins: Any = None
        self.fractions: dict[int, tuple[str, int, int]] = {}
        self.ranges: dict[tuple[int, int], int | None] = {}
        self.drifts: dict[tuple[int, int], Drift] = {}

    def counts_of(self, tape) -> tuple[tuple[int, int], ...]:
        """Return the number of the guard that compares each counted size, and the size.

        No guard compares the size of a body that has been given up.
        """
        if not self.counted:
            return ()
        guards = {guard.counts: number for number, guard in enumerate(tape.guards)}
        found = enumerate(self.counted.values())
        return tuple((guards.get(k, NONE), tape.sizes.value(code)) for k, code in found)

    @staticmethod
    def key_of(address: tuple[int, int, int]) -> tuple[int, int]:
        """Return what names the entries at an address: their storage, or their cell of a pool."""
        storage, offset, _ = address
        return storage, offset if storage < POOL_COUNT else -1

    def range_of(self, address: tuple[int, int, int]) -> int | None:
        """Return how far entries at an address may be from zero; None if that is not known."""
        return self.ranges.get(self.key_of(address))

    def limit(self, address: tuple[int, int, int], bound: int | None = MOST_ENTRIES) -> None:
        """Note how far entries at an address may be from zero; those of positions, if nothing is said."""
        self.ranges[self.key_of(address)] = bound

    def carries(self, address: tuple[int, int, int], bound: int) -> None:
        """Note how far entries at an address may be from zero that change from step to step."""
        self.limit(address, bound)
        key = self.key_of(address)
        self.drifts[key] = Drift(key, 0, 0)


class Reused:
    """Values that are recorded once, and found here when they are needed again.

    Attributes
    ----------
    entries
        Value numbers of ``x[k]``, by the number of x and k.
    extents
        Sizes as numbers in cells, by size code.
    fft_tables
        Tables of transforms, by the size code of the length and the factors that a table begins with.
    factors
        Numbers of Cholesky factors, by the number of what `cho_factor` returned.
    short_interps
        By the numbers of knots and values: whether the short formula of ``np.interp`` serves.
    compositions
        By implementation: how many of its calls were not like earlier ones (`numbatape.numpy_api.repeated`).
    templates
        What compositions appended, by what it depends on.
    """

    __slots__ = ("compositions", "entries", "extents", "factors", "fft_tables", "short_interps", "templates")

    def __init__(self):
        self.entries: dict[tuple[int, int], int] = {}
        self.extents: dict[int, Any] = {}
        self.fft_tables: dict[tuple[int, ...], Any] = {}
        self.factors: dict[int, int] = {}
        self.short_interps: dict[tuple[int, int], bool] = {}
        self.compositions: dict[Any, int] = {}
        self.templates: dict[tuple, Any] = {}

    def forget(self, first: int) -> None:
        """Forget what was recorded from a value number on: it belongs to a branch that may not run."""
        for table in (self.extents, self.fft_tables):
            for key in [key for key, found in table.items() if found._id >= first]:
                del table[key]


class Arguments:
    """The arguments of the function that is traced.

    Attributes
    ----------
    inputs
        Traced arguments, by the id of their memory.
    twins
        By the id of their memory: arguments that are the same array; None if they only overlap
        (`numbatape.trace.shared_inputs`).
    joined
        Parts of complex arguments, by the id of the inputs.
    written
        Whether the function wrote to an argument.
    in_order
        Whether all arrays are in C order, as the trace's copies of them are.
    asks_order
        Whether an operation went by the order of entries in memory, which such arrays decide.
    scratch
        Memory that the function was given to write to (`numbatape.Cache`).
    labels
        Of arguments with labels, by value number (`numbatape.trace.frames.labels`).
    """

    __slots__ = ("asks_order", "in_order", "inputs", "joined", "labels", "scratch", "twins", "written")

    def __init__(self):
        self.inputs: dict[int, Any] = {}
        self.twins: dict[int, list] = {}
        self.joined: dict[int, object] = {}
        self.in_order = True
        self.written = self.asks_order = False
        self.scratch: list = []
        self.labels: dict[int, Any] = {}

    def memory(self) -> tuple[str, ...]:
        """Return what the tape relies on of the arguments' memory."""
        return ("shared",) * self.written + ("order",) * self.asks_order


class Capture:
    """What the function refers to, and what stands for it while it runs (`numbatape.capture`).

    Attributes
    ----------
    environment
        What the function captures (`numbatape.capture.environment`).
    assigned
        Names of globals that it assigns to, once something has asked for them.
    copies
        Makes stand-ins for the user's values (`numbatape.stand_ins.copies`).
    library_copies
        Copies of libraries' functions (`numbatape.stand_ins.library_copies`).
    arrays
        Stand-ins for captured arrays, if these are traced (`numbatape.stand_ins.captured_arrays`).
    reads_constants
        Whether arrays without stand-ins are read at traced positions: the tape then relies on the positions.
    borrowed
        Ids of captured arrays whose memory such stand-ins have.
    objects
        Ids of captured objects of pandas, polars and xarray.
    stand_ins
        ``(object, its own class)`` of objects whose class has a stand-in.
    containers
        ``(container, its copy, entries of both, how to change the container)``.
    lent
        ``(class, name)`` of members that are behind a switch (`numbatape.stand_ins.lending`).
    moving
        By `numbatape.capture.moving_names.key_of`: traced values of variables that are inputs.
    reassigned
        What the function has assigned to those variables.
    products
        Long arrays that code has multiplied with traced ones by ``@``, by id, with code and offset of each.
    remembered
        Results of functions that remember them, and the traced arguments (`numbatape.capture.memos`).
    snapshots
        By id: an array of the user's, and a copy of it for rules.
    float_errors
        NumPy's treatment of floating-point errors outside of the trace; inside they are ignored.
    """

    __slots__ = (
        "arrays",
        "assigned",
        "borrowed",
        "containers",
        "copies",
        "environment",
        "float_errors",
        "lent",
        "library_copies",
        "moving",
        "objects",
        "products",
        "reads_constants",
        "reassigned",
        "remembered",
        "snapshots",
        "stand_ins",
    )

    def __init__(self):
        self.environment: Any = None
        self.assigned: frozenset[str] | None = None
        self.copies: Any = None
        self.library_copies: Any = None
        self.arrays: Any = None
        self.reads_constants = False
        self.borrowed: set[int] = set()
        self.objects: set[int] = set()
        self.stand_ins: list = []
        self.containers: list = []
        self.lent: list = []
        self.moving: dict[tuple[int, str], Any] = {}
        self.reassigned: dict[str, Any] = {}
        self.products: dict[int, tuple[np.ndarray, list]] = {}
        self.remembered: dict[tuple, tuple] = {}
        self.snapshots: dict[int, tuple] = {}
        self.float_errors = np.geterr()

    def note_product(self, left, right, frame) -> None:
        """Note where code multiplies an array with a traced one, if that is what it does in this frame."""
        for x in (left, right):
            if type(x) is np.ndarray and x.nbytes >= LONG_FACTOR:
                self.products.setdefault(id(x), (x, []))[1].append((frame.f_code, frame.f_lasti))

    def refuses(self, frame) -> bool:
        """Whether a frame must not read numbers, because an array with a stand-in could be indexed."""
        return self.arrays is None and not self.reads_constants and is_index(frame) and sees_sizes(frame)


class Calls:
    """Functions that the tape calls.

    Attributes
    ----------
    rules
        What the user's rules refer to (`numbatape.capture.rule_states`); None before the first call of one.
    sites
        Traced arguments and results of rules' calls, by number.
    sub_tapes
        The sub-tapes that were called, and how many traces each had then.
    """

    __slots__ = ("rules", "sites", "sub_tapes")

    def __init__(self):
        self.rules: Any = None
        self.sites: dict[int, tuple] = {}
        self.sub_tapes: list[tuple] = []
