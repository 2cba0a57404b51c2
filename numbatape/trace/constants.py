"""Literals of plain numbers and arrays that meet traced values, each recorded once."""

from __future__ import annotations

import functools

import numpy as np

from ..errors import UnsupportedOperationError
from ..tape import TapeBuilder
from ..tape.tape import F64
from ..usercode.frames import where_in_user_code
from .aliasing import contents_to_compare, is_as_it_was, memory_of, root_of
from .library_kinds import not_numpys

EXACT_INTEGER = 2**53
BEYOND_INTEGERS = 2**64  # No integer of NumPy's is as large.
float64 = np.float64


# What classes derived from np.ndarray may define without computing differently.
_HARMLESS = frozenset(
    (
        *("__new__", "__init__", "__doc__", "__module__", "__repr__", "__str__", "__format__", "__reduce__"),
        *(
            "__reduce_ex__",
            "__setstate__",
            "__getstate__",
            "__array_finalize__",
            "__dir__",
            "__init_subclass__",
        ),
        *("__class_getitem__", "__dict__", "__weakref__"),
    )
)


@functools.cache
def computes_as_arrays_do(cls: type) -> bool:
    """Whether a class derived from np.ndarray only adds to it, as patsy's ``DesignMatrix`` does."""
    derived = cls.__mro__[: cls.__mro__.index(np.ndarray)]
    return not any(
        hasattr(np.ndarray, name) and name not in _HARMLESS for base in derived for name in vars(base)
    )


def as_base(x):
    """Return an array of a class that computes as np.ndarray does as one of these; others as they are."""
    cls = type(x)  # not ``x.__class__``: plain arrays of a trace say that they are NumPy's
    if cls is not np.ndarray and issubclass(cls, np.ndarray) and computes_as_arrays_do(cls):
        return x.view(np.ndarray)
    return x


class Constants:
    """The literals of plain numbers and arrays that were operands.

    Parameters
    ----------
    tape
        The tape that the literals are in.

    Attributes
    ----------
    floats
        Value numbers of float64 literals, by number. Zeros have no place there, because 0.0 and -0.0 are
        equal.
    roots
        Ids of arrays that own memory which became literals.
    halves
        A complex constant and its parts, by its memory.
    grids
        Arrays of consecutive numbers by shape, each of which is one literal.
    """

    __slots__ = ("_arrays", "_tape", "floats", "grids", "halves", "roots")

    def __init__(self, tape: TapeBuilder):
        self._tape = tape
        self.floats = tape.cell_literals.floats
        self.roots: set[int] = set()
        self.halves: dict[tuple, tuple] = {}
        self.grids: dict[tuple, np.ndarray] = {}
        # An array that was an operand, its value number, and what `is_as_it_was` compares. They are found by
        # the array's id and by its memory, because ``a.T`` is another object in each turn of a loop. The
        # arrays stay alive, so that no others get their ids and memory.
        self._arrays: dict[tuple, tuple[np.ndarray, int, np.ndarray | None]] = {}

    def number_of(self, data, family: int, of_floats: bool = False) -> int:
        """Return the value number of a plain number or array.

        Parameters
        ----------
        of_floats
            Whether a result of floats is computed with it, for which NumPy rounds integers, too.
        """
        kind = data.__class__
        if family == F64 and (kind is float or kind is int or kind is float64) and data:
            number = self.floats.get(data)
            if number is None:
                limit = EXACT_INTEGER if of_floats else BEYOND_INTEGERS
                if kind is int and not -limit < data < limit:
                    data = float(data)  # NumPy converts a number, too; it raises for an array of integers.
                number = self._tape.literal(checked(np.asarray(data)), F64)
            return number
        if of_floats and isinstance(data, np.integer):
            data = float(data)
        data = as_base(data)
        if isinstance(data, np.ndarray) and type(data) not in (np.ndarray, np.memmap):
            raise UnsupportedOperationError(
                f"a {type(data).__name__} meets a traced value at {where_in_user_code()}; use plain arrays"
            )
        if isinstance(data, np.ndarray) and data.ndim:
            return self._number_of_array(data, family)
        if hasattr(type(data), "__array_ufunc__") and not isinstance(data, (np.generic, np.ndarray)):
            raise not_numpys(data)
        return self._tape.literal(checked(np.asarray(data)), family)

    def _number_of_array(self, data: np.ndarray, family: int) -> int:
        found = self._arrays.get((id(data), family))
        if found is not None and found[0] is data and is_as_it_was(data, found[2]):
            return found[1]
        place = (memory_of(data), family)
        found, root = self._arrays.get(place), root_of(data)
        if found is not None and root_of(found[0]) is root and is_as_it_was(data, found[2]):
            return found[1]
        number = self._tape.literal(checked(data), family)
        found = (data, number, contents_to_compare(data, self._tape.literals[-1].data))
        self._arrays[id(data), family] = self._arrays[place] = found
        self.roots.add(id(root))
        return number

    def known(self, data: np.ndarray) -> np.ndarray | None:
        """Return the data of the float64 literal that an array became; None if not known, or for ever."""
        found = self._arrays.get((id(data), F64))
        return None if found is None or found[0] is not data else found[2]

    def contents(self) -> list[np.ndarray]:
        """Return the data of the literals that arrays became, except for memory that nobody can write to."""
        return [contents for *_, contents in self._arrays.values() if contents is not None]

    def forget(self, root: np.ndarray) -> None:
        """Drop the literals of an array that was written to; its next use makes a new one."""
        for key, (data, *_) in list(self._arrays.items()):
            if root_of(data) is root:
                del self._arrays[key]
        for key, (array, *_) in list(self.halves.items()):
            if root_of(array) is root:
                del self.halves[key]
        self.roots.discard(id(root))

    def close(self) -> None:
        """Let the arrays go, which the trace no longer needs."""
        self._arrays.clear()


def checked(data: np.ndarray) -> np.ndarray:
    """Return an array; raise if the cells of a tape cannot hold its entries exactly."""
    if data.dtype.kind in "iu" and data.size and np.abs(data).max() > EXACT_INTEGER:
        raise UnsupportedOperationError(
            f"integers beyond 2**53 are not exact in a float64 ({where_in_user_code()})"
        )
    if data.dtype.kind not in "fiub" or data.dtype.itemsize > 8:
        raise UnsupportedOperationError(
            f"a constant of dtype {data.dtype} meets a traced value ({where_in_user_code()}); "
            "numbatape computes in float64 and float32"
        )
    return data
