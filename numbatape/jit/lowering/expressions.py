"""Writes expressions: each returns a `Value`, the name of its result."""

from __future__ import annotations

import ast
import math

from . import arithmetic, calls, cells
from .subset import refused
from .writer import LLVM, Value, Writer, integer, number


class Expressions(Writer):
    """A function whose expressions can be written.

    Attributes
    ----------
    module
        The `Module` that the function is part of.
    locals
        Type of each variable that has a slot on the stack.
    fixed
        Value of each other variable.
    """

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.locals: dict[str, str] = {}
        self.fixed: dict[str, Value] = {}

    def constant(self, value) -> Value:
        if isinstance(value, bool):
            return Value("true" if value else "false", "bool")
        return integer(value) if isinstance(value, int) else Value(number(value), "float")

    def cast(self, value: Value, wanted: str, node: ast.AST) -> str:
        """Return a value as another type; refuse a float where an integer is needed."""
        text = arithmetic.cast(self, value, wanted)
        if text is None:
            raise refused(node, f"{value.type} where {wanted} is needed")
        return text

    def expression(self, node: ast.expr) -> Value:
        write = getattr(self, f"_{type(node).__name__}", None)
        if write is None:
            raise refused(node, f"no expression of the kernel language ({type(node).__name__})")
        return write(node)

    def _Constant(self, node):
        if not isinstance(node.value, (bool, int, float)):
            raise refused(node, "a constant is a number")
        return self.constant(node.value)

    def _Name(self, node):
        if node.id in self.fixed:
            return self.fixed[node.id]
        if node.id in self.locals:
            kind = self.locals[node.id]
            return Value(self.new(f"load {LLVM[kind]}, ptr %{node.id}"), kind)
        if node.id in self.module.constants:
            return self.constant(self.module.constants[node.id])
        raise refused(node, "a name that no line above gives a value")

    def _Attribute(self, node):
        value = getattr(math, node.attr, None)
        if not (isinstance(node.value, ast.Name) and node.value.id == "math" and isinstance(value, float)):
            raise refused(node, "the attributes are those of `math`")
        return self.constant(value)

    def _BinOp(self, node):
        return self.operation(node.op, self.expression(node.left), self.expression(node.right), node)

    def operation(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        result = arithmetic.binary(self, op, left, right)
        if result is None:
            raise refused(node, f"no operator {type(op).__name__} of {left.type} and {right.type}")
        return result

    def _UnaryOp(self, node):
        value = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(self.new(f"xor i1 {arithmetic.truth(self, value)}, true"), "bool")
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant) and value.type == "float":
                return self.constant(-node.operand.value)
            return arithmetic.negative(self, value)
        raise refused(node, f"no operator {type(node.op).__name__}")

    def _Compare(self, node):
        left, result = self.expression(node.left), None
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.expression(comparator)
            test = arithmetic.compare(self, op, left, right)
            if test is None:
                raise refused(node, f"no comparison {type(op).__name__}")
            result = test if result is None else self.new(f"and i1 {result}, {test}")
            left = right
        return Value(result, "bool")

    def _BoolOp(self, node):
        yes, no = ast.Constant(True), ast.Constant(False)
        return self._choice(node, yes, no)

    def _IfExp(self, node):
        return self._choice(node.test, node.body, node.orelse)

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
        """Write a choice between two values, whose common type is known only when both are written."""
        labels, behind = (self.label("yes"), self.label("no")), self.label("chosen")
        self.condition(test, *labels)
        sides = []
        for label, node in zip(labels, (body, orelse), strict=True):
            with self.aside() as lines:
                self.begin(label)
                sides.append((node, self.expression(node), lines))
                sides[-1] += (self.block,)
                self.ended = True
        kind = arithmetic.unified(sides[0][1].type, sides[1][1].type)
        arrivals = []
        for node, value, lines, block in sides:
            self.lines += lines
            self.ended = False
            arrivals.append(f"[ {self.cast(value, kind, node)}, %{block} ]")
            self.jump(behind)
        self.begin(behind)
        return Value(self.new(f"phi {LLVM[kind]} {', '.join(arrivals)}"), kind)

    def condition(self, node: ast.expr, yes: str, no: str, note: str = "") -> None:
        """Write a branch on an expression's truth; parts of `and` and `or` are computed only if needed.

        A note of LLVM's on which way is taken more often is for an expression without parts.
        """
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And)
            for part in node.values[:-1]:
                onward = self.label("and" if both else "or")
                self.condition(part, *((onward, no) if both else (yes, onward)))
                self.begin(onward)
            self.condition(node.values[-1], yes, no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.condition(node.operand, no, yes)
        elif isinstance(node, ast.Constant):
            self.jump(yes if node.value else no)
        else:
            self.branch(arithmetic.truth(self, self.expression(node)), yes, no, note)

    def _Subscript(self, node):
        kind, place = self.cell(node)
        return cells.load(self, kind, place)

    def cell(self, node: ast.Subscript) -> tuple[str, str]:
        """Return the element kind of a cell and the pointer to it."""
        kind = cells.kind_of(node.value.id, self.module.cells) if isinstance(node.value, ast.Name) else None
        if kind is None:
            raise refused(node, "no cell array has this name (v, g, r, w, code, d, e, *_t, *_q, ...)")
        base = self.cast(self.expression(node.value), "int", node)
        index = self.cast(self.expression(node.slice), "int", node)
        return kind, self.element(self.pointer(base), cells.ELEMENT[kind], index)

    def _Call(self, node):
        if node.keywords:
            raise refused(node, "calls have no keywords")
        return calls.call(self, node)
