"""Writes where the SIMD code of a loop over `parallel` begins and ends, and what is computed before it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .simd import FEWER, VECTORS, WIDTH, SimdExpressions, spread
from .writer import Value


class Affine(NamedTuple):
    """An integer ``base + step * i``, of which base and step are the same in all iterations."""

    base: str
    step: str


class Turns(SimdExpressions):
    """A loop over SIMD lanes, of which a subclass writes the statements (`statement`).

    They are written three times: for the turns of a loop, for the turn of fewer lanes that follows, and for
    the turns of a loop where some operands are one cell. What is computed before is written the first time.

    Attributes
    ----------
    names
        Variables that differ between iterations: lanes, or integers as `Affine`.
    i
        The iteration of the first lane.
    before, found
        The lines before the loop, and what they compute, in the order in which the statements ask for it.
    again
        The same results, for the next time that the statements are written.
    loaded, stored
        The steps between cells that are loaded and stored, where they are no literals.
    mixed
        Whether cells that are loaded may be one.
    finished
        The label to go on with where no iteration is left.
    onward
        The first iteration that is left.
    """

    def __init__(self, to, node: ast.For, first: str, last: str, finished: str):
        super().__init__(to, {}, self.load_cells)
        self.node, self.first, self.last, self.finished = node, first, last, finished
        self.before: list[str] = []
        self.found: list = []
        self.again: Iterator | None = None
        self.loaded: dict[str, None] = {}
        self.stored: dict[str, None] = {}
        self.mixed = False
        self.shared: dict[str, tuple[str, str]] = {}  # what becomes of an integer, and its last lanes
        start, enough, ready, behind = to.block, *(to.label(hint) for hint in ("enough", "ready", "left"))
        count = last if first == "0" else to.new(f"sub i64 {last}, {first}")
        self.block = enough
        with to.aside() as lines:
            to.ended = True
            to.begin(ready)
            done = self._turn_of_fewer(self._turns(count))
            arrivals = [(first, start), (done, to.block)]
            to.jump(behind)
        to.ended = False
        # Tested before operands are prepared, where rows have one to three entries: 0.6 to 0.9 of the time.
        to.branch(to.new(f"icmp sge i64 {count}, {FEWER}"), enough, behind)
        to.begin(enough)
        to.lines += self.before
        to.ended, to.block = False, self.block
        steps = {**self.loaded, **self.stored}
        if not steps:
            to.jump(ready)
            to.lines += lines
        else:
            apart = to.label("apart")
            to.branch(self._every([f"eq i64 {step}, 1" for step in steps]), ready, apart)
            to.lines += lines
            to.ended = True
            to.begin(apart)
            arrivals += self._one_or_many(count, behind)
        to.begin(behind)
        self.onward = to.new(f"phi i64 {', '.join(f'[ {i}, %{block} ]' for i, block in arrivals)}")

    def _every(self, comparisons: list[str]) -> str:
        every, *others = (self.to.new(f"icmp {comparison}") for comparison in comparisons)
        for other in others:
            every = self.to.new(f"and i1 {every}, {other}")
        return every

    def _one_or_many(self, count: str, behind: str) -> list[tuple[str, str]]:
        """Write the loop where some operands are one cell; return where it ends, and with what."""
        to, before = self.to, self.to.block
        either = [step for step in self.loaded if step not in self.stored]
        if not either:
            return [(self.first, before)]
        ready = to.label("ready")
        comparisons = [f"sge i64 {count}, {WIDTH}", *(f"eq i64 {step}, 1" for step in self.stored)]
        to.branch(self._every(comparisons + [f"ule i64 {step}, 1" for step in either]), ready, behind)
        to.begin(ready)
        self.width, self.vectors = WIDTH, VECTORS[WIDTH]
        self.again, self.mixed = iter(self.found), True
        done = self._turns(count)
        return [(self.first, before), (done, to.block)]

    def _turns(self, count: str) -> str:
        """Write the loop; return the iteration that it ends with."""
        to, before = self.to, self.to.block
        turn, onward, done, less = (to.label(hint) for hint in ("lanes", "next", "done", "less"))
        self.i, self.turn = f"%i.{turn}", turn
        whole = to.new(f"and i64 {count}, {-WIDTH}")
        if self.first != "0":
            whole = to.new(f"add i64 {self.first}, {whole}")
        to.branch(to.new(f"icmp sge i64 {count}, {WIDTH}"), turn, less)
        with to.aside() as lines:
            to.block, to.ended = turn, False
            self._body()
            to.begin(onward)
            following = to.new(f"add nsw i64 {self.i}, {WIDTH}")
            to.branch(to.new(f"icmp slt i64 {following}, {whole}"), turn, done)
        to.begin(turn)
        to.line(f"{self.i} = phi i64 [ {self.first}, %{before} ], [ {following}, %{onward} ]")
        for name, (kind, end) in self.shared.items():
            ends = f"[ {self.neutral(kind)}, %{before} ], [ {end}, %{onward} ]"
            to.line(f"%{name}.{turn} = phi {self.vectors['int']} {ends}")
        to.lines += lines
        to.begin(done)
        self._end_shared()
        end = to.block
        to.branch(to.new(f"icmp eq i64 {whole}, {self.last}"), self.finished, less)
        to.begin(less)
        return to.new(f"phi i64 [ {self.first}, %{before} ], [ {whole}, %{end} ]")

    def _turn_of_fewer(self, first: str) -> str:
        """Write the statements for fewer lanes, if as many are left; return the iteration to go on with."""
        to, before, some, less = self.to, self.to.block, self.to.label("some"), self.to.label("less")
        self.width, self.vectors = FEWER, VECTORS[FEWER]
        self.i, self.turn, self.again = first, "", iter(self.found)
        left = to.new(f"sub i64 {self.last}, {first}")  # negative where the loop ends before it begins
        to.branch(to.new(f"icmp sge i64 {left}, {FEWER}"), some, less)
        to.begin(some)
        self._body()
        self._end_shared()
        end, following = to.block, to.new(f"add i64 {first}, {FEWER}")
        to.branch(to.new(f"icmp eq i64 {following}, {self.last}"), self.finished, less)
        to.begin(less)
        return to.new(f"phi i64 [ {first}, %{before} ], [ {following}, %{end} ]")

    def statement(self, node: ast.stmt) -> None:
        raise NotImplementedError

    def load_cells(self, node: ast.Subscript) -> Value:
        raise NotImplementedError

    def _body(self) -> None:
        to = self.to
        kept, to.fixed = to.fixed, dict(to.fixed)
        self.names, self.shared = {self.node.target.id: Affine("0", "1")}, {}
        for statement in self.node.body:
            self.statement(statement)
        to.fixed = kept

    def neutral(self, kind: str) -> str:
        return self.repeated(0 if kind == "add" else -(2**63), "int")

    def _end_shared(self) -> None:
        to, vector = self.to, self.vectors["int"]
        for name, (kind, end) in self.shared.items():
            reduce = to.module.intrinsic(f"llvm.vector.reduce.{kind}.v{self.width}i64", "i64", vector)
            found, old = to.new(f"call i64 {reduce}({vector} {end})"), to.expression(ast.Name(name))
            if kind == "add":
                new = to.new(f"add i64 {old.text}, {found}")
            else:
                new = to.select(to.new(f"icmp sgt i64 {old.text}, {found}"), "i64", old.text, found)
            to.assign(name, Value(new, "int"), self.node)

    def early(self, write):
        """Write something before the loop, for instance what is the same in all of its iterations."""
        # The statements have been written before, and with them what comes before the loop.
        if self.again is not None:
            return next(self.again)
        to = self.to
        lines, block, ended = to.lines, to.block, to.ended
        to.lines, to.block, to.ended = self.before, self.block, False
        try:
            self.found.append(write())
            return self.found[-1]
        finally:
            self.block = to.block
            to.lines, to.block, to.ended = lines, block, ended

    def early_lanes(self, scalar: Callable[[], Value]) -> Value:
        """Write lanes that all hold a scalar before the loop; fewer lanes are the first of them."""
        to = self.to

        def written() -> Value:
            same = scalar()
            return Value(spread(to, same.text, VECTORS[WIDTH][same.type]), same.type)

        lanes, kind = self.early(written)
        if self.width < WIDTH:
            mask = ", ".join(f"i32 {k}" for k in range(self.width))
            whole = VECTORS[WIDTH][kind]
            lanes = to.new(f"shufflevector {whole} {lanes}, {whole} poison, <{self.width} x i32> <{mask}>")
        return Value(lanes, kind)
