"""The process's kernel tables: addresses by kernel number, filled when a plan first needs one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from .. import jit
from ..jit import address
from ..late import imported
from ..ops import OPS, ArrayOp
from ..threads import Turn
from .chain import sweep_source
from .codegen import FIRST_KERNEL, kernel_source
from .frame import SWEEP_FUNCTIONS
from .placement import aligned
from .vectors import LAST_OPCODE, STRIP_OPCODE

FORWARD = np.zeros(LAST_OPCODE + 1 - FIRST_KERNEL, np.int64)
FORWARD_NUMPY = np.zeros_like(FORWARD)  # Config(values="numpy")
REVERSE = np.zeros(FIRST_KERNEL, np.int64)
# Functions of the forward sweeps that kernels and the reverse sweeps call: `iterations`, and others.
ITERATIONS, SWEEPS = np.zeros(1, np.int64), np.zeros(len(SWEEP_FUNCTIONS), np.int64)


def forward_table(values: str) -> np.ndarray:
    """Return the table of forward kernels for ``Config(values=...)``."""
    return FORWARD_NUMPY if values == "numpy" else FORWARD


def ensure(kernels, values: str = "fast", reverse: bool = True) -> None:
    """Load the kernels with the given numbers (2 * row + family) into the tables.

    Parameters
    ----------
    reverse
        Whether the reverse kernels are needed too.
    """
    _forward_sweeps()
    forward = forward_table(values)
    for number in kernels:
        if not forward[number]:
            forward[number] = _loaded(number, "forward", values)
        if reverse and OPS[number >> 1].differentiable and not REVERSE[number]:
            REVERSE[number] = _loaded(number, "reverse", values)


def ensure_strips(values: str, opcodes: Sequence[int]) -> None:
    """Load the kernel that runs instructions strip by strip.

    Parameters
    ----------
    opcodes
        Those that occur in blocks only, whose kernels are loaded as well.
    """
    forward = forward_table(values)
    if not forward[STRIP_OPCODE - FIRST_KERNEL]:
        text = imported(".strips.strip_kernels", __package__).strip_source()
        forward[STRIP_OPCODE - FIRST_KERNEL] = jit.load("strips", text).address["forward"]
    for opcode in opcodes:
        if not forward[opcode - FIRST_KERNEL]:
            name, text = imported(".strips.strip_kernels", __package__).block_source(opcode)
            forward[opcode - FIRST_KERNEL] = jit.load(name, text).address["forward"]


def kernel_name(number: int, direction: str) -> str:
    """Return the name of a kernel's file."""
    op = OPS[number >> 1]
    shared = isinstance(op, ArrayOp) and op.one_module
    return f"{op.name}-{('f64', 'f32')[number & 1]}" + "-reverse" * (direction == "reverse" and not shared)


def _loaded(number: int, direction: str, values: str) -> int:
    """Return the address of a kernel."""
    text = kernel_source(number >> 1, number & 1, direction, values)
    return jit.load(kernel_name(number, direction), text).address[direction]


NOTHING_KEPT = np.zeros(0)
BACKWARD = ("pullback", "gradient", "bound")  # entry points that sweep back


@functools.cache
def _forward_sweeps():
    """Return the module of the forward sweeps, of which other kernels know some functions from now on."""
    loaded = jit.load("sweeps", sweep_source("forward"))
    ITERATIONS[0] = loaded.address["iterations"]
    SWEEPS[:] = [loaded.address[name] for name in SWEEP_FUNCTIONS]
    return loaded


def _module_of(name: str):
    forward = _forward_sweeps()
    return jit.load("sweeps-reverse", sweep_source("reverse")) if name in BACKWARD else forward


@functools.cache
def sweep(name: str) -> Callable:
    """Return an entry point of the sweeps as a callable ``(frame address, first instruction) -> status``."""
    return _module_of(name).function(name)


def sweep_address(name: str) -> int:
    """Return the address of an entry point of the sweeps."""
    return _module_of(name).address[name]


def continued_address() -> int:
    """Return the address of the kernel that goes on where a guard stops a gradient."""
    text = imported(".continued_kernels", __package__).continued_source()
    return jit.load("continued", text).address["continued"]


def call_of(name: str, space, value: np.ndarray, fallback, hits: np.ndarray, turn=None):
    """Return a builtin that runs a sweep of a workspace and returns ``value[0]`` as a float.

    ``fallback()`` gives the result where the sweep stops early, or another call has the ``turn`` (None:
    the caller has it). ``hits`` counts the sweeps that do not stop. What the addresses point to must
    stay alive as long as the builtin; the second result holds its own words.
    """
    if name in BACKWARD:
        space.require_reverse()
    if space.segments is not None:
        return _in_python(name, space, value, fallback, hits, turn), ()
    numbers = {
        **entry_words(space, name),
        "value": address(value),
        "single": int(value.dtype == np.float32),
        "fallback": id(fallback),
        "hits": address(hits),
        **jit.turn_words(turn),
    }
    words = np.array([*map(numbers.__getitem__, jit.BUILTIN_WORDS)], np.int64)
    try:
        return jit.make_builtin(words), (words, fallback, hits, turn)
    except jit.CannotEmit:
        return _in_python(name, space, value, fallback, hits, turn), ()


