"""What a traced value is to those who ask for its class or for attributes that only some values have.

The user's code, and libraries that look at what they are given, get the class of the number or array that is
meant: ``match``, ``functools.singledispatch`` and abstract base classes ask for ``x.__class__``. numbatape,
NumPy and SciPy themselves get the class as it is, for they reach into memory, and a traced value has none.
"""

from __future__ import annotations

import abc
import sys

from ..errors import UnsupportedOperationError
from .code import ATTRIBUTES
from .ownership import is_core_file
from .trace import where_in_user_code

# Abstract classes ask on behalf of who asks them: np.isscalar asks for numbers.Number.
ABSTRACT = abc.ABCMeta.__instancecheck__.__code__
PYTHON = frozenset((float, int, bool, complex))


class Kinds:
    """The class of a traced value, as a mixin."""

    __slots__ = ()

    @property
    def __class__(self):
        frame = sys._getframe(1)
        if frame.f_code is ABSTRACT:
            frame = frame.f_back
        if is_core_file(frame.f_code.co_filename):
            return type(self)
        return type(self._value)


def check_attribute(x, name: str) -> None:
    """Raise Python's error where the user's code asks a Python number for what arrays have."""
    kind = x._value.__class__
    if kind in PYTHON and not is_core_file(sys._getframe(2).f_code.co_filename):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=x)


def check_subscriptable(x) -> None:
    """Raise Python's error where ``x[...]`` was tried on a number of Python's."""
    kind = type(x._value)
    if kind in PYTHON:
        raise TypeError(f"{kind.__name__!r} object is not subscriptable") from None


def missing(x, name: str, what: str, depth: int = 2) -> Exception:
    """Return the error for an attribute that a traced value does not have; who asks is ``depth`` frames up.

    NumPy asks for attributes such as ``__array_interface__`` to see if they exist, and takes another way if
    not; the user's code would take another way than with the array that is meant.
    """
    frame = sys._getframe(depth)
    special = name.startswith("__") and name.endswith("__")
    if hasattr(x._value, name) and (not special or frame.f_code.co_code[frame.f_lasti] in ATTRIBUTES):
        return UnsupportedOperationError(f"{what} at {where_in_user_code()} is not supported")
    return AttributeError(f"traced arrays, like NumPy's, have no attribute {name!r}", name=name, obj=x)
