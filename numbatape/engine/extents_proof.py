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
from ..tape.size_tables import ADD, INPUT, MUL, ROOT, SUB
from ..tape.tape import Tape
from .verifier import call_numbers
from .verify_plan import extents_hold, scratch_cells


class Polynomial:
    """A polynomial with integer coefficients; its unknowns are size codes that are no sum or product.

    Parameters
    ----------
    terms
        The factor of each product of unknowns.
    proof
        What knows the signs of the unknowns; without it, polynomials have no order.
    """

    __slots__ = ("proof", "terms")

    def __init__(self, terms: Mapping[tuple[int, ...], int], proof: SizesProof | None = None):
        self.terms = {unknowns: factor for unknowns, factor in terms.items() if factor}
        self.proof = proof

    def __add__(self, other):
        terms = dict(self.terms)
        for unknowns, factor in _polynomial(other).terms.items():
            terms[unknowns] = terms.get(unknowns, 0) + factor
        return Polynomial(terms, self.proof)

    def __mul__(self, other):
        terms: dict[tuple[int, ...], int] = {}
        for left, factor in self.terms.items():
            for right, its in _polynomial(other).terms.items():
                unknowns = tuple(sorted(left + right))
                terms[unknowns] = terms.get(unknowns, 0) + factor * its
        return Polynomial(terms, self.proof)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other):
        return self.terms == _polynomial(other).terms

    def __ge__(self, other):
        """Return True if this is at least the other one for all sizes, or raise TypeError."""
        if self.proof is not None and self.proof.never_negative(self + -1 * other):
            return True
        raise TypeError("which of two sizes is larger is not known")

    def __le__(self, other):
        return -1 * self >= -1 * other

    __hash__ = None  # type: ignore[assignment]


def _polynomial(x) -> Polynomial:
    return x if isinstance(x, Polynomial) else Polynomial({(): x})


def _least(left, right):
    """Return the smaller one of two sizes; raise TypeError if it is not known which one that is."""
    try:
        return right if left >= right else left
    except TypeError:
        return left if right >= left else right


def extents_hold_for_all_sizes(tape: Tape, alike: dict[int, int]) -> bool:
    """Whether each array op, and each rule, has the sizes that it needs, for all sizes of the inputs.

    Parameters
    ----------
    alike
        What stands for size codes that a guard holds equal to another one.
    """
    size, called = SizesProof(tape, alike).size, call_numbers(tape)
    return all(
        _has_room(tape, row, size, called.get(k))
        for k, row in enumerate(tape.code)
        if row["op"] != GUARD and _conditional(row["op"] >> 1)
    )


def ends_stay_inside(tape: Tape, alike: dict[int, int]) -> bool:
    """Whether inputs are whole storages and outputs are parts of theirs, in row-major order, for all sizes.

    This is what `verify` checks of them for the numbers of one plan, beside what no other size changes.
    """
    proof = SizesProof(tape, alike)
    return all(_stays_inside(tape, slot.value, proof, whole=True) for slot in tape.inputs) and all(
        _stays_inside(tape, value, proof, whole=False) for value in tape.outputs
    )


def _stays_inside(tape: Tape, value: int, proof: SizesProof, whole: bool) -> bool:
    size = proof.size
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
    return proof.never_negative(first) and proof.never_negative(rest)


class SizesProof:
    """What is known of the sizes of a tape, whatever the dimensions of its inputs are.

    Plans are only made for sizes that keep the guards, so differences that these say are not negative may be
    added to what has to be shown.

    Parameters
    ----------
    tape
    alike
        What stands for size codes that a guard holds equal to another one.
    """

    def __init__(self, tape: Tape, alike: dict[int, int]):
        self._rows, self._alike = tape.sizes.rows, alike
        self._known: dict[int, Polynomial | int] = {}
        ordered = [guard for guard in tape.sizes.guards if guard.relation == ">="]
        self._guarded = [_polynomial(self.size(g.left)) + -1 * self.size(g.right) for g in ordered]

    def size(self, code: int) -> Polynomial | int:
        """Return the number or the polynomial that a size code stands for."""
        code = self._alike.get(code, code)
        if code >= 0:
            return code
        if code not in self._known:
            operation, left, right = self._rows[-code - 1]
            if operation in (ADD, SUB, MUL):
                first, second = self.size(left), self.size(right)
                its = first * second if operation == MUL else first + (1 if operation == ADD else -1) * second
            else:
                its = Polynomial({(code,): 1}, self)
            self._known[code] = its
        return self._known[code]

    def never_negative(self, polynomial: Polynomial) -> bool:
        """Whether a polynomial is known not to be negative, if need be by one of the guards."""
        return self._by_signs(polynomial) or any(
            self._by_signs(polynomial + -1 * guarded) for guarded in self._guarded
        )

    def _by_signs(self, polynomial: Polynomial) -> bool:
        return all(
            factor >= 0 and all(map(self._unknown_is_positive, unknowns))
            for unknowns, factor in polynomial.terms.items()
        )

    def _unknown_is_positive(self, code: int) -> bool:
        """Whether an unknown, which is a dimension or a fraction of something else, is not negative."""
        operation, left, right = self._rows[-code - 1]
        return operation in (INPUT, ROOT) or all(
            self._by_signs(_polynomial(self.size(part))) for part in (left, right)
        )


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
        return enough and extents_hold(op, letters, _least)
    except TypeError:  # which of two sizes is larger is not known
        return False


def _dims(tape: Tape, value: int) -> tuple[int, ...]:
    return tape.layouts[int(tape.values["layout"][value])].dims
