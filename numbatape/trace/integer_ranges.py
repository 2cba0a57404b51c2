"""Arithmetic of traced int64 numbers: NumPy's wraps around beyond 2**63, cells of floats round beyond 2**53.

So a tape only holds as long as all such results stay below 2**53. Mostly this follows from what the operands
are (positions, counts, small integers). Where it does not, a guard says it. What is beyond when it is traced
raises, or, where it depends on constants only, is NumPy's own result.

The bodies of loops and branches have no guards: there an instruction (`exact_integers`) raises while the tape
runs. Counters need none, because a loop knows how far their steps take them (`numbatape.control.counters`).
"""

from __future__ import annotations

import numpy as np

from ..ops import resolve
from .array import TracedArray
from .constants import EXACT_INTEGER
from .primitives import INT64, array_instruction, elementwise, exact_constants, value_of
from .state import MOST_ENTRIES, Drift

# A number that is below the first bound of a pair when it is traced must stay below the second one.
USUAL = ((2**24, MOST_ENTRIES), (2**36, 2**40))

ARITHMETIC = frozenset(("sum", "product", "power", "sum at"))
# In cells, 0 * -3 and -0 are -0.0, which is no integer: its reciprocal would have the other sign.
MAKES_NEGATIVE_ZEROS = frozenset(("mul", "neg", "remainder", "fmod", "floor_divide", "prod", "cumprod"))


def checked_integers(trace, op, args, result: TracedArray) -> TracedArray:
    """Return the int64 result of an instruction; it holds what NumPy's does, or a guard says so.

    Raises
    ------
    UnsupportedOperationError
        If it is beyond 2**53 and depends on more than constants.
    """
    bound: int | None
    if op.integers == "position":
        bound = MOST_ENTRIES
    elif op.integers in ("within", "mirror"):
        read = [arg for k, arg in enumerate(args) if "abc"[k] not in op.index]
        known = [range_of(trace, arg) for arg in read]
        bound = None if None in known else max(known)
        _note_farthest(trace, read, result._id)
    elif op.integers == "divisor":
        bound = range_of(trace, args[1])
        # A remainder is smaller than the divisor. (NumPy's remainder of a division by 0 is 0.)
        bound = bound and bound - 1
    elif op.integers in ARITHMETIC:
        bound = _growing(trace, op, args, result)
        if bound is None:
            return exact_constants(trace, args, result._value)
    else:
        bound = None
    trace.integers.limit(trace.tape.values[result._id], bound)
    return elementwise("add", result, 0) if op.name in MAKES_NEGATIVE_ZEROS else result


def limit_pieces(trace, parts, number: int) -> None:
    """Note how far entries of an array may be from zero that consists of these parts."""
    known = [range_of(trace, part) for part in parts]
    _note_farthest(trace, parts, number)
    if None not in known:
        trace.integers.limit(trace.tape.values[number], max(known, default=0))


def range_of(trace, arg) -> int | None:
    """Return how far the entries of an operand may be from zero, if that is known."""
    if type(arg) is not TracedArray:
        return _largest(arg)
    dtype = np.asarray(arg._value).dtype
    if dtype.kind == "b":
        return 1
    if dtype.kind == "f":
        return None  # its cells may have held integers before
    if dtype.kind in "iu" and dtype.itemsize < 8:
        return 2 ** (8 * dtype.itemsize)
    return trace.integers.range_of(trace.tape.values[arg._id])


def _largest(value) -> int:
    """Return how far the entries of plain numbers are from zero; beyond all bounds if they are no numbers."""
    value = np.asarray(value)
    if not value.size:
        return 0
    ends = float(np.min(value)), float(np.max(value))
    return int(min(max(map(abs, ends)), 2.0**80)) if np.isfinite(ends).all() else 2**80


