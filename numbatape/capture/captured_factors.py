"""Captured arrays that a function reads in nothing but recorded products.

To a traced function a captured array is an ordinary one: in ``X @ c`` or ``np.log(X)`` of plain numbers,
NumPy computes what becomes a literal, and the tape holds for these contents of ``X`` alone. But where the
code takes ``X`` as an operand of ``@`` only, and the trace has seen a traced operand at each of these places,
the tape holds for any contents. This code may be that of the function, or of another one that is called
once.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..usercode.ownership import is_users_function, is_users_module
from ..usercode.product_sites import argument_of, beginning, call_of, product_sites
from ..usercode.written_only import WrittenOnly
from .references import CELL, GLOBAL, is_atom, references

if TYPE_CHECKING:
    from ..recording.recorded import Factor
    from .environment import Environment

# What else a function may refer to here: objects of other classes could hold the array, and read it.
_TRANSPARENT = frozenset((np.ndarray, np.ufunc, type(np.sum), types.FunctionType, types.BuiltinFunctionType))


def read_in_products(function, environment: Environment, factors: Sequence[Factor]) -> list[Factor]:
    """Return the factors of which the contents decide nothing about a function's trace.

    Parameters
    ----------
    function
        The function that was traced.
    environment
        What it refers to.
    factors
        Arrays that its code has multiplied with traced ones.
    """
    reached = environment.reached
    if type(function) is not types.FunctionType or not is_users_function(function) or environment.opaque:
        return []
    if not all(map(_is_transparent, reached)) or any(map(_is_module, environment.seen.values())):
        return []
    others = [value for value in reached if type(value) is types.FunctionType and value is not function]
    if any(_hides(each) for each in others) or _reflects([function, *filter(is_users_function, others)]):
        return []
    parts = [(each, part) for each in (function, *others) for part in references(each)]
    if any(part.value is function for _, part in parts):
        return []  # it may run several times
    single = _called_once(function, parts)
    found = []
    for factor in factors:
        places = [(owner, part) for owner, part in parts if part.value is factor.array]
        if len(places) != 1 or places[0][1].kind not in (CELL, GLOBAL) or places[0][0] not in single:
            continue
        ((owner, part),) = places
        owner, sites = _sites(owner, part.name, single)
        its = owner.__code__
        seen = {beginning(its, at) for code, at in factor.places if _is_same(code, its)}
        if sites and sites <= seen:
            found.append(factor)
    return found


def _sites(owner: types.FunctionType, name: str, single: dict) -> tuple[types.FunctionType, frozenset | None]:
    """Return where a variable is an operand of ``@``, and in the code of which function.

    That is the one that has the variable, or one that is given it as an argument.
    """
    given: tuple | None = (owner, name)
    while given is not None:
        owner, name = given
        given = None
        for function, (caller, call) in single.items():
            number = argument_of(owner.__code__, name, call) if caller is owner else None
            if number is not None and number < function.__code__.co_argcount:
                given = function, function.__code__.co_varnames[number]
    return owner, product_sites(owner.__code__, name)


def _called_once(function: types.FunctionType, parts: list[tuple]) -> dict:
    """Return a function and those that run at most once when it does, with caller and offset of their calls.

    Parameters
    ----------
    parts
        Who refers to what.
    """
    single: dict = {function: (None, -1)}
    waiting = [function]
    for owner in waiting:
        for its, part in parts:
            value = part.value
            if its is not owner or type(value) is not types.FunctionType or not is_users_function(value):
                continue
            alone = sum(other.value is value for _, other in parts) == 1 and part.kind in (CELL, GLOBAL)
            call = call_of(owner.__code__, part.name) if alone else None
            if call is not None:
                single[value] = owner, call
                waiting.append(value)
    return single


def _is_transparent(value) -> bool:
    """Whether no array is in a value but itself; defaults of parameters are a tuple."""
    return type(value) in _TRANSPARENT or (type(value) is tuple and all(map(is_atom, value)))


def _is_module(value) -> bool:
    return type(value) is types.ModuleType and is_users_module(value)


def _hides(function: types.FunctionType) -> bool:
    """Whether a function of a library refers to something that is not followed."""
    return not is_users_function(function) and bool(function.__closure__ or function.__dict__)


def _reflects(functions: list[types.FunctionType]) -> bool:
    return WrittenOnly([function.__code__ for function in functions]).reflects


def _is_same(code: types.CodeType, original: types.CodeType) -> bool:
    """Whether code is that of a function, or of its copy in a trace."""
    if code is original:
        return True
    place = code.co_filename, code.co_firstlineno, code.co_name
    its = original.co_filename, original.co_firstlineno, original.co_name
    return place == its and code.co_code == original.co_code
