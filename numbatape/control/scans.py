"""Loops with a body that is traced once: `scan`, `fori_loop` and `map`.

Outside of any trace they are ordinary Python loops over arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OutputError, ShapeError, SpecError, StructureError
from ..trace import pytrees
from ..trace.library_kinds import is_masked
from ..trace.primitives import sample_of
from ..trace.symbolic_sizes import code_of, is_size, seen, valued
from ..trace.trace import current, failing
from .argument_checks import check_flags, check_functions, whole
from .body_traces import stacked_leaf
from .carries import Carries
from .checkpoints import in_segments, shape_of
from .emitted_scans import emitted
from .packing import result_of
from .trees import abandoned, check_numbers, compare, leaves_of, named_leaves, names_of, text_of


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: int | str | None = None,
) -> Any:
    """Apply a function to a carry and each row of arrays in turn; stack its outputs.

    It does what this loop does, but a trace records ``f`` once, whatever the length::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    Parameters
    ----------
    f : callable
        ``f(carry, x)`` → ``(carry, y)``. The carry keeps its structure, shapes and dtypes. ``f`` may use
        traced values and arrays from outside, and write to arrays that it has made itself or got as carry.
    init : tree of arrays
        The first carry: an array, a number, or a container of them.
    xs : tree of arrays, optional
        ``f`` gets one row of each array in each step. None if there is nothing to go through.
    length : int, optional
        The number of steps; needed if ``xs`` has no array.
    reverse : bool
        Whether to go from the last row to the first; the outputs are stacked in the order of the rows.
    checkpoint : int or "sqrt", optional
        Save memory in reverse mode: only the carries between segments are kept, and the steps of a segment
        are computed again before they are swept back. A number of segments; "sqrt" makes segments of about
        the square root of the length. Lengths that segments divide have a trace of their own.

    Returns
    -------
    carry : tree of arrays
        The last carry.
    ys : tree of arrays
        The outputs of all steps, stacked along a first axis.

    Raises
    ------
    SpecError
        If the length is not known or negative, or if arrays have different lengths.
    StructureError, ShapeError, DtypeError
        If ``f`` returns the carry with another structure, shape or dtype; the message names the leaf.
    UnsupportedOperationError
        While it is traced: ``f`` branches on a value that differs from step to step.
    LeakError
        While it is traced: a value from inside of ``f`` is used elsewhere without having been returned.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> def f(rate, x):
    ...     def step(level, increment):
    ...         level = rate * level + increment
    ...         return level, level
    ...     last, levels = nt.scan(step, 0.0, x)
    ...     return last + np.sum(levels**2)
    >>> float(nt.grad(f)(0.5, np.array([1.0, 2.0, 4.0])))
    39.5
    """
    check_functions("nt.scan", f=f)
    check_flags("nt.scan", reverse=reverse)
    if checkpoint is None:
        return _scan("nt.scan", f, init, xs, length, reverse, f)
    leaves, structure = pytrees.flatten(xs)
    arrays = {
        where: _rows("nt.scan", x, where)
        for x, where in zip(leaves, names_of(structure, "xs"), strict=True)
        if x is not None
    }
    count = _count_of(current(), arrays, length)

    def run(g, carry, rows, steps):
        return _scan("nt.scan", g, carry, rows, steps, reverse, f, is_segment=True)

    return in_segments(run, f, init, xs, count, reverse, checkpoint)


def fori_loop(lower: Any, upper: Any, body_fun: Callable, init_val: Any) -> Any:
    """Apply a function to a counter and a carry, for each integer from ``lower`` to ``upper`` (exclusive).

    It does what this loop does, but a trace records ``body_fun`` once::

        carry = init_val
        for i in range(lower, upper):
            carry = body_fun(i, carry)
        return carry

    Parameters
    ----------
    lower, upper : int
        Where to begin and where to stop. There are no steps if ``upper`` is not greater.
    body_fun : callable
        ``body_fun(i, carry)`` → the next carry, with the same structure, shapes and dtypes.
    init_val : tree of arrays
        The first carry.

    Returns
    -------
    tree of arrays
        The last carry.

    Raises
    ------
    StructureError, ShapeError, DtypeError, UnsupportedOperationError, LeakError
        As in `scan`.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> def power(x):
    ...     return nt.fori_loop(0, 3, lambda i, y: y * x + i, 1.0)
    >>> float(power(2.0)), float(nt.grad(power)(2.0))
    (12.0, 13.0)
    """
    check_functions("nt.fori_loop", body_fun=body_fun)
    lower = whole("nt.fori_loop", "lower", lower)
    # Where there is no trace, there are no traced sizes, and their file need not be imported.
    tracing = current() is not None
    upper = upper if tracing and is_size(upper) else whole("nt.fori_loop", "upper", upper)

    def step(carry, _):
        i, value = carry
        return (i + 1, body_fun(i, value)), None

    if not upper > lower:  # the body may fail without a step: its arrays may have no entries
        return pytrees.copied(init_val)
    init = np.int64(lower), init_val
    (_, last), _ = _scan("nt.fori_loop", step, init, None, upper - lower, False, body_fun)
    return last


def map(f: Callable, xs: Any) -> Any:
    """Apply a function to each row of arrays; stack the results.

    Parameters
    ----------
    f : callable
        A function of one row of each array in ``xs``.
    xs : tree of arrays
        Arrays of equal length.

    Returns
    -------
    tree of arrays
        The results, stacked along a first axis.

    Raises
    ------
    SpecError, UnsupportedOperationError, LeakError
        As in `scan`.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> f = lambda a, x: np.sum(nt.map(lambda row: np.exp(a * row).sum(), x))
    >>> float(nt.grad(f)(0.0, np.array([[1.0, 2.0], [3.0, 4.0]])))
    10.0
    """
    check_functions("nt.map", f=f)
    return _scan("nt.map", lambda carry, x: (carry, f(x)), (), xs, None, False, f)[1]


def _scan(name: str, f: Callable, init, xs, length, reverse: bool, user: Callable, is_segment: bool = False):
    """Scan with a body that calls a function of the user's; ``is_segment`` is as in `emitted`."""
    trace = current()
    if trace is None:
        return _in_python(name, f, init, xs, length, reverse)
    with failing(trace):
        return _recorded(trace, name, f, init, xs, length, reverse, user, is_segment)


