"""Proof that array ops get the core sizes and the scratch that they need, whatever the sizes of a tape are.

`verify_extents` checks this in Python for the numbers of one plan. Further plans of a tape are made by a
kernel alone (`numbatape.engine.replan`), so there the same conditions are shown to hold for the size
expressions: as polynomials in the dimensions of the inputs. What is not shown here is checked for each plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ops import OPS
from ..ops.table import ArrayOp
from ..tape.instruction import GUARD, NONE
from ..tape.sizes import ADD, MUL, SUB
from ..tape.tape import Tape
from .verifier import call_numbers
from .verify_plan import extents_hold, scratch_cells


class Polynomial:
    """A polynomial with integer coefficients; its unknowns are size codes that are no sum or product."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[tuple[int, ...], int]):
        self.terms = {unknowns: factor for unknowns, factor in terms.items() if factor}

    def __add__(self, other):
        terms = dict(self.terms)
        for unknowns, factor in _polynomial(other).terms.items():
            terms[unknowns] = terms.get(unknowns, 0) + factor
        return Polynomial(terms)

    def __mul__(self, other):
        terms: dict[tuple[int, ...], int] = {}
        for left, factor in self.terms.items():
            for right, its in _polynomial(other).terms.items():
                unknowns = tuple(sorted(left + right))
                terms[unknowns] = terms.get(unknowns, 0) + factor * its
        return Polynomial(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other):
        return self.terms == _polynomial(other).terms

    __hash__ = None  # type: ignore[assignment]


def _polynomial(x) -> Polynomial:
    return x if isinstance(x, Polynomial) else Polynomial({(): x})


def extents_hold_for_all_sizes(tape: Tape, alike: dict[int, int]) -> bool:
    """Whether each array op, and each rule, has the sizes that it needs, for all sizes of the inputs.

    Parameters
    ----------
    alike
        What stands for size codes that a guard holds equal to another one.
    """
    size, called = _polynomials(tape, alike), call_numbers(tape)
    return all(
        _has_room(tape, row, size, called.get(k))
        for k, row in enumerate(tape.code)
        if row["op"] != GUARD and _conditional(row["op"] >> 1)
    )


def ends_stay_inside(tape: Tape, alike: dict[int, int]) -> bool:
    """Whether inputs are whole storages and outputs are parts of theirs, in row-major order, for all sizes.

    This is what `verify` checks of them for the numbers of one plan, beside what no other size changes.
    Unknown sizes are never negative in plans that the kernel makes, so a polynomial without negative
    coefficients is not negative either.
    """
    size = _polynomials(tape, alike)
    return all(_stays_inside(tape, slot.value, size, whole=True) for slot in tape.inputs) and all(
        _stays_inside(tape, value, size, whole=False) for value in tape.outputs
    )


def _stays_inside(tape: Tape, value: int, size, whole: bool) -> bool:
    storage, offset, layout = tape.values[value].item()
    its, cells = tape.layouts[layout], _polynomial(1)
    if not its.dims:
        return True
    for dim, stride in zip(reversed(its.dims), reversed(its.strides), strict=True):
        if cells != size(stride):
            return False
        cells = cells * size(dim)
    first = _polynomial(size(offset))
    rest = size(int(tape.storages["size"][storage])) + -1 * (first + cells)
    if whole:
        return first == 0 and rest == 0
    return all(factor >= 0 for part in (first, rest) for factor in part.terms.values())


def _polynomials(tape: Tape, alike: dict[int, int]):
    """Return what makes numbers or polynomials of the size codes of a tape."""
    known: dict[int, Polynomial | int] = {}

    def size(code: int):
        code = alike.get(code, code)
        if code >= 0:
            return code
        if code not in known:
            operation, left, right = tape.sizes.rows[-code - 1]
            if operation in (ADD, SUB, MUL):
                left, right = size(left), size(right)
                known[code] = (
                    left * right if operation == MUL else left + (right if operation == ADD else -1 * right)
                )
            else:
                known[code] = Polynomial({(code,): 1})
        return known[code]

    return size


def _conditional(number: int) -> bool:
    """Whether an op relies on more than what its signature says of sizes."""
    op = OPS[number]
    return isinstance(op, ArrayOp) and (op.scratch != "0" or op.extents != "True" or op.calls)


def _has_room(tape: Tape, row, size, number: int | None) -> bool:
    """Return whether an instruction's scratch memory suffices and its sizes fit together, for all sizes."""
    op = OPS[row["op"] >> 1]
    letters: dict = {}
    for name, core in zip(("out", "a", "b", "c"), op.operands, strict=False):
        dims = _dims(tape, int(row[name]))
        letters |= {
            letter: size(code) for letter, code in zip(core, dims[len(dims) - len(core) :], strict=True)
        }
    if op.calls:
        least = () if number is None else tape.calls[number].cells(size)
        return len(least) == 3 and all(
            letters[name] >= cells
            if isinstance(letters[name], int) and isinstance(cells, int)
            else _polynomial(cells) == letters[name]
            for name, cells in zip("mnp", least, strict=True)
        )
    aux = int(row["aux"])
    cells = 0 if aux == NONE else size(_dims(tape, aux)[-1])
    needed = scratch_cells(op, letters)
    if isinstance(cells, int) and isinstance(needed, int):
        enough = needed <= cells
    else:
        enough = _polynomial(needed) == cells
    try:
        return enough and extents_hold(op, letters)
    except TypeError:  # the condition compares sizes by order, which polynomials do not have
        return False


def _dims(tape: Tape, value: int) -> tuple[int, ...]:
    return tape.layouts[int(tape.values["layout"][value])].dims
