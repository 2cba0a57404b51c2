"""``__array_ufunc__``: calls, reduce, accumulate, outer, at, reduceat."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedOperationError
from ..ops import ArrayOp, Elementwise, find
from ..tape.tape import ACTIVE, as_dtype
from ..trace import operations
from ..trace.aliasing import duplicates, root_of
from ..trace.array import TracedArray
from ..trace.axes import along_axis, axes_of
from ..trace.complex_array import TracedComplex
from ..trace.library_kinds import LABELLED, is_frame, is_series, package_of
from ..trace.number_calls import note_number_row
from ..trace.operands import NUMPYS, adopt, begun, find_trace, lift, values_of
from ..trace.plain_arrays import as_ndarrays, trace_of_plain, wrap
from ..trace.primitives import FLOAT64, elementwise, row, value_of
from ..usercode.frames import not_supported
from .dispatch import AXES, along, along_axes, constant_only, on_constants, unsupported
from .function_tables import REAL
from .registration import recorder_of
from .ufunc_compositions import COMPOSED, divided_integers, of_truths

REDUCTIONS = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
ACCUMULATIONS = {np.add: np.cumsum, np.multiply: np.cumprod}
RUNNING = {np.maximum: "running_maximum", np.minimum: "running_minimum"}

# Boolean arithmetic is logic: True + True is True in NumPy.
BOOLEAN = {
    np.add: np.logical_or,
    np.multiply: np.logical_and,
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.bitwise_xor: np.logical_xor,
    np.invert: np.logical_not,
}
OF_INTEGERS = (np.floor_divide, np.remainder, np.fmod)
BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert)

SEQUENCES = (list, tuple)
NO_OPTIONS: dict = {}
SQUARE = row("square")


def name_of(ufunc) -> str:
    for module, short in (("numpy", "np"), ("numpy.linalg", "np.linalg"), ("scipy.special", "scipy.special")):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return f"{short}.{ufunc.__name__}"
    return f"the ufunc {ufunc.__name__}"


def call_ufunc(ufunc, method, inputs, kwargs):
    """Record what NumPy was asked to do with traced inputs."""
    if not kwargs and method == "__call__":
        record = usual_call(ufunc)
        if record is not None and type(inputs[0]) not in SEQUENCES and type(inputs[-1]) not in SEQUENCES:
            left = inputs[0]
            trace = left._trace if type(left) is TracedArray else find_trace(*inputs)
            if trace is not None and trace.arguments.labels:
                return operations.with_rows(ufunc, inputs, record(inputs))
            return record(inputs)
    if method == "at":
        return operations.ufunc_at(ufunc, *inputs)
    trace = find_trace(*inputs)
    labelled = method == "__call__" and trace is not None and trace.arguments.labels
    if kwargs.get("out") is not None:
        if labelled:
            operations.with_rows(ufunc, inputs, None)
        return into_out(ufunc, method, inputs, kwargs)
    kwargs.pop("out", None)
    if any([type(x) in SEQUENCES for x in inputs]):
        inputs = tuple(lift(trace, x) if find_trace(x) is not None else x for x in inputs)
    handler = METHODS.get(method)
    if handler is None:
        raise _unsupported(f"{name_of(ufunc)}.{method}")
    result = apart(handler(ufunc, inputs, kwargs), inputs)
    return operations.with_rows(ufunc, inputs, result) if labelled else result


@functools.lru_cache(maxsize=1_000)
def usual_call(ufunc) -> Callable | None:
    """Return a function of the inputs that records a call of a ufunc without options, or None."""
    op = None if ufunc in COMPOSED or ufunc in BITWISE or ufunc.nin > 2 else find(ufunc)
    if isinstance(op, ArrayOp):
        implementation = REAL.find(ufunc)
        return functools.partial(_call_array_op, ufunc, implementation, recorder_of(implementation))
    if op is None or op.opaque:
        return None
    note_number_row(ufunc, op)
    return functools.partial(record_row, ufunc, op)


def _call_array_op(ufunc, implementation, recorder, inputs):
    """Record a generalised ufunc, whose implementation is one of arrays."""
    if recorder is not None:
        a, b = inputs  # the generalised ufuncs are products
        if type(a) is TracedArray and type(b) is TracedArray:
            return recorder(ufunc(a._value, b._value), a, b)
    if any([is_series(x) or is_frame(x) for x in inputs]):
        return operations.product(*inputs)  # pandas knows matmul alone
    return implementation(*inputs)


def apart(result, inputs):
    """Return a ufunc's result in its own memory, where it is an operand or a view of one."""
    value = value_of(result)
    if (value.__class__ is np.ndarray and value.base is not None) or any(result is x for x in inputs):
        roots = [
            root_of(x._value) for x in inputs if type(x) is TracedArray and isinstance(x._value, np.ndarray)
        ]
        if any(root_of(value) is root for root in roots):
            return np.copy(result)
    return result


