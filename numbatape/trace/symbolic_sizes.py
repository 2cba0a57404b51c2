"""Arithmetic and comparisons of sizes, as size codes of the tape.

``x.shape[0] // 2`` is an expression in the dimensions of the arguments (`numbatape.tape.sizes`), so a tape
that uses it holds for every length. What Python asks about a size (is it larger than 3? which int is it?)
becomes a size guard, which names the user's line.
"""

from __future__ import annotations

import numpy as np

from ..errors import ForeignTraceError
from ..tape.instruction import GUARD, NONE, PROLOGUE
from ..tape.sizes import Sizes
from ..tape.tape import CONSTANT
from ..tape.uses import key_of
from ..usercode.frames import where_in_user_code
from . import operations

MOST_COUNTED = 100  # sizes of a tape that data decide
DIVIDED, NEAR = "divided", "near"  # further names of this kind are in `numbatape.trace.size_fractions`
# Functions whose implementations take sizes as they are; all others get ints, which the tape then relies on.
KNOW_SIZES = frozenset(
    (
        np.argpartition,
        np.array_split,
        np.bincount,
        np.broadcast_to,
        np.delete,
        np.full_like,
        np.geomspace,
        np.insert,
        np.lib.stride_tricks.sliding_window_view,
        np.linspace,
        np.logspace,
        np.ones_like,
        np.pad,
        np.partition,
        np.repeat,
        np.reshape,
        np.roll,
        np.split,
        np.tile,
        np.zeros_like,
    )
)
# Names of functions of `numpy.fft`; asking for the module imports it (1 ms), which few programs need.
TRANSFORMS_KNOW_SIZES = frozenset(
    (
        *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
        *("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"),
    )
)


def knows_sizes(function) -> bool:
    """Whether the implementation of a NumPy function takes sizes as they are."""
    if function in KNOW_SIZES:
        return True
    name = getattr(function, "__name__", None)
    return name in TRANSFORMS_KNOW_SIZES and function.__module__ == "numpy.fft"


def is_size(x) -> bool:
    """Whether a number is a size that no guard has fixed yet."""
    if type(x) is not operations.TracedInteger or x._code is None or x._settled:
        return False
    x._settled = x._trace.tape.sizes.settled(x._code) >= 0  # a guard on another size may have fixed this one
    return not x._settled


def seen(trace, code: int):
    """Return a size for the user's code: a plain int where the tape holds for one value alone."""
    number = trace.tape.sizes.settled(code)
    if number >= 0:
        return number
    trace.integers.met = True
    return operations.TracedInteger.of_size(trace, code)


def may_count(trace) -> bool:
    """Whether a number that data decide may be a size, see `numbatape.trace.extents.counted`."""
    integers = trace.integers
    if not integers.counts or trace.in_loop or trace.validity.vouched:
        return False
    return len(integers.counted) < MOST_COUNTED


def pin_count(trace, number: int) -> None:
    """Fix the size that a number has become, because Python has read the number."""
    code = trace.integers.counted.get(number)
    if code is not None:
        trace.tape.sizes.pin(code, trace.line())


def foreign() -> ForeignTraceError:
    """Return the error for a value of another trace, whose numbers and size codes mean others in this one."""
    return ForeignTraceError(
        f"values of two traces meet at {where_in_user_code()}; a traced value was kept "
        "from an earlier call, or a prepared cache is used inside a traced function"
    )


def code_of(trace, n) -> int:
    """Return the code of a size, or of an int."""
    if type(n) is operations.TracedInteger:
        if not is_size(n):
            return trace.tape.sizes.negative(n.settled())
        if n._trace is not trace:
            raise foreign()
        return n._code
    return trace.tape.sizes.negative(n.__index__())


def valued(tree):
    """Return shapes and indices with the value of each size in its place, for NumPy's own call."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([valued(part) for part in tree])
    if kind is slice:
        return slice(valued(tree.start), valued(tree.stop), valued(tree.step))
    return tree._value if is_size(tree) else tree


def has_size(tree) -> bool:
    """Whether there is a size among the arguments of a call."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return any(map(has_size, tree))
    if kind is slice:
        return has_size((tree.start, tree.stop, tree.step))
    return is_size(tree)


# ---- arithmetic


def combined(sizes: Sizes, name: str, left: int, right: int) -> int | None:
    """Return the code of ``left op right``, or None if it is no expression in sizes."""
    if name == "add":
        return _sum(sizes, left, right)
    if name == "sub":
        return _difference(sizes, left, right)
    if name == "mul":
        return sizes.mul(left, right)
    # An int that is divided by a size (``x[i % len(x)]``) makes sizes that differ in each turn of a loop.
    if name in ("floordiv", "mod") and sizes.value(right) and not sizes.is_number(left):
        quotient = sizes.floordiv(left, right)
        return quotient if name == "floordiv" else sizes.sub(left, sizes.mul(quotient, right))
    return None


