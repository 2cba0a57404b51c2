"""Formulas of the op table as text of kernels: whose functions they call, and cotangents times partials."""

from __future__ import annotations

import re

from ..late import imported
from ..ops import Elementwise, scalars
from ..ops.text import helpers

# Functions of the C library and of SciPy that kernels have in the kernel language, and the files with them.
OWN = re.compile(
    r"\b(?:math\.(exp|expm1|log|log1p|sin|cos|sinh|cosh|tanh|erf|erfc)|sc_(cbrt|i0e|i1e|gammaln|psi|erfcx|ndtr|log_ndtr))\("
)
# Formulas write log1p of an exponential only where that is at most one, for which there is a form without an
# exponent (`log1p_to_one`).
OF_EXPONENTIAL = "math.log1p(math.exp("
OWN_FILES = ("..ops.elementary", "..ops.error_functions", "..ops.gamma_functions", "..ops.short_functions")
SHORT = re.compile(r"\bfast_(exp|log|log1p|sin|cos)\(")  # those that have a form for float32
UNIT = re.compile(r"(-?)1\.0")
# Calls of SciPy and of the C library; `%` and `//` of floats call its fmod. The others are instructions.
LIBRARY_CALL = re.compile(r"\bsc_|\bmath\.(?!fabs|sqrt|copysign|floor|ceil|trunc)\w+\(|%|//")
FAR = re.compile(r"^def far_\w+\(.*\n(?:    .*\n)*", re.M)  # what few cells of a vector need
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
    """Return text in which functions of libraries are those of the kernel language."""
    text = text.replace(OF_EXPONENTIAL, "log1p_to_one(fast_exp(")
    return OWN.sub(lambda found: f"fast_{found[1] or found[2]}(", text)


def with_elementary(text: str, cells: str) -> str:
    """Return the text of a kernel of f64 or f32 cells with these functions in the place of the libraries'."""
    text = fast_text(text)
    if cells == "f32":
        text = SHORT.sub(r"short_\1(", text)
    return helpers(text, *(imported(file, __package__) for file in OWN_FILES)) + "\n" + text


def is_simd(op: Elementwise, values: str, direction: str) -> bool:
    """Whether a row's kernel computes eight cells at once (`numbatape.jit.language.simd`).

    It does if it can have functions of the kernel language in the place of libraries'. It also does if it is
    the reverse kernel of two operands: for one that broadcasts, a loop over `parallel` needs a second loop.
    """
    if direction == "forward" and (values != "fast" or op.loop):
        return False
    text = kernel_text("\n".join([op.value] if direction == "forward" else filter(None, op.partials)))
    text = FAR.sub("", fast_text(text + "\n" + helpers(text, scalars)))
    several = direction == "reverse" and op.arity == 2 and op.vector_arm is None
    return (
        ("fast_" in text or "far_" in text or several)
        and "while " not in text
        and LIBRARY_CALL.search(text) is None
    )
