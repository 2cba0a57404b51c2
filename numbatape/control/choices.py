"""Branches of which one runs: `cond` and `switch`.

Outside of any trace, and where the choice is no traced value, they are ordinary calls. Otherwise all
functions are traced, once each, and a sweep runs the one that the numbers of its call choose.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DtypeError, ShapeError, SpecError, StructureError
from ..tape.loop import STACK, Branches, Loop, Out
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.integers import as_index
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import operand, sample_of
from ..trace.trace import current, failing
from .argument_checks import check_functions, check_truth
from .body_state import BodyState
from .body_traces import BodyTrace, of_trace
from .packing import Packing, emit, part, result_of
from .trees import (
    WEAK,
    abandoned,
    check_complex,
    check_numbers,
    check_structure,
    leaves_of,
    names_of,
)


def cond(pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """Call one of two functions: ``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    A trace records both, and derivatives run the one that ``pred`` chooses in each call. Python's own ``if``
    is recorded for one outcome at a time, and needs a trace for each.

    Parameters
    ----------
    pred : bool
        One truth value.
    true_fun, false_fun : callable
        Functions of the operands, which return trees of one structure, with the same shapes and dtypes. They
        may use traced values and arrays from outside.
    *operands : trees of arrays
        Arguments of both.

    Returns
    -------
    tree of arrays
        What the chosen function returns.

    Raises
    ------
    SpecError
        If ``pred`` is not a single truth value.
    StructureError, ShapeError, DtypeError
        While it is traced: the functions return different structures, shapes or dtypes.
    UnsupportedOperationError, LeakError
        While it is traced, as in `scan`.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> def huber(x):
    ...     return nt.cond(np.abs(x) < 1.0, lambda z: 0.5 * z**2, lambda z: np.abs(z) - 0.5, x)
    >>> [float(nt.grad(huber)(x)) for x in (0.5, 3.0)]
    [0.5, 1.0]
    """
    check_functions("nt.cond", true_fun=true_fun, false_fun=false_fun)
    pred = as_ndarrays(as_index(pred))
    check_truth("nt.cond: the predicate", pred)
    if type(pred) is not TracedArray:
        return _chosen(true_fun if pred else false_fun, operands)
    return _recorded("nt.cond", np.not_equal(pred, 0), (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """Call one of several functions: ``branches[index](*operands)``.

    A trace records all of them, and derivatives run the one that ``index`` chooses in each call.

    Parameters
    ----------
    index : int
        Which function is called. A negative index means the first one, and one that is too large the last.
    branches : sequence of callable
        Functions of the operands, as in `cond`.
    *operands : trees of arrays
        Arguments of all of them.

    Returns
    -------
    tree of arrays
        What the chosen function returns.

    Raises
    ------
    SpecError
        If ``index`` is not a single integer, or there is no branch.
    StructureError, ShapeError, DtypeError, UnsupportedOperationError, LeakError
        As in `cond`.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> def f(x, k):
    ...     return nt.switch(k, [np.sin, np.cos, lambda z: z**3], x)
    >>> [float(nt.grad(f)(2.0, k)) for k in (2, 5)]
    [12.0, 12.0]
    """
    if not isinstance(branches, Sequence):
        raise TypeError(f"nt.switch: branches must be a sequence of functions, got {branches!r}")
    index, branches = as_ndarrays(as_index(index)), tuple(branches)
    check_functions("nt.switch", **{f"branches[{k}]": branch for k, branch in enumerate(branches)})
    if not branches:
        raise SpecError("nt.switch: there is no branch to choose from")
    sample = np.asarray(sample_of(index))
    if sample.shape != () or sample.dtype.kind not in "iub":
        raise SpecError(
            f"nt.switch: the index has shape {sample.shape} and dtype {sample.dtype}, not one integer"
        )
    if type(index) is not TracedArray:
        return _chosen(branches[min(max(operator.index(index), 0), len(branches) - 1)], operands)
    if len(branches) == 1:
        return _chosen(branches[0], operands)
    return _recorded("nt.switch", index, branches, operands)


def _chosen(function, operands):
    """Return what the chosen function returns, in memory of its own as from a recorded choice."""
    trace, result = current(), function(*operands)
    return pytrees.copied(result) if trace is None or trace.memory.writes else result


def _recorded(name: str, index: TracedArray, functions, operands):
    trace = current() or index._trace
    with failing(trace):
        index = of_trace(trace, index)
        return _emitted(trace, name, index, functions, operands)


def _emitted(trace, name: str, index: TracedArray, functions, operands):
    """Trace all branches, append the instruction that runs one of them, and return its result.

    The results must agree in structure and shapes; a common dtype holds those of any branch.
    """
    sizes = trace.tape.sizes
    pack = Packing(trace)
    place = pack.passive(operand(trace, index, 0))
    bodies, shapes, dtypes, structure, first = [], [], [], None, None
    state = BodyState(trace, name, functions)
    for function in functions:
        body = BodyTrace(trace, name)
        result = body.run(lambda _, function=function: function(*operands), [])
        with abandoned(body):
            state.check_left()
            leaves, found = leaves_of(result)
            if structure is None:
                first, structure, absent = result, found, [leaf is None for leaf in leaves]
            check_complex(
                name, "the result", first, result, "{} has dtype {} in one branch, and {} in another"
            )
            check_structure(name, "the result of one branch", structure, found, "that of another one is")
            for where, missing, leaf in zip(names_of(structure, "the result"), absent, leaves, strict=True):
                if missing != (leaf is None):
                    raise StructureError(f"{name}: {where} is None in one branch, and an array in another")
                check_numbers(name, where, leaf)
            leaves = [leaf for leaf in leaves if leaf is not None]
            numbers = [body.output(leaf) for leaf in leaves]
            its = [body.dims_of(number) for number in numbers]
            kinds = [(np.asarray(sample_of(leaf)).dtype, type(leaf) in WEAK) for leaf in leaves]
            _check(trace, name, names_of(structure, "the result"), shapes, its, dtypes, kinds)
        shapes, dtypes = shapes or its, _common(dtypes, kinds)
        bodies.append(body.close_whole(numbers))
    outs, places, end = [], [], 0
    for dims in shapes:
        count = sizes.product(dims)
        outs.append(Out(STACK, -1, end, count))
        places.append((dims, end))
        end = sizes.add(end, count)
    ports = [[pack.captured(key) for key in body.captured] for body in bodies]
    filled = pack.operands()
    extents = (end, *pack.ends)
    loops = [
        Loop(
            name, body.tape, body.dimensions, 1, False, tuple(its), tuple(outs), extents, samples=body.samples
        )
        for body, its in zip(bodies, ports, strict=True)
    ]
    result = emit(trace, Branches(name, tuple(loops), place, extents), filled)
    parts = iter(
        [
            result_of(trace, part(trace, result, dims, start), dtype)
            for (dims, start), (dtype, _) in zip(places, dtypes, strict=True)
        ]
    )
    return pytrees.unflatten(structure, [None if skip else next(parts) for skip in absent])


def _check(trace, name: str, names, shapes, its, dtypes, kinds) -> None:
    """Raise if a branch returns other shapes or dtypes than those before it."""
    size = trace.tape.sizes
    for where, dims, own in zip(names, shapes, its, strict=False):
        old, new = (tuple(map(size.value, each)) for each in (dims, own))
        if old != new:
            raise ShapeError(f"{name}: {where} has shape {old} in one branch, and {new} in another")
        for left, right in zip(dims, own, strict=True):
            size.same(left, right)
    for where, (old, weak), (new, too) in zip(names, dtypes, kinds, strict=False):
        if old != new and not weak and not too:
            raise DtypeError(f"{name}: {where} has dtype {old} in one branch, and {new} in another")


def _common(dtypes, kinds) -> list[tuple[np.dtype, bool]]:
    """Return the dtypes of the results; Python numbers take those of arrays."""
    if not dtypes:
        return kinds
    found = []
    for (old, weak), (new, too) in zip(dtypes, kinds, strict=True):
        if weak == too:
            found.append((np.result_type(old, new), weak))
        else:
            strong, other = (new, old) if weak else (old, new)
            found.append((strong if other.kind <= "f" <= strong.kind else np.result_type(old, new), False))
    return found
