"""Compositions that recur in one trace are repeated from a template, without running them.

``np.interp`` is a composition of a dozen instructions, and takes half a millisecond of Python to record. In
the turns of a loop it appends the same instructions each time, with other operands. So what a composition
appended is noted as a template, by all that it can depend on: the layouts, levels and dtypes of its
arguments, which of these share cells, its options, the class, dtype and shape of NumPy's result, and of
which argument it is a view. A further call with the same of these appends the template with its own operands.

A template (`numbatape.numpy_api.composition_templates`) is recorded at the second call that is like others,
because the first one makes what later ones find: sizes as numbers, tables, entries of vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..tape.code import LAST_OUT
from ..tape.tape import CONSTANT
from ..trace.aliasing import root_of
from ..trace.array import TracedArray, new_traced, note
from ..trace.complex_array import TracedComplex
from .composition_templates import (
    ARRAY,
    CALL,
    CELL,
    PART,
    POOL_COUNT,
    State,
    Template,
    Unrepeatable,
    arrays_of,
    lenders,
)

MOST_BYTES = 4096  # A plain array of at most this many bytes has its contents in the key.
REFUSED = (
    8  # a call that is known and cannot be repeated counts as so many new ones, because looking took time
)
PATIENCE = 64  # keys of one function that did not recur; after these, no more are made
OPTIONS = frozenset((int, bool, str, type(None), type(Ellipsis), np.dtype, type))
NUMBERS = frozenset((float, np.float64, np.float32, np.int64, np.bool_))
COMPLEX = frozenset((complex, np.complex128, np.complex64))
MET = object()  # stands for the template of a call that was met once


def call(trace, implementation, value, args, kwargs, run: Callable):
    """Return what ``run()`` returns: the result of a composition, which carries NumPy's value."""
    misses = trace.reused.compositions[implementation]
    if misses > PATIENCE or trace.in_loop or trace.differentiating is not None:
        return run()
    if trace.validity.vouched or trace.arguments.labels:
        return run()
    templates = trace.reused.templates
    try:
        key, traced = _key(trace, implementation, value, args, kwargs)
        template = templates[key]
    except (Unrepeatable, KeyError) as error:
        trace.reused.compositions[implementation] = misses + 1
        if error.__class__ is KeyError:
            templates[key] = MET
        return run()
    if template is MET:
        before = State(trace)
        result = run()
        try:
            templates[key] = before.template(traced, result, value)
        except Unrepeatable:
            templates[key] = None
        return result
    if template is None:
        trace.reused.compositions[implementation] = misses + REFUSED
        return run()
    if misses:
        trace.reused.compositions[implementation] = misses - 1
    return _appended(trace, template, traced, value)


# ---- keys


def _key(trace, implementation, value, args, kwargs) -> tuple[tuple, list[TracedArray]]:
    """Return all that a composition depends on, and its traced arguments."""
    traced: list[TracedArray] = []
    parts = [implementation, value.__class__]
    for each in arrays_of(value):
        kind = each.__class__
        parts.append(kind)
        if kind is np.ndarray:
            parts += (each.dtype, each.shape)
        elif kind not in NUMBERS:
            raise Unrepeatable
    if kwargs.get("out") is not None:
        raise Unrepeatable  # NumPy's result is an argument
    _describe(trace, args, parts, traced)
    for name in kwargs:
        parts.append(name)
        _describe(trace, (kwargs[name],), parts, traced)
    if not traced:
        raise Unrepeatable
    _relate(trace.tape, traced, parts)
    lent = lenders(traced, value)
    if lent:
        if trace.memory.writes:
            # After a write, each view must be noted with its entries
            # (`numbatape.trace.regions`), which repeating would not do.
            raise Unrepeatable
        parts.append(lent)
    return tuple(parts), traced


