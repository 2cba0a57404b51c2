"""Recording a call of a rule: arguments into one operand, one instruction, results out of it."""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedOperationError
from ..tape.tape import F32, F64
from ..trace.array import TracedArray, new_traced
from ..trace.axes import merge
from ..trace.primitives import (
    FLOAT32,
    array_instruction,
    assemble,
    contiguous,
    dims_of,
    layout_of,
    stop_gradient,
    trace_of,
    value_of,
    view,
)
from ..trace.trace import CURRENT, Trace
from ..usercode.frames import where_in_user_code
from .ports import Port, ports_of
from .site import ArgumentSpec, Site, allocated, explain, plain_result

PLAIN = (str, bool, int, float, np.generic)  # arguments that may decide the shape of a result


def emit(rule, args: list, rest: tuple[int, ...] = (), known: tuple[list, bool] | None = None):
    """Record a call of a rule and return its result.

    Parameters
    ----------
    args
        Traced and other arguments.
    rest
        Positions of traced arguments for which the rule's pullback returns no cotangent.
    known
        What `value_of_call` returns, where the caller has asked for that.
    """
    trace = trace_of(args)
    traced = [k for k, arg in enumerate(args) if type(arg) is TracedArray]
    first, others = [k for k in traced if k not in rest], [k for k in traced if k in rest]
    values = [_copied(value_of(arg)) for arg in args]
    results, single = known or _value(rule.at(trace.tape.sizes.value), values)
    shapes, result_shapes = _shapes(trace, rule, args, values, results)
    exact = {np.asarray(x).dtype for x in (*(values[k] for k in traced), *results)} == {FLOAT32}
    family = F32 if exact else F64
    sizes = trace.tape.sizes
    site = Site(
        rule=rule,
        args=[None if k in traced else value for k, value in enumerate(values)],
        traced=[*first, *others],
        first=ports_of(sizes, [values[k] for k in first], [shapes[k] for k in first]),
        rest=ports_of(sizes, [values[k] for k in others], [shapes[k] for k in others]),
        results=ports_of(sizes, results, result_shapes),
        single=single,
        specs=[
            ArgumentSpec(shape, np.asarray(value).dtype) for shape, value in zip(shapes, values, strict=True)
        ],
        family=family,
    )
    site.number = len(trace.tape.calls)
    trace.tape.calls.append(site)
    dtype = np.float32 if exact else np.float64
    flat = np.concatenate([np.ravel(part).astype(dtype) for part in results])
    # Compiled code reads the arguments directly, so their cells must be contiguous.
    dense = rule.is_compiled
    operands = (
        flattened(trace, [args[k] for k in first], dtype, dense),
        flattened(trace, [args[k] for k in others], dtype, dense),
        np.float64(site.number),
    )
    out = array_instruction("call", operands, flat, dims={"m": site.results[-1].stop})
    parts = [_part(out, port, value) for port, value in zip(site.results, results, strict=True)]
    # The arguments keep their present values, whatever the function later writes to its arrays.
    before = [_again(args[k], values[k]) for k in site.traced]
    trace.calls.sites[site.number] = before, [_again(part, _copied(part._value)) for part in parts]
    return site.packed(parts)


def _shapes(trace: Trace, rule, args: list, values: list, results: list) -> tuple[list, list]:
    """Return the shapes of the arguments and of the results as size codes."""
    shapes = [dims_of(x) if type(x) is TracedArray else np.shape(x) for x in args]
    came = [np.shape(part) for part in results]
    plain = tuple(x for x in args if isinstance(x, PLAIN))
    found = rule.result_shapes(trace.tape.sizes, plain, shapes, came)
    if found is not None:
        return shapes, found
    for arg in args:
        if type(arg) is TracedArray:
            _ = arg.shape  # records guards on the sizes
    return list(map(np.shape, values)), came


def _again(x: TracedArray, value) -> TracedArray:
    """Return another traced array of the same cells, with a value of its own."""
    return new_traced(x._trace, value, x._id, x._level, x._family)


def flattened(trace: Trace, parts: list, dtype, dense: bool = False):
    """Return arrays and numbers, traced or not, one after the other in one vector.

    With ``dense`` its cells are contiguous: a view with steps is copied.
    """
    lines = [_line(x) for x in parts]
    if len(lines) == 1 and type(lines[0]) is TracedArray and lines[0].ndim:
        layout = layout_of(lines[0])
        if not dense or layout.dims[0] in (0, 1) or layout.strides == (1,):
            return lines[0]
    pieces, start, sizes = [], 0, trace.tape.sizes
    for line in lines:
        count = sizes.product(dims_of(line)) if type(line) is TracedArray else np.size(line)
        pieces.append((((start, count),), line))
        start = sizes.add(start, count)
    # An instruction needs an operand even if the rule has no arguments: one cell, which nobody reads.
    if not pieces:
        return np.zeros(1, dtype)
    return assemble(trace, (sizes.value(start),), dtype, pieces, (start,))


def _line(x):
    """Return an array as a vector; a number as it is."""
    if type(x) is not TracedArray:
        return np.ravel(x)
    return merge(contiguous(x), [x.ndim]) if x.ndim else x


def _part(flat: TracedArray, port: Port, value) -> TracedArray:
    """Return one of the results in a call's vector."""
    trace = flat._trace
    strides = trace.tape.contiguous_strides(port.shape)[0]
    part = view(flat, value, port.shape, strides, port.start)
    if port.dtype.kind != "f":
        return stop_gradient(part)
    if port.dtype == FLOAT32 and flat._family == F64:
        return new_traced(trace, value, trace.cast(part, F32), part._level, F32)
    return part


def _copied(value):
    return value.copy() if isinstance(value, np.ndarray) else value


def value_of_call(rule, args: list) -> tuple[list, bool]:
    """Return copies of the results of a rule, and whether there is one, given traced and other arguments."""
    return _value(rule, [_copied(value_of(arg)) for arg in args])


def _value(rule, values: list) -> tuple[list, bool]:
    """Call the rule as sweeps do; raise if it writes to an argument."""
    given = [_copied(value) for value in values]
    token = CURRENT.set(None)  # verbs that the rule calls do not belong to this trace
    try:
        result = rule.value(*given, **allocated(rule.workspace, map(ArgumentSpec.of, values)))
    except Exception as error:
        explain(rule, error)
        raise
    finally:
        CURRENT.reset(token)
    for k, (now, before) in enumerate(zip(given, values, strict=True)):
        if isinstance(before, np.ndarray) and before.dtype != object and now.tobytes() != before.tobytes():
            raise UnsupportedOperationError(
                f"the rule {rule.name} ({where_in_user_code()}) writes to its argument {k}: let it write to "
                "its workspace, and assign the result (x[...] = rule(x))"
            )
    return plain_result(rule.name, result, lambda part: type(part) is TracedArray)
