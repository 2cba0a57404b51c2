"""``float(x)``, ``int(x)``, ``np.float64(x)`` and their like in copies of functions.

The names mean types, too (``dtype=float``, ``isinstance(n, int)``), so only the instructions that call them
refer to these functions (`numbatape.usercode.called_types`).
"""

from __future__ import annotations

import functools
import types

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..tape.tape import CONSTANT
from ..trace import operations, size_fractions
from ..trace.array import TracedArray, new_traced
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.operands import find_trace, lift
from ..trace.plain_arrays import is_plain
from ..usercode.bytecode import names_of
from ..usercode.frames import where_in_user_code


def as_float(*args):
    """``float(x)``; that of a size, or of a number that depends on sizes only, needs no guard."""
    if len(args) == 1:
        x = args[0]
        if type(x) is TracedInteger:
            return x.as_float()
        if type(x) is TracedArray and _depends_on_sizes(x):
            return new_traced(x._trace, float(x._value), x._id, x._level, x._family)
    return float(*args)


def as_librarys_float(*args):
    """``float(x)`` in a library's function, which means the number's type; a derivative is kept."""
    if not args or find_trace(args) is None:
        return as_float(*args)
    x = args[0]
    if x.size != 1 or x.dtype.kind == "c":
        return float(x._value)  # Python raises its own error here
    return np.astype(np.reshape(x, ()), np.float64)


def as_int(*args, **kwargs):
    """``int(x)``; that of a size, of a fraction of a size, or of an integer that data decide is a size."""
    if len(args) == 1 and not kwargs:
        x = args[0]
        size = size_fractions.rounded_to_size(x, size_fractions.DOWN)
        if size is not None:
            return size
        if type(x) is TracedArray and x.ndim == 0 and x.dtype.kind == "i":
            return operations.counted(x)
    return int(*args, **kwargs)


def _depends_on_sizes(x: TracedArray) -> bool:
    """Whether a number is a constant that nothing but sizes decides."""
    if x._level != CONSTANT or not isinstance(x._value, float) or x._trace.integers.origins is None:
        return False
    return x._trace.integers.origins.sizes_behind(x._id) is not None


def as_memoryview(x):
    """``memoryview(x)`` shows memory. A traced array has none, and a plain one may become traced."""
    if is_plain(x) or isinstance(x, (TracedArray, TracedComplex)):
        raise UnsupportedOperationError(
            f"memoryview(x) at {where_in_user_code()} would show the numbers of this trace only; index x"
        )
    return memoryview(x)


def as_numpys(kind: type, *args, **kwargs):
    """Return what a scalar type of NumPy's makes of its argument: for a traced one, what ``astype`` does."""
    x = args[0] if len(args) == 1 and not kwargs else None
    if type(x) is TracedInteger and kind in _FLOATS:
        x = x.as_float()
    elif (type(x) is list or type(x) is tuple) and (trace := find_trace(x)) is not None:
        x = lift(trace, x)
    traced = type(x) is TracedArray or (type(x) is TracedComplex and issubclass(kind, np.complexfloating))
    if not traced:
        return kind(*args, **kwargs)
    made = x.astype(kind)
    return made if made.ndim else made[()]  # an array without dimensions becomes a number


_FLOATS = (np.float64, np.float32, np.float16)
_KINDS = (*_FLOATS, np.complex128, np.complex64, np.bool_, np.int64, np.int32)
# This namespace stands for ``np`` where code calls one of NumPy's scalar types.
TYPES = types.SimpleNamespace()
for _name, _kind in vars(np).items():
    if any(_kind is known for known in _KINDS):
        setattr(TYPES, _name, functools.partial(as_numpys, _kind))
TYPES_NAME = "__numbatape_types__"
_NAMES = frozenset(vars(TYPES))


def calling_types(code: types.CodeType, globals_: dict) -> types.CodeType:
    """Return code that calls `TYPES` in place of NumPy's scalar types; the same code if it calls none."""
    names = names_of(code)
    if _NAMES.isdisjoint(names):
        return code
    owners = frozenset(name for name in names if globals_.get(name) is np)
    called_types = imported("..usercode.called_types", __package__)
    return called_types.with_methods(code, owners, _NAMES, TYPES_NAME)


CALLS = {"float": as_float, "int": as_int, "memoryview": as_memoryview}
OF_LIBRARIES = {**CALLS, "float": as_librarys_float}
