"""Captured arrays that a function reads in nothing but recorded products.

To a traced function a captured array is an ordinary one: in ``X @ c`` or ``np.log(X)`` of plain numbers,
NumPy computes what becomes a literal, and the tape holds for these contents of ``X`` alone. But where the
code takes ``X`` as an operand of ``@`` only, and the trace has seen a traced operand at each of these places,
the tape holds for any contents.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..usercode.ownership import is_users_function, is_users_module
from ..usercode.product_sites import product_sites
from ..usercode.written_only import WrittenOnly
from .references import CELL, GLOBAL, references

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
    reached = environment.reached()
    if type(function) is not types.FunctionType or not is_users_function(function) or environment.opaque:
        return []
    if not _TRANSPARENT.issuperset(map(type, reached)) or any(map(_is_module, environment.seen.values())):
        return []
    others = [value for value in reached if type(value) is types.FunctionType and value is not function]
    if any(_hides(each) for each in others) or _reflects([function, *filter(is_users_function, others)]):
        return []
    own, held = references(function), [part.value for each in others for part in references(each)]
    if any(value is function for value in (*held, *(part.value for part in own))):
        return []  # it may run several times
    found = []
    for factor in factors:
        names = [(part.name, part.kind) for part in own if part.value is factor.array]
        if len(names) != 1 or names[0][1] not in (CELL, GLOBAL) or any(x is factor.array for x in held):
            continue
        sites = product_sites(function.__code__, names[0][0])
        seen = {at for code, at in factor.places if _is_same(code, function.__code__)}
        if sites and sites <= seen:
            found.append(factor)
    return found


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
