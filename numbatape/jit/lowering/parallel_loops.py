"""Writes loops over `parallel` as SIMD code: eight iterations at once while cells are contiguous.

LLVM could find the SIMD code by itself. But it takes all of LLVM's passes, and a copy of the loop for each
pattern of strides that shall be fast, so that small kernels took three times as long to compile. Here one
copy serves all operands that are contiguous or one cell; the loop as it stands does the iterations that are
left, and all of them where cells lie further apart.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from . import cells
from .simd import IDS, VECTOR, WIDTH, SimdExpressions, repeated, spread
from .simd_loops import rounded, vector_of, widened
from .subset import refused
from .writer import Value


class Affine(NamedTuple):
    """An integer ``base + step * i``, of which base and step are the same in all iterations."""

    base: str
    step: str


class _NotContiguous(Exception):
    """Cells of the loop are never contiguous, so that it has no SIMD code."""


def write(to, node: ast.For, first: str, last: str) -> str:
    """Write the SIMD code of a loop from first to last; return the iteration that the loop goes on with."""
    lines, slots, block = len(to.lines), len(to.slots), to.block
    try:
        return _Loop(to, node, first, last).onward
    except _NotContiguous:
        del to.lines[lines:], to.slots[slots:]
        to.block, to.ended = block, False
        return first


class _Loop(SimdExpressions):
    """The statements of a loop over SIMD lanes; what is the same in all iterations is computed before it.

    Attributes
    ----------
    names
        Variables that differ between iterations: lanes, or integers as `Affine`.
    before
        The lines before the loop.
    onward
        The first iteration that is left.
    """

    def __init__(self, to, node: ast.For, first: str, last: str):
        super().__init__(to, {node.target.id: Affine("0", "1")}, self._load_cells)
        self.before: list[str] = []
        self.conditions: list[str] = []  # on strides
        self.shared: dict[str, tuple[str, str]] = {}  # what becomes of an integer, and its last lanes
        enough, turn, onward, behind = (to.label(hint) for hint in ("enough", "lanes", "next", "left"))
        start, self.first, self.i, self.turn = to.block, first, f"%i.{turn}", turn
        count = last if first == "0" else to.new(f"sub i64 {last}, {first}")
        to.branch(to.new(f"icmp sge i64 {count}, {WIDTH}"), enough, behind)
        to.begin(enough)
        self.block = enough
        whole = self._early(lambda: self._whole(first, count))
        to.ended = False
        kept, to.fixed = to.fixed, dict(to.fixed)
        with to.aside() as lines:
            to.block = turn
            for statement in node.body:
                self._statement(statement)
            to.begin(onward)
            following = to.new(f"add nsw i64 {self.i}, {WIDTH}")
            again = to.new(f"icmp slt i64 {following}, {whole}")
            done = to.label("done")
            to.branch(again, turn, done)
            to.begin(done)
            self._end_shared(node)
            to.jump(behind)
        to.fixed = kept
        to.lines += self.before
        to.ended, to.block = False, self.block
        if self.conditions:
            every = self.conditions[0]
            for condition in self.conditions[1:]:
                every = to.new(f"and i1 {every}, {condition}")
            to.branch(every, turn, behind)
        to.begin(turn)
        to.line(f"{self.i} = phi i64 [ {first}, %{self.block} ], [ {following}, %{onward} ]")
        for name, (kind, end) in self.shared.items():
            none = repeated(0 if kind == "add" else -(2**63), "int")
            ends = f"[ {none}, %{self.block} ], [ {end}, %{onward} ]"
            to.line(f"%{name}.{turn} = phi {VECTOR['int']} {ends}")
        to.lines += lines
        to.ended = True
        to.begin(behind)
        arrivals = [f"[ {first}, %{start} ]", f"[ {whole}, %{done} ]"]
        arrivals += [f"[ {first}, %{self.block} ]"] * bool(self.conditions)
        self.onward = to.new(f"phi i64 {', '.join(arrivals)}")

    def _whole(self, first: str, count: str) -> str:
        whole = self.to.new(f"and i64 {count}, {-WIDTH}")
        return whole if first == "0" else self.to.new(f"add i64 {first}, {whole}")

    def _end_shared(self, node: ast.For) -> None:
        to, vector = self.to, VECTOR["int"]
        for name, (kind, end) in self.shared.items():
            reduce = to.module.intrinsic(f"llvm.vector.reduce.{kind}.v{WIDTH}i64", "i64", vector)
            found, old = to.new(f"call i64 {reduce}({vector} {end})"), to.expression(ast.Name(name))
            if kind == "add":
                new = to.new(f"add i64 {old.text}, {found}")
            else:
                new = to.select(to.new(f"icmp sgt i64 {old.text}, {found}"), "i64", old.text, found)
            to.assign(name, Value(new, "int"), node)

    def _early(self, write):
        """Write something before the loop, for instance what is the same in all of its iterations."""
        to = self.to
        lines, block = to.lines, to.block
        to.lines, to.block = self.before, self.block
        try:
            return write()
        finally:
            self.block = to.block
            to.lines, to.block = lines, block

    def _differs(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(node))

    # ---- statements

    def _statement(self, node: ast.stmt) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name):
            if _is_maximum_with(target.id, node.value) and target.id not in self.names:
                self._share(target.id, "smax", node.value.args[1], node)
            else:
                self._assign(target.id, node.value)
        elif isinstance(node, ast.Assign) and isinstance(target, ast.Subscript):
            self._store(target, self.expression(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(target, ast.Subscript):
            self._store(target, self.expression(node.value), node.op)
        elif isinstance(node, ast.AugAssign) and target.id not in self.names:
            self._share(target.id, "add" if isinstance(node.op, ast.Add) else "", node.value, node)
        elif isinstance(node, ast.AugAssign):
            old = self._Name(ast.Name(target.id))
            self.names[target.id] = self.operation(node.op, old, self.expression(node.value), node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._copy(node.value)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise refused(node, "no statement of a loop whose iterations are independent")

    def _share(self, name: str, kind: str, node: ast.expr, statement: ast.stmt) -> None:
        """Add to an integer of the function's, or take the maximum with it: lanes do when the loop ends."""
        value = self.expression(node)
        if not kind or "float" in (value.type, self.to.locals.get(name)):
            raise refused(statement, "what independent iterations share is a sum or maximum of integers")
        if name not in self.shared:
            self.shared[name] = kind, f"%{name}.{self.turn}"
        if self.shared[name][0] != kind:
            raise refused(statement, "either a sum or a maximum")
        self.shared[name] = kind, self._joined(kind, self.shared[name][1], self.cast(value, "int", node))

    def _joined(self, kind: str, left: str, right: str) -> str:
        to, vector = self.to, VECTOR["int"]
        if kind == "add":
            return to.new(f"add {vector} {left}, {right}")
        larger = to.new(f"icmp sgt {vector} {left}, {right}")
        return to.new(f"select {VECTOR['bool']} {larger}, {vector} {left}, {vector} {right}")

    def _assign(self, name: str, node: ast.expr) -> None:
        if self._differs(node):
            self.names[name] = self._affine(node) or self.expression(node)
        else:
            self.names.pop(name, None)
            self.to.fixed[name] = self._early(lambda: self.to.expression(node))

    def _copy(self, node: ast.Call) -> None:
        """Write the statements of a function of the module that stores cells, and returns nothing."""
        to = self.to
        function = to.module.functions.get(getattr(node.func, "id", None))
        if function is None or len(function.args.args) != len(node.args):
            raise refused(node, "in a loop whose iterations are independent, a function of the module")
        same, lanes = {}, {}
        for parameter, argument in zip(function.args.args, node.args, strict=True):
            if self._differs(argument):
                lanes[parameter.arg] = self._affine(argument) or self.expression(argument)
            else:
                same[parameter.arg] = self._early(lambda argument=argument: to.expression(argument))
        kept = self.names, to.fixed, to.locals
        self.names, to.fixed, to.locals = lanes, same, {}
        for statement in function.body:
            self._statement(statement)
        self.names, to.fixed, to.locals = kept

    # ---- expressions

    def expression(self, node: ast.expr) -> Value:
        if isinstance(node, (ast.Constant, ast.Attribute)) or self._differs(node):
            return super().expression(node)
        return self._early(lambda: self._spread(node))

    def _spread(self, node: ast.expr) -> Value:
        same = self.to.expression(node)
        return Value(spread(self.to, same.text, VECTOR[same.type]), same.type)

    def _Name(self, node):
        value = self.names[node.id]
        if isinstance(value, Value):
            return value
        to, vector = self.to, VECTOR["int"]
        lanes = to.new(f"add {vector} {spread(to, self.i, vector)}, {IDS}")
        if value.step != "1":
            lanes = to.new(f"mul {vector} {lanes}, {self._early(lambda: spread(to, value.step, vector))}")
        if value.base != "0":
            lanes = to.new(f"add {vector} {lanes}, {self._early(lambda: spread(to, value.base, vector))}")
        return Value(lanes, "int")

    def _affine(self, node: ast.expr) -> Affine | None:
        """Return an integer that differs between iterations as multiple of their number, if it is one."""
        to = self.to
        if isinstance(node, ast.Name):
            value = self.names.get(node.id)
            return value if isinstance(value, Affine) else None
        if not isinstance(node, ast.BinOp) or not self._differs(node):
            return None
        left, right, op = node.left, node.right, type(node.op)
        if (self._differs(left) and self._differs(right)) or op not in (ast.Add, ast.Sub, ast.Mult):
            return None
        varying, same = (left, right) if self._differs(left) else (right, left)
        found = self._affine(varying)
        if found is None or (op is ast.Sub and varying is right):
            return None

        def written() -> Affine | None:
            other, kind = to.expression(same)
            if kind != "int":
                return None
            if op is not ast.Mult:
                base = to.new(f"{'add' if op is ast.Add else 'sub'} i64 {found.base}, {other}")
                return Affine(base, found.step)
            step = other if found.step == "1" else to.new(f"mul i64 {found.step}, {other}")
            base = "0" if found.base == "0" else to.new(f"mul i64 {found.base}, {other}")
            return Affine(base, step)

        return self._early(written)

    # ---- cells

    def _place(self, node: ast.Subscript) -> tuple[str, str, str]:
        """Return the kind of cells, the pointer to what would be that of iteration 0, and the step."""
        to = self.to
        kind = cells.kind_of(node.value.id, to.module.cells) if isinstance(node.value, ast.Name) else None
        if kind not in ("f64", "f32"):
            raise refused(node, "over SIMD lanes, cells are floats")
        place = self._affine(node.slice)
        if place is None:
            raise refused(node, "over SIMD lanes, a cell's place is a multiple of the iteration's number")
        if place.step.isdigit() and place.step != "1":
            raise _NotContiguous

        def pointer() -> str:
            base = to.pointer(to.cast(to.expression(node.value), "int", node))
            return to.element(base, cells.ELEMENT[kind], place.base)

        return kind, self._early(pointer), place.step

    def _load_cells(self, node: ast.Subscript) -> Value:
        to = self.to
        kind, first, step = self._place(node)
        vector, _ = vector_of(kind)
        moved = self.i
        if step != "1":
            first, mask = self._early(lambda: self._one_or_many(kind, first, step))
            moved = to.new(f"and i64 {self.i}, {mask}")
        place = to.element(first, cells.ELEMENT[kind], moved)
        value = to.new(f"load {vector}, ptr {place}, align {cells.BYTES[kind]}")
        return Value(widened(to, kind, value), "float")

    def _one_or_many(self, kind: str, first: str, step: str) -> tuple[str, str]:
        """Return the pointer to cells that lie a step apart, and a mask for numbers of iterations.

        If all are the same cell, the pointer is that of eight copies.
        """
        to, element, (vector, _) = self.to, cells.ELEMENT[kind], vector_of(kind)
        self.conditions.append(to.new(f"icmp ule i64 {step}, 1"))
        copies = to.slot(vector)
        moved = "0" if self.first == "0" else to.new(f"mul i64 {self.first}, {step}")
        one = to.new(f"load {element}, ptr {to.element(first, element, moved)}")
        to.line(f"store {vector} {spread(to, one, vector)}, ptr {copies}, align {cells.BYTES[kind]}")
        alone = to.new(f"icmp eq i64 {step}, 0")
        return to.select(alone, "ptr", copies, first), to.new(f"sub i64 0, {step}")

    def _store(self, node: ast.Subscript, value: Value, op: ast.operator | None = None) -> None:
        to = self.to
        kind, first, step = self._place(node)
        if step != "1":
            self.conditions.append(self._early(lambda: to.new(f"icmp eq i64 {step}, 1")))
        vector, _ = vector_of(kind)
        place = to.element(first, cells.ELEMENT[kind], self.i)
        if op is not None:
            old = to.new(f"load {vector}, ptr {place}, align {cells.BYTES[kind]}")
            value = self.operation(op, Value(widened(to, kind, old), "float"), value, node)
        new = rounded(to, kind, self.cast(value, "float", node))
        to.line(f"store {vector} {new}, ptr {place}, align {cells.BYTES[kind]}")


def _is_maximum_with(name: str, node: ast.expr) -> bool:
    """Return whether an expression is ``max(name, ...)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "max"
        and len(node.args) == 2
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == name
    )
