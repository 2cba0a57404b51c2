"""Partial derivatives of elementwise rows as compositions of rows.

A row states its partials as text in the kernel language. Here the same text becomes a function of
symbols: conditional expressions become ``where``, ``math.*`` and the helpers of `numbatape.ops.scalars`
become rows, or are translated in turn. So second and higher derivatives need no list of their own.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import re
import textwrap

import numpy as np

from ..emitter.instructions import row
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..ops import BY_FUNCTION, OPS, Elementwise, resolve, scalars
from ..ops.table import OPERANDS


def by_row(name: str):
    """Return a row of the op table as a function of symbols; called with arrays, it is NumPy's function."""

    def call(*args):
        for arg in args:
            if arg.__class__ is Symbol:
                return arg.emitter.row(name, *args)
        return _python_number(resolve(row(name).numpy[0])(*args), args)

    return call


def _python_number(result, args):
    """Return a result for Python's numbers as Python's number: pullbacks know literals by that class."""
    return result.item() if all(arg.__class__ in (float, int, bool) for arg in args) else result


def power(x, y):
    """``x**y``, with products for small integer exponents."""
    for arg in (x, y):
        if arg.__class__ is Symbol:
            return arg.emitter.power(x, y)
    return _python_number(np.power(x, y), (x, y))


def select(condition, x, y):
    """``x if condition else y``, entry by entry."""
    if _is_known(condition):
        return x if condition else y
    return by_row("where")(condition, x, y)


def both(x, y):
    """``x and y``, entry by entry; an operand that is known to be false decides."""
    if any(_is_known(part) and not part for part in (x, y)):
        return False
    return by_row("logical_and")(x, y)


def either(x, y):
    """``x or y``, entry by entry; an operand that is known to be true decides."""
    if any(_is_known(part) and part for part in (x, y)):
        return True
    return by_row("logical_or")(x, y)


def _is_known(x) -> bool:
    """Whether a truth value is Python's own, and not that of symbols or traced arrays."""
    return isinstance(x, (bool, np.bool_, int, float))


MATH = {
    "fabs": by_row("abs"),
    "pow": power,
    "asin": by_row("arcsin"),
    "acos": by_row("arccos"),
    "atan": by_row("arctan"),
    "atan2": by_row("arctan2"),
    "asinh": by_row("arcsinh"),
    "acosh": by_row("arccosh"),
    "atanh": by_row("arctanh"),
    "inf": np.inf,
    "nan": np.nan,
    "pi": np.pi,
}
# Helpers that have a row of their own.
SPECIAL = {
    "sign": by_row("sign"),
    "floor": by_row("floor"),
    "rint": by_row("rint"),
    "hypot": by_row("hypot"),
    "ldexp": lambda x, y: x * by_row("exp2")(y),  # a literal exponent is a float on the tape
    "logistic": by_row("expit"),
    "sinc": by_row("sinc"),
    "gap": by_row("gap"),
    "tanh_slope": by_row("tanh_slope"),
    "upper_share": by_row("upper_share"),
    "lower_share": by_row("lower_share"),
    "upper_number_share": by_row("upper_number_share"),
    "lower_number_share": by_row("lower_number_share"),
    "strong_mul": by_row("strong_mul"),
    "power_slope": by_row("power_slope"),
    "turn": by_row("turn"),
    "trigamma": by_row("trigamma"),
    "power_rise": by_row("power_rise"),
    "zeta": by_row("hurwitz"),
    "psi_rise": lambda x, w: by_row("zeta_rise")(1.0, x, w),
    "zeta_rise": by_row("zeta_rise"),
    "erfc_ratio": by_row("erfc_ratio"),
    "kolmogorov_slope": by_row("kolmogorov_slope"),
    "kve_slope": lambda n, v, x, _: by_row("kve_slope")(n, v, x),
    "chi2_far": lambda x, k, w, _: by_row("chi2_far")(x, k, w),
    "student_rise": lambda n, v, t: by_row("stdtr_rise" if n == 1.0 else "stdtr_rise_n")(v, t),
    "gamma_slope": lambda n, a, x, *_: by_row("gammainc_a" if n == 1.0 else "gammainc_aa")(a, x),
    "beta_slope": lambda p, q, a, b, x, *_: by_row("betainc_" + "a" * int(p) + "b" * int(q))(a, b, x),
}


