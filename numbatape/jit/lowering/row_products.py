"""Writes products of four rows of a matrix with one vector (`lane_dots` of the kernel language)."""

from __future__ import annotations

from typing import NamedTuple

from . import simd_lanes
from .writer import Value

ROWS = 4


def _shuffled(to, left: str, right: str, taken: tuple[int, ...], width: int) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in taken)
    kind = simd_lanes.of(width)
    return to.new(f"shufflevector {kind} {left}, {kind} {right}, <{len(taken)} x i32> <{mask}>")


def _totals(to, rows: list[str], width: int) -> str:
    """Return the sums of the lanes of four vectors as four lanes, each in the order of `strips._total`."""
    while width > 4:
        kind, width = simd_lanes.of(width // 2), width // 2
        halves = [
            [_shuffled(to, row, row, tuple(range(first, first + width)), 2 * width) for first in (0, width)]
            for row in rows
        ]
        rows = [to.new(f"fadd {kind} {low}, {high}") for low, high in halves]
    if width == 4:
        pairs = [(rows[0], rows[1]), (rows[2], rows[3])]
        rows = []
        for left, right in pairs:
            low, high = (_shuffled(to, left, right, four, 4) for four in ((0, 1, 4, 5), (2, 3, 6, 7)))
            rows.append(to.new(f"fadd {simd_lanes.of(4)} {low}, {high}"))
    else:  # two lanes of each row
        rows = [_shuffled(to, *pair, (0, 1, 2, 3), 2) for pair in (rows[:2], rows[2:])]
    even, odd = (_shuffled(to, *rows, four, 4) for four in ((0, 2, 4, 6), (1, 3, 5, 7)))
    return to.new(f"fadd {simd_lanes.of(4)} {even}, {odd}")


class _Rows(NamedTuple):
    """Where four rows of a matrix and the vector begin, and the dtype of their cells."""

    matrix: str
    firsts: list[str]
    vector: str
    start: str
    kind: str

    def products(self, to, i: str, width: int) -> list[str]:
        """Return the products of each row with the vector, for the cells from i on."""
        place = to.new(f"add i64 {self.start}, {i}")
        other = simd_lanes.load_wide(to, self.vector, place, width, self.kind)
        loaded = [
            simd_lanes.load_wide(to, self.matrix, to.new(f"add i64 {first}, {i}"), width, self.kind)
            for first in self.firsts
        ]
        return [to.new(f"fmul {simd_lanes.of(width)} {row}, {other}") for row in loaded]


def write(to, cv, c, sc0, av, a, sa0, bv, b, count: str, scale: str) -> Value:
    """Write ``c[r] += scale * dot(row r, b)`` for four rows of a matrix, each sum in the order of `lane_dot`.

    A row of ten cells is added up by some thirty instructions, most of which add lanes of one vector. Here
    they add lanes of four rows at once.
    """
    kind = to.module.cells
    firsts = [a]
    for _ in range(1, ROWS):
        firsts.append(to.new(f"add i64 {firsts[-1]}, {sa0}"))
    rows = _Rows(av, firsts, bv, b, kind)
    first, total = "0", simd_lanes.splat(0.0, ROWS)
    for width in simd_lanes.SUM_WIDTHS:
        first, total = _loop(to, rows, width, first, count, total)
    for width in (2, 1):
        first, total = _rest(to, rows, width, first, count, total)
    scaled = to.new(f"fmul {simd_lanes.of(ROWS)} {simd_lanes.repeated(to, scale, ROWS, 'double')}, {total}")
    for r in range(ROWS):
        place = simd_lanes.place(to, cv, c, kind)
        term = to.new(f"extractelement {simd_lanes.of(ROWS)} {scaled}, i32 {r}")
        _add(to, place, term, kind)
        c = to.new(f"add i64 {c}, {sc0}")
    return Value("", "none")


def _loop(to, rows: _Rows, width: int, first: str, count: str, total: str) -> tuple[str, str]:
    """Write the loop over all whole vectors of a width; return the first cell behind it and the totals."""
    start, turn, done, behind = to.block, to.label("rows"), to.label("done"), to.label("behind")
    rest = to.new(f"and i64 {to.new(f'sub i64 {count}, {first}')}, {-width}")
    whole = to.new(f"add i64 {first}, {rest}")
    to.branch(to.new(f"icmp sgt i64 {whole}, {first}"), turn, behind)
    to.begin(turn)
    i, following = f"%i.{turn}", f"%next.{turn}"
    to.line(f"{i} = phi i64 [ {first}, %{start} ], [ {following}, %{turn} ]")
    running = [f"%sum{r}.{turn}" for r in range(ROWS)]
    added = [f"%added{r}.{turn}" for r in range(ROWS)]
    row = simd_lanes.of(width)
    for old, new in zip(running, added, strict=True):
        to.line(f"{old} = phi {row} [ {simd_lanes.splat(0.0, width)}, %{start} ], [ {new}, %{turn} ]")
    for old, new, term in zip(running, added, rows.products(to, i, width), strict=True):
        to.line(f"{new} = fadd {row} {old}, {term}")
    to.line(f"{following} = add i64 {i}, {width}")
    to.branch(to.new(f"icmp slt i64 {following}, {whole}"), turn, done)
    to.begin(done)
    four = simd_lanes.of(ROWS)
    more = to.new(f"fadd {four} {total}, {_totals(to, added, width)}")
    to.begin(behind)
    return whole, to.new(f"phi {four} [ {total}, %{start} ], [ {more}, %{done} ]")


def _rest(to, rows: _Rows, width: int, first: str, count: str, total: str) -> tuple[str, str]:
    """Write what adds two more cells of each row, or one, if so many are left; return as `_loop` does."""
    before, some, behind = to.block, to.label("rest"), to.label("behind")
    left = to.new(f"and i64 {count}, {width}")
    to.branch(to.new(f"icmp ne i64 {left}, 0"), some, behind)
    to.begin(some)
    terms, four = rows.products(to, first, width), simd_lanes.of(ROWS)
    if width == 2:
        joined = _totals(to, terms, 2)
    else:
        joined = "poison"
        for r, term in enumerate(terms):
            joined = to.new(f"insertelement {four} {joined}, double {term}, i32 {r}")
    more = to.new(f"fadd {four} {total}, {joined}")
    to.begin(behind)
    total = to.new(f"phi {four} [ {total}, %{before} ], [ {more}, %{some} ]")
    return to.new(f"add i64 {first}, {left}"), total


def _add(to, place: str, term: str, kind: str) -> None:
    """Write what adds a float64 to a cell."""
    if kind == "f64":
        old = to.new(f"load double, ptr {place}")
        to.line(f"store double {to.new(f'fadd double {old}, {term}')}, ptr {place}")
    else:
        old = to.new(f"fpext float {to.new(f'load float, ptr {place}')} to double")
        new = to.new(f"fadd double {old}, {term}")
        to.line(f"store float {to.new(f'fptrunc double {new} to float')}, ptr {place}")
