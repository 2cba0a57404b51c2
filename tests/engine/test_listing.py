"""``str(tape)``: what a person needs to see."""

from __future__ import annotations

import re

import numpy as np

import numbatape as nt


def loss(x, y):
    z = np.exp(x) * y
    if z[0] > 0:
        z = z + np.float64(2.5)
    return np.sum(z[1:])


def listing():
    cache = nt.prepare_gradient_cache(loss, np.ones(4), nt.Constant(np.ones(4)))
    return str(cache.tape)


def test_head_and_inputs():
    text = listing()
    assert re.match(
        r"tape [0-9a-f]{12}: \d+ instructions \(\d+ in the prologue\), 1 guards, \d+ bytes\n", text
    )
    assert "input 0: s6[n0]  f64, active" in text
    assert "input 1: s7[n1]  f64, constant" in text
    assert re.search(r"^  output: \w+$", text, re.MULTILINE)


def test_instructions_name_ops_operands_and_lines():
    text = listing()
    first = loss.__code__.co_firstlineno
    for name, offset in (("exp", 1), ("mul", 1), ("add", 3), ("sum", 4)):
        line = rf"^ +\d+  {name} +\S.* <- .*# test_listing.py:{first + offset}$"
        assert re.search(line, text, re.MULTILINE), (name, text)


def test_literals_guards_and_sizes():
    text = listing()
    assert re.search(r"add .*, 2\.5  #", text)
    assert re.search(r"guard +\S+ is True  # test_listing.py", text)
    assert "size guard: n0 == n1" in text


def test_offsets_and_strides():
    text = str(nt.prepare_gradient_cache(lambda x: np.sum(x[1:].T * 2.0), np.ones((3, 4))).tape)
    assert re.search(r"mul .* <- s6\+n1\[n1, .*\]\(1, n1\), 2", text)


def test_repr_is_short():
    tape = nt.prepare_gradient_cache(loss, np.ones(4), nt.Constant(np.ones(4))).tape
    assert re.fullmatch(r"<Tape [0-9a-f]{12}: \d+ instructions, 1 guards>", repr(tape))
    assert len(tape) == tape.code.size


def test_float32_has_a_mark():
    text = str(nt.prepare_gradient_cache(lambda x: np.sum(x * x[0]), np.ones(3, np.float32)).tape)
    assert "mul.f32" in text
    assert "sum.f32" in text
