"""``np.zeros`` and the like while a function that writes to arrays is traced.

They make ordinary arrays, to which traced values may be written later: see `numbatape.trace.plain_arrays`.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from ..numpy_api.stand_ins import named_like, with_own_array, without_protocol
from ..trace import operations
from ..trace.aliasing import root_of
from ..trace.array import TracedArray
from ..trace.operands import find_trace
from ..trace.plain_arrays import (
    Iterator,
    as_ndarrays,
    ndarrays_in,
    trace_of_plain,
    unflattened,
    wrap,
    wrap_result,
)
from ..trace.symbolic_sizes import has_size
from ..trace.trace import CURRENT

NAMES = (
    *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *(
        "array",
        "asarray",
        "asanyarray",
        "ascontiguousarray",
        "asfortranarray",
        "copy",
        "fromiter",
        "frombuffer",
    ),
    *("arange", "linspace", "logspace", "geomspace", "eye", "identity", "tri", "diag", "diagflat"),
    *("concatenate", "concat", "stack", "vstack", "hstack", "column_stack", "tile", "repeat", "append"),
    *("fromfunction", "indices", "vander", "outer", "broadcast_to", "where", "reshape"),
)
NUMBERS = frozenset({int, float})
OF_ENTRIES = frozenset((np.array, np.asarray, np.asanyarray))


def creating(original, stand_in=None):
    """Return a function that makes plain arrays of the current trace where it would make ndarrays.

    Parameters
    ----------
    original
        NumPy's function.
    stand_in
        What runs in its place for traced arguments, if the function does not use NumPy's protocols.
    """

    short_way = without_protocol(original)

    def call(*args, **kwargs):
        """Return a plain array, which becomes traced when a traced value is written to it."""
        found = short_way(args, kwargs)
        if found is not NotImplemented:
            return found
        trace = CURRENT.get()
        if trace is not None and not kwargs and _are_numbers(args) and original is not np.fromfunction:
            # Nothing among these arguments lends memory or has a say, as anything else may.
            result = _cleared(original, original(*args))
            return wrap(trace, result) if _is_fresh(result, (), ()) else result
        if (
            original is np.array
            and args
            and isinstance(args[0], Iterator)
            and args[0].is_array(*args[1:], **kwargs)
        ):
            return args[0].as_array()
        if original is np.fromiter:
            args, kwargs = _entries(*args, **kwargs)
        if stand_in is not None and _has_integers(original, args, kwargs):
            made = stand_in(*args, **kwargs)
            if type(made) is TracedArray:
                return made
        args, kwargs = with_own_array(original, unflattened(args), kwargs)
        if find_trace(args, tuple(kwargs.values())) is not None:
            return (stand_in or original)(*args, **kwargs)
        if original is np.fromfunction and trace is not None:
            return _at_positions(trace, *args, **kwargs)
        inner = trace_of_plain(args, kwargs)
        result = original(*as_ndarrays(args), **as_ndarrays(kwargs))
        trace = inner or trace
        if trace is None or (inner is None and not _is_fresh(result, args, tuple(kwargs.values()))):
            return result
        return wrap_result(trace, _cleared(original, result), args, kwargs)

    call.__wrapped__ = original
    return named_like(call, original)


def _are_numbers(args: tuple) -> bool:
    """Whether arguments are plain numbers and shapes."""
    for arg in args:
        kind = type(arg)
        if kind not in NUMBERS and not (kind is tuple and NUMBERS.issuperset(map(type, arg))):
            return False
    return True


def _cleared(original, result):
    """Return zeros for memory that is not initialised, which holds random numbers."""
    return np.zeros_like(result) if original in (np.empty, np.empty_like) else result


def _has_integers(original, args: tuple, options: dict) -> bool:
    """Whether an argument is a size, or an entry of the array is a traced int."""
    first, end = (0, 1) if original in OF_ENTRIES else (1, 2) if original is np.full else (0, 0)
    rest = args[:first] + args[end:]
    return operations.among(args[first:end]) or has_size(rest) or has_size(tuple(options.values()))


def _at_positions(trace, function, shape, *, dtype=float, like=None, **options):
    """Do what ``fromfunction`` does: what the function returns is its own, which may be a captured array."""
    return function(*wrap(trace, tuple(np.indices(shape, dtype))), **options)


def _entries(iter, dtype, count=-1, **options):
    """Return the arguments of ``fromiter``, a list in the place of what is iterated over."""
    entries = list(iter if count < 0 else itertools.islice(iter, count))
    return (entries, dtype, count), options


def _is_fresh(result, args: tuple, options: tuple) -> bool:
    """Whether NumPy made new memory for an array; captured memory must not become a plain array."""
    if type(result) is not np.ndarray:
        return False
    root = root_of(result)
    if root.base is not None or any(root is root_of(array) for array in ndarrays_in((args, options))):
        return False
    # What owns the memory of ``np.asarray(x)`` does not show where ``x`` describes it by its address.
    describes = args and any(
        hasattr(type(args[0]), name) for name in ("__array_interface__", "__array_struct__")
    )
    return not describes or not np.may_share_memory(result, np.asarray(args[0]))


def creators(stand_ins: dict[str, tuple]) -> dict[str, tuple]:
    """Return ``{name: (original, what makes the stand-in)}``; ``stand_ins`` maps names to functions."""
    found = {}
    for name in NAMES:
        original = getattr(np, name)
        _, make = stand_ins.get(name, (None, None))
        found[name] = original, functools.cache(functools.partial(_made, original, make))
    return found


def _made(original, make):
    return creating(original, make and make())
