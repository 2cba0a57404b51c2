"""Writes functions of the module over SIMD lanes: of vectors of numbers instead of numbers."""

from __future__ import annotations

import ast

from .expressions import Expressions
from .simd import SimdExpressions, block_calls_library
from .subset import refused
from .writer import Value

LARGE = 60  # lines of a function that is called where it is used more than once, instead of copied there


class SimdFunction(Expressions):
    """A function of the module for SIMD lanes of given types.

    Attributes
    ----------
    result
        The type of the result's lanes.
    symbol
        Its name in the module.
    body
        Its lines.
    """

    def __init__(self, module, node: ast.FunctionDef, types: tuple[str, ...], width: int, symbol: str):
        super().__init__(module)
        self.symbol, self.types = symbol, types
        self.parameters = [argument.arg for argument in node.args.args]
        if len(types) != len(self.parameters):
            raise refused(node, f"called with {len(types)} arguments")
        names = {
            name: Value(f"%{name}.given", kind) for name, kind in zip(self.parameters, types, strict=True)
        }
        lanes = SimdExpressions(self, names, width=width)
        self.vectors = lanes.vectors
        value = _returned(lanes, node.body, node)
        self.result = value.type
        self.end(f"ret {self.vectors[value.type]} {value.text}")
        self.body = "\n".join(["start.0:", *self.slots, *self.lines])

    def definition(self, calls: int) -> str:
        """Return the text of the function, which is called at so many places of its module."""
        given = ", ".join(
            f"{self.vectors[kind]} %{name}.given"
            for name, kind in zip(self.parameters, self.types, strict=True)
        )
        inlined = "alwaysinline" if calls == 1 or len(self.lines) < LARGE else "noinline"
        head = f"internal fastcc {self.vectors[self.result]} {self.symbol}({given}) nounwind {inlined}"
        return f"define {head} {{\n{self.body}\n}}"


def _returned(lanes: SimdExpressions, statements: list[ast.stmt], node: ast.AST) -> Value:
    """Write statements, and return the value that they return."""
    for k, statement in enumerate(statements):
        if isinstance(statement, ast.Return):
            return lanes.expression(statement.value)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return):
            return _early_return(lanes, statement, [*statement.orelse, *statements[k + 1 :]])
        _assign(lanes, statement)
    raise refused(node, "a function over SIMD lanes returns a value")


def _early_return(lanes: SimdExpressions, statement: ast.If, others: list[ast.stmt]) -> Value:
    chosen = lanes.truth(statement.test)
    sides = statement.body, others
    bound = [block_calls_library(lanes.to.module, side) for side in sides]
    if any(bound):
        rare, usual = (sides[0], sides[1]) if bound[0] else (sides[1], sides[0])
        if all(bound) or len(rare) != 1:
            raise refused(
                statement, "over SIMD lanes, one side of a choice calls no library, the other returns"
            )
        value = _returned(lanes, usual, statement)
        return lanes.where_chosen(chosen, bound[0], rare[0].value, value)
    before = dict(lanes.names)
    yes = _returned(lanes, statement.body, statement)
    lanes.names = before
    return lanes.choice(chosen, yes, _returned(lanes, others, statement), statement)


def _assign(lanes: SimdExpressions, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        lanes.names[statement.targets[0].id] = lanes.expression(statement.value)
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
        values = [lanes.expression(value) for value in statement.value.elts]
        lanes.names |= dict(zip((name.id for name in statement.targets[0].elts), values, strict=True))
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        old = lanes.names[statement.target.id]
        new = lanes.operation(statement.op, old, lanes.expression(statement.value), statement)
        lanes.names[statement.target.id] = new
    elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        raise refused(statement, "no statement over SIMD lanes")
