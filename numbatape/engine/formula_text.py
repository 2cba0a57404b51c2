"""Formulas of the op table as text of kernels: whose functions they call, and cotangents times partials."""

from __future__ import annotations

import re

from ..late import imported
from ..ops import Elementwise, scalars
from ..ops.text import helpers

# Functions of the C library that kernels have in the kernel language (`numbatape.ops.elementary`).
ELEMENTARY = re.compile(r"\bmath\.(exp|expm1|log|log1p|sin|cos|tanh)\(")
TURNING = re.compile(r"\bmath\.(sin|cos)\((?=x\))")  # of the operand of a row with one operand
UNIT = re.compile(r"(-?)1\.0")
# Calls of SciPy and of the C library; `%` and `//` of floats call its fmod. The others are instructions.
LIBRARY_CALL = re.compile(r"\bsc_|\bmath\.(?!fabs|sqrt|copysign|floor|ceil|trunc)\w+\(|%|//")
SIDE = re.compile(r"(1\.0|[xy]) if (.+) else 0\.0")


def uses(formula: str | None, name: str) -> bool:
    return bool(formula) and re.search(rf"\b{name}\b", formula) is not None


def product(partial: str) -> str:
    """Return the text of ``gz * partial`` without multiplications by one."""
    unit = UNIT.fullmatch(partial)
    if unit:
        return unit[1] + "gz"
    # Where a condition picks no derivative, nothing is added, whatever the cotangent: inf * 0.0 would be NaN.
    side = SIDE.fullmatch(partial)
    if side:
        return f"({'gz' if side[1] == '1.0' else f'gz * {side[1]}'} if {side[2]} else 0.0)"
    return f"gz * ({partial})"


def kernel_text(formula: str) -> str:
    """Return a formula with SciPy's functions under their kernel names."""
    return re.sub(r"\bsc\.(\w+)\(", r"sc_\1(", formula)


def fast_text(text: str) -> str:
    """Return text in which functions of the C library are those of `numbatape.ops.elementary`."""
    return ELEMENTARY.sub(r"fast_\1(", text)


def with_elementary(text: str) -> str:
    """Return a kernel's text with these functions in the place of the C library's."""
    text = fast_text(text)
    return helpers(text, imported("..ops.elementary", __package__)) + "\n" + text


def is_fast(op: Elementwise, values: str, direction: str) -> bool:
    """Whether a row's kernel computes these functions; else they are the C library's.

    It does where LLVM can then make SIMD code of its loops.
    """
    if direction == "forward" and (values != "fast" or op.loop):
        return False
    text = kernel_text("\n".join([op.value] if direction == "forward" else filter(None, op.partials)))
    text = fast_text(text + "\n" + helpers(text, scalars))
    return "fast_" in text and "while " not in text and LIBRARY_CALL.search(text) is None


def near_text(text: str) -> str:
    """Return a formula for cells where x is not too large for the sines and cosines in it."""
    return TURNING.sub(r"near_\1(", text)
