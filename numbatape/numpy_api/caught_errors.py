"""Operations that raise for some numbers, where the function may catch what they raise.

Whether they raise decides about the function's path then, and so is a guard, on both paths: the error is
raised after the guard that says when, and a later call takes that path without a trace. Elsewhere nothing is
recorded for it: sweeps stop at matrices that have no factor, and the function runs again, which raises.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..emitter.instructions import row
from ..trace.array import TracedArray
from ..trace.operands import lift_all, lift_first
from ..trace.primitives import array_instruction, layout_of, trace_of, value_of
from ..usercode.frames import catches
from .packed_results import packed

# Ops of which there are others that say how it went (`numbatape.ops.attempts`).
ATTEMPTED = frozenset(("cholesky", "solve", "inv"))
# By library and name: what reads the op and its operands off the arguments of a function that has raised.
FAILING: dict[tuple[str, str], Callable] = {}


def fails_as(library: str, *names: str) -> Callable:
    """Register what reads the op that has failed, and its operands, off the arguments of functions."""

    def register(reads: Callable) -> Callable:
        FAILING.update({(library, name): reads for name in names})
        return reads

    return register


def triangle(a, lower: bool):
    """Return a matrix whose lower triangle is the one that a factorisation reads."""
    a = lift_first(a)
    return a if lower else np.matrix_transpose(a)


def columns(a, b) -> tuple:
    """Return the operands of a system, a vector as a column."""
    a, b = lift_all(a, b)
    return a, b if b.ndim > 1 else b[:, None]


def factorisation(op: str, operands, value):
    """Record an op that stops sweeps at some matrices; with a guard, if the function may go on there.

    Parameters
    ----------
    op
        A row of the table.
    value
        NumPy's result.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where NumPy has factored a matrix that the kernel could not, which the sweep after a trace has found:
        both are right within rounding, and the kernel decides about all later calls.
    """
    if not (value.size and is_caught(op, operands)):
        return array_instruction(op, operands, value)
    trace = trace_of(operands)
    refuted = len(trace.tape.guards) in trace.validity.refuted
    result = _attempt(op, operands, np.zeros_like(value) if refuted else value, not refuted)
    if refuted:
        raise trace.validity.foresee(np.linalg.LinAlgError(row(op).failure))
    return result


def is_caught(op: str, operands) -> bool:
    """Whether an op may raise where the function goes on, so that a guard has to say when it does."""
    trace = trace_of(operands)
    if op not in ATTEMPTED or trace.in_loop or trace.validity.vouched:
        return False
    return catches(np.linalg.LinAlgError, trace.start)


def _attempt(op: str, operands, value, success: bool):
    """Record an attempt and a guard on its outcome; return the result."""
    trace = trace_of(operands)
    core = layout_of(operands[-1]).dims[-2:]
    flags = np.full(value.shape[:-2], float(success), value.dtype)
    # Nothing reads the result of what has failed.
    result, done = packed(f"attempted_{op}", operands, (value, flags), (core, ()), success)
    trace.validity.attempts.append(len(trace.tape.guards))
    done = np.all(done) if done.ndim else done
    trace.guard(done, "bool", success)
    return result


def note_raised(function, implementation, args: tuple, kwargs: dict, error: Exception) -> None:
    """Record the guards that say when a function raises an error, if it is one of a few and may be caught.

    Parameters
    ----------
    function, implementation
        The function, and what records it.
    """
    module, _, _ = (getattr(function, "__module__", None) or "numpy").partition(".")
    if module == "math":
        _note_domain(function.__name__, implementation, args, error)
    elif isinstance(error, np.linalg.LinAlgError):
        _note_singular(module, function, args, kwargs, error)


# What `math` says of finite numbers. From Python 3.14 on it also says which number it was.
DOMAIN = ("math domain error", "math range error")
# A pole is a domain error, and a large result a range error: the argument tells infinities apart.
POLES = {"pow": np.equal, "gamma": np.less_equal, "lgamma": np.less_equal}


def _note_domain(name: str, implementation, args: tuple, error: Exception) -> None:
    """Record what NumPy makes of numbers for which ``math`` raises; the guards say that it is not finite."""
    traced = [x for x in args if type(x) is TracedArray]
    if not traced or len(traced) < sum(not isinstance(x, (int, float)) for x in args):
        return  # a function of a list
    trace = trace_of(traced)
    if trace.in_loop or trace.validity.vouched or str(error) not in DOMAIN:
        return
    if not catches(type(error), trace.start) or not np.all(np.isfinite([*map(value_of, args)])):
        return
    with np.errstate(all="ignore"):
        result = implementation(*args)
    if type(result) is not TracedArray or np.isfinite(value_of(result)):
        return
    if not np.isnan(result) and name in POLES:
        bool(POLES[name](args[0], 0.0))
    trace.validity.foresee(error)


def _note_singular(module: str, function, args: tuple, kwargs: dict, error: Exception) -> None:
    reads = FAILING.get((module, getattr(function, "__name__", "")))
    if reads is None:
        return
    op, *operands = reads(*args, **kwargs)
    if any(type(x) is not TracedArray for x in operands):
        return  # complex ones
    values = [np.asarray(value_of(x)) for x in operands]  # shapes of traced arrays would become guards
    rows, columns = values[0].shape[-2:] if values[0].ndim > 1 else (0, 1)
    if rows != columns or any(x.ndim < 2 or x.dtype.kind != "f" for x in values):
        return
    shape = np.broadcast_shapes(*[x.shape[:-2] for x in values]) + values[-1].shape[-2:]
    value = np.zeros(shape, np.result_type(*values))
    if value.size and is_caught(op, operands):
        _attempt(op, operands, value, False)
        trace_of(operands).validity.foresee(error)