def call_plain_ufunc(ufunc, method, inputs, kwargs):
    """Do a NumPy call with plain arrays, and perhaps traced ones, among the inputs."""
    if method == "at" or kwargs.get("out") is not None:
        return call_ufunc(ufunc, method, inputs, kwargs)
    trace = trace_of_plain(inputs, kwargs)
    inputs, kwargs = as_ndarrays(inputs), as_ndarrays(kwargs)
    # Lists may have traced entries, which NumPy would take for numbers.
    inputs = tuple([lift(trace, x) if type(x) in (list, tuple) and find_trace(x) else x for x in inputs])
    if any(type(x) is TracedArray or type(x) is TracedComplex for x in inputs):
        return getattr(ufunc, method)(*inputs, **kwargs)
    return wrap(trace, getattr(ufunc, method)(*inputs, **kwargs))


def into_out(ufunc, method, inputs, kwargs):
    """Call a ufunc without ``out=``, and write the results to ``out``."""
    out = kwargs.pop("out")
    # In a reduction it selects the entries that are read.
    where = kwargs.pop("where", True) if method == "__call__" else True

    def again():
        values, copies = duplicates(values_of(as_ndarrays((inputs, out))))
        options = kwargs if where is True else {**kwargs, "where": where}
        getattr(ufunc, method)(*values, **values_of(as_ndarrays(options)), out=copies)
        return copies

    options = {name: value for name, value in kwargs.items() if name != "casting"}
    result = getattr(ufunc, method)(*inputs, **(options if kwargs.get("casting") == "unsafe" else kwargs))
    return operations.store_all(out, inputs, result, where, name_of(ufunc), again, ufunc.signature is None)


def _unsupported(what: str, hint: str = "") -> UnsupportedOperationError:
    return not_supported(f"{what} of a traced array", hint)


def call(ufunc, inputs, kwargs):
    """Return ``ufunc(*inputs, **kwargs)`` of traced arrays, after a look at the options."""
    if kwargs.get("where", True) is not True:
        raise _unsupported(
            f"{name_of(ufunc)}(..., where=mask)",
            "it leaves other entries undefined: use np.where(mask, ..., ...)",
        )
    options = [name for name in kwargs if name not in ("dtype", "casting", "order", "subok", "where")]
    if options and ufunc.signature is not None and AXES.issuperset(options):
        return along_axes(ufunc, inputs, kwargs)
    if options:
        raise _unsupported(f"{name_of(ufunc)}({', '.join(options)}=...)")
    if kwargs.get("dtype") is not None:
        return _in_dtype(ufunc, inputs, kwargs)
    function = COMPOSED.get(ufunc)
    if function is not None:
        if any(package_of(x) in LABELLED for x in inputs):
            return operations.ufunc_of_labelled(ufunc, inputs, kwargs)
        return function(*inputs)
    op = find(ufunc)
    if isinstance(op, ArrayOp):
        return REAL.find(ufunc)(*inputs)
    if op is None or (op.opaque and _lacks_slope(op, inputs)):
        composed_of = operations.composed_special(ufunc, inputs, kwargs)
        if composed_of is not None:
            return composed_of
    if op is not None:
        return record_row(ufunc, op, inputs, kwargs)
    if constant_only(inputs):
        return on_constants(ufunc, inputs, kwargs)
    name = name_of(ufunc)
    if name.startswith("the ufunc"):  # np.frompyfunc or Numba has made the ufunc
        hint = "np.vectorize(f) of the Python function is, and so is the function itself, called with arrays"
        raise _unsupported(name, hint)
    raise unsupported(name)


def _lacks_slope(op: Elementwise, inputs) -> bool:
    """Return whether an operand has a derivative, for which the row has no formula."""
    return any(
        place in op.opaque and type(x) is TracedArray and x._level == ACTIVE
        for place, x in zip("xyw", inputs, strict=False)
    )


