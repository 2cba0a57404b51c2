"""``__array_function__``: calls of NumPy's functions with traced arguments."""

from __future__ import annotations

import functools

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..ops import ArrayOp, find
from ..tape.tape import CONSTANT
from ..trace import operations, pytrees
from ..trace.aliasing import duplicates
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.operands import values_of
from ..trace.plain_arrays import as_ndarrays, has_plain, trace_of_plain, wrap_result
from ..trace.primitives import array_instruction
from ..usercode.frames import not_supported, where_in_user_code
from .function_tables import REAL, WRITERS, full_name


def call_function(function, args, kwargs):
    """Call the implementation of a NumPy function that was given a traced array."""
    if not kwargs or not (kwargs.get("out") is not None or has_plain(kwargs)):
        implementation = REAL.find(function)
        place = place_of_out(function)
        # Most calls have neither plain arrays nor `out`, which the general way looks for in 5 µs.
        usual = implementation is not None and function is not np.nan_to_num and not has_plain(args)
        if usual and (place is None or len(args) <= place):
            return implementation(*args, **kwargs)
    return writing(_dispatch, function, args, kwargs)


def writing(reading, function, args, kwargs):
    """Call a function that writes into an argument, or into ``out``; call others by ``reading``."""
    if REAL.find(function) is None:
        writer = WRITERS.find(function)
        if writer is not None:
            return writer(*args, **kwargs)
    args, kwargs, out = _apart_from_out(function, args, kwargs)
    if out is not None:
        return _into_out(function, args, kwargs, out)
    return reading(function, args, kwargs)


def _into_out(function, args, kwargs, out):
    """Call a function without ``out``, and write its result there."""
    what = f"{full_name(function)}(..., out=array)"
    overlapping = operations.overlaps(out, (args, kwargs))

    def again():
        parts = tuple(_plain_values(as_ndarrays(part)) for part in (args, kwargs, out))
        values, options, copy = duplicates(parts) if overlapping else (*parts[:2], duplicates(parts[2]))
        place = place_of_out(function)
        if place is not None and len(values) > place:
            function(*values[:place], copy, *values[place + 1 :], **options)
        else:
            function(*values, **options, out=copy)
        return copy

    if overlapping and function in (np.concatenate, np.stack):
        arrays, axis = _joined(function, *args, **kwargs)
        if axis is not None:
            again()  # raises NumPy's errors
            operations.join_into(out, arrays, axis, what)
            return out
    # Of the functions that are no ufuncs, `np.clip` alone leaves entries of `out` as they are.
    chosen = kwargs.get("where", True) if function is np.clip else True
    result = function(*args, **(kwargs if chosen is True else {**kwargs, "where": True}))
    if chosen is not True:
        result = np.where(chosen, result, out)
    if operations.overlaps(out, result):
        result = np.copy(result)
    doubtful = function in _PARTICULAR or (overlapping and function is not np.nan_to_num)
    return operations.store(out, result, what, again, doubtful)


# They refuse some dtypes, or orders in memory, of `out`.
_PARTICULAR = (np.dot, np.einsum, np.linalg.multi_dot, np.take, np.compress, np.choose)


def _joined(function, arrays, axis=0, out=None, **options):
    """Return the arrays that a call joins, and the axis along which they are joined."""
    if function is np.stack:
        arrays = [np.expand_dims(x, axis) for x in arrays]
    return [x if hasattr(x, "shape") else np.asarray(x) for x in arrays], axis


def _dispatch(function, args, kwargs):
    if has_plain(args) or (kwargs and has_plain(kwargs)):
        trace, given = trace_of_plain(args, kwargs), (args, kwargs)
        args, kwargs = as_ndarrays(args), as_ndarrays(kwargs)
        if not _traced_leaves((args, kwargs)):
            return wrap_result(trace, function(*args, **kwargs), *given)
    implementation = REAL.find(function)
    if implementation is not None:
        return implementation(*args, **kwargs)
    op = find(function)
    if isinstance(op, ArrayOp) and len(args) == op.arity and not kwargs:
        # Its arguments are the op's operands, core axes last: there is nothing to compose.
        return array_instruction(op, args, function(*_plain_values(args)))
    if constant_only((args, kwargs)):
        return on_constants(function, args, kwargs)
    copy = operations.library_copy(getattr(function, "_implementation", None))
    if copy is not None:
        return copy(*args, **kwargs)
    raise unsupported(full_name(function))


