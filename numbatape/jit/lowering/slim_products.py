"""Writes products of a vector with a long matrix of few columns (`eight_dots`, `add_slim_rows` in kernels).

Such a matrix is gone through once. In each turn of a loop over its rows, what is added up stays in registers,
in the order of other products along the rows (`lane_dot`), and eight rows at a time across them.
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


class _Eight:
    """The addresses of eight cells that lie equally far from one another.

    They are those of two of them, and distances: LLVM would keep all eight, which are more than there are
    registers.
    """

    def __init__(self, to, first: str, stride: str):
        """``first`` is an address, and both are in bytes."""
        self._to = to
        self._halves = [first, to.opaque(to.new(f"add i64 {first}, {to.new(f'shl i64 {stride}, 2')}"))]
        self._steps = [stride, to.new(f"shl i64 {stride}, 1"), to.new(f"mul i64 {stride}, 3")]

    def addresses(self, behind: str = "0") -> list[str]:
        """Return the addresses of cells that lie so many bytes behind these."""
        to, found = self._to, []
        for half in self._halves:
            at = half if behind == "0" else to.new(f"add i64 {half}, {behind}")
            found += [at, *(to.new(f"add i64 {at}, {step}") for step in self._steps)]
        return found


class _EightRows:
    """Eight rows of a matrix, and the vector that they are multiplied with."""

    def __init__(self, to, first: str, stride: str, vector: tuple[str, str]):
        """``first`` is an address in bytes, ``vector`` has cells and the first of them."""
        self.to, self.kind, self._vector = to, to.module.cells, vector
        self._eight = _Eight(to, first, stride)

    def _loaded(self, q: str, width: int) -> list[str]:
        """Return ``width`` cells of each row, from the column ``q`` on."""
        to = self.to
        behind = q if q == "0" else to.new(f"mul i64 {q}, {BYTES[self.kind]}")
        rows = self._eight.addresses(behind)
        return [simd_lanes.load_wide(to, row, "0", width, self.kind) for row in rows]

    def products(self, q: str, width: int) -> list[str]:
        """Return products of ``width`` cells of each row with those of the vector, eight lanes in each."""
        to, eight, (cells, first) = self.to, simd_lanes.of(ROWS), self._vector
        other = simd_lanes.load_wide(to, cells, to.new(f"add i64 {first}, {q}"), width, self.kind)
        loaded = self._loaded(q, width)
        if width == 1:
            row = "poison"
            for k, cell in enumerate(loaded):
                row = to.new(f"insertelement {eight} {row}, double {cell}, i32 {k}")
            return [to.new(f"fmul {eight} {row}, {simd_lanes.repeated(to, other, ROWS, 'double')}")]
        together = ROWS // width
        other = _joined(to, [other] * together, width)
        if width == 4:  # rows r and r + 4, so that the totals of four rows are one half
            vectors = [_joined(to, [loaded[r], loaded[r + 4]], 4) for r in range(4)]
        else:
            vectors = [_joined(to, loaded[r : r + together], width) for r in range(0, ROWS, together)]
        return [to.new(f"fmul {eight} {vector}, {other}") for vector in vectors]

    def fours(self, count: str) -> str:
        """Return the sums of the products of so many cells of each row, which are added up in four lanes."""
        to, eight = self.to, simd_lanes.of(ROWS)
        others = to.new(f"sub i64 {count}, 4")
        with _Loop(to, others, 4, [(eight, term) for term in self.products("0", 4)]) as pieces:
            products = self.products(to.new(f"add i64 {pieces.i}, 4"), 4)
            added = zip(pieces.names, products, strict=True)
            sums = pieces.close([to.new(f"fadd {eight} {old}, {term}") for old, term in added])
        return _halved(to, sums)

    def pairs(self, q: str) -> str:
        """Return the sums of the products of two cells of each row with two of the vector."""
        to, products = self.to, self.products(q, 2)
        even = _shuffled(to, *products, tuple(range(0, 16, 2)), ROWS)
        odd = _shuffled(to, *products, tuple(range(1, 16, 2)), ROWS)
        return to.new(f"fadd {simd_lanes.of(ROWS)} {even}, {odd}")


def write_dots(to, cv, c, av, a, sa0, bv, b, m: str, k: str) -> Value:
    """Write ``c[i] = dot(row i, b)`` for ``m`` rows, a multiple of eight, of up to 15 cells."""
    kind, size = to.module.cells, BYTES[to.module.cells]
    fours, two, one = (to.new(f"and i64 {k}, {width}") for width in (12, 2, 1))
    behind = to.new(f"add i64 {fours}, {two}")
    start = _address(to, av, a)
    stride = to.opaque(to.new(f"mul i64 {sa0}, {size}"))
    with _Loop(to, m, ROWS, [("i64", start)]) as turns:
        (first,) = turns.names
        rows = _EightRows(to, first, stride, (bv, b))
        total = _rest(to, fours, simd_lanes.splat(0.0, ROWS), lambda: rows.fours(fours))
        total = _rest(to, two, total, lambda: rows.pairs(fours))
        total = _rest(to, one, total, lambda: rows.products(behind, 1)[0])
        place = simd_lanes.place(to, cv, to.new(f"add i64 {c}, {turns.i}"), kind)
        _store(to, total, place, ROWS, kind)
        turns.close([to.new(f"add i64 {first}, {to.new(f'shl i64 {stride}, 3')}")])
    return NONE


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


def _rest(to, left: str, total: str, term) -> str:
    """Write what adds a term to the totals if there are cells left; return the totals."""
    before, some, behind = to.block, to.label("rest"), to.label("behind")
    to.branch(to.new(f"icmp ne i64 {left}, 0"), some, behind)
    to.begin(some)
    eight = simd_lanes.of(ROWS)
    more = to.new(f"fadd {eight} {total}, {term()}")
    inside = to.block
    to.begin(behind)
    return to.new(f"phi {eight} [ {total}, %{before} ], [ {more}, %{inside} ]")


def _store(to, value: str, place: str, width: int, kind: str) -> None:
    if kind == "f32":
        value = to.new(f"fptrunc {simd_lanes.of(width)} {value} to {simd_lanes.of(width, 'float')}")
    to.line(f"store {simd_lanes.of(width, ELEMENT[kind])} {value}, ptr {place}, align {BYTES[kind]}")


def write_rows(to, in_strips, cv, c, av, a, sa, bv, b, sb, n: str, k: str) -> Value:
    """Write ``c += sum(a[q] * row q of b)`` for ``n`` contiguous cells and ``k`` rows, by `in_strips`."""
    kind = to.module.cells
    whole = to.new(f"and i64 {k}, -8")
    begin, first = (_address(to, cells, at) for cells, at in ((av, a), (bv, b)))
    step, stride = (to.opaque(to.new(f"mul i64 {each}, {BYTES[kind]}")) for each in (sa, sb))

    def product(cell: str, row: str, width: int) -> str:
        x = simd_lanes.repeated(to, simd_lanes.load_wide(to, cell, "0", 1, kind), width, "double")
        y = simd_lanes.load_wide(to, row, "0", width, kind)
        return to.new(f"fmul {simd_lanes.of(width)} {x}, {y}")

    def body(j: str, width: int) -> None:
        lanes = simd_lanes.of(width)
        place = simd_lanes.place(to, cv, to.new(f"add i64 {c}, {j}"), kind)
        old = simd_lanes.load_wide(to, cv, to.new(f"add i64 {c}, {j}"), width, kind)
        row = to.new(f"add i64 {first}, {to.new(f'mul i64 {j}, {BYTES[kind]}')}")
        running = [(lanes, old), ("i64", begin), ("i64", row)]
        with _Loop(to, whole, 8, running) as eights:
            total, cell, row = eights.names
            pairs = zip(_Eight(to, cell, step).addresses(), _Eight(to, row, stride).addresses(), strict=True)
            terms = [product(*pair, width) for pair in pairs]
            while len(terms) > 1:
                both = zip(terms[::2], terms[1::2], strict=True)
                terms = [to.new(f"fadd {lanes} {left}, {right}") for left, right in both]
            new = to.new(f"fadd {lanes} {total}, {terms[0]}")
            further = [to.new(f"shl i64 {by}, 3") for by in (step, stride)]
            further = [to.new(f"add i64 {at}, {by}") for at, by in zip((cell, row), further, strict=True)]
            total, cell, row = eights.close([new, *further])
        running = [(lanes, total), ("i64", cell), ("i64", row)]
        with _Loop(to, to.new(f"sub i64 {k}, {whole}"), 1, running) as ones:
            total, cell, row = ones.names
            new = to.new(f"fadd {lanes} {total}, {product(cell, row, width)}")
            further = (to.new(f"add i64 {at}, {by}") for at, by in ((cell, step), (row, stride)))
            total, *_ = ones.close([new, *further])
        _store(to, total, place, width, kind)

    in_strips(to, n, (8,), body)
    return NONE


def _address(to, cells: str, first: str) -> str:
    return to.new(f"add i64 {cells}, {to.new(f'mul i64 {first}, {BYTES[to.module.cells]}')}")
