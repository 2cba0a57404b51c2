"""``np.nditer`` of traced and plain arrays: NumPy iterates, and yields views of the arrays."""

from __future__ import annotations

import numpy as np

from ..trace import boxes
from ..trace.aliasing import root_of, window
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.operands import find_trace, values_of
from ..trace.plain_arrays import as_ndarrays, is_plain, trace_of_plain, unflattened, wrap
from ..usercode.frames import not_supported


class Iterator:
    """The stand-in for an ``np.nditer``.

    Parameters
    ----------
    op
        An array or a sequence of arrays, at least one of them traced or plain.
    args, kwargs
        The other arguments of ``np.nditer``.
    """

    def __init__(self, op, *args, **kwargs):
        self._given = tuple(op) if isinstance(op, (list, tuple)) else (op,)
        self._trace = find_trace(self._given) or trace_of_plain(self._given)
        values = [values_of(as_ndarrays(x)) for x in self._given]
        self._numpys = np.nditer(values if isinstance(op, (list, tuple)) else values[0], *args, **kwargs)
        # Arrays that the iterator makes, in the place of None, become traced when traced values are written.
        made = zip(self._given, self._numpys.operands, strict=True)
        self._given = tuple([wrap(self._trace, its) if x is None else x for x, its in made])

    def __getattr__(self, name):
        return getattr(self._numpys, name)

    def __setattr__(self, name, value):
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._numpys, name, value)

    def __enter__(self):
        self._numpys.__enter__()
        return self

    def __exit__(self, *error):
        return self._numpys.__exit__(*error)

    def __len__(self):
        return len(self._numpys)

    def __iter__(self):
        return self

    def __next__(self):
        next(self._numpys)
        return self.value

    @property
    def value(self):
        entries = tuple(self[k] for k in range(self._numpys.nop))
        return entries if len(entries) > 1 else entries[0]

    @property
    def operands(self):
        return tuple(
            self._standing_for(*pair) for pair in zip(self._given, self._numpys.operands, strict=True)
        )

    def _standing_for(self, given, operand):
        known = is_plain(given) or type(given) in (TracedArray, TracedComplex)
        return given if known else wrap(self._trace, operand)

    def __getitem__(self, k):
        entry, given = self._numpys[k], self._given[k]
        if given.__class__ not in (TracedArray, TracedComplex):
            return self._plain_entry(entry, k)
        if type(given) is TracedArray and not isinstance(given._value, np.ndarray):
            return given
        if not np.may_share_memory(entry, given._value):
            raise not_supported("np.nditer with buffers over a traced array", "convert it with astype first")
        return boxes.seen(given, lambda value: window(root_of(value), entry))

    def _plain_entry(self, entry, k: int):
        owner = root_of(self._numpys.operands[k])
        return wrap(self._trace, window(owner, entry) if np.may_share_memory(owner, entry) else entry)

    def __setitem__(self, k, value):
        self[k][...] = value


def nditer(op, *args, **kwargs):
    """Return NumPy's iterator, or its stand-in where an array of the trace is among its operands."""
    (op,) = unflattened((op,))
    if find_trace(op) is None and trace_of_plain(op) is None:
        return np.nditer(op, *args, **kwargs)
    return Iterator(op, *args, **kwargs)
