"""The reverse rule of a call of a user's rule: the user's own pullback, recorded.

A pullback that is compiled, or has a workspace, is recorded as a call itself (`Pulled`), and so is the
pushforward, which is its transpose (`Pushed`). Both are linear in their first arguments. For derivatives
with respect to the other arguments they are recorded by a formula in plain Python: the pullback, or the
transpose of the pushforward.
"""

from __future__ import annotations

import numpy as np

from ..derive.loop_bodies import Body
from ..derive.loops import LoopRules, called
from ..emitter import addresses
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..rules.emit import flattened
from ..rules.untraced_derivatives import Linear, Pulled, emit_linear, zeros_of
from ..tape.loop import Branches, Loop
from ..tape.tape import ACTIVE, F64, FAMILY_DTYPE
from ..trace import extents, operations
from ..trace.array import TracedArray, is_deferred, new_traced
from ..trace.axes import drop_axes, unmerge
from ..trace.primitives import FLOAT32, dims_of, seen, value_of
from ..trace.trace import CURRENT, Trace
from ..usercode.frames import where_in_user_code
from .emitting import emitter_of, symbol, traced


class CallRules(LoopRules):
    """The pullbacks of the calls that a trace has recorded."""

    def __init__(self, trace: Trace):
        self.trace = trace

    def inside(self, body: Body) -> CallRules:
        return BodyRules(self.trace, body)

    def check_call(self, numbers, need) -> None:
        rule = called(self.trace.tape, numbers)
        if need[1] and not isinstance(rule, (Loop, Branches)):
            _require_formula(rule.rule)

    def pull_lane(self, ct: Symbol, out: int, numbers, need, transposing: bool) -> tuple:
        """Run or record the user's pullback on traced arrays; return symbols."""
        trace = self.trace
        if isinstance(called(trace.tape, numbers), (Loop, Branches)):
            return super().pull_lane(ct, out, numbers, need, transposing)
        around, trace.differentiating = trace.differentiating, ct.emitter.line
        try:
            number = int(trace.tape.numbers[numbers[2]])
            # The call was repeated from a template, or another trace made it.
            if number not in trace.calls.sites:
                trace.calls.sites[number] = _parts_of_call(trace, called(trace.tape, numbers), out, numbers)
            parts = call(trace, traced(trace, ct), number, need, transposing)
            return tuple(None if part is None else symbol(trace, part) for part in parts)
        finally:
            trace.differentiating = around

    def lane_call(self, emitter, out: Symbol, numbers) -> tuple:
        """Register a call in one lane, and return the operands of its instruction.

        The arguments and the results of this call are those of the one lane.
        """
        trace = self.trace
        site = called(trace.tape, numbers)
        if isinstance(site, (Loop, Branches)):
            return numbers
        number = len(trace.tape.calls)
        trace.tape.calls.append(site)
        trace.calls.sites[number] = _parts_of_call(trace, site, out.number, numbers)
        return (*numbers[:2], trace.tape.literal(float(number), F64))


class BodyRules(CallRules):
    """The pullbacks of the calls in a body of a loop, to which a derivative is appended.

    They are traced, as those of other calls are, with the numbers that the body was traced with.

    Parameters
    ----------
    around
        The trace that records the derivative.
    body
        The body under construction.
    """

    def __init__(self, around: Trace, body: Body):
        super().__init__(_BodyTrace(around, body))

    def pull_lane(self, ct: Symbol, out: int, numbers, need, transposing: bool) -> tuple:
        trace = self.trace
        site = called(trace.tape, numbers)
        if isinstance(site, (Loop, Branches)):
            return super().pull_lane(ct, out, numbers, need, transposing)
        token = CURRENT.set(trace)
        try:
            return super().pull_lane(ct, out, numbers, need, transposing)
        finally:
            CURRENT.reset(token)


