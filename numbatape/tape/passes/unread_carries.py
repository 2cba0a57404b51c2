"""Loops compute no carries that nobody reads: these stay what they were before the first step.

The gradient of a log-likelihood that a loop adds up does not depend on the sum itself, and the Hessian not on
the sum's tangent. Instructions of the body that only such carries need are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..instruction import GUARD, NONE, copied
from ..loop import CARRY, Loop
from ..resume import resumed
from ..tape import CONSTANT
from ..uses import dependents, keys_of


def drop_carries(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Let the bodies of loops not compute what only carries that nobody reads need."""
    rows = flatnonzero(draft.ops.is_any(draft.ops.with_trait("calls"), code["op"])).tolist()
    numbers = {k: int(draft.builder.numbers[int(code["c"][k])]) for k in rows}
    shared = Counter(numbers.values())
    # The last loop comes first: an earlier one may compute what only carries of a later one start from.
    for k, number in reversed(numbers.items()):
        loop = draft.calls[number]
        if isinstance(loop, Loop) and loop.carries and shared[number] == 1:
            ports = _alone(loop, _unread(draft, code, loop, k))
            if ports:
                draft.calls[number] = _without(draft, loop, ports)
                code = _from_zero(draft, code, loop, k, ports)
    return code


def _unread(draft: Draft, code: np.ndarray, loop: Loop, row: int) -> set[int]:
    """Return the carries (numbers of ports) of which no instruction and no output reads a cell."""
    out = int(code["out"][row])
    storage, first, layout = draft.address(out)
    views = _reads(draft, code, storage)
    if len(draft.layouts[layout].dims) != 1 or out in views:  # lanes, or the whole result
        return set()
    add, length = draft.sizes.add, loop.length
    parts = [(out.port, out.start, out.count) for out in loop.outs if out.role == CARRY]
    for port, start in zip(loop.carries, loop.history or (), strict=False):
        parts.append((port, start, draft.sizes.mul(length, loop.ports[port].count)))
    used = {port for port, start, count in parts if _meets(draft, views, add(first, start), count)}
    return set(loop.carries) - used - {its.start for its in loop.test_ports if its.role == CARRY}


def _reads(draft: Draft, code: np.ndarray, storage: int, but: int = NONE) -> set[int]:
    """Return the views of a storage that are outputs, or that instructions other than a row read."""
    found = {value for value in draft.outputs if draft.storage[value] == storage}
    for name in "abc":
        column = code[name]
        at = (column != NONE) & (draft.storage[column] == storage)
        if but != NONE:
            at[but] = False
        found |= set(column[at].tolist())
    return found


def _meets(draft: Draft, views: set[int], start: int, count: int) -> bool:
    """Whether any view has one of some cells (size codes).

    What has no cells, such as the rows of a loop without steps, may have some for other sizes, so that only
    its size codes tell it from what begins at the same place.
    """
    size = draft.sizes.value
    begin, end = size(start), size(start) + size(count)
    if count == 0:
        return False
    for value in views:
        least, most = _span(draft, value)
        if least <= most and begin < end:
            found = least < end and most >= begin
        elif least <= most:
            found = least <= begin <= most
        else:
            found = draft.address(value)[1] == start
        if found:
            return True
    return False


def _span(draft: Draft, value: int) -> tuple[int, int]:
    """Return the first and the last cell of a view; the last comes before the first if there are none."""
    size, its = draft.sizes.value, draft.layout_of(value)
    first, dims = size(draft.address(value)[1]), [*map(size, its.dims)]
    if 0 in dims:
        return first, first - 1
    steps = [(dim - 1) * size(stride) for dim, stride in zip(dims, its.strides, strict=True)]
    return first + sum(min(step, 0) for step in steps), first + sum(max(step, 0) for step in steps)


def _alone(loop: Loop, unread: set[int]) -> set[int]:
    """Return those of some carries that nothing but themselves and one another needs."""
    body = loop.body
    keys = keys_of(body.values)
    values = {its.port: keys[value] for its, value in zip(loop.outs, body.outputs, strict=True)}
    reach = {k: dependents(body.code, keys, {keys[body.inputs[k].value]}) for k in unread}
    needed = {
        keys[value]
        for its, value in zip(loop.outs, body.outputs, strict=True)
        if its.role != CARRY or its.port not in unread
    } | _kept(body, keys)
    while True:
        wanted = {k for k in unread if reach[k] & needed}
        if not wanted:
            return unread
        unread = unread - wanted
        needed |= {values[k] for k in wanted}


def _kept(body, keys: list[int]) -> set[int]:
    """Return what instructions read that stay whether their results are read or not."""
    code = body.code
    stays = (code["op"] == GUARD) | body.ops.is_any(body.ops.fallible, code["op"])
    read: Iterable[int] = (value for name in "abc" for value in code[name][stays].tolist())
    return {keys[value] for value in read if value != NONE}


def _without(draft: Draft, loop: Loop, ports: set[int]) -> Loop:
    """Return a loop in which some carries stay what they are, if that is less work."""
    if not ports:
        return loop
    body = loop.body
    outputs = tuple(
        body.inputs[its.port].value if its.role == CARRY and its.port in ports else value
        for its, value in zip(loop.outs, body.outputs, strict=True)
    )
    builder = resumed(body, tuple(map(draft.sizes.value, loop.dimensions)), draft.ops)
    found = builder.freeze(outputs, (), True, forward=body.forward)
    return loop if len(found) == len(body) else replace(loop, body=found)


def _from_zero(draft: Draft, code: np.ndarray, loop: Loop, row: int, ports: set[int]) -> np.ndarray:
    """Let carries that stay what they are start from zeros: nobody computes what they started from."""
    add, moves = draft.sizes.add, draft.ops.with_signs((1,))
    for port in (loop.ports[k] for k in sorted(ports)):
        storage, first, _ = draft.address(int(code["ab"[port.operand]][row]))
        place = storage, add(first, port.start)
        copies = draft.array_rows(code, moves)
        its = [k for k in copies.tolist() if draft.address(int(code["out"][k]))[:2] == place]
        if len(its) != 1 or _meets(draft, _reads(draft, code, storage, row), place[1], port.count):
            continue
        (copy,), dims = its, draft.layout_of(int(code["out"][its[0]])).dims
        if dims != (port.count,) or draft.kind_of(int(code["a"][copy]))[1] == CONSTANT:
            continue
        zero = draft.literal(np.zeros(()))
        code = copied(code)
        code["a"][copy] = draft.view(zero, draft.address(zero)[1], dims, (0,))
        code["active"][copy] = 0
    return code
