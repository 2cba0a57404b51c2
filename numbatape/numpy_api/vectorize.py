"""``np.vectorize`` of traced arguments: the function runs once per entry, and the results are stacked."""

from __future__ import annotations

import numpy as np
from numpy.lib._function_base_impl import _parse_gufunc_signature

from ..tape.tape import as_dtype
from ..trace.operands import find_trace, lift, values_of
from ..trace.plain_arrays import as_ndarrays, trace_of_plain, wrap
from .registration import unsupported_argument


class Vectorized(np.vectorize):
    """NumPy's class, whose calls take traced arrays."""

    def __call__(self, *args, **kwargs):
        """Call the function entry by entry, as NumPy does, on traced entries."""
        trace = find_trace(args, tuple(kwargs.values()))
        if trace is None:
            inner = trace_of_plain(args, kwargs)
            result = super().__call__(*as_ndarrays(args), **as_ndarrays(kwargs))
            return result if inner is None else wrap(inner, result)
        if self.signature is not None:
            return self._by_signature(trace, args, kwargs)
        named = [name for name in kwargs if name not in self.excluded]
        placed = [k for k in range(len(args)) if k not in self.excluded]
        arrays = [lift(trace, x) for x in (*(args[k] for k in placed), *(kwargs[name] for name in named))]
        shape = np.broadcast_shapes(*(np.shape(values_of(x)) for x in arrays))
        columns = [np.reshape(np.broadcast_to(x, shape), (-1,)) for x in arrays]
        count = int(np.prod(shape))
        if not count:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        results = []
        for k in range(count):
            entries = [column[k] for column in columns]
            given = list(args)
            for place, entry in zip(placed, entries, strict=False):
                given[place] = entry
            options = dict(zip(named, entries[len(placed) :], strict=True))
            results.append(self.pyfunc(*given, **(kwargs | options)))
        if isinstance(results[0], tuple):
            return tuple(self._shaped(trace, part, shape) for part in zip(*results, strict=True))
        return self._shaped(trace, results, shape)

    def _by_signature(self, trace, args, kwargs):
        """Call the function once for each place of the leading axes, with the core axes that it asks for."""
        if kwargs:
            raise unsupported_argument("np.vectorize", "signature=... with names", "pass arguments in order")
        cores, _ = _parse_gufunc_signature(self.signature)
        args = [lift(trace, x) for x in args]
        if len(args) != len(cores):
            raise TypeError(f"wrong number of positional arguments: expected {len(cores)}, got {len(args)}")
        splits = [np.ndim(values_of(x)) - len(core) for x, core in zip(args, cores, strict=True)]
        if min(splits) < 0:
            raise ValueError(
                f"an argument has fewer dimensions than the signature {self.signature!r} asks for"
            )
        shape = np.broadcast_shapes(*(np.shape(values_of(x))[:n] for x, n in zip(args, splits, strict=True)))
        wide = [np.broadcast_to(x, shape + x.shape[n:]) for x, n in zip(args, splits, strict=True)]
        results = [self.pyfunc(*(x[place] for x in wide)) for place in np.ndindex(shape)]
        if not results:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        if isinstance(results[0], tuple):
            return tuple(_stacked(trace, part, shape) for part in zip(*results, strict=True))
        return _stacked(trace, results, shape)

    def _shaped(self, trace, results, shape):
        """Return the results of all entries as one array with the first one's dtype, as in NumPy."""
        dtype = as_dtype(self.otypes[0]) if self.otypes else np.asarray(values_of(results[0])).dtype
        stacked = np.stack([lift(trace, x) for x in results])
        stacked = stacked if stacked.dtype == dtype else np.astype(stacked, dtype)
        return np.reshape(stacked, shape)


def _stacked(trace, results, shape):
    stacked = np.stack([lift(trace, x) for x in results])
    return np.reshape(stacked, shape + np.shape(values_of(stacked))[1:])


def with_function(original: np.vectorize, pyfunc) -> Vectorized:
    """Return the stand-in for an existing object, with another function."""
    result = Vectorized.__new__(Vectorized)
    result.__dict__.update(original.__dict__)
    result.pyfunc = pyfunc
    return result