def record_row(ufunc, op: Elementwise, inputs, kwargs=NO_OPTIONS):
    """Return the result of a ufunc that has a row, in memory of its own."""
    value = ufunc(*map(value_of, inputs), **kwargs)
    if value.__class__ not in NUMPYS and not isinstance(value, (np.ndarray, np.generic)):
        return operations.ufunc_of_labelled(ufunc, inputs, kwargs)
    if value.dtype is FLOAT64:
        if ufunc is np.multiply and inputs[0] is inputs[1]:
            op, inputs = SQUARE, inputs[:1]  # the adjoint of a square takes one pass instead of two
        return elementwise(op, *inputs, value=value)
    if value.dtype.kind == "b" and ufunc in BOOLEAN:
        op = find(BOOLEAN[ufunc])
    elif ufunc in BITWISE or (value.dtype.kind in "iu" and value.dtype != np.int64):
        result = None if ufunc in BITWISE else of_truths(ufunc, inputs, value)
        if result is not None:
            return result
        # Cells are floats: they have no bits of integers, and do not wrap around as small dtypes do, or as
        # unsigned ones do below zero.
        if constant_only(inputs):
            return on_constants(ufunc, inputs, kwargs)
        raise _unsupported(f"{name_of(ufunc)} with a result of dtype {value.dtype}", "use float64")
    if ufunc is np.multiply and inputs[0] is inputs[1] and value.dtype.kind == "f":
        op, inputs = SQUARE, inputs[:1]
    if ufunc in OF_INTEGERS and value.dtype.kind == "i" and {*map(type, map(value_of, inputs))} != {int}:
        return divided_integers(op, *inputs, value)
    return elementwise(op, *inputs, value=value)


LOOPS = tuple(map(np.dtype, "edfDF"))  # what a caller may choose


def _in_dtype(ufunc, inputs, kwargs):
    """Call a ufunc whose loop is chosen by ``dtype=``: operands are converted first, as NumPy does."""
    dtype = as_dtype(kwargs["dtype"])
    if dtype not in LOOPS or ufunc.nout != 1:
        raise _unsupported(f"{name_of(ufunc)}(dtype={dtype})")
    ufunc(*map(value_of, inputs), **kwargs)  # raises NumPy's own error if the casting rule forbids it
    converted = [np.astype(x, dtype) if type(x) is TracedArray else np.asarray(x, dtype)[()] for x in inputs]
    return ufunc(*converted)


def _need_binary(ufunc, method):
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"{method} only supported for binary functions")


def reduce(ufunc, inputs, kwargs):
    """Return ``ufunc.reduce`` of a traced array: by the function that does the same, if there is one."""
    _need_binary(ufunc, "reduce")
    (x,) = inputs
    axis, keepdims = kwargs.pop("axis", 0), kwargs.pop("keepdims", False)
    trace = find_trace(kwargs.get("where"), kwargs.get("initial"))
    if trace is not None:  # Where there is no trace, the call would come back here for ever.
        x = lift(trace, x)
    function = REDUCTIONS.get(ufunc)
    if function is not None:
        if function not in (np.sum, np.prod):  # other functions have no `dtype`, which methods pass on
            dtype = kwargs.pop("dtype", None)
            if function in (np.any, np.all):
                initial = kwargs.pop("initial", np._NoValue)
                found = function(x, axis=axis, keepdims=keepdims, **kwargs)
                return found if initial is np._NoValue else ufunc(found, begun(initial, found.dtype))
            if dtype is not None:
                x = np.astype(x, dtype)
        return function(x, axis=axis, keepdims=keepdims, **kwargs)
    where, initial = kwargs.pop("where", True), kwargs.pop("initial", np._NoValue)
    _refuse_options(ufunc, "reduce", kwargs)
    if ufunc is np.logaddexp and where is True and initial is np._NoValue:
        return operations.logsumexp(x, axis=axis, keepdims=keepdims)
    axes = axes_of(x, axis)
    if len(axes) > 1 and ufunc.identity is None and ufunc not in (np.fmax, np.fmin):
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
        )
    if initial is None:
        raise _unsupported(f"{name_of(ufunc)}.reduce(initial=None)")
    if ufunc.identity is None and where is not True and initial is np._NoValue:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one "
            "has to specify 'initial'"
        )
    parts, masks = [x], [None if where is True else np.broadcast_to(where, x.shape)]
    for k in sorted(axes, reverse=True):
        parts = [piece for part in parts for piece in along(part, k)]
        masks = [piece for mask in masks for piece in ([None] if mask is None else np.moveaxis(mask, k, 0))]
    return _folded(ufunc, x, axes, parts, masks if where is not True else None, initial, keepdims)