class _BodyTrace(Trace):
    """A trace that goes on with the tape of a body."""

    __slots__ = ("_name",)

    def __init__(self, around: Trace, body: Body):
        super().__init__(body.tape)
        self.derivatives.emitter, self.derivatives.taken = body.emitter, True
        self.strong, self.values, self.swept = around.strong, around.values, around.swept
        self.capture.copies, self.memory.writes = around.capture.copies, around.memory.writes
        self._name = body.loop.name
        slots = body.loop.body.inputs
        for slot, sample in zip(slots, body.loop.samples or [None] * len(slots), strict=True):
            shape = tuple(map(self.tape.sizes.value, slot.dims))
            self.derivatives.know(slot.value, np.ones(shape) if sample is None else np.reshape(sample, shape))

    def guard(self, array, kind: str, outcome):
        """Raise: a body is derived for all steps at once, and they may differ in the outcome."""
        raise UnsupportedOperationError(
            f"{self._name}: the derivative of a rule in its body branches on a value "
            f"({where_in_user_code()}); use np.where there"
        )

    def _results_of(self, call: int, operands):
        site = self.tape.calls[call]
        if isinstance(site, (Loop, Branches)):
            return super()._results_of(call, operands)
        first, rest = (np.ravel(x) for x in operands[:2])
        size = self.tape.sizes.value
        found = np.empty(site.cells(size)[0], FAMILY_DTYPE[site.family])
        token = CURRENT.set(None)  # verbs that the rule calls do not belong to this trace
        try:
            site.place(size, found, first, rest, None, None).forward()
        finally:
            CURRENT.reset(token)
        return found


def note_sites(trace: Trace) -> None:
    """Note arguments and results of the calls of rules on a tape that was recorded by another trace."""
    tape = trace.tape
    calls = tape.ops.with_trait("calls") if tape.calls else ()
    for row in tape.instructions() if calls else ():
        if not row.is_guard and row.row in calls:
            numbers = row.a, row.b, row.c
            site = called(tape, numbers)
            in_lanes = Symbol(emitter_of(trace), row.out).ndim > 1  # A call in lanes is noted by `lane_call`.
            if not in_lanes and not isinstance(site, (Loop, Branches)):
                trace.calls.sites[int(tape.numbers[row.c])] = _parts_of_call(trace, site, row.out, numbers)


def _parts_of_call(trace: Trace, site, out: int, numbers) -> tuple[list, list]:
    """Return the arguments and the results of a call, taken out of their cells."""
    a, b, result = (Symbol(emitter_of(trace), number) for number in (*numbers[:2], out))
    pairs = [(a, port) for port in site.first] + [(b, port) for port in site.rest]
    args = [_argument(trace, flat, port) for flat, port in pairs]
    return args, [_argument(trace, result, port) for port in site.results]


def call(trace: Trace, ct, number: int, need, transposing: bool) -> tuple:
    """Return one cotangent per operand of a call."""
    site = trace.tape.calls[number]
    rule, (args, results) = site.rule, trace.calls.sites[number]
    if not rule.reads_cotangents and is_deferred(ct):
        ct = _with_any_numbers(ct)
    cotangents = [_part(ct, port) for port in site.results]
    # A reverse sweep runs over this part of the tape later, and it cannot call the pullback of a pullback.
    formula = rule.has_formula and trace.swept and any(x._level == ACTIVE for x in args)
    if need[1]:
        parts = _of_everything(trace, site, args, cotangents)
    elif isinstance(rule, Linear):
        if formula or (rule.rule.pushforward is None and rule.has_formula):
            parts = _recorded(trace, rule.transpose(), [*cotangents, *rule.split(site.filled(args))[1]])
        else:
            parts = rule.nested(site, cotangents, results, args)
    elif transposing and rule.pushforward is not None:
        # This call makes the user's pushforward the transpose; a traced pullback would be transposed itself.
        parts = list(emit_linear(Pulled(rule, site), cotangents, results, args))
    elif formula and not rule.traceable:
        parts = _recorded(trace, Pulled(rule, site), [*cotangents, *results, *args])
    else:
        parts = rule.nested(site, cotangents, results, args)
    first = len(site.first)
    return (
        _joined(trace, site, parts[:first], site.first),
        _joined(trace, site, parts[first:], site.rest) if need[1] else None,
        None,
    )


