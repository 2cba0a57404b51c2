"""Columns of definitions and uses say what the instructions say one at a time."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import numbatape as nt
from numbatape.tape.builder import TapeBuilder
from numbatape.tape.draft import Draft
from numbatape.tape.instruction import instructions
from numbatape.tape.uses import NO_GROUP, Uses

NO_OP = -1


def steered(x):
    total = x[0]
    for k in range(3):
        total = total * x[k] + np.exp(x[k])
        if total > 100.0:
            total = total - 1.0
    return total + np.sum(np.linalg.cholesky(np.eye(3) * total)[1] * x)


def filled(x):
    buffer = np.zeros((2, 3))
    buffer[0], buffer[1] = x * 2.0, np.sin(x)
    return np.sum(buffer.T @ buffer) + np.sum(nt.grad(lambda y: np.sum(y**3) * np.max(y))(x))


@pytest.fixture(params=[steered, filled])
def draft(request, monkeypatch):
    """A draft of what was recorded of a function; the trace takes it out of its builder when it ends."""
    found = []
    freeze = TapeBuilder.freeze
    monkeypatch.setattr(
        TapeBuilder,
        "freeze",
        lambda builder, outputs, *args, **options: (
            found.append(Draft(copy.copy(builder), outputs)) or freeze(builder, outputs, *args, **options)
        ),
    )
    nt.prepare_gradient_cache(request.param, np.array([0.3, 0.2, 0.9]))
    return found[0]


def place(draft, value):
    """What is written separately: the cell of a pool, or a storage."""
    storage, offset, _ = draft.address(value)
    return (storage, offset) if storage < 6 else storage


def test_a_group_is_what_shares_cells(draft):
    values = range(len(draft.storage))
    names = {value: place(draft, value) for value in values}
    groups = draft.group[list(values)].tolist()
    assert len(set(names.values())) == len(set(groups)) == len(set(zip(names.values(), groups, strict=True)))
    assert draft.group[-1] == NO_GROUP not in groups
    home, cell = draft.groups()
    for value, group in zip(values, groups, strict=True):
        storage, offset, _ = draft.address(value)
        assert home[group] == storage
        assert storage >= 6 or cell[group] == offset


def test_uses_are_definitions_and_readers(draft):
    code = draft.builder.columns()
    uses = draft.uses(code)
    writers, readers, values = ({} for _ in range(3))
    for k, row in enumerate(instructions(draft.builder.code)):
        for value in row.results[:1]:
            writers.setdefault(draft.group[value], []).append(k)
            values.setdefault(draft.group[value], set()).add(value)
        for value in (*row.operands, *row.results[1:]):
            readers.setdefault(draft.group[value], []).append(k)
            values.setdefault(draft.group[value], set()).add(value)
    for group in range(1, uses.count):
        assert uses.writes[group] == len(writers.get(group, []))
        assert uses.reads[group] == len(readers.get(group, []))
        assert uses.last_write[group] == max(writers.get(group, [-1]))
        assert uses.last_read[group] == max(readers.get(group, [-1]))
        assert uses.readers(group).tolist() == readers.get(group, [])
        assert uses.values(group) == sorted(values.get(group, ()))
    fixed = draft.fixed(uses)
    assert fixed[draft.group[list(draft.outputs)]].all()
    assert all(fixed[draft.group[row.aux]] for row in instructions(draft.builder.code) if row.results[1:])


@pytest.mark.parametrize("many", [0, 1000])  # instructions from which on it is counted which ops occur
def test_fields_are_what_instructions_say(draft, many, monkeypatch):
    monkeypatch.setattr("numbatape.tape.uses.SHORT", many)
    code, ops = draft.builder.columns(), draft.ops
    fields, rows = draft.fields(code), instructions(draft.builder.code)
    assert fields is draft.fields(code)
    for name in code.dtype.names:
        assert getattr(fields, name).tolist() == [getattr(row, name) for row in rows]
    own = [NO_OP if row.is_guard else row.row for row in rows]
    assert fields.times.tolist() == [own.count(op) for op in range(len(ops))]
    for wanted in ([], [*range(len(ops))], *([op] for op in range(len(ops)))):
        assert fields.of(wanted).tolist() == [k for k, op in enumerate(own) if op in wanted]
    draft.array((), 0, 2)  # new values leave the instructions what they are
    assert fields is draft.fields(code) and fields is not draft.fields(code.copy())


def test_new_values_are_read_like_recorded_ones(draft):
    count, groups = len(draft.storage), draft.count
    wide = draft.array((3, 2), 0, 2)
    part = draft.view(wide, 1, (3,), (2,))
    cell = draft.array((), 1, 1)
    assert [wide, part, cell] == [count, count + 1, count + 2]
    before = [draft.address(value) for value in (wide, part, cell)]
    assert draft.kind_of(part) == (0, 2) and draft.kind_of(cell) == (1, 1)
    assert draft.layout_of(part).dims == (3,)
    columns = zip(draft.storage, draft.offset, draft.layout, strict=True)  # they are appended now
    assert [*columns][count:] == before == [draft.address(value) for value in (wide, part, cell)]
    assert draft.group[count:].tolist() == [groups, groups, groups + 1, NO_GROUP]
    draft.move(0, part, (3,), (2,))
    assert draft.address(0) == draft.address(part) and draft.group[0] == draft.group[wide]
    assert draft.covers(np.array([wide, part, cell])).tolist() == [True, False, False]


def test_whether_a_result_can_move_is_not_asked_for_its_parts(monkeypatch):
    """Copies of parts of one result (rolled arrays) would ask for all that read it, once each."""
    asked = []
    values = Uses.values
    monkeypatch.setattr(Uses, "values", lambda self, group: asked.append(group) or values(self, group))

    def f(x):
        y, total = np.exp(x) * x, 0.0
        for k in range(1, 5):
            total = total + np.concatenate([y[k:], y[:k]]) * x
        return np.sum(total)

    nt.prepare_gradient_cache(f, np.ones(40))
    assert not asked
