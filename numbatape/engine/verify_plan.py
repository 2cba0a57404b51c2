"""The proof that a plan is safe to run: by a kernel for its instructions, with NumPy for the rest.

It relies on the rules that `check_tape` has checked, and adds that inputs and outputs are contiguous: they
are copied and seeded as one run of cells.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .. import jit
from ..errors import VerificationError
from ..jit import address
from ..ops import OPS, ArrayOp
from ..tape.combinations import combinations, flatnonzero
from . import plan_tables as names
from .codegen import FIRST_KERNEL
from .formula_text import tables_for_arms
from .frame import ARMS, RECORD_WORD
from .placement import storage_table
from .verifier import call_numbers, failure, op_info

# The files that each module is made of.
SOURCES = {
    "plan": ("plan_tables.py", "plan_kernels.py", "verify_kernels.py", "arm_kernels.py"),
    "replan": ("plan_tables.py", "replan_kernels.py"),
}


def plan_source(module: str) -> str:
    """Return a module's text: "plan" has ``derive``, ``verify`` and ``arms``, "replan" has ``replan``."""
    here = Path(__file__).parent
    texts = [(here / name).read_text() for name in SOURCES[module]]
    imports = r"^(import math|from \S+ import (\([^)]*\)|.*))\n"
    texts = [re.sub(imports, "", text, flags=re.MULTILINE) for text in texts]
    return "# cells: f64\n" + "\n".join(texts)


@functools.cache
def kernel(name: str):
    """Return a kernel of plans: ``derive``, ``verify``, ``arms`` or ``replan``."""
    return _module(name).function(name)


def address_of(name: str) -> int:
    """Return the address of a kernel of plans, for another one that calls it."""
    return _module(name).address[name]


@functools.cache  # its text is read from files
def _module(name: str):
    module = "replan" if name == "replan" else "plan"
    return jit.load(module, plan_source(module))


def verify(plan, storages: np.ndarray | None = None) -> None:
    """Prove that every instruction stays inside the storages that the tape gives it.

    Raises
    ------
    VerificationError
        Names the instruction and the reason.
    """
    tape = plan.tape
    code, aux = np.ascontiguousarray(plan.code), np.ascontiguousarray(plan.aux)
    rows = np.ascontiguousarray(tape.code).view(np.int32)
    values = np.ascontiguousarray(tape.values).view(np.int32)
    if storages is None:
        storages = storage_table(tape, plan.sizes, plan.bases)
    w = np.zeros(32, np.int64)
    words = {
        names.TAPE: rows,
        names.VALUES: values,
        names.SIZE_VALUES: plan.sizes,
        names.STORAGES: storages,
        names.OP_INFO: op_info(plan.values),
        names.ENGINE_CODE: code,
        names.ENGINE_AUX: aux,
    }
    for word, array in words.items():
        w[word] = address(array)
    w[names.ROWS], w[names.AUX_USED] = len(code), len(aux)
    w[names.OP_COUNT], w[names.SPLIT_AT] = FIRST_KERNEL, plan.prologue
    reason = kernel("verify")(address(w), 0)
    if reason:
        raise failure(tape, int(w[names.BAD]), reason)
    chosen = code.copy()
    tables, numbers = tables_for_arms(tape)
    for word, array in {**tables, names.ENGINE_CODE: chosen}.items():
        w[word] = address(array)
    for word, number in numbers.items():
        w[word] = number
    kernel("arms")(address(w), 0)
    if not np.array_equal(chosen, code):
        wrong = flatnonzero(chosen[:, ARMS] != code[:, ARMS])
        raise failure(tape, int(wrong[0]), "its arms are not those of its op and operands")
    verify_extents(plan)
    _verify_ends(plan, storages)


def verify_extents(plan) -> None:
    """Check that core sizes are what array ops, and the rules that are called, need."""
    called = call_numbers(plan.tape)
    for number in plan.kernels:
        op = OPS[number >> 1]
        if not isinstance(op, ArrayOp) or (op.scratch == "0" and op.extents == "True" and not op.calls):
            continue
        rows = flatnonzero((plan.code[:, 0] & 0xFFFF) == FIRST_KERNEL + number)
        if not op.calls:  # a long tape has many instructions of few sizes
            words = [names.CORE_CELLS, *range(names.CORE_HEAD, names.CORE_HEAD + len(op.letters))]
            first, _ = combinations(*(plan.aux[plan.code[rows, RECORD_WORD] + word] for word in words))
            rows = np.sort(rows[first])
        for k in rows:
            record = plan.aux[plan.code[k, RECORD_WORD] :]
            sizes_end = names.CORE_HEAD + len(op.letters)
            sizes = dict(zip(op.letters, map(int, record[names.CORE_HEAD : sizes_end]), strict=True))
            if scratch_cells(op, sizes) > record[names.CORE_CELLS] or not extents_hold(op, sizes):
                raise failure(plan.tape, int(k), names.BAD_RECORD)
            if op.calls:
                rule = plan.tape.calls[called[int(k)] or 0]
                if any(
                    sizes[letter] < cells for letter, cells in zip("mnp", rule.cells(plan.size), strict=True)
                ):
                    raise failure(plan.tape, int(k), "the rule needs longer operands")


def extents_hold(op: ArrayOp, sizes: dict, least: Callable = min) -> bool:
    """Whether core sizes keep the condition on which the op's kernels rely; ``least`` is `min` of sizes."""
    return bool(eval(_condition(op.extents), {"min": least}, dict(sizes)))


@functools.cache
def _condition(text: str):
    return compile(text, "<extents>", "eval")


def scratch_cells(op: ArrayOp, sizes: dict[str, int]) -> int:
    """Return the cells of scratch that one batch element of an array op needs."""
    total = 0
    for term in op.scratch.replace(" ", "").split("+"):
        product = 1
        for factor in term.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


def _verify_ends(plan, storages) -> None:
    """Check inputs, outputs and literals, which Python and the entry points touch."""
    tape = plan.tape
    for what, values in (("input", [slot.value for slot in tape.inputs]), ("output", tape.outputs)):
        for number, value in enumerate(values):
            storage = int(tape.values["storage"][value])
            first, end = storages[storage, :2]
            # The axes may be in any order, if the cells are dense: then seeds and copies touch only this
            # value.
            expected = 0 if 0 in plan.shape(value) else 1
            axes = [(s, n) for n, s in zip(plan.shape(value), plan.strides(value), strict=True) if n > 1]
            for stride, n in sorted(axes) if expected else []:
                if stride != expected:
                    raise VerificationError(f"{what} {number} is not contiguous")
                expected *= n
            cell = plan.cell(value)[1]
            if expected and not (first <= cell and cell + expected <= end):
                raise VerificationError(f"{what} {number} reaches outside of its storage")
    for slot in tape.inputs:
        family, level = storages[int(tape.values["storage"][slot.value]), 2:]
        if (family, level) != (slot.family, slot.level) or plan.shape(slot.value) != tuple(
            map(plan.size, slot.dims)
        ):
            raise VerificationError("an input's storage has another dtype, level or shape")
    for item in tape.literals:
        first, end = storages[item.storage, :2]
        if first + item.offset + item.data.size > end:
            raise VerificationError("a literal reaches outside of its storage")
