"""Branches outside of any trace: the chosen function is called, and the others are compared with it once.

A trace records all branches, and refuses those that return different things. So that a program which is tried
out without its derivatives gets these errors, too, the other functions also run outside of traces when the
chosen one first returns something of a kind, on copies of the operands. What they do to objects is undone,
and what they raise is nobody's error: they may not work for these numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextvars import ContextVar

import numpy as np

from ..capture.environment import Environment
from ..errors import DtypeError, ShapeError, StructureError
from ..trace import pytrees
from .trees import WEAK, names_of, text_of

MOST_KNOWN = 4096

_known: set[tuple] = set()
_is_comparing: ContextVar[bool] = ContextVar("is_comparing", default=False)


def compare_once(name: str, functions: Sequence[Callable], chosen: int, operands: tuple, result) -> None:
    """Raise if other functions return something of another structure, shape or dtype than the chosen one."""
    if _is_comparing.get():
        return  # A branch that is compared may call itself.
    leaves, structure = pytrees.flatten(result)
    codes = tuple(getattr(function, "__code__", type(function)) for function in functions)
    key = name, chosen, codes, structure, tuple(map(_kind_of, leaves))
    if key in _known:
        return
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    token = _is_comparing.set(True)
    try:
        for k, function in enumerate(functions):
            if k != chosen:
                _compare(name, result, function, operands)
    finally:
        _is_comparing.reset(token)
    _known.add(key)


def _kind_of(leaf) -> tuple:
    return np.shape(leaf), getattr(leaf, "dtype", type(leaf))


def _compare(name: str, result, function: Callable, operands: tuple) -> None:
    environment = Environment(function)
    if environment.moves_on:
        return  # what it draws or reads cannot be given back
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with np.errstate(all="ignore"):
            other = function(*pytrees.copied(operands))
    except (Exception, SystemExit):
        return
    finally:
        environment.undo()
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
    compare_results(name, result, other)


def compare_results(name: str, one, other) -> None:
    """Raise if two branches return different structures, shapes or dtypes."""
    (leaves, structure), (others, its) = pytrees.flatten(one), pytrees.flatten(other)
    if structure != its:
        raise StructureError(
            f"{name}: the result of one branch has the structure {text_of(structure)}, and that of another "
            f"one is {text_of(its)}"
        )
    for x, y, where in zip(leaves, others, names_of(structure, "the result"), strict=True):
        if (x is None) != (y is None):
            raise StructureError(f"{name}: {where} is None in one branch, and an array in another")
        if np.shape(x) != np.shape(y):
            raise ShapeError(
                f"{name}: {where} has shape {np.shape(x)} in one branch, and {np.shape(y)} in another"
            )
        dtypes = [np.asarray(leaf).dtype for leaf in (x, y)]
        weak = type(x) in WEAK or type(y) in WEAK
        if dtypes[0] != dtypes[1] and (not weak or "c" in (dtypes[0].kind, dtypes[1].kind)):
            raise DtypeError(
                f"{name}: {where} has dtype {dtypes[0]} in one branch, and {dtypes[1]} in another"
            )
