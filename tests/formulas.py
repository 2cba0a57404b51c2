"""Formulas of elementwise rows, evaluated as text in Python with libm."""

import math
import types

import numpy as np

from numbatape.jit import symbols
from numbatape.ops import parameters, scalars, series


class Math:
    """``math`` as Numba compiles it: libm's results, no exceptions."""

    inf, nan = np.float64(math.inf), np.float64(math.nan)

    def __getattr__(self, name):
        def call(*args):
            try:
                return np.float64(getattr(math, name)(*args))
            except (ValueError, OverflowError):
                return np.float64(getattr(np, name)(*args))

        return call


class Special:
    """SciPy's ufuncs, and loops of theirs that are named in full."""

    def __getattr__(self, name):
        return symbols.scalar_function(name)


# The rows' own language: scalar functions are rebuilt so that their `math` does not raise.
LANGUAGE = {"math": Math(), "sc": Special(), "__builtins__": {"int": int, "max": max, "min": min}}
for _name, _function in (vars(series) | vars(parameters) | vars(scalars)).items():
    if isinstance(_function, types.FunctionType):
        LANGUAGE[_name] = types.FunctionType(_function.__code__, LANGUAGE)


# What the last operand of an op is that follows from the others, as NumPy computes it.
FOLLOWING = {"math.pow(x, y)": np.power, "math.tanh(x)": np.tanh}


def completed(op, operands):
    """Return operands with the last one computed from the others, where it follows from them."""
    if not op.follows:
        return operands
    with np.errstate(invalid="ignore"):
        return [*operands[:-1], FOLLOWING[op.follows](*operands[:-1])]


def evaluate(formula, names):
    with np.errstate(all="ignore"):
        return np.float64(eval(formula, LANGUAGE, names))