def _growing(trace, op, args, result: TracedArray) -> int | None:
    """Return how far a result may be from zero, if farther than its operands; None beyond 2**53."""
    known = [range_of(trace, arg) for arg in args]
    if trace.in_loop:
        _note_step(trace, op, args, result._id)
        known = [EXACT_INTEGER if bound is None else bound for bound in known]
    bound = _bound(op, known, MOST_ENTRIES)
    if bound is not None and bound <= EXACT_INTEGER:
        return bound
    reduces = not op.elementwise and op.integers != "sum at"
    seen = [_largest(value_of(arg)) for arg in args]
    count = max(np.size(value_of(arg)) for arg in args)
    with np.errstate(all="ignore"):
        if reduces:
            most = _bound(op, seen, count)
        else:
            floats = [np.asarray(value_of(arg), float) for arg in args]
            most = _largest(resolve(op.numpy[0])(*floats))
    if most is None or most > EXACT_INTEGER:
        return None
    if trace.in_loop:
        _require_exact(_sizes(op, args, result) if reduces else result)
        return EXACT_INTEGER
    for k, (arg, its) in enumerate(zip(args, known, strict=True)):
        if its is None:  # a guard on the operand is enough for other arithmetic with it, too
            for below, limit in USUAL:
                if seen[k] < below:
                    require_below(trace, arg, limit)
                    trace.integers.limit(trace.tape.values[arg._id], limit)
                    known[k] = limit
                    break
    bound = _bound(op, known, MOST_ENTRIES)
    if bound is not None and bound <= EXACT_INTEGER:
        return bound
    require_below(trace, _sizes(op, args, result) if reduces else result, EXACT_INTEGER)
    return EXACT_INTEGER


def _sizes(op, args, result: TracedArray) -> TracedArray:
    """Return a reduction of absolute values: sums of several signs may have left the range on the way."""
    value = np.asarray(np.absolute(result._value), float)[()]
    return array_instruction(op, [np.absolute(_as_int64(arg)) for arg in args], value)


def _as_int64(arg):
    return np.astype(arg, INT64) if type(arg) is TracedArray else np.asarray(arg).astype(INT64)


def require_below(trace, array: TracedArray, limit: int) -> None:
    """Record that all entries of an array must be nearer to zero than a limit."""
    below = elementwise("less", elementwise("abs", array), float(limit))
    if np.ndim(below._value):
        below = np.all(below)
    trace.guard(below, "bool", True)


def _require_exact(array: TracedArray) -> None:
    """Record an instruction that raises where an entry is too large, as a guard does outside of bodies."""
    array_instruction("exact_integers", (array,), np.ones(np.shape(array._value))[()])


# ---- counters in the bodies of loops


def _note_farthest(trace, args, number: int) -> None:
    """Note a choice among what steps have made of a carry, and other integers."""
    drifts = trace.integers.drifts
    if not drifts:
        return
    found = [drift_of(trace, arg) for arg in args]
    carries = {drift.carry for drift in found if drift is not None}
    if len(carries) != 1:
        return
    by, least = 0, 0
    for arg, drift in zip(args, found, strict=True):
        bound = range_of(trace, arg) if drift is None else drift.least
        if bound is None:
            return
        by, least = max(by, 0 if drift is None else drift.by), max(least, bound)
    drifts[trace.integers.key_of(trace.tape.values[number])] = Drift(*carries, by, least)


def _note_step(trace, op, args, number: int) -> None:
    """Note a sum of what steps have made of a carry, and other integers."""
    drifts = trace.integers.drifts
    if not drifts or op.integers != "sum" or not op.elementwise:
        return
    found = [drift_of(trace, arg) for arg in args]
    for drift, other in ((found[0], args[1]), (found[1], args[0])):
        bound = range_of(trace, other)
        if drift is not None and bound is not None:
            key = trace.integers.key_of(trace.tape.values[number])
            drifts[key] = Drift(drift.carry, drift.by + bound, drift.least)
            return


def drift_of(trace, arg) -> Drift | None:
    """Return how an operand was made of a carry, if it is known."""
    if type(arg) is not TracedArray:
        return None
    return trace.integers.drifts.get(trace.integers.key_of(trace.tape.values[arg._id]))


def _bound(op, known: list[int | None], count: int) -> int | None:
    """Return a bound of a result by those of its operands, None where one of them is not known.

    Parameters
    ----------
    count
        How many entries a reduction combines at most.
    """
    if None in known:
        return None
    first, *rest = (min(bound, 2**80) for bound in known)  # type: ignore[type-var]
    if op.integers == "sum at":
        return first + count * rest[0]
    if op.integers == "power":
        return _power(first, rest[0])
    if op.integers == "product":
        return first * (rest[0] if rest else first) if op.elementwise else _power(first, count)
    if op.elementwise:
        return first + rest[0]
    return first * (rest[0] if rest else 1) * count


def _power(base: int, exponent: int) -> int:
    """Return a bound of a power; one of 2**80 stands for all that are beyond."""
    return base**exponent if exponent < 64 else (1 if base <= 1 else 2**80)
