"""Signatures of ops and digests of tapes change with what is computed, and with nothing else."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import numbatape as nt
from numbatape.ops import OPCODE, OPS, ROWS, Elementwise
from numbatape.ops.text import version_of
from numbatape.tape.rows import Rows
from numbatape.tape.tape import Guard, Layout


def steered(x, y):
    total = np.sum(np.exp(x) * y) + 2.5 * x[0]
    if total > 0.0:
        total = total * 3.5
    return total


def tape_at(x, y):
    return nt.prepare_gradient_cache(steered, x, y).tape


TAPE = tape_at(np.array([0.3, 0.2, 0.9]), np.ones(3))


def changed(array, field, by=1):
    array = array.copy()
    array[field][-1] += by
    return array


def with_first(items, **fields):
    return (items[0]._replace(**fields), *items[1:])


def other_formula(op):
    return dataclasses.replace(op, value=op.value + " + 0.0") if isinstance(op, Elementwise) else op


CHANGES = {
    "an op": lambda t: {"code": changed(t.code, "op", 2)},
    "a family": lambda t: {"code": changed(t.code, "op", 1)},
    "active operands": lambda t: {"code": changed(t.code, "active")},
    "an operand": lambda t: {"code": changed(t.code, "a")},
    "an address": lambda t: {"values": changed(t.values, "offset")},
    "a size of a storage": lambda t: {"storages": changed(t.storages, "size")},
    "a level": lambda t: {"storages": changed(t.storages, "level")},
    "a layout": lambda t: {"layouts": (*t.layouts[:-1], Layout((7,), (1,)))},
    "the prologue": lambda t: {"prologue": t.prologue + 1},
    "what lanes share": lambda t: {"uniform": 1},
    "whether it is swept back": lambda t: {"forward": not t.forward},
    "a literal's contents": lambda t: {"literals": with_first(t.literals, data=t.literals[0].data + 1.0)},
    "a literal's place": lambda t: {"literals": with_first(t.literals, offset=t.literals[0].offset + 1)},
    "an input": lambda t: {"inputs": with_first(t.inputs, level=1)},
    "the outputs": lambda t: {"outputs": (0,)},
    "a guard's outcome": lambda t: {"guards": with_first(t.guards, outcome=0)},
    "a guard's kind": lambda t: {"guards": with_first(t.guards, kind="int")},
    "the size that a guard counts": lambda t: {"guards": with_first(t.guards, counts=0)},
    "a size": lambda t: {"sizes": dataclasses.replace(t.sizes, rows=(*t.sizes.rows, (1, 2, 3)))},
    "a relation between sizes": lambda t: {"sizes": dataclasses.replace(t.sizes, guards=())},
    "a formula": lambda t: {"ops": Rows(map(other_formula, t.ops), version_of)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_digest_changes_with(what):
    other = dataclasses.replace(TAPE, **CHANGES[what](TAPE))
    assert other.digest != TAPE.digest


def test_a_digest_does_not_change_with_lines():
    positions = np.full_like(TAPE.positions, -1)
    guards = tuple(Guard(g.kind, g.outcome, -1) for g in TAPE.guards)
    assert dataclasses.replace(TAPE, positions=positions, lines=(), guards=guards).digest == TAPE.digest


def test_a_digest_is_that_of_another_trace_of_the_same_path():
    assert tape_at(np.array([0.1, 0.5]), np.array([2.0, 3.0])).digest == TAPE.digest
    assert tape_at(np.array([-9.0, 0.1, 0.2]), np.ones(3)).digest != TAPE.digest  # the other branch


def test_another_process_gives_an_op_the_same_signature():
    rows = ["add", "power", "cholesky", "logsumexp"]
    program = f"from numbatape.ops import OPCODE, ROWS\nprint([ROWS.signature(OPCODE[x]) for x in {rows}])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str([ROWS.signature(OPCODE[name]) for name in rows])


def test_signatures_are_of_one_op_each():
    signatures = [ROWS.signature(k) for k in range(len(OPS))]
    assert len(set(signatures)) == len(OPS)
    for op, signature in zip(OPS, signatures, strict=True):
        assert (signature.name, signature.arity) == (op.name, op.arity)


@pytest.mark.parametrize("field", ["value", "partials", "second"])
def test_a_version_is_of_the_formulas(field):
    op = OPS[OPCODE["tanh"]]
    other = {"value": "x", "partials": ("1.0",), "second": {"xx": "0.0"}}[field]
    assert version_of(dataclasses.replace(op, **{field: other})) != version_of(op)
    assert version_of(dataclasses.replace(op, hot=not op.hot, loop=None)) == version_of(op)


def test_a_version_is_of_the_helpers_too():
    solve, other = OPS[OPCODE["solve_lower"]], OPS[OPCODE["solve_upper"]]
    assert version_of(dataclasses.replace(solve, forward=other.forward)) != version_of(solve)
    assert version_of(dataclasses.replace(solve, name="another", cases=())) == version_of(solve)