# ---- outside of any trace


def _in_python(name: str, f, init, xs, length, reverse: bool):
    """Return what a scan over plain arrays returns, by Python's loop: the carry and the stacked outputs."""
    arrays, structure = pytrees.flatten(xs)
    if any(is_masked(x) for x in arrays):
        raise SpecError(f"{name}: masked arrays are not supported; pass data and mask apart")
    arrays = [None if x is None else np.asarray(x) for x in arrays]
    places = names_of(structure, "xs")
    for x, where in [*zip(arrays, places, strict=True), *zip(*named_leaves(name, init), strict=True)]:
        check_numbers(name, where, x)
    rows = [
        (where, len(_rows(name, x, where))) for x, where in zip(arrays, places, strict=True) if x is not None
    ]
    count = _length(name, rows, length)
    carry, outputs, kind = pytrees.copied(init), [], None
    order = reversed(range(count)) if reverse else range(count)
    for k in order:
        row = pytrees.unflatten(structure, [None if x is None else pytrees.copied_leaf(x[k]) for x in arrays])
        before = carry
        carry, y = pytrees.copied(_pair(name, f(carry, row)))  # the next step may write to its carry
        compare(name, before, carry)
        leaves, its = pytrees.flatten(y)
        if kind is not None and its != kind:
            texts = text_of(kind), text_of(its)
            raise StructureError(
                f"{name}: the output has the structure {texts[0]} in one step, and {texts[1]} in another"
            )
        kind = its
        outputs.append(leaves)
    if reverse:
        outputs.reverse()
    # If the loop has no step, nothing says what the outputs are, so the body runs once, and its
    # carry is dropped.
    if kind is None:
        empty = [None if x is None else np.zeros(x.shape[1:], x.dtype)[()] for x in arrays]
        with np.errstate(all="ignore"):
            _, y = _pair(name, f(pytrees.copied(init), pytrees.unflatten(structure, empty)))
        leaves, kind = pytrees.flatten(y)
        stacked = [None if x is None else np.zeros((0, *np.shape(x)), np.asarray(x).dtype) for x in leaves]
        return carry, pytrees.unflatten(kind, stacked)
    columns = zip(zip(*outputs, strict=True), names_of(kind, "the output"), strict=True)
    stacked = [_stacked(name, column, where) for column, where in columns]
    return carry, pytrees.unflatten(kind, stacked)


