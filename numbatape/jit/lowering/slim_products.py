"""Writes products of a vector with a long matrix of few columns (`eight_dots`, `add_slim_rows` in kernels).

Such a matrix is gone through once. In each turn of a loop over its rows, what is added up stays in registers,
in the order of other products: `lane_dot` along the rows, four rows at a time across them.
"""

from __future__ import annotations

from . import simd_lanes
from .cells import BYTES, ELEMENT
from .writer import Value

ROWS = 8
NONE = Value("", "none")


def _shuffled(to, left: str, right: str, taken: tuple[int, ...], width: int) -> str:
    kind = simd_lanes.of(width)
    mask = ", ".join(f"i32 {lane}" for lane in taken)
    return to.new(f"shufflevector {kind} {left}, {kind} {right}, <{len(taken)} x i32> <{mask}>")


def _joined(to, parts: list[str], width: int) -> str:
    """Return the lanes of two or four vectors one behind the other."""
    while len(parts) > 1:
        both, width = tuple(range(2 * width)), 2 * width
        parts = [_shuffled(to, *parts[k : k + 2], both, width // 2) for k in range(0, len(parts), 2)]
    return parts[0]


class _Loop:
    """A loop that counts from 0 to a bound; its body is written inside of the context."""

    def __init__(self, to, bound: str, step: int, running: list[tuple[str, str]]):
        """``running`` has type and first value of each variable that a turn changes."""
        self.to, self._bound, self._step = to, bound, step
        self._before, self._turn, self._test = to.block, to.label("slim"), to.label("test")
        self._body, self._behind = to.label("body"), to.label("behind")
        self._kinds = [kind for kind, _ in running]
        self._first = running
        self.i = f"%i.{self._turn}"
        self.names = [f"%sum{k}.{self._turn}" for k in range(len(running))]

    def __enter__(self):
        to = self.to
        to.begin(self._test)
        self._head = len(to.lines)
        to.branch(to.new(f"icmp slt i64 {self.i}, {self._bound}"), self._body, self._behind)
        to.begin(self._body)
        return self

    def close(self, changed: list[str]) -> list[str]:
        """End the body, of which these are the new values; return the variables behind the loop."""
        to = self.to
        following = to.new(f"add i64 {self.i}, {self._step}")
        given = [("i64", self.i, "0", following)]
        for kind, name, (_, first), new in zip(self._kinds, self.names, self._first, changed, strict=True):
            given.append((kind, name, first, new))
        phis = [
            f"  {name} = phi {kind} [ {first}, %{self._before} ], [ {new}, %{to.block} ]"
            for kind, name, first, new in given
        ]
        to.jump(self._test)
        to.lines[self._head : self._head] = phis
        to.begin(self._behind)
        return self.names

    def __exit__(self, *failure):
        return None


def write_dots(to, cv, c, av, a, sa0, bv, b, m: str, k: str) -> Value:
    """Write ``c[i] = dot(row i, b)`` for ``m`` rows, a multiple of eight, of up to 15 cells."""
    kind, eight = to.module.cells, simd_lanes.of(ROWS)
    fours = to.new(f"and i64 {k}, 12")
    with _Loop(to, m, ROWS, []) as rows:
        first = to.new(f"add i64 {a}, {to.new(f'mul i64 {rows.i}, {sa0}')}")
        firsts = [first]
        for _ in range(1, ROWS):
            firsts.append(to.new(f"add i64 {firsts[-1]}, {sa0}"))
        total = simd_lanes.splat(0.0, ROWS)
        with _Loop(to, fours, 4, [(eight, total)] * 4) as pieces:
            products = _pieces(to, kind, av, firsts, bv, b, pieces.i, 4)
            added = zip(pieces.names, products, strict=True)
            changed = [to.new(f"fadd {eight} {old}, {term}") for old, term in added]
            sums = pieces.close(changed)
        total = to.new(f"fadd {eight} {total}, {_halved(to, sums)}")
        two, one = (to.new(f"and i64 {k}, {width}") for width in (2, 1))
        total = _rest(to, two, total, lambda: _pairs(to, kind, av, firsts, bv, b, fours))
        behind = to.new(f"add i64 {fours}, {two}")
        total = _rest(to, one, total, lambda: _pieces(to, kind, av, firsts, bv, b, behind, 1)[0])
        place = simd_lanes.place(to, cv, to.new(f"add i64 {c}, {rows.i}"), kind)
        _store(to, total, place, ROWS, kind)
        rows.close([])
    return NONE


def _pieces(to, kind: str, av, firsts: list[str], bv, b, q: str, width: int) -> list[str]:
    """Return products of ``width`` cells of each row with those of the vector, eight lanes in each."""
    other = simd_lanes.load_wide(to, bv, to.new(f"add i64 {b}, {q}"), width, kind)
    loaded = [simd_lanes.load_wide(to, av, to.new(f"add i64 {first}, {q}"), width, kind) for first in firsts]
    eight = simd_lanes.of(ROWS)
    if width == 1:
        row = "poison"
        for k, cell in enumerate(loaded):
            row = to.new(f"insertelement {eight} {row}, double {cell}, i32 {k}")
        return [to.new(f"fmul {eight} {row}, {simd_lanes.repeated(to, other, ROWS, 'double')}")]
    together, many = ROWS // width, ROWS // (ROWS // width)
    other = _joined(to, [other] * together, width)
    if width == 4:  # rows r and r + 4, so that the totals of four rows are one half
        vectors = [_joined(to, [loaded[r], loaded[r + 4]], 4) for r in range(many)]
    else:
        vectors = [_joined(to, loaded[r : r + together], width) for r in range(0, ROWS, together)]
    return [to.new(f"fmul {eight} {vector}, {other}") for vector in vectors]


def _halved(to, sums: list[str]) -> str:
    """Return the sums of four lanes for eight rows, of which each vector has two, in pairs: (0+2)+(1+3)."""
    eight = simd_lanes.of(ROWS)
    pairs = []
    for left, right in (sums[:2], sums[2:]):
        low = _shuffled(to, left, right, (0, 1, 8, 9, 4, 5, 12, 13), ROWS)
        high = _shuffled(to, left, right, (2, 3, 10, 11, 6, 7, 14, 15), ROWS)
        pairs.append(to.new(f"fadd {eight} {low}, {high}"))
    even = _shuffled(to, *pairs, (0, 2, 8, 10, 4, 6, 12, 14), ROWS)
    odd = _shuffled(to, *pairs, (1, 3, 9, 11, 5, 7, 13, 15), ROWS)
    return to.new(f"fadd {eight} {even}, {odd}")


def _pairs(to, kind: str, av, firsts: list[str], bv, b, q: str) -> str:
    """Return the sums of the products of two cells of each row with two of the vector."""
    products = _pieces(to, kind, av, firsts, bv, b, q, 2)
    even = _shuffled(to, *products, tuple(range(0, 16, 2)), ROWS)
    odd = _shuffled(to, *products, tuple(range(1, 16, 2)), ROWS)
    return to.new(f"fadd {simd_lanes.of(ROWS)} {even}, {odd}")


def _rest(to, left: str, total: str, term) -> str:
    """Write what adds a term to the totals if there are cells left; return the totals."""
    before, some, behind = to.block, to.label("rest"), to.label("behind")
    to.branch(to.new(f"icmp ne i64 {left}, 0"), some, behind)
    to.begin(some)
    eight = simd_lanes.of(ROWS)
    more = to.new(f"fadd {eight} {total}, {term()}")
    to.begin(behind)
    return to.new(f"phi {eight} [ {total}, %{before} ], [ {more}, %{some} ]")


def _store(to, value: str, place: str, width: int, kind: str) -> None:
    if kind == "f32":
        value = to.new(f"fptrunc {simd_lanes.of(width)} {value} to {simd_lanes.of(width, 'float')}")
    to.line(f"store {simd_lanes.of(width, ELEMENT[kind])} {value}, ptr {place}, align {BYTES[kind]}")


def write_rows(to, in_strips, cv, c, av, a, sa, bv, b, sb, n: str, k: str) -> Value:
    """Write ``c += sum(a[q] * row q of b)`` for ``n`` contiguous cells and ``k`` rows, by `in_strips`."""
    kind = to.module.cells
    whole, four = to.new(f"and i64 {k}, -4"), to.new(f"mul i64 {sb}, 4")

    def products(q: str, row: str, width: int, many: int) -> list[str]:
        found = []
        at = to.new(f"add i64 {a}, {to.new(f'mul i64 {q}, {sa}')}")
        for r in range(many):
            if r:
                at, row = to.new(f"add i64 {at}, {sa}"), to.new(f"add i64 {row}, {sb}")
            x = simd_lanes.repeated(to, simd_lanes.load_wide(to, av, at, 1, kind), width, "double")
            y = simd_lanes.load_wide(to, bv, row, width, kind)
            found.append(to.new(f"fmul {simd_lanes.of(width)} {x}, {y}"))
        return found

    def body(j: str, width: int) -> None:
        lanes = simd_lanes.of(width)
        place = simd_lanes.place(to, cv, to.new(f"add i64 {c}, {j}"), kind)
        begin = to.new(f"add i64 {b}, {j}")
        old = simd_lanes.load_wide(to, cv, to.new(f"add i64 {c}, {j}"), width, kind)
        with _Loop(to, whole, 4, [(lanes, old), ("i64", begin)]) as fours:
            total, row = fours.names
            terms = products(fours.i, row, width, 4)
            pairs = [to.new(f"fadd {lanes} {left}, {right}") for left, right in (terms[:2], terms[2:])]
            both = to.new(f"fadd {lanes} {pairs[0]}, {pairs[1]}")
            new = to.new(f"fadd {lanes} {total}, {both}")
            total, row = fours.close([new, to.new(f"add i64 {row}, {four}")])
        left = to.new(f"sub i64 {k}, {whole}")
        with _Loop(to, left, 1, [(lanes, total), ("i64", row)]) as ones:
            total, row = ones.names
            (term,) = products(to.new(f"add i64 {whole}, {ones.i}"), row, width, 1)
            new = to.new(f"fadd {lanes} {total}, {term}")
            total, _ = ones.close([new, to.new(f"add i64 {row}, {sb}")])
        _store(to, total, place, width, kind)

    in_strips(to, n, (8,), body)
    return NONE
