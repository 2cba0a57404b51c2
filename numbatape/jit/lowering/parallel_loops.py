"""Writes loops over `parallel` as SIMD code: eight iterations at once while cells are contiguous.

LLVM could find the SIMD code by itself. But it takes all of LLVM's passes, and a copy of the loop for each
pattern of strides that shall be fast, so that small kernels took three times as long to compile. Here there
are two copies: one where all cells are contiguous, which does four iterations at once, too, for the sake of
short rows; and one where some operands are one cell. The loop as it stands does the iterations that are left,
and all of them where cells lie further apart.
"""

from __future__ import annotations

import ast

from . import cells
from .parallel_turns import Affine, Turns
from .simd import ids, spread
from .simd_loops import rounded, vector_of, widened
from .subset import names_in, refused
from .writer import Value


class _NotContiguous(Exception):
    """Cells of the loop are never contiguous, so that it has no SIMD code."""


def write(to, node: ast.For, first: str, last: str, finished: str) -> tuple[str, bool]:
    """Write the SIMD code of a loop from first to last.

    Where no iteration is left, the code goes on with the label ``finished``.

    Returns
    -------
    tuple
        The iteration that the loop goes on with, and whether at most three are left whatever the strides are.
    """
    lines, slots, block = len(to.lines), len(to.slots), to.block
    try:
        loop = _Loop(to, node, first, last, finished)
        return loop.onward, not loop.loaded and not loop.stored
    except _NotContiguous:
        del to.lines[lines:], to.slots[slots:]
        to.block, to.ended = block, False
        return first, False


class _Loop(Turns):
    """The statements of a loop over SIMD lanes; what is the same in all iterations is computed before it."""

    def _differs(self, node: ast.AST) -> bool:
        return not self.names.keys().isdisjoint(names_in(node))

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        """Write a statement for eight iterations; what all of them share may only be added to or raised."""
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
            self.shared[name] = kind, f"%{name}.{self.turn}" if self.turn else self.neutral(kind)
        if self.shared[name][0] != kind:
            raise refused(statement, "either a sum or a maximum")
        self.shared[name] = kind, self._joined(kind, self.shared[name][1], self.cast(value, "int", node))

    def _joined(self, kind: str, left: str, right: str) -> str:
        to, vector = self.to, self.vectors["int"]
        if kind == "add":
            return to.new(f"add {vector} {left}, {right}")
        larger = to.new(f"icmp sgt {vector} {left}, {right}")
        return to.new(f"select {self.vectors['bool']} {larger}, {vector} {left}, {vector} {right}")

    def _assign(self, name: str, node: ast.expr) -> None:
        if self._differs(node):
            self.names[name] = self._affine(node) or self.expression(node)
        else:
            self.names.pop(name, None)
            self.to.fixed[name] = self.early(lambda: self.to.expression(node))

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
                same[parameter.arg] = self.early(lambda argument=argument: to.expression(argument))
        kept = self.names, to.fixed, to.locals
        self.names, to.fixed, to.locals = lanes, same, {}
        for statement in function.body:
            self.statement(statement)
        self.names, to.fixed, to.locals = kept

    # ---- expressions

    def expression(self, node: ast.expr) -> Value:
        if isinstance(node, (ast.Constant, ast.Attribute)) or self._differs(node):
            return super().expression(node)
        return self.early_lanes(lambda: self.to.expression(node))

    def _Name(self, node):
        value = self.names[node.id]
        if isinstance(value, Value):
            return value
        to, vector = self.to, self.vectors["int"]
        lanes = to.new(f"add {vector} {spread(to, self.i, vector)}, {ids(self.width)}")
        if value.step != "1":
            lanes = to.new(f"mul {vector} {lanes}, {self.early_lanes(lambda: Value(value.step, 'int')).text}")
        if value.base != "0":
            lanes = to.new(f"add {vector} {lanes}, {self.early_lanes(lambda: Value(value.base, 'int')).text}")
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

        return self.early(written)

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

        return kind, self.early(pointer), place.step

    def load_cells(self, node: ast.Subscript) -> Value:
        to = self.to
        kind, first, step = self._place(node)
        if step != "1":
            self.loaded[step] = None
        if self.mixed and step in self.loaded and step not in self.stored:
            value = self._load_one_or_many(kind, first, step)
        else:
            value = self._load_lanes(kind, first)
        return Value(widened(to, kind, value, self.width), "float")

    def _load_lanes(self, kind: str, first: str) -> str:
        place = self.to.element(first, cells.ELEMENT[kind], self.i)
        return self.to.new(f"load {vector_of(kind, self.width)[0]}, ptr {place}, align {cells.BYTES[kind]}")

    def _load_one_or_many(self, kind: str, first: str, step: str) -> str:
        """Write a choice between two ways to load, which takes no time before the loop."""
        to, element, (vector, _) = self.to, cells.ELEMENT[kind], vector_of(kind)
        one, many, loaded = (to.label(hint) for hint in ("one", "many", "loaded"))
        to.branch(to.new(f"icmp eq i64 {step}, 0"), one, many)
        to.begin(one)
        moved = "0" if self.first == "0" else to.new(f"mul i64 {self.first}, {step}")
        same = spread(to, to.new(f"load {element}, ptr {to.element(first, element, moved)}"), vector)
        to.jump(loaded)
        to.begin(many)
        apart = self._load_lanes(kind, first)
        to.begin(loaded)
        return to.new(f"phi {vector} [ {same}, %{one} ], [ {apart}, %{many} ]")

    def _store(self, node: ast.Subscript, value: Value, op: ast.operator | None = None) -> None:
        to = self.to
        kind, first, step = self._place(node)
        if step != "1":
            self.stored[step] = None
        vector, _ = vector_of(kind, self.width)
        place = to.element(first, cells.ELEMENT[kind], self.i)
        if op is not None:
            old = to.new(f"load {vector}, ptr {place}, align {cells.BYTES[kind]}")
            value = self.operation(op, Value(widened(to, kind, old, self.width), "float"), value, node)
        new = rounded(to, kind, self.cast(value, "float", node), self.width)
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
