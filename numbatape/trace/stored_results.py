"""Results that go into arrays: ``out=``, ``a += b`` and ``ufunc.at`` of traced values."""

from __future__ import annotations

import numpy as np

from ..errors import LeakError, UnsupportedOperationError
from ..usercode.frames import unreachable, where_in_user_code
from . import boxes, integers, operations, pytrees
from . import complex_parts as complex_arrays
from .aliasing import has_twice, order_of_writes, root_of
from .complex_array import TracedComplex
from .operands import find_trace, values_of
from .plain_arrays import as_ndarrays, is_plain
from .shared_inputs import in_common_memory
from .writes import assign, expose, masked, write_where


def store_all(out, inputs, result, where, name: str, again, elementwise=True):
    """Put the results of a ufunc into the arrays given as ``out``; return those.

    An elementwise one reads all entries before it writes any, but `np.vecdot` does not.
    """
    results = result if isinstance(result, tuple) else (result,)
    what = f"{name}(..., out=array) (or `array += traced`)"
    stored = list(results)
    arrays = [None if target is None else values_of(as_ndarrays(target)) for target in out]
    given = [x for x in values_of(as_ndarrays(inputs)) if isinstance(x, np.ndarray)]
    trace = find_trace(*out, *inputs)
    if trace is not None:
        its = in_common_memory(trace, [*arrays, *given])
        arrays, given = its[: len(out)], its[len(out) :]
    order = [0] if len(out) == 1 else order_of_writes(arrays, given)
    if len(out) == 2 and all(array is not None for array in arrays) and np.may_share_memory(*arrays):
        written = again()  # NumPy's order differs where it uses buffers; its last write counts

        def came_last(k):
            its = np.asarray(values_of(as_ndarrays(results[k]))).astype(arrays[k].dtype)
            return np.array_equal(written[k], its, equal_nan=True)

        order.sort(key=came_last)
    for k in order:
        target, its = out[k], results[k]
        if target is not None and where is not True:
            again()  # NumPy's errors
            if has_twice(arrays[k]) and any(np.may_share_memory(arrays[k], x) for x in given):
                # NumPy writes to a copy, and then copies all entries back.
                assign(target, Ellipsis, masked(as_ndarrays(where), its, as_ndarrays(target)), what)
            else:
                write_where(target, its, as_ndarrays(where), what)
            stored[k] = target
        elif target is not None:
            doubtful = not elementwise and any(np.may_share_memory(arrays[k], x) for x in given)
            stored[k] = store(target, its, what, lambda k=k: again()[k], doubtful)
    return stored[0] if len(stored) == 1 else tuple(stored)


def overlaps(out, operands) -> bool:
    """Whether an array shares memory with one of the operands, which may be in containers."""
    leaves = pytrees.library().tree_leaves(as_ndarrays(operands), none_is_leaf=True)
    target, *arrays = values_of(as_ndarrays([out, *leaves]))
    trace = find_trace(out, leaves)
    if trace is not None:
        target, *arrays = in_common_memory(trace, [target, *arrays])
    return any(isinstance(x, np.ndarray) and np.may_share_memory(target, x) for x in arrays)


def join_into(out, arrays, axis: int, what: str) -> None:
    """Join arrays in ``out``, one after the other, as NumPy does where they overlap with it."""
    begin = 0
    for array in arrays:
        place = [slice(None)] * out.ndim
        place[axis] = slice(begin, begin + array.shape[axis])
        assign(out[tuple(place)], Ellipsis, array, what)
        begin += array.shape[axis]


def store(out, result, what: str, again, doubtful=False):
    """Put a result into the array given as ``out`` and return that array.

    Parameters
    ----------
    again
        Calls NumPy with copies of the operands and returns the copy of ``out``: if the result has another
        shape or dtype, NumPy converts it, or raises.
    doubtful
        Whether NumPy may refuse the array, or read operands that it has written to already.
    """
    target, value = values_of(as_ndarrays(out)), np.asarray(values_of(as_ndarrays(result)))
    fits = target.shape == value.shape and np.can_cast(value.dtype, target.dtype, "same_kind")
    if doubtful or not fits:
        written = again()
        if target.size == value.size and target.shape != value.shape:
            result = np.reshape(result, target.shape)
        seen = np.broadcast_to(np.asarray(values_of(as_ndarrays(result))), target.shape).astype(target.dtype)
        if not np.allclose(seen, written, equal_nan=True):
            if fits:
                raise UnsupportedOperationError(
                    f"{what} at {where_in_user_code()}: NumPy reads entries of the array after it wrote "
                    "to them; pass another array, and copy it"
                )
            raise UnsupportedOperationError(
                f"{what} at {where_in_user_code()}: a result of {value.dtype} {value.shape} does not fit "
                f"{target.dtype} {target.shape}"
            )
    assign(out, Ellipsis, result, what)
    return out


def ufunc_at(ufunc, x, indices, *operands) -> None:
    """Do ``ufunc.at(x, indices, operand)``, which repeats for repeated positions."""
    indices, operands = integers.settled(operations.positions_in(indices)), integers.settled(operands)
    if find_trace(x, indices, operands) is None and is_plain(x) and all(map(is_plain, boxes.sharers(x))):
        x._trace.memory.check_write(root_of(x._value))
        ufunc.at(x._value, as_ndarrays(indices), *as_ndarrays(operands))
        x._trace.constants.forget(root_of(x._value))
        return
    if not complex_arrays.is_traced(x) and not is_plain(x):
        raise LeakError(unreachable(f"np.{ufunc.__name__}.at"))
    if is_plain(x):
        expose(x)
    indices, operands = as_ndarrays(indices), as_ndarrays(operands)
    ufunc.at(x._value.copy(), values_of(indices), *values_of(operands))  # NumPy's errors
    if type(x) is TracedComplex and ufunc in (np.add, np.subtract):
        for part, its in zip((x.real, x.imag), complex_arrays.halves(operands[0]), strict=True):
            if its is not None:
                operations.add_at(ufunc, part, indices, its)
    elif ufunc in (np.add, np.subtract) and x._value.dtype.kind == "f":
        operations.add_at(ufunc, x, indices, *operands)
    else:
        operations.one_by_one(ufunc, x, indices, operands)
