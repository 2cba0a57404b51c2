"""A row's partial times a cotangent (or a tangent), with as few instructions as its formula allows."""

from __future__ import annotations

import functools
import re

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.instructions import row
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..ops import Elementwise
from ..ops.table import OPERANDS, UNKNOWN
from .formulas import by_row, condition_function, partial_function, select

SIDE = re.compile(r"(1\.0) if (.+) else 0\.0|([xy]) if \3 != 0\.0 else 0\.0")
weighed, strong_product = by_row("weigh"), by_row("strong_mul")

MULTIPLE = re.compile(r"(\d+\.\d+) ?\* ?([xyw])")
# The ways in which a partial is recorded, see `product`.
ONE, MINUS_ONE, CONDITION, STRONG, OPERAND, FORMULA, NOBODY_KNOWS = range(7)


def unknown_derivative(op: Elementwise, where) -> UnsupportedOperationError:
    """Return the error for a derivative of a row whose partial is `UNKNOWN`."""
    return UnsupportedOperationError(
        f"the derivative at {where} is a third one of scipy.special.{op.third_of} "
        "for parameters alone: no formula for it is known. First and second ones are there, and any order "
        "for the other arguments: pass the parameters as nt.Constant, or wrap them in nt.stop_gradient"
    )


def way_of(partial: str, differentiable: str) -> int:
    """Return the way in which a partial is recorded."""
    if partial == UNKNOWN:
        return NOBODY_KNOWS
    if partial in ("1.0", "-1.0"):
        return ONE if partial == "1.0" else MINUS_ONE
    side = SIDE.fullmatch(partial)
    if side:
        return CONDITION if side[1] else STRONG
    return OPERAND if differentiable in (*OPERANDS, "z") else FORMULA


@functools.cache
def kind_of(name: str, operand: int) -> tuple:
    """Return (the way in which a partial is recorded, what it reads of x, y, w, z, a function of these)."""
    op = row(name)
    partial, differentiable = op.partials[operand], op.differentiable_partial(operand)
    way = way_of(partial, differentiable)
    if way == CONDITION:
        condition = SIDE.fullmatch(partial)[2]  # type: ignore[index]
        return way, _places(condition), condition_function(condition)
    if way == STRONG:
        return way, (OPERANDS.index(SIDE.fullmatch(partial)[3]),), None  # type: ignore[index]
    if way == OPERAND:
        return way, _places(differentiable), None
    if way == FORMULA:
        return way, _places(differentiable), partial_function(name, operand)
    return way, (), None


@functools.cache
def multiple_of(name: str, operand: int) -> tuple[float, int] | None:
    """Return (factor, operand) if a partial is a multiple of an operand, by a power of two."""
    found = MULTIPLE.fullmatch(row(name).differentiable_partial(operand) or "")
    if found is None or np.frexp(float(found[1]))[0] != 0.5:
        return None
    return float(found[1]), OPERANDS.index(found[2])


def reads_numbers(op: Elementwise) -> bool:
    """Whether numbers that are known decide what the partials of a row record.

    A partial that is an operand itself is a factor of the product; only whether it is finite counts there.
    """
    pairs = [(partial, op.differentiable_partial(k)) for k, partial in enumerate(op.partials)]
    return any(way_of(*pair) in (FORMULA, CONDITION) for pair in pairs if None not in pair)  # type: ignore


def _places(formula: str) -> tuple[int, ...]:
    """Return which of x, y, w, z (by number) a formula reads."""
    return tuple(k for k, name in enumerate((*OPERANDS, "z")) if re.search(rf"\b{name}\b", formula))


def known(emitter: Emitter, value: int):
    """Return a literal as a number, so that it decides a formula's cases now; other values as symbols."""
    number = emitter.tape.numbers.get(value)
    return Symbol(emitter, value) if number is None else number


def product(
    emitter: Emitter,
    op: Elementwise,
    operand: int,
    ct,
    operands,
    out: int,
    strong: bool,
    either: bool,
    forward: bool = False,
):
    """Return ``ct`` times the partial of a row.

    A partial ``2*x`` is no instruction of its own where that saves some: beside a number, ``2*ct`` is a
    number, and a tangent is ``2*(x*t)``, whose derivatives are products of that number with t and with x.

    Parameters
    ----------
    ct
        A symbol, or a number, which means an array with this number in all entries.
    operands, out
        Value numbers of the row's operands and of its result.
    strong
        Whether a zero cotangent adds nothing, whatever the partial is (0 * inf = 0).
    either
        Whether a zero partial adds nothing either, whatever the cotangent is.
    forward
        Whether ``ct`` is a tangent.
    """
    kind, places, function = kind_of(op.name, operand)
    if kind == ONE:
        return ct
    if kind == MINUS_ONE:
        return -ct
    if kind == STRONG:
        return strong_product(ct, Symbol(emitter, operands[places[0]]))
    if kind == NOBODY_KNOWS:
        raise unknown_derivative(op, emitter.tape.source.where(emitter.line))
    if kind == OPERAND:
        k = places[0]
        slope = known(emitter, out if k == 3 else operands[k])
    elif kind == CONDITION:
        return select(_evaluated(emitter, function, places, operands, out), ct, 0.0)
    elif (forward or ct.__class__ is float) and multiple_of(op.name, operand) is not None:
        factor, k = multiple_of(op.name, operand)  # type: ignore[misc]
        slope = known(emitter, operands[k])
        if ct.__class__ is not float:
            return factor * _product(emitter, op, ct, slope, strong, either)
        ct *= factor
    else:
        # A partial is recorded once, even if the instruction is pulled back several times.
        slope = emitter.slope(out, operand)
        if slope is None:
            slope = emitter.slopes[out, operand] = _evaluated(emitter, function, places, operands, out)
    return _product(emitter, op, ct, slope, strong, either)


def _product(emitter: Emitter, op: Elementwise, ct, slope, strong: bool, either: bool):
    if slope.__class__ is not Symbol:
        slope = float(slope)  # a slope that is computed from literals is a number
        if ct.__class__ is float and ct == 1.0:
            return slope
        if np.isfinite(slope):
            return ct * slope
    elif ct.__class__ is float and abs(ct) == 1.0:
        return slope if ct > 0.0 else -slope
    if either:
        return strong_product(ct, slope)
    if strong or op.zero_wins:
        return emitter.row("weigh", ct, slope) if slope.__class__ is Symbol else weighed(ct, slope)
    return ct * slope


def _evaluated(emitter: Emitter, function, places, operands, out: int):
    read: list = [None] * 4
    for k in places:
        read[k] = known(emitter, out if k == 3 else operands[k])
    return function(*read)