class Namespace:
    """``math.name`` or ``sc.name`` of a formula, as functions of symbols."""

    def __init__(self, find):
        self._find = find

    def __getattr__(self, name):
        return self._find(name)


def _math(name: str):
    if name in MATH:
        return MATH[name]
    return by_row(name)


@functools.cache
def _by_value() -> dict[str, Elementwise]:
    """Return rows by SciPy's inner loop, for rows whose value is a call of one loop."""
    pairs = (
        (re.fullmatch(r"sc\.(\w+)\(x(?:, y)?(?:, w)?\)", op.value), op)
        for op in OPS
        if isinstance(op, Elementwise)
    )
    return {found[1]: op for found, op in pairs if found}


def _scipy(name: str):
    op = BY_FUNCTION.get(f"sc.{name}") or _by_value().get(name)
    if op is not None:
        return by_row(op.name)

    def refuse(*args):
        raise UnsupportedOperationError(
            f"a derivative of this order needs the derivative of scipy.special.{name}, which has no rule"
        )

    return refuse


class Translate(ast.NodeTransformer):
    """The kernel language's conditions as functions of arrays."""

    def visit_IfExp(self, node):
        self.generic_visit(node)
        return _call("select", node.test, node.body, node.orelse)

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return functools.reduce(lambda left, right: _call(name, left, right), node.values)

    def visit_Compare(self, node):
        self.generic_visit(node)
        terms = [node.left, *node.comparators]
        pairs = [
            ast.Compare(left, [op], [right])
            for left, op, right in zip(terms, node.ops, terms[1:], strict=False)
        ]
        return functools.reduce(lambda left, right: _call("both", left, right), pairs)


def _call(name: str, *args) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


class Names(dict):
    """Globals of translated formulas; helpers are translated when they are first named."""

    def __missing__(self, name):
        thing = getattr(scalars, name)
        self[name] = _helper(thing) if inspect.isfunction(thing) else thing
        return self[name]


def _helper(function):
    """Return a scalar helper (assignments, early returns, a last return) as a function of arrays."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    body: list[ast.stmt] = []
    choices: list[tuple[ast.expr, ast.expr]] = []
    for statement in definition.body:
        if isinstance(statement, ast.Assign):
            body.append(statement)
        elif isinstance(statement, ast.If):
            (inner,) = statement.body
            assert isinstance(inner, ast.Return) and inner.value is not None
            choices.append((statement.test, inner.value))
        elif isinstance(statement, ast.Return):
            assert statement.value is not None
            result = statement.value
            for test, value in reversed(choices):
                result = ast.IfExp(test, value, result)
            body.append(ast.Return(result))
    definition.body = body
    return _compile(definition)


def _compile(definition: ast.FunctionDef):
    module = ast.fix_missing_locations(Translate().visit(ast.Module([definition], [])))
    scope: dict = {}
    # Only `exec` calls __missing__ where the globals are a subclass of dict.
    exec(compile(module, "<formula>", "exec"), scope)
    function = scope[definition.name]
    names = function.__code__.co_names
    function.__globals__.update({name: NAMES[name] for name in names if name not in _attributes(function)})
    return function


def _attributes(function) -> set[str]:
    """Return the names that a function's code uses as attributes only (``exp`` of ``math.exp``)."""
    loaded = {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}
    return set(function.__code__.co_names) - loaded


NAMES = Names(
    SPECIAL
    | {
        "math": Namespace(_math),
        "sc": Namespace(_scipy),
        "select": select,
        "both": both,
        "either": either,
    }
)


@functools.cache
def partial_function(name: str, operand: int):
    """Return ``(x, y, w, z) -> partial`` of an elementwise row with respect to an operand."""
    op = row(name)
    assert isinstance(op, Elementwise)
    text = op.differentiable_partial(operand)
    source = f"def partial({', '.join(OPERANDS)}, z):\n    return {text}\n"
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return _compile(definition)


@functools.cache
def condition_function(text: str):
    """Return ``(x, y, w, z) -> truth`` of the condition in a partial ``1.0 if ... else 0.0``."""
    definition = ast.parse(f"def side({', '.join(OPERANDS)}, z):\n    return {text}\n").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return _compile(definition)
