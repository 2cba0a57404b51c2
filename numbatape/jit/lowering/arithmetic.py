"""Writes operators on numbers. They mean what they mean in Python, but division by zero is as in NumPy."""

from __future__ import annotations

import ast

from .writer import LLVM, Value, Writer, number

INTEGER = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"},  # These wrap around on overflow.
    **{ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "ashr"},
}
REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
# A comparison with NaN is false, except for `!=`.
INTEGER_TESTS = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
REAL_TESTS = {ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge", ast.Eq: "oeq", ast.NotEq: "une"}


def unified(first: str | None, second: str | None) -> str:
    """Return the type of a variable, or a choice, that has values of two types."""
    if first is None or second is None or first == second:
        return first or second or "none"
    return "float" if "float" in (first, second) else "int"


def cast(to: Writer, value: Value, wanted: str) -> str | None:
    """Return a value as another type; None if it cannot be converted (a float is no integer)."""
    if value.type == wanted:
        return value.text
    if wanted == "float":
        if value.text.lstrip("-").isdigit():
            return number(float(int(value.text)))
        return to.new(f"{'uitofp i1' if value.type == 'bool' else 'sitofp i64'} {value.text} to double")
    if wanted == "int" and value.type == "bool":
        return to.new(f"zext i1 {value.text} to i64")
    if wanted == "bool":
        return truth(to, value)
    return None


def truth(to: Writer, value: Value) -> str:
    if value.type == "bool":
        return value.text
    if value.type == "int":
        return to.new(f"icmp ne i64 {value.text}, 0")
    return to.new(f"fcmp une double {value.text}, {number(0.0)}")


def compare(to: Writer, op: ast.cmpop, left: Value, right: Value) -> str | None:
    """Return the name of a comparison's result; None if the language does not have the operator."""
    if type(op) not in REAL_TESTS:
        return None
    if "float" in (left.type, right.type):
        operands = f"{cast(to, left, 'float')}, {cast(to, right, 'float')}"
        return to.new(f"fcmp {REAL_TESTS[type(op)]} double {operands}")
    operands = f"{cast(to, left, 'int')}, {cast(to, right, 'int')}"
    return to.new(f"icmp {INTEGER_TESTS[type(op)]} i64 {operands}")


def negative(to: Writer, value: Value) -> Value:
    if value.type == "float":
        return Value(to.new(f"fneg double {value.text}"), "float")
    text = cast(to, value, "int")
    if text.isdigit():
        return Value(f"-{text}", "int")
    return Value(to.new(f"sub i64 0, {text}"), "int")


def binary(to: Writer, op: ast.operator, left: Value, right: Value) -> Value | None:
    """Return the value of an operation; None if these types do not have it."""
    kind = "float" if isinstance(op, ast.Div) or "float" in (left.type, right.type) else "int"
    a, b = cast(to, left, kind), cast(to, right, kind)
    if kind == "float":
        if type(op) in REAL:
            return Value(to.new(f"{REAL[type(op)]} double {a}, {b}"), kind)
        if isinstance(op, (ast.Mod, ast.FloorDiv)):
            return Value((_real_remainder if isinstance(op, ast.Mod) else _real_quotient)(to, a, b), kind)
        return None
    if type(op) in INTEGER:
        return Value(to.new(f"{INTEGER[type(op)]} i64 {a}, {b}"), kind)
    if isinstance(op, (ast.Mod, ast.FloorDiv)):
        return Value(_divided(to, isinstance(op, ast.Mod), a, b), kind)
    return None


def _divided(to: Writer, remainder: bool, a: str, b: str) -> str:
    """Write ``a // b`` or ``a % b``, rounded down as in Python; 0 where the processor would trap."""
    trap, divisor = None, b
    if not b.isdigit() or b == "0":  # a literal divisor is positive here, and cannot trap
        smallest = to.new(f"icmp eq i64 {a}, {-(2**63)}")
        overflow = to.new(f"and i1 {smallest}, {to.new(f'icmp eq i64 {b}, -1')}")
        trap = to.new(f"or i1 {overflow}, {to.new(f'icmp eq i64 {b}, 0')}")
        divisor = to.select(trap, "i64", "1", b)
    rest = to.new(f"srem i64 {a}, {divisor}")
    differ = to.new(f"icmp slt i64 {to.new(f'xor i64 {rest}, {divisor}')}, 0")
    low = to.new(f"and i1 {differ}, {to.new(f'icmp ne i64 {rest}, 0')}")
    if remainder:
        result = to.select(low, "i64", to.new(f"add i64 {rest}, {divisor}"), rest)
    else:
        quotient = to.new(f"sdiv i64 {a}, {divisor}")
        result = to.select(low, "i64", to.new(f"sub i64 {quotient}, 1"), quotient)
    return result if trap is None else to.select(trap, "i64", "0", result)


def _remainder_parts(to: Writer, a: str, b: str) -> tuple[str, str, str]:
    """Return the remainder with a's sign, whether it is not zero, and whether b has the other sign too."""
    zero = number(0.0)
    rest = to.new(f"frem double {a}, {b}")
    some = to.new(f"fcmp une double {rest}, {zero}")
    signs = (to.new(f"fcmp olt double {x}, {zero}") for x in (b, rest))
    return rest, some, to.new(f"and i1 {some}, {to.new('xor i1 {}, {}'.format(*signs))}")


def _real_remainder(to: Writer, a: str, b: str) -> str:
    """Write ``a % b`` as Python defines it (``Objects/floatobject.c``); NaN where b is zero."""
    zero = number(0.0)
    rest, some, low = _remainder_parts(to, a, b)
    moved = to.select(low, "double", to.new(f"fadd double {rest}, {b}"), rest)
    signed = to.select(to.new(f"fcmp olt double {b}, {zero}"), "double", number(-0.0), zero)
    result = to.select(some, "double", moved, signed)
    return to.select(to.new(f"fcmp oeq double {b}, {zero}"), "double", rest, result)


def _real_quotient(to: Writer, a: str, b: str) -> str:
    """Write ``a // b`` as Python defines it; ``a / b`` where b is zero."""
    zero = number(0.0)
    rest, _, low = _remainder_parts(to, a, b)
    exact = to.new(f"fdiv double {to.new(f'fsub double {a}, {rest}')}, {b}")
    exact = to.select(low, "double", to.new(f"fsub double {exact}, {number(1.0)}"), exact)
    down = to.new(f"call double {to.module.intrinsic('llvm.floor.f64', 'double', 'double')}(double {exact})")
    far = to.new(f"fcmp ogt double {to.new(f'fsub double {exact}, {down}')}, {number(0.5)}")
    whole = to.select(far, "double", to.new(f"fadd double {down}, {number(1.0)}"), down)
    square = to.new(f"fmul double {exact}, {exact}")  # a zero, which takes the sign of a / b; or NaN
    signed = to.new(f"fdiv double {to.new(f'fmul double {square}, {a}')}, {b}")
    result = to.select(to.new(f"fcmp one double {exact}, {zero}"), "double", whole, signed)
    plain = to.new(f"fdiv double {a}, {b}")
    return to.select(to.new(f"fcmp oeq double {b}, {zero}"), "double", plain, result)


def extreme(to: Writer, values: list[Value], largest: bool) -> Value:
    """Write ``min`` or ``max``: the first of those that none is beyond, as Python's."""
    kind = values[0].type
    for value in values[1:]:
        kind = unified(kind, value.type)
    found, *others = (cast(to, value, kind) for value in values)
    for other in others:
        beyond = compare(to, ast.Gt() if largest else ast.Lt(), Value(other, kind), Value(found, kind))
        found = to.select(beyond, LLVM[kind], other, found)
    return Value(found, kind)