def _in_python(name: str, space, value: np.ndarray, fallback, hits: np.ndarray, turn):
    """Return what `call_of` does, in Python: 2 µs do not matter beside a sweep that is cut into segments."""

    def call():
        outcome = space.enter(name)
        if outcome:
            return None
        hits[0] += 1
        return float(value[0])

    if turn is None:
        return lambda: fallback() if (result := call()) is None else result

    def call_in_turn():
        if turn.busy:
            return fallback()
        turn.busy = True
        try:
            result = call()
        finally:
            turn.busy = False
        return fallback() if result is None else result

    return call_in_turn


def entry_words(space, sweep: str) -> dict[str, int]:
    """Return the words about the entry point of a workspace's sweeps."""
    return {
        "frame": space.address,
        "sweep": sweep_address(space.entry_point(sweep)),
        "locked": int(space.plan.is_brief),
    }


def in_one_block(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return copies of arrays that lie one after the other, from the beginning of a cache line on."""
    ends = np.cumsum([-(-array.nbytes // 8) * 8 for array in arrays]).tolist()
    block, copies = aligned(ends[-1], np.uint8), []
    for array, start in zip(arrays, [0, *ends], strict=False):
        copies.append(block[start : start + array.nbytes].view(array.dtype).reshape(array.shape))
        copies[-1][...] = array
    return copies


def steady_call(
    entered: dict[str, int],
    fallback: Callable,
    rows: Sequence[dict],
    outs: Sequence[dict],
    form: int,
    rebound: Callable | None,
    watches: Sequence[dict] | None,
    turn: Turn,
    hits: np.ndarray,
    alive: list,
    others: np.ndarray | None = None,
    kept: np.ndarray = NOTHING_KEPT,
    kept_place: int = 0,
):
    """Return the builtin of steady calls, which hands all other calls to ``fallback``.

    `numbatape.jit.steady` says what it does.

    Parameters
    ----------
    entered
        What is called with which frame, see `entry_words`; and which guards are asked first, if any.
    rows, outs
        One dictionary of words per row and per out; a word that is missing is 0, and a shape is a tuple.
    rebound
        Called before the sweeps; if it returns a true value the fallback serves the call. May be None.
    watches
        Rows that tell without such a call that nothing is rebound; None if only ``rebound`` can tell.
    turn, hits
        As in `call_of`.
    alive
        What the words refer to by address.
    others
        What is known of builtins for leaves of other sizes, with the same ``turn`` (`jit.by_sizes`).
    kept, kept_place
        Cells that are copied to an address before each sweep.

    Returns
    -------
    (callable, words, rows, outs) or None
        The builtin, and the tables that it reads: they may be changed between calls. None where objects
        do not have their fields in the usual places, or LLVM emits no code for this machine.
    """
    if not jit.object_layout.readable():
        return None
    shapes = [record["shape"] for record in (*rows, *outs) if "shape" in record]
    tables = [
        np.array(
            [[0 if name == "shape" else record.get(name, 0) for name in names] for record in records],
            np.int64,
        )
        for records, names in (
            (rows, jit.steady.ROW),
            (outs, jit.steady.OUT),
            (watches or (), jit.object_layout.WATCH),
        )
    ]
    sizes = np.array([*itertools.chain(*shapes), 0], np.int64)
    words, *tables, kept, sizes = in_one_block(
        np.zeros(len(jit.steady.WORDS), np.int64), *tables, kept, sizes
    )
    place = address(sizes)
    for table, records, names in (tables[0], rows, jit.steady.ROW), (tables[1], outs, jit.steady.OUT):
        for number, record in enumerate(records):
            if "shape" in record:
                table[number, names.index("shape")] = place
                place += sizes.itemsize * len(record["shape"])
    numbers = {
        **dict.fromkeys(("leading", "lead", "peeks", "peek_count", "paths"), 0),
        **entered,
        "fallback": id(fallback),
        "array_type": id(np.ndarray),
        "rebound": 0 if rebound is None else id(rebound),
        "watches": address(tables[2]),
        "watch_count": -1 if watches is None else len(watches),
        "rows": address(tables[0]),
        "row_count": len(rows),
        "outs": address(tables[1]),
        "out_count": len(outs),
        "form": form,
        "items": jit.object_layout.ITEMS,
        "kept": address(kept),
        "kept_place": kept_place,
        "kept_bytes": kept.nbytes,
        "others": 0 if others is None else address(others),
        "hits": address(hits),
        **jit.turn_words(turn),
    }
    words[:] = [*map(numbers.__getitem__, jit.steady.WORDS)]
    try:
        builtin = jit.steady.make_steady(
            words, (fallback, rebound, turn, hits, tables, kept, sizes, others, alive)
        )
    except jit.CannotEmit:
        return None
    return builtin, words, *tables[:2]