def _apart_from_out(function, args, kwargs):
    """Return a call's arguments without ``out``, and the array that was given as ``out`` (or None)."""
    if function is np.nan_to_num:
        names = ("x", "copy", "nan", "posinf", "neginf")
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
        x = kwargs.pop("x")
        copy = kwargs.pop("copy", True)
        if not copy:
            np.array(_plain_values(as_ndarrays(x)), copy=False)  # raises NumPy's error if it is no array
        return (x,), kwargs, None if copy else x
    place = place_of_out(function)
    if place is not None and len(args) > place and args[place] is not None:
        return (*args[:place], None, *args[place + 1 :]), kwargs, args[place]
    if kwargs.get("out") is None:
        return args, kwargs, None
    return args, {name: value for name, value in kwargs.items() if name != "out"}, kwargs["out"]


@functools.cache
def place_of_out(function) -> int | None:
    """Return the position of ``out`` if it can be a positional argument."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    return names.index("out") if "out" in names else None


def _traced_leaves(tree) -> list[TracedArray]:
    leaves = pytrees.library().tree_leaves(tree, none_is_leaf=True)
    return [leaf for leaf in leaves if type(leaf) is TracedArray]


def constant_only(tree) -> bool:
    """Whether all traced arrays in a tree depend on constants only."""
    return all(leaf._level == CONSTANT for leaf in _traced_leaves(tree))


def on_constants(function, args, kwargs):
    """Call a function that has no implementation with the values of constants.

    The result is a plain array, so the trace holds for these contents of the constants only.
    """
    leaves = _traced_leaves((args, kwargs))
    leaves[0]._trace.pin_constants(*leaves)
    plain_args, plain_kwargs = _plain_values((tuple(args), dict(kwargs)))
    return function(*plain_args, **plain_kwargs)


def _plain_values(tree):
    return pytrees.library().tree_map(
        lambda leaf: leaf._value if type(leaf) in (TracedArray, TracedComplex) else leaf,
        tree,
        none_is_leaf=True,
    )


def unsupported(name: str) -> UnsupportedOperationError:
    """Return the error for a function without an implementation: its name, the user's line, what works."""
    import difflib  # imported here, because only an error needs it

    known = sorted(f"np.{each}" for each in REAL.files)
    near = difflib.get_close_matches(name, known, 3, 0.6)
    works = f"supported and close: {', '.join(near)}; " if near else ""
    running_solver = imported("..usercode.running_solver", __package__)
    solver = running_solver.solver_above()
    if solver:
        return UnsupportedOperationError(
            f"{solver} at {where_in_user_code()} cannot be traced ({name}); {running_solver.implicit(solver)}"
        )
    return not_supported(
        f"{name} of a traced array", f"{works}of constants it works when they come as nt.Constant"
    )


def along(x, axis: int) -> list:
    """Return the slices of ``x`` along an axis."""
    axis = int(axis)
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(axis, x.ndim)
    lead = (slice(None),) * (axis % x.ndim)
    return [x[(*lead, k)] for k in range(x.shape[axis])]


AXES = {"axis", "axes", "keepdims"}  # options of generalised ufuncs alone


def along_axes(ufunc, inputs, options):
    """Call a generalised ufunc along other axes than the last ones."""
    ufunc(*map(values_of, inputs), **options)  # raises NumPy's own errors
    axis, axes, keepdims = (options.pop(name, None) for name in ("axis", "axes", "keepdims"))
    if axes is None:
        axis = -1 if axis is None else axis
        axes = [axis] * (ufunc.nin + 1 if keepdims else ufunc.nin)
    axes = [tuple(each) if isinstance(each, (tuple, list)) else (each,) for each in axes]
    moved = [np.moveaxis(x, own, _last(own)) for x, own in zip(inputs, axes, strict=False)]
    result = ufunc(*moved, **options)
    if keepdims:
        result = np.expand_dims(result, -1)
    for own in axes[ufunc.nin :]:
        result = np.moveaxis(result, _last(own), own)
    return result


def _last(axes):
    return tuple(range(-len(axes), 0))
