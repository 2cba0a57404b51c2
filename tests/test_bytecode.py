"""What is read off bytecode agrees with Python's own disassembler."""

from __future__ import annotations

import argparse
import dis
import json.decoder
import math
import types

import numpy as np

import numbatape.recording.contents  # noqa: F401  (it announces what stands for what)
from numbatape.capture.reach import Reach, needs_stand_in
from numbatape.stand_ins.rebinding import table
from numbatape.usercode import absences, bytecode


def functions_of(module):
    """Return the Python functions of a module and of its classes."""
    owners = [module, *(x for x in vars(module).values() if isinstance(x, type))]
    found = [x for owner in owners for x in vars(owner).values() if isinstance(x, types.FunctionType)]
    return [x.__code__ for x in found]


CODES = [code for module in (argparse, dis, json.decoder) for code in functions_of(module)]


def listed(code):
    """Return the instructions of code and of the functions inside it, as `dis` lists them."""
    every = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    return [every, *(part for inside in bytecode.inner(code) for part in listed(inside))]


def test_names_and_texts_are_those_of_the_disassembler():
    for code in CODES:
        names = [bytecode.text_of(code, op, arg) for op, arg in bytecode.operations(code)]
        wanted = [i.argval if isinstance(i.argval, str) else "" for i in listed(code)[0]]
        for name, own, instruction in zip(names, wanted, listed(code)[0], strict=True):
            assert name in (own, ""), instruction
            assert name or instruction.opcode not in (*dis.hasname, *bytecode.ATTRIBUTES), instruction


def test_attributes_and_assignments_are_those_of_the_disassembler():
    for code in CODES:
        parts = listed(code)
        pairs = [(i, j) for part in parts for i, j in zip(part, part[1:], strict=False)]
        wanted = {(i.argval, j.argval) for i, j in pairs if j.opcode in bytecode.ATTRIBUTES}
        found = absences.attributes_read(code)
        assert {pair for pair in wanted if isinstance(pair[0], str)} >= {pair for pair in found if pair[0]}
        assert {name for _, name in found} == {name for _, name in wanted}
        every = [i for part in parts for i in part]
        for names, read in (
            (bytecode.globals_assigned(code), ("STORE_GLOBAL", "DELETE_GLOBAL")),
            (bytecode.attributes_assigned(code), ("STORE_ATTR", "DELETE_ATTR")),
        ):
            assert set(names) == {i.argval for i in every if i.opname in read}


def sine(x):
    return math.sin(x)


def plain(x):
    return x * helper(x)


def helper(x):
    return x if x > 1.0 else plain(x)


class Model:
    """Refers to itself, and to a function that needs a stand-in."""

    def value(self, x):
        return sine(x) + plain(x)


Model.other = Model()


def test_a_search_ends_with_what_the_whole_walk_says():
    known = table(False)
    for value in (sine, plain, Model, Model(), [1.0, plain], {"a": sine}, np, len):
        assert needs_stand_in(value, known) == Reach(value).needs(known)
    assert needs_stand_in(Model, known) and not needs_stand_in(plain, known)


def test_modules_that_code_imports_have_their_full_names():
    def imports():
        import os.path
        from json import decoder

        from ..other import thing
        from . import sibling

        return os.path, decoder, sibling, thing

    names = {"os.path", "json", "package.part", "package.other"}
    assert set(bytecode.imported(imports.__code__, "package.part")) == names
    assert bytecode.imported((lambda: 0).__code__, "package.part") == ()