def _describe(trace, args, parts: list, traced: list) -> None:
    """Append to a key what arguments are like; collect the traced ones."""
    for x in args:
        kind = type(x)
        if kind is TracedArray:
            value, boxes = x._value, trace.memory.boxes
            if x._trace is not trace:
                raise Unrepeatable
            if value.__class__ is np.ndarray:
                if boxes and id(root_of(value)) in boxes:
                    raise Unrepeatable  # the array is read entry by entry
                parts.append(value.dtype)
            storage, offset, layout = trace.tape.values[x._id]
            bound = trace.integers.range_of((storage, offset, layout))  # the bound decides what needs a guard
            parts += (value.__class__, layout, x._level, x._family, bound)
            if x._level == CONSTANT:
                # Its contents may decide what is recorded, and that it is a fraction of a size.
                parts += (storage, offset, trace.integers.fractions.get(x._id))
            else:
                traced.append(x)
            factor = trace.reused.factors.get(x._id)
            if factor is not None:  # What is solved with the array may read its Cholesky factor in its place.
                parts.append(Template)
                _describe(trace, (new_traced(trace, value, factor, x._level, x._family),), parts, traced)
        elif kind in OPTIONS:
            parts += (kind, x)
        elif kind in NUMBERS or kind in COMPLEX:
            parts += (kind, np.array(x).tobytes())  # compared by bytes, because 0.0 and -0.0 are equal
        elif kind is TracedComplex:
            if x._zeros is not None:
                raise Unrepeatable
            parts += (kind, x._value.__class__)
            _describe(trace, (x._re, x._im), parts, traced)
        elif kind is slice:
            parts.append(kind)
            _describe(trace, (x.start, x.stop, x.step), parts, traced)
        elif kind is tuple or kind is list:
            parts += (kind, len(x))
            _describe(trace, x, parts, traced)
        elif kind is np.ndarray and x.nbytes <= MOST_BYTES and x.dtype.kind in "fiubc":
            if trace.memory.boxes and id(root_of(x)) in trace.memory.boxes:
                raise Unrepeatable
            parts += (x.dtype, x.shape, x.tobytes())
        else:
            raise Unrepeatable


def _relate(tape, traced: list[TracedArray], parts: list) -> None:
    """Append which arguments are the same, or parts of one storage, and how far apart."""
    homes: dict[int | tuple, tuple[int, int]] = {}
    numbers: dict[int, int] = {}
    recent = tape.code.recent
    for k, x in enumerate(traced):
        storage, offset, _ = tape.values[x._id]
        home = storage if storage >= POOL_COUNT else (storage, offset)
        place, start = homes.setdefault(home, (k, offset))
        parts += (numbers.setdefault(x._id, k), place, tape.sizes.sub(offset, start) if place != k else 0)
        # Of two cells that are added, the one that was computed last becomes operand a.
        if storage < POOL_COUNT:
            parts.append(bool(recent) and recent[LAST_OUT] == x._id)


# ---- templates


def _appended(trace, template: Template, traced: list[TracedArray], value):
    """Append a template; return its result."""
    tape = trace.tape
    values, add = tape.values, tape.sizes.add
    table = [*template.plain, trace.line(), *[x._id for x in traced]]
    for step in template.steps:
        kind = step[0]
        if kind == ARRAY:
            _, layout, cells, family, level = step
            table.append(tape.new_array(layout, cells, family, level))
        elif kind == CELL:
            _, family, level = step
            table.append(tape.scalar(family, level))
        elif kind == CALL:
            _, site, family = step
            table.append(tape.literal(float(len(tape.calls)), family))
            tape.calls.append(site.again(len(tape.calls)))
        else:
            _, base, offset, layout = step
            storage, start, _ = values[table[base]]
            place = offset if kind == PART else start + offset if start >= 0 <= offset else add(start, offset)
            table.append(tape.seen_as(storage, place, layout))
    if template.fields is not None:
        tape.code.recent += template.fields(table)
    parts = template.parts
    for part in parts:
        if part is not None and part.bound is not None:
            trace.integers.limit(tape.values[table[part.place]], part.bound)
    if template.factor is not None:
        trace.reused.factors[table[parts[0].place]] = table[template.factor]
    if template.kind is TracedArray:
        place, level, family, _ = parts[0]
        return new_traced(trace, value, table[place], level, family)
    values = (value.real, value.imag) if template.kind is TracedComplex else value
    made = [
        None if part is None else new_traced(trace, its, table[part.place], part.level, part.family)
        for part, its in zip(parts, values, strict=True)
    ]
    if template.kind is not TracedComplex:
        # NumPy's pairs with names take their entries one by one.
        return template.kind(made) if template.kind in (list, tuple) else template.kind(*made)
    result = TracedComplex(*made, value)
    note(trace, result, value)
    return result
