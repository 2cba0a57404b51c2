"""The class of a traced value, and attributes that only some values have, as other code sees them.

The user's code, and libraries that inspect their arguments, see the class of the number or array that a
traced value carries: ``match``, ``functools.singledispatch`` and abstract base classes read
``x.__class__``. numbatape, NumPy and SciPy see the real class, because they access memory, which a traced
value does not have.
"""

from __future__ import annotations

import _abc
import abc
import dis
import sys

import numpy as np

from ..usercode.bytecode import ATTRIBUTES
from ..usercode.frames import not_supported
from ..usercode.ownership import is_core, is_users_file

# Abstract classes ask on behalf of their callers: np.isscalar asks numbers.Number.
ABSTRACT = abc.ABCMeta.__instancecheck__.__code__
PYTHON = frozenset((float, int, bool, complex))
_SEQUENCE = 1 << 5  # Py_TPFLAGS_SEQUENCE: patterns of sequences take objects of the type
_GET_LEN = dis.opmap["GET_LEN"]


class Kinds:
    """The class of a traced value, as a mixin."""

    __slots__ = ()

    @property
    def __class__(self):
        frame = sys._getframe(1)
        if frame.f_code is ABSTRACT:
            frame = frame.f_back
        if is_core[frame.f_code.co_filename]:
            return type(self)
        return type(self._value)


def like_arrays_in_patterns(cls: type) -> type:
    """Let ``match x: case [a, b]`` accept a class's objects where it accepts arrays (NumPy 2.5).

    Python asks a flag of the type alone. Registering with ``collections.abc.Sequence`` would set it, but
    arrays are no instances of that.
    """
    if np.ndarray.__flags__ & _SEQUENCE:
        cls.__abc_tpflags__ = _SEQUENCE  # type: ignore[attr-defined]
        _abc._abc_init(cls)  # what `abc.ABCMeta` calls; that metaclass would make each isinstance slower
    return cls


def length_of_scalar(value) -> int:
    """Return what keeps a pattern of a sequence from matching a number; for other code, raise Python's error.

    Numbers and arrays are traced as objects of one class, and Python asks arrays for their length next.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_code[frame.f_lasti] == _GET_LEN and not isinstance(value, np.ndarray):
        return sys.maxsize
    return len(value)


def check_attribute(x, name: str) -> None:
    """Raise Python's error where other code reads an attribute of arrays from a Python number."""
    if x._value.__class__ in PYTHON:
        frame = sys._getframe(2)
        if not is_core[frame.f_code.co_filename] and not _takes_it_for_an_array(frame):
            raise _no_attribute(x, name)


def _takes_it_for_an_array(frame) -> bool:
    """Whether a library has been told by the class of a traced number that it is an array.

    pint asks ``hasattr(type(x), "dtype")`` and then reads ``x.dtype``. A library that reads the attribute as
    such, and catches no error, would fail with a Python number; so it would not have come here with one.
    """
    code = frame.f_code
    reads = code.co_code[frame.f_lasti] in ATTRIBUTES and not code.co_exceptiontable
    return reads and not is_users_file(code.co_filename, frame.f_globals.get("__name__"))


def _no_attribute(x, name: str) -> AttributeError:
    kind = x._value.__class__.__name__
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=x)


def check_subscriptable(x) -> None:
    """Raise Python's error for ``x[...]`` of a Python number."""
    kind = type(x._value)
    if kind in PYTHON:
        raise TypeError(f"{kind.__name__!r} object is not subscriptable") from None


def missing(x, name: str, what: str, depth: int = 2) -> Exception:
    """Return the error for an attribute that a traced value lacks, which is read ``depth`` frames up.

    NumPy tests whether attributes such as ``__array_interface__`` exist, and goes on without them. If the
    user's code did so, it would take another path than with the array.
    """
    if x._value.__class__ in PYTHON:
        return _no_attribute(x, name)
    frame = sys._getframe(depth)
    special = name.startswith("__") and name.endswith("__")
    if hasattr(x._value, name) and (not special or frame.f_code.co_code[frame.f_lasti] in ATTRIBUTES):
        return not_supported(what)
    return AttributeError(f"traced arrays, like NumPy's, have no attribute {name!r}", name=name, obj=x)


# Files of operators, which compare for whoever called them.
_OPERATORS = frozenset(f"{__package__}.{name}" for name in ("operators", "complex_array", "integers"))


def truth(x, compared: bool = False):
    """Return a truth value of Python's own; for code that asks ``x is True`` a real one, which is guarded.

    Parameters
    ----------
    compared
        Whether an operator gave it. Then the user's code did not ask for it if numbatape's own code called
        the operator, which goes on with traced truth values: `max` of two numbers selects by one.
    """
    environment = x._trace.capture.environment
    if environment is None or not environment.identity_tests:
        return x
    if compared:
        frame = sys._getframe(1)
        while (module := frame.f_globals.get("__name__", "")) in _OPERATORS and frame.f_back is not None:
            frame = frame.f_back
        if module.partition(".")[0] == "numbatape":
            return x
    return bool(x)


def compared_with_no_number(ufunc, x, other):
    """Return what == or != says of the entries of an array and something that is no number (None, a text)."""
    differs = {np.equal: False, np.not_equal: True}.get(ufunc)
    if differs is None or not isinstance(x._value, np.ndarray):
        return NotImplemented
    if other is not None and type(other) not in (str, bytes, dict, set):
        return NotImplemented
    return np.full_like(x, differs, dtype=bool)[()]