def _folded(ufunc, x, axes, parts, masks, initial, keepdims):
    """Return a ufunc's reductions of the parts of an array, one after the other."""
    kind, of_parts, _ = ufunc.resolve_dtypes((None, x.dtype, None), reduction=True)
    parts = [np.astype(part, of_parts, copy=False) for part in parts]
    start = ufunc.identity if initial is np._NoValue else initial
    if start is not None:
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        parts = [np.broadcast_to(begun(start, kind), shape), *parts]
        masks = masks and [None, *masks]
    elif not parts:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    result = parts[0][()]
    for k, part in enumerate(parts[1:], 1):
        more = ufunc(result, part)
        # Where entries may be left out, np.where gives an array without dimensions, and NumPy a number.
        result = more if masks is None else np.where(masks[k], more, _of_dtype(result, more.dtype))[()]
    return np.expand_dims(result, tuple(sorted(axes))) if keepdims and axes else result


def _refuse_options(ufunc, method, kwargs):
    given = [
        k for k, v in kwargs.items() if not (v is None or v is np._NoValue or (k == "where" and v is True))
    ]
    if given:
        raise _unsupported(f"{name_of(ufunc)}.{method}({', '.join(given)}=...)")


def accumulate(ufunc, inputs, kwargs):
    _need_binary(ufunc, "accumulate")
    (x,) = inputs
    if not x.ndim:
        raise TypeError("cannot accumulate on a scalar")
    axis = kwargs.pop("axis", 0)
    function = ACCUMULATIONS.get(ufunc)
    if function is not None:
        if kwargs.get("dtype") is not None:  # np.cumsum takes fewer names of dtypes
            kwargs["dtype"] = as_dtype(kwargs["dtype"])
        return function(x, axis=axis, **kwargs)
    _refuse_options(ufunc, "accumulate", kwargs)
    op = RUNNING.get(ufunc)
    if op is not None and x.dtype.kind in "fiu":
        return adopt(along_axis(op, x, axis, ufunc.accumulate), ufunc.accumulate(x._value, axis))
    parts = along(x, axis)
    results = parts[:1]
    for part in parts[1:]:
        results.append(ufunc(results[-1], part))
    return _of_dtype(np.stack(results, axis) if results else x, ufunc.accumulate(x._value, axis).dtype)


def _of_dtype(parts, dtype):
    """Return an array in the dtype of a result: a test gives bool, but single entries are its operand's."""
    return parts if parts.dtype == dtype else np.astype(parts, dtype)


def outer(ufunc, inputs, kwargs):
    _need_binary(ufunc, "outer")
    # Unlike a call, this makes arrays of Python's numbers before it looks at dtypes.
    left, right = (np.asarray(x)[()] if isinstance(x, (int, float)) else x for x in inputs)
    behind = np.ndim(value_of(right))
    if behind:
        left = np.expand_dims(left, tuple(range(-behind, 0)))
    return ufunc(left, right, **kwargs)


def reduceat(ufunc, inputs, kwargs):
    """Return ``ufunc.reduceat`` of a traced array, segment by segment."""
    _need_binary(ufunc, "reduceat")
    x, indices = inputs
    axis = kwargs.pop("axis", 0)
    _refuse_options(ufunc, "reduceat", kwargs)
    if not np.ndim(values_of(x)):
        raise TypeError("cannot reduceat on a scalar")
    if ufunc is np.add and type(x) is TracedArray and x.ndim == 1 and x.dtype == FLOAT64:
        found = operations.sums_of_segments(x, indices)
        if found is not None:
            return found
    indices = [int(i) for i in indices]
    n = x._sizes()[axis]
    parts = []
    for start, stop in zip(indices, [*indices, n][1:], strict=True):
        if not 0 <= start < n:
            raise IndexError(f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
        # NumPy copies a single entry, without calling the ufunc: np.hypot.reduce keeps its sign.
        alone = stop <= start + 1
        key = [slice(None)] * x.ndim
        key[axis] = start if alone else slice(start, stop)
        part = x[tuple(key)]
        parts.append(part if alone else reduce(ufunc, (part,), {"axis": axis}))
    places = np.array(indices, int)
    result = np.stack(parts, axis) if parts else np.take(x, places, axis)
    return _of_dtype(result, ufunc.reduceat(x._value, places, axis).dtype)


METHODS = {
    "__call__": call,
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "reduceat": reduceat,
}