def _sum(sizes: Sizes, left: int, right: int) -> int:
    for one, other in ((left, right), (right, left)):
        if sizes.is_number(one) and sizes.value(one) < 0:
            return sizes.sub(other, -sizes.value(one))
    return sizes.add(left, right)


def _difference(sizes: Sizes, left: int, right: int) -> int:
    if sizes.is_number(right) and sizes.value(right) < 0:
        return sizes.add(left, -sizes.value(right))
    return sizes.negative(0) if left == right else sizes.sub(left, right)


# ---- comparisons


def compared(trace, name: str, left: int, right: int) -> bool:
    """Return how two sizes compare, which the tape relies on from now on."""
    sizes, line = trace.tape.sizes, trace.line()
    a, b = sizes.value(left), sizes.value(right)
    if name in ("eq", "ne"):
        if a == b:
            sizes.guard(left, "==", right, line)
        else:
            _less(sizes, *((left, right) if a < b else (right, left)), line)
        return (a == b) == (name == "eq")
    if name in ("gt", "le"):  # a > b is b < a, and a <= b is not b < a
        return compared(trace, {"gt": "lt", "le": "ge"}[name], right, left)
    if a < b:
        _less(sizes, left, right, line)
    else:
        sizes.guard(left, ">=", right, line)
    return (a < b) == (name == "lt")


def _less(sizes: Sizes, left: int, right: int, line: int) -> None:
    sizes.guard(right, ">=", _sum(sizes, left, 1), line)


# ---- numbers and arrays that depend on sizes only


def number_of(trace, code: int):
    """Return a size as a traced number."""
    found = trace.reused.extents.get(code)
    if found is None:
        found = trace.reused.extents[code] = operations.extent(trace, code)
        if not trace.tape.sizes.is_number(code):
            trace.integers.fractions[found._id] = DIVIDED, code, 1
            trace.integers.limit(trace.tape.values[found._id])
    return found


def note(trace) -> None:
    """Note that from now on constants may depend on sizes."""
    if trace.integers.origins is None:
        trace.integers.origins = _Origins(trace.tape)


def rely_on(trace, arrays) -> bool:
    """Let the tape rely on the entries of constants that depend on sizes only.

    The sizes become guards. False, and no guard, if one of the arrays depends on anything else.
    """
    codes: set[int] = set()
    for x in arrays:
        behind = trace.integers.origins.sizes_behind(x._id) if x._level == CONSTANT else None
        if behind is None:
            return False
        codes |= behind
    line = trace.line()
    for code in sorted(codes, reverse=True):
        trace.tape.sizes.pin(code, line)
    return True


class _Origins:
    """What the constants of a tape are computed from, read off its instructions when it is asked for."""

    def __init__(self, tape):
        self._tape = tape
        # By key (`numbatape.tape.uses.keys_of`): the value numbers that cells are computed from.
        self._operands: dict[int, list[int]] = {}
        self._literals: set[int] = set()  # the keys of literals
        self._seen = [0, 0]  # how many instructions and literals of the tape have been looked at

    def sizes_behind(self, number: int) -> set[int] | None:
        """Return the size codes that decide a constant, or None if it depends on anything else."""
        self._read()
        codes: set[int] = set()
        waiting, done = [number], set()
        while waiting:
            number = waiting.pop()
            storage, offset, layout = self._tape.values[number]
            place = key_of(storage, offset)
            layout = self._tape.layouts[layout]
            codes.update(code for code in (offset, *layout.dims, *layout.strides) if code < 0)
            if place in done or place in self._literals:
                continue
            done.add(place)
            if place not in self._operands:
                return None  # the contents come from an argument
            waiting += self._operands[place]
        return codes

    def _place(self, number: int) -> int:
        storage, offset, _ = self._tape.values[number]
        return key_of(storage, offset)

    def _read(self) -> None:
        tape = self._tape
        tape.unroll()
        instructions, literals = self._seen
        for row in tape.instructions(instructions):
            if row.op != GUARD and row.stage == PROLOGUE:
                operands = self._operands.setdefault(self._place(row.out), [])
                operands += [operand for operand in (row.a, row.b, row.c) if operand != NONE]
                operands.append(row.out)  # the array depends on the sizes of the result, too
        for literal in tape.literals[literals:]:
            self._literals.add(key_of(literal.storage, literal.offset))
        self._seen = [len(tape.code), len(tape.literals)]
