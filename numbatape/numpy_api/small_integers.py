"""Compositions of integers that are smaller than int64, and of truth values: NumPy's own result decides.

NumPy converts some arguments to float64 before it computes, and computes with others in their own dtype, in
which integers wrap around and truth values have other operations. A composition does what its functions do
with the dtypes that it gets. So its result is compared with NumPy's; where they differ, it gets float64, and
where that is not it either, NumPy's result is a constant, on whose contents the tape relies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.operands import adopt, find_trace, lift
from ..trace.trace import Trace
from ..usercode.frames import not_supported
from .dispatch import constant_only, on_constants
from .registration import reads_small

TOLERANCE = {2: 1e-2, 4: 1e-4}  # the keys are the bytes of an entry


def composed(implementation: Callable, value, args, kwargs):
    """Return the result of a composition with such arguments, given NumPy's result.

    Raises
    ------
    UnsupportedOperationError
        If the composition computes something else than NumPy, from more than constants.
    """
    error: Exception | None = None
    constant = constant_only((args, kwargs))
    whole = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biu"
    for convert in (_as_given, _as_floats):
        try:
            result = implementation(*convert(args), **convert(kwargs))
        except Exception as its:  # the function may not take truth values, or floats
            error = error or its
            if whole and not constant:
                break
            continue
        if _agrees(result, value):
            return adopt(result, value)
        if whole and not constant:
            break  # NumPy's integers may wrap around for other numbers.
    if constant:
        trace = find_trace(*args, *kwargs.values())
        assert trace is not None
        return _literals(trace, on_constants(lambda *_args, **_kwargs: value, args, kwargs))
    raise error or not_supported(
        f"integers of {', '.join(sorted(map(str, _dtypes((args, kwargs)))))}, which wrap around,",
        "convert them to int64 or float64",
    )


def _as_given(tree):
    return tree


def _as_floats(tree):
    if type(tree) is TracedArray and reads_small((tree,)):
        return np.astype(tree, np.float64)
    if type(tree) in (tuple, list):
        return type(tree)([_as_floats(part) for part in tree])
    return {name: _as_floats(part) for name, part in tree.items()} if type(tree) is dict else tree


def _dtypes(tree) -> set:
    if type(tree) is dict:
        tree = tree.values()
    elif type(tree) not in (tuple, list):
        return {tree.dtype} if reads_small((tree,)) else set()
    return set().union(*map(_dtypes, tree))


def _agrees(result, value) -> bool:
    """Whether a composition's result is NumPy's, but for the last bits."""
    if isinstance(result, (list, tuple)):
        return len(result) == len(value) and all(map(_agrees, result, value))
    its = result._value if type(result) in (TracedArray, TracedComplex) else result
    if not isinstance(its, (np.ndarray, np.generic, float, int)):
        return True
    its, expected = np.asarray(its), np.asarray(value)
    if its.shape != expected.shape or expected.dtype.kind not in "biufc":
        return its.size == expected.size == 1
    kind = expected.dtype.kind
    near = TOLERANCE.get(expected.real.itemsize, 1e-9) if kind in "fc" else 0.0
    wide = complex if "c" in (kind, its.dtype.kind) else float
    return np.allclose(its.astype(wide), expected.astype(wide), rtol=near, atol=near, equal_nan=True)


def _literals(trace: Trace, value):
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return value.__class__([_literals(trace, part) for part in value])
    return lift(trace, value) if isinstance(value, (np.ndarray, np.generic)) else value
