"""``x.flat``: reading copies entries, assigning writes them into the array one after the other."""

from __future__ import annotations

import numpy as np

from . import writes
from .operands import find_trace, values_of
from .plain_arrays import Iterator, as_ndarrays, fixed, is_plain, unflattened, wrap
from .trace import failing


class Flat(Iterator):
    """The stand-in for NumPy's ``flatiter`` of a traced or a plain array."""

    def __init__(self, array):
        self.base = array
        self._next = 0

    def __len__(self):
        return self.base.size

    @property
    def index(self) -> int:
        return self._next

    @property
    def coords(self) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(self._next, self.base.shape)))

    def __iter__(self):
        self._next = 0
        return self

    def __next__(self):
        if self._next >= len(self):
            self._next = 0
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def __getitem__(self, key):
        x, key = self.base, as_ndarrays(key)
        if is_plain(x) and find_trace(key) is None:
            return wrap(x._trace, x._value.flat[key])
        x._value.flat[values_of(key)]  # raises NumPy's errors
        taken = np.ravel(x)[key]
        return np.copy(taken) if isinstance(values_of(taken), np.ndarray) else taken

    def __setitem__(self, key, item):
        key = as_ndarrays(key)
        if find_trace(key) is not None and writes.overlap(self.base, item, in_place=False):
            key = fixed(key)  # the positions are guarded, because the last write to an entry counts
        elif find_trace(key) is not None:
            self._write_at(key, item)
            return

        def write(target, source):
            target.flat[key] = source

        self._write(write, item)

    def assign(self, item) -> None:
        """Do ``x.flat = item``."""

        def write(target, source):
            target.flat = source

        self._write(write, item)

    def _write_at(self, key, item) -> None:
        """Assign at traced positions; NumPy repeats or truncates the values to the number of positions."""
        x = self.base
        copied = np.copy(np.ravel(x))
        if key.dtype.kind == "b":
            np.place(copied, key, item)
        else:
            copied[key] = item if np.ndim(item) == 0 else np.resize(item, np.shape(values_of(key)))
        x[...] = np.reshape(copied, x.shape)

    def _write(self, write, item) -> None:
        (item,) = unflattened((item,))
        with failing(self.base._trace):
            writes.write_by(self.base, item, write, "an assignment")

    def copy(self):
        return np.copy(np.ravel(self.base))

    def as_array(self):
        """Return the array that NumPy makes of it: a view where the memory is contiguous, else a copy."""
        return np.ravel(self.base)

    def is_array(self, *args, **kwargs) -> bool:
        """Whether ``np.array(x.flat, ...)`` shares memory with ``x``, as NumPy decides."""
        value = self.base._value
        return bool(np.shares_memory(np.array(value.flat, *args, **kwargs), value))

    def __array__(self, dtype=None, copy=None):
        return self.as_array().__array__(dtype, copy)

    def __array_function__(self, function, types, args, kwargs):
        return function(*unflattened(args), **kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return getattr(ufunc, method)(*unflattened(inputs), **kwargs)

    def __eq__(self, other):  # type: ignore[override]
        return np.equal(self.as_array(), other)

    def __ne__(self, other):  # type: ignore[override]
        return np.not_equal(self.as_array(), other)

    __hash__ = None  # type: ignore[assignment]