def _stacked(name: str, column, where: str):
    """Return outputs along a first axis; ``np.stack`` of ``np.matrix`` objects writes beyond its memory."""
    first = column[0]
    for y in column:
        if (y is None) != (first is None):
            raise StructureError(f"{name}: {where} is None in one step, and an array in another")
        check_numbers(name, where, y)
        if np.shape(y) != np.shape(first):
            raise ShapeError(
                f"{name}: {where} has shape {np.shape(first)} in one step, and {np.shape(y)} in another"
            )
    if first is None:
        return None
    return np.stack([np.asarray(y) if isinstance(y, np.matrix) else y for y in column])


def _rows(name: str, x, where: str):
    if not np.ndim(sample_of(x)):
        raise ShapeError(f"{name}: {where} is a number, and has no first axis to go through")
    return x


def _length(name: str, lengths: list[tuple[str, int]], length) -> int:
    """Return the number of steps; raise where what was given disagrees.

    Parameters
    ----------
    lengths
        What messages call each array, and how many rows it has.
    """
    if length is not None:
        length = whole(name, "length", length)
        if length < 0:
            raise SpecError(f"{name}: the length is negative ({length})")
        lengths = [("length=", length), *lengths]
    if not lengths:
        more = "" if name == "nt.map" else ", so length= must say how many steps there are"
        raise SpecError(f"{name}: there is no array to go through{more}")
    (_, first), *_ = lengths
    if any(count != first for _, count in lengths):
        texts = (f"{where} {'says' if where == 'length=' else 'has'} {count}" for where, count in lengths)
        raise SpecError(f"{name}: lengths differ: {', '.join(texts)}")
    return first


def _count_of(trace, arrays: dict, length):
    """Return the number of steps of a scan: a size, where the lengths of traced arrays are sizes."""
    if trace is None:
        return _length("nt.scan", [(where, len(x)) for where, x in arrays.items()], length)
    lengths = [shape_of(x)[0] for x in arrays.values()]
    _length("nt.scan", list(zip(arrays, valued(lengths), strict=True)), valued(length))
    code, *others = [code_of(trace, n) for n in ([] if length is None else [length]) + lengths]
    for other in others:
        code = trace.tape.sizes.same(min(code, other), max(code, other))
    return seen(trace, code)


def _pair(name: str, result):
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        got = f"{len(result)} parts" if isinstance(result, (tuple, list)) else "one value"
        raise OutputError(f"{name}: the body must return a pair (carry, output), got {got}")
    return result


# ---- while tracing


def _recorded(trace, name: str, f, init, xs, length, reverse: bool, user, is_segment: bool):
    """Trace the body once, append the loop, and return the last carry and the stacked outputs."""
    carries = Carries(trace, name, (user,), init)
    arrays, rows = leaves_of(xs)
    places = names_of(rows, "xs")
    for leaf, where in zip(arrays, places, strict=True):
        check_numbers(name, where, leaf)
    stacked = [
        (where, leaf, *stacked_leaf(trace, _rows(name, leaf, where), where))
        for leaf, where in zip(arrays, places, strict=True)
        if leaf is not None
    ]
    sizes = trace.tape.sizes
    codes = [code for *_, code in stacked]
    count = _length(name, [(where, sizes.value(code)) for where, *_, code in stacked], valued(length))
    asked = code_of(trace, length) if is_size(length) else count
    code = codes[0] if codes else asked
    for other in codes[1:]:
        code = sizes.same(code, other)
    if length is not None:
        sizes.guard(code, "==", asked)
        sizes.guard(asked, ">=", 0)
    slices = [leaf for _, _, leaf, _ in stacked]

    def step(values):
        filled = iter(values)
        carry = carries.tree(filled)
        x = [None if leaf is None else next(filled) for leaf in arrays]
        return _pair(name, f(carry, pytrees.unflatten(rows, x)))

    body, numbers, ys = carries.traced(step, count, slices)
    with abandoned(body):
        leaves, kind = leaves_of(ys)
        for leaf, where in zip(leaves, names_of(kind, "the output"), strict=True):
            check_numbers(name, where, leaf)
        outputs = [leaf for leaf in leaves if leaf is not None]
        kinds = [np.asarray(sample_of(leaf)).dtype for leaf in outputs]
        numbers = [*numbers, *(body.output(leaf) for leaf in outputs)]
    carries.counters.guard(code)
    last, stacks = emitted(body, name, code, reverse, carries.leaves, slices, numbers, is_segment)
    parts = iter([result_of(trace, number, dtype) for number, dtype in zip(stacks, kinds, strict=True)])
    ys = [None if leaf is None else next(parts) for leaf in leaves]
    return carries.ends(last), pytrees.unflatten(kind, ys)