def _with_any_numbers(ct: TracedArray) -> TracedArray:
    """Return a cotangent with numbers that are not its own, for a pullback that does the same for all.

    NumPy computes with them while the pullback is recorded, and what it makes of them is dropped. To compute
    the cotangent itself takes 40 µs for each instruction that it depends on, ten times as long as to record
    that instruction.
    """
    count = ct._trace.tape.sizes.product(dims_of(ct))
    numbers = np.cos(np.arange(1.0, 1.0 + ct._trace.tape.sizes.value(count)))
    return seen(ct, numbers.astype(FAMILY_DTYPE[ct._family]), ct._id)


def _joined(trace, site, parts, ports):
    """Return the cotangents of arguments packed as the operand's cotangent; None for zero."""
    if all(part is None for part in parts):
        return None
    dtype, sizes = FAMILY_DTYPE[site.family], trace.tape.sizes
    filled = []
    for part, port in zip(parts, ports, strict=False):
        if part is None:
            part = extents.filled(trace, port.shape, 0.0, dtype)
        else:
            dims = dims_of(part) if type(part) is TracedArray else np.shape(part)
            for own, wanted in zip(dims, port.shape, strict=True):
                sizes.same(own, wanted, trace.line())
        filled.append(part)
    return flattened(trace, filled, dtype)


def _part(ct, port):
    """Return the cotangent of one of the results."""
    if port.shape == ():
        part = drop_axes(_cut(ct, port.start, 1), (0,))
    else:
        count = ct._trace.tape.sizes.product(port.shape)
        part = unmerge(_cut(ct, port.start, count), port.shape)
    narrow = port.dtype == FLOAT32 and value_of(part).dtype != FLOAT32
    return np.astype(part, np.float32) if narrow else part


def _cut(x: TracedArray, first: int, count: int) -> TracedArray:
    """Return some cells of a vector; where they are is told by size codes."""
    tape = x._trace.tape
    start, stop = tape.sizes.value(first), tape.sizes.value(first) + tape.sizes.value(count)
    return seen(x, x._value[start:stop], addresses.cut(tape, x._id, 0, first, count))


def _argument(trace: Trace, flat: Symbol, port) -> TracedArray:
    """Return an argument or a result of a call, taken out of its cells."""
    part = _part(traced(trace, flat), port)
    if port.dtype.kind == "f":
        return part
    value = np.asarray(part._value).astype(port.dtype)[()]
    return new_traced(trace, value, part._id, part._level, F64)


# ---- formulas


def _require_formula(rule) -> None:
    """Raise if the pullback or the pushforward that a call makes cannot be differentiated itself."""
    if not isinstance(rule, Linear) or not rule.has_formula:
        raise rule.no_further_derivative()


def _of_everything(trace, site, args, cotangents) -> list:
    """Return the cotangents of all traced arguments of a pullback or pushforward, recorded by a formula."""
    linear = site.rule
    _require_formula(linear)
    chosen = [k for k, x in enumerate(args) if operations.is_float(x)]

    def function(leaves):
        given = list(args)
        for k, leaf in zip(chosen, leaves, strict=True):
            given[k] = leaf
        return tuple(_recorded(trace, linear, site.filled(given)))

    run = operations.Linearised(trace, function, [args[k] for k in chosen])
    parts: list = [None] * len(args)
    for k, part in zip(chosen, run.pull(_of_outputs(run, cotangents)), strict=True):
        parts[k] = part
    return parts


def _of_outputs(run, cotangents) -> list:
    """Return the cotangents of the parts of a result that are traced."""
    pairs = zip(run.parts, cotangents, strict=True)
    return [ct for part, ct in pairs if type(part) is TracedArray and operations.is_float(part)]


def _recorded(trace, linear: Linear, flat) -> list:
    """Record a pullback or a pushforward by its formula, or as the transpose of the other's."""
    if linear.formula is not None:
        return linear.direct(flat)
    other = linear.transpose()
    first, rest = linear.split(flat)
    zeros = [zeros_of(x) for x in linear.models(flat)]
    run = operations.Linearised(trace, lambda ghosts: tuple(other.direct([*ghosts, *rest])), zeros)
    pulled = run.pull(_of_outputs(run, first))
    return [operations.or_zeros(part, zero) for part, zero in zip(pulled, zeros, strict=True)]
