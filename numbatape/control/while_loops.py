"""`while_loop`: a loop whose number of steps follows from its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError, StepsError
from ..tape.loop import CARRY, Loop, Out, Port
from ..trace import operations, pytrees
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import current, failing
from .argument_checks import check_functions, check_truth, whole
from .body_state import run_step
from .body_traces import BodyTrace
from .carries import Carries
from .packing import Packing, emit, part, result_of
from .trees import abandoned, compare

LEAST = 64  # steps for which a tape has room, at least
BOOL = np.dtype(bool)


def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any, max_steps: int | None = None) -> Any:
    """Apply a function to a carry as long as a condition holds.

    It does what this loop does, but a trace records both functions once::

        carry = init_val
        while cond_fun(carry):
            carry = body_fun(carry)
        return carry

    Reverse mode works, too: the steps are counted, and their carries kept.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(carry)`` → one truth value.
    body_fun : callable
        ``body_fun(carry)`` → the next carry, with the same structure, shapes and dtypes.
    init_val : tree of arrays
        The first carry.
    max_steps : int, optional
        The most steps there may be. Without it a tape has room for twice as many steps as it was traced with,
        and a call that takes more is traced again. It is needed inside of another loop's body.

    Returns
    -------
    tree of arrays
        The last carry.

    Raises
    ------
    StepsError
        If there are more than ``max_steps`` steps.
    SpecError
        If the condition is not a single value; if ``max_steps`` is negative, or missing in another body.
    StructureError, ShapeError, DtypeError, UnsupportedOperationError, LeakError
        As in `scan`.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> def root(a):  # Newton's method
    ...     return nt.while_loop(lambda x: np.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> float(root(9.0)), round(float(nt.grad(root)(9.0)), 9)
    (3.0, 0.166666667)
    """
    check_functions("nt.while_loop", cond_fun=cond_fun, body_fun=body_fun)
    if max_steps is not None:
        max_steps = whole("nt.while_loop", "max_steps", max_steps)
        if max_steps < 0:
            raise SpecError(f"nt.while_loop: max_steps is negative ({max_steps})")
    trace = current()
    if trace is None:
        return _in_python(cond_fun, body_fun, init_val, max_steps)
    with failing(trace):
        return _recorded(trace, cond_fun, body_fun, init_val, max_steps)


def _too_many(max_steps: int) -> StepsError:
    return StepsError(f"nt.while_loop: the condition still holds after max_steps={max_steps} steps")


def _in_python(cond_fun, body_fun, init, max_steps):
    count, carry = 0, pytrees.copied(init)  # the body may write to it
    while _truth(cond_fun(carry)):
        if count == max_steps:
            raise _too_many(max_steps)
        before, carry = carry, pytrees.copied(body_fun(carry))
        compare("nt.while_loop", before, carry)
        count += 1
    return carry


def _truth(value):
    check_truth("nt.while_loop: the condition", value)
    return value


def _recorded(trace, cond_fun, body_fun, init, max_steps):
    """Trace the test and the body once, append a loop with room for the steps, and return its carry.

    Without ``max_steps`` it has room for twice the steps of this run; that they suffice is a guard.
    """
    name, tape, sizes = "nt.while_loop", trace.tape, trace.tape.sizes
    if trace.in_loop and max_steps is None:
        raise SpecError(f"{name}: inside of the body of another loop it needs max_steps=")
    carries = Carries(trace, name, (body_fun,), init)
    most = LEAST if max_steps is None else max_steps
    body, numbers, _ = carries.traced(lambda values: (body_fun(carries.tree(iter(values))), None), most)
    given, counters = carries.leaves, carries.counters
    levels = [tape.level_of(leaf.number) for leaf in given]
    made = body.close(numbers, len(given), levels)
    test = BodyTrace(trace, name)
    holds = run_step(test, lambda values: cond_fun(carries.tree(iter(values))), given, (cond_fun,))
    with abandoned(test):
        truth = test.output(np.not_equal(_truth(as_ndarrays(holds)), 0))
    tested = test.close([truth], 0, [0] * len(given))
    pack = Packing(trace)
    ports = [pack.port(CARRY, leaf.number, 1, sizes.product(leaf.dims)) for leaf in given]
    test_ports = [Port(CARRY, 0, k, port.count) for k, port in enumerate(ports)]
    ports += [pack.captured(key) for key in made.captured]
    test_ports += [pack.captured(key) for key in tested.captured]
    outs, end = [], 0
    for k, leaf in enumerate(given):
        outs.append(Out(CARRY, k, end, sizes.product(leaf.dims)))
        end = sizes.add(end, outs[-1].count)
    operands, extents = pack.operands(), (sizes.add(end, 2), *pack.ends)

    def loop(steps: int) -> Loop:
        places = tuple(ports), tuple(outs), extents
        return Loop(
            name,
            made.tape,
            made.dimensions,
            steps,
            False,
            *places,
            test=tested.tape,
            test_ports=tuple(test_ports),
            counted=end,
            strict=max_steps is not None,
            samples=made.samples,
        )

    steps = max_steps
    if steps is None:
        steps = 2 * _counted(trace, loop, operands, LEAST)
        if steps > 2 * counters.most:
            raise counters.too_many(name)
        steps = min(steps, counters.most)
    final = loop(steps)
    if trace.derivatives.taken:
        final = final.with_history(sizes)
    result = emit(trace, final, operands)
    if max_steps is None:
        more = result_of(trace, part(trace, result, (), sizes.add(end, 1)), BOOL)
        assert not more  # a guard: with more steps the function is traced again
    ends = [part(trace, result, leaf.dims, out.start) for leaf, out in zip(given, outs, strict=True)]
    return carries.ends(ends)


def _counted(trace, loop: Callable[[int], Loop], operands, most: int) -> int:
    """Return a number of steps that is enough for the numbers of this call: LEAST, or a power of two."""
    values = [np.asarray(trace.evaluation.value(number)) for number in operands]
    size = trace.tape.sizes.value
    while True:
        tried = loop(most)
        result = operations.loop_values(tried, size, trace.values, *values)
        count, more = result[size(tried.counted) :][:2]
        if not more:
            return max(LEAST // 2, 1 << int(count).bit_length())
        most *= 4
