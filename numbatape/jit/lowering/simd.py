"""Writes expressions for several iterations of a loop at once: each value is a vector of as many SIMD lanes.

Both sides of a choice are computed, and one is selected in each lane. Only a side that calls a library, or a
function named ``far_...``, is computed where it is chosen, lane by lane: the far ends of functions, which few
cells or none are in.

LLVM would turn a loop over cells into SIMD code too, but with a second copy of its body for the cells that
are left, further ones for other strides, and tests for overlap in front. One copy takes half the time to
compile, serves all strides, and every cell gets its bits from the same instructions.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from . import arithmetic, calls
from .subset import names_in, refused
from .writer import LLVM, Value, number

WIDTH = 8  # how many lanes there are
FEWER = 4  # how many there are where a loop has fewer than eight iterations left
# How many lanes → the types of their vectors.
VECTORS = {
    width: {kind: f"<{width} x {LLVM[kind]}>" for kind in ("float", "int", "bool")}
    for width in (WIDTH, FEWER)
}


def ids(width: int) -> str:
    """Return the numbers of the lanes."""
    return f"<{', '.join(f'i64 {k}' for k in range(width))}>"


def repeated(constant: float | int | bool, kind: str, width: int = WIDTH) -> str:
    """Return lanes that all hold a constant."""
    one = number(float(constant)) if kind == "float" else str(int(constant))
    return f"<{', '.join([f'{LLVM[kind]} {one}'] * width)}>"


def spread(to, scalar: str, vector: str) -> str:
    """Return lanes of a vector type that all hold a scalar."""
    width, _, one = vector.strip("<>").split()
    first = to.new(f"insertelement {vector} poison, {one} {scalar}, i32 0")
    return to.new(f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer")


class SimdExpressions:
    """Expressions over SIMD lanes, written into a function.

    Parameters
    ----------
    to
        The function, an `Expressions`. Its own variables are the same in all lanes.
    names
        The variables that differ between lanes. Each has the name of its value: nothing is stored.
    load
        Writes the load of a cell for each lane; None where there are no cells.
    width
        How many lanes there are.
    """

    def __init__(
        self,
        to,
        names: dict[str, Value],
        load: Callable[[ast.Subscript], Value] | None = None,
        width: int = WIDTH,
    ):
        self.to, self.names, self.load = to, names, load
        self.width, self.vectors = width, VECTORS[width]

    def repeated(self, constant: float | int | bool, kind: str) -> str:
        return repeated(constant, kind, self.width)

    def expression(self, node: ast.expr) -> Value:
        write = getattr(self, f"_{type(node).__name__}", None)
        if write is None:
            raise refused(node, f"no expression over SIMD lanes ({type(node).__name__})")
        return write(node)

    def cast(self, value: Value, kind: str, node: ast.AST) -> str:
        """Return a value as another type."""
        if value.type == kind:
            return value.text
        vector, wanted = self.vectors[value.type], self.vectors[kind]
        if kind == "bool":
            if value.type == "float":
                return self.to.new(f"fcmp une {vector} {value.text}, {self.repeated(0, 'float')}")
            return self.to.new(f"icmp ne {vector} {value.text}, {self.repeated(0, 'int')}")
        if value.type == "bool":
            return self.to.new(f"{'uitofp' if kind == 'float' else 'zext'} {vector} {value.text} to {wanted}")
        if kind == "int":
            raise refused(node, "float where int is needed")
        return self.to.new(f"sitofp {vector} {value.text} to {wanted}")

    def _Constant(self, node):
        if not isinstance(node.value, (bool, int, float)):
            raise refused(node, "a constant is a number")
        return self._constant(node.value)

    def _constant(self, value) -> Value:
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        return Value(self.repeated(value, kind), kind)

    def _Name(self, node):
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.to.module.constants:
            return self._constant(self.to.module.constants[node.id])
        same = self.to.expression(node)
        return Value(spread(self.to, same.text, self.vectors[same.type]), same.type)

    def _Attribute(self, node):
        return self._constant(getattr(math, node.attr))

    def _Subscript(self, node):
        if self.load is None:
            raise refused(node, "a function over SIMD lanes reads no cells")
        return self.load(node)

    def _BinOp(self, node):
        return self.operation(node.op, self.expression(node.left), self.expression(node.right), node)

    def operation(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        real = isinstance(op, ast.Div) or "float" in (left.type, right.type)
        kind, name = ("float", arithmetic.REAL) if real else ("int", arithmetic.INTEGER)
        if type(op) not in name:
            raise refused(node, f"no operator {type(op).__name__} over SIMD lanes")
        operands = f"{self.cast(left, kind, node)}, {self.cast(right, kind, node)}"
        return Value(self.to.new(f"{name[type(op)]} {self.vectors[kind]} {operands}"), kind)

    def _UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self._constant(-node.operand.value)
        value = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.cast(value, "bool", node)
            return Value(
                self.to.new(f"xor {self.vectors['bool']} {truth}, {self.repeated(True, 'bool')}"), "bool"
            )
        if isinstance(node.op, ast.USub) and value.type == "float":
            return Value(self.to.new(f"fneg {self.vectors['float']} {value.text}"), "float")
        raise refused(node, f"no operator {type(node.op).__name__} over SIMD lanes")

    def _Compare(self, node):
        left, result = self.expression(node.left), None
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.expression(comparator)
            test = self._comparison(op, left, right, node)
            result = test if result is None else self.to.new(f"and {self.vectors['bool']} {result}, {test}")
            left = right
        return Value(result, "bool")

    def _comparison(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> str:
        real = "float" in (left.type, right.type)
        kind, tests = ("float", arithmetic.REAL_TESTS) if real else ("int", arithmetic.INTEGER_TESTS)
        if type(op) not in tests:
            raise refused(node, f"no comparison {type(op).__name__}")
        operands = f"{self.cast(left, kind, node)}, {self.cast(right, kind, node)}"
        return self.to.new(f"{'fcmp' if real else 'icmp'} {tests[type(op)]} {self.vectors[kind]} {operands}")

    def _BoolOp(self, node):
        name = "and" if isinstance(node.op, ast.And) else "or"
        result = self.truth(node.values[0])
        for part in node.values[1:]:
            result = self.to.new(f"{name} {self.vectors['bool']} {result}, {self.truth(part)}")
        return Value(result, "bool")

    def truth(self, node: ast.expr) -> str:
        return self.cast(self.expression(node), "bool", node)

    # ---- choices

    def _IfExp(self, node):
        chosen = self.truth(node.test)
        bound = [calls_library(self.to.module, side) for side in (node.body, node.orelse)]
        if any(bound):
            if all(bound):
                raise refused(node, "over SIMD lanes, one side of a choice calls no library")
            rare, usual = (node.body, node.orelse) if bound[0] else (node.orelse, node.body)
            return self.where_chosen(chosen, bound[0], rare, self.expression(usual))
        return self.choice(chosen, self.expression(node.body), self.expression(node.orelse), node)

    def choice(self, chosen: str, yes: Value, no: Value, node: ast.AST) -> Value:
        kind = arithmetic.unified(yes.type, no.type)
        vector = self.vectors[kind]
        sides = f"{vector} {self.cast(yes, kind, node)}, {vector} {self.cast(no, kind, node)}"
        return Value(self.to.new(f"select {self.vectors['bool']} {chosen}, {sides}"), kind)

    def where_chosen(self, chosen: str, when: bool, rare: ast.expr, usual: Value) -> Value:
        """Write a choice whose rare side is computed lane by lane, in lanes where the test is ``when``."""
        to, vector = self.to, self.vectors["float"]
        used = names_in(rare) & self.names.keys()
        bits = to.new(f"bitcast {self.vectors['bool']} {chosen} to i{self.width}")
        if not when:
            bits = to.new(f"xor i{self.width} {bits}, -1")
        before, some, turn, one, onward, done, behind = (
            to.block,
            *(to.label(hint) for hint in ("rare", "lane", "one", "next", "simd", "behind")),
        )
        usual_text = self.cast(usual, "float", rare)
        to.branch(to.new(f"icmp ne i{self.width} {bits}, 0"), some, behind)
        to.begin(some)
        results, wide = to.slot(vector), to.new(f"zext i{self.width} {bits} to i64")
        to.line(f"store {vector} {usual_text}, ptr {results}")
        places = {name: to.slot(vector) for name in sorted(used)}
        for name, place in places.items():
            to.line(f"store {vector} {self.cast(self.names[name], 'float', rare)}, ptr {place}")
        k, following = f"%k.{turn}", f"%k.{onward}"
        to.begin(turn)
        to.line(f"{k} = phi i64 [ 0, %{some} ], [ {following}, %{onward} ]")
        bit = to.new(f"and i64 {to.new(f'lshr i64 {wide}, {k}')}, 1")
        to.branch(to.new(f"icmp ne i64 {bit}, 0"), one, onward)
        to.begin(one)
        kept = to.fixed
        to.fixed = dict(kept)
        for name, place in places.items():
            value = to.new(f"load double, ptr {to.new(f'getelementptr double, ptr {place}, i64 {k}')}")
            to.fixed[name] = Value(value, "float")
        value = to.cast(to.expression(rare), "float", rare)
        to.line(f"store double {value}, ptr {to.new(f'getelementptr double, ptr {results}, i64 {k}')}")
        to.fixed = kept
        to.begin(onward)
        to.line(f"{following} = add i64 {k}, 1")
        to.branch(to.new(f"icmp ult i64 {following}, {self.width}"), turn, done)
        to.begin(done)
        found = to.new(f"load {vector}, ptr {results}")
        to.begin(behind)
        return Value(
            to.new(f"phi {vector} [ {usual_text}, %{before} ], [ {found}, %{done} ]"),
            "float",
        )

    # ---- calls

    def _Call(self, node):
        given = [self.expression(argument) for argument in node.args]
        if isinstance(node.func, ast.Attribute):
            return self._math(node, given)
        name = node.func.id
        if name in self.to.module.functions:
            return self._own(node, given)
        if name in ("min", "max") and len(given) > 1:
            return self._extreme(node, given, name == "max")
        if name in ("bits_of", "float_of", "float") and len(given) == 1:
            wanted, result = {"bits_of": ("float", "int"), "float_of": ("int", "float")}.get(
                name, ("float", "float")
            )
            text = self.cast(given[0], wanted, node)
            if wanted != result:
                text = self.to.new(f"bitcast {self.vectors[wanted]} {text} to {self.vectors[result]}")
            return Value(text, result)
        if name == "int" and len(given) == 1:
            # A position of a cell: those have 32 bits, for which more processors have an instruction.
            text, narrow = self.cast(given[0], "float", node), f"<{self.width} x i32>"
            text = self.to.new(f"fptosi {self.vectors['float']} {text} to {narrow}")
            return Value(self.to.new(f"sext {narrow} {text} to {self.vectors['int']}"), "int")
        raise refused(node, "no function over SIMD lanes")

    def _own(self, node, given) -> Value:
        inner = self.to.module.simd_instance(
            node.func.id, tuple(value.type for value in given), self.width, node
        )
        listed = ", ".join(f"{self.vectors[value.type]} {value.text}" for value in given)
        return Value(
            self.to.new(f"call fastcc {self.vectors[inner.result]} {inner.symbol}({listed})"), inner.result
        )

    def _math(self, node, given) -> Value:
        name, vector = node.func.attr, self.vectors["float"]
        arity = 1 if name in calls.ROUNDINGS else calls.OPERATIONS.get(name)
        if arity is None:
            raise refused(node, "over SIMD lanes, a library is called by one side of a choice")
        if len(given) != arity:
            raise refused(node, f"takes {arity} arguments")
        symbol = self.to.module.intrinsic(
            f"llvm.{name}.v{self.width}f64", vector, ", ".join([vector] * arity)
        )
        listed = ", ".join(f"{vector} {self.cast(value, 'float', node)}" for value in given)
        return Value(self.to.new(f"call {vector} {symbol}({listed})"), "float")  # a rounding stays a float

    def _extreme(self, node, given, largest: bool) -> Value:
        found = given[0]
        for other in given[1:]:
            beyond = self._comparison(ast.Gt() if largest else ast.Lt(), other, found, node)
            found = self.choice(beyond, other, found, node)
        return found


def calls_library(module, node: ast.AST) -> bool:
    """Return whether an expression calls a library in all lanes, not only on one side of a choice."""
    if isinstance(node, ast.IfExp):
        sides = (node.body, node.orelse)
        return calls_library(module, node.test) or all(calls_library(module, side) for side in sides)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            found = node.func.attr in calls.LIBM
        elif node.func.id.startswith("far_"):
            # Cells that take this way are so rare that they are computed one by one.
            found = True
        elif node.func.id in module.functions:
            found = block_calls_library(module, module.functions[node.func.id].body)
        else:
            found = node.func.id.startswith("sc_")
        if found:
            return True
    return any(calls_library(module, child) for child in ast.iter_child_nodes(node))


def block_calls_library(module, statements: list[ast.stmt]) -> bool:
    """Return whether statements call a library in all lanes; an early return is a choice."""
    for k, statement in enumerate(statements):
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return):
            sides = statement.body, [*statement.orelse, *statements[k + 1 :]]
            return calls_library(module, statement.test) or all(
                block_calls_library(module, side) for side in sides
            )
        if calls_library(module, statement):
            return True
    return False
