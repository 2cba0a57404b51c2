"""The op table, frozen: import `OPS`, `OPCODE`, `BY_FUNCTION` and `find` from here."""

import os  # noqa: I001  (opcodes depend on the order below)
import sys
from importlib import import_module

import numpy as np

from ..tape.rows import Rows
from . import elementwise, special, bessel, incomplete, parameters, several_results  # noqa: F401
from . import reduce, logsumexp, inner_products, ordering, products  # noqa: F401
from . import linalg, determinants, triangular, spectral  # noqa: F401
from . import indexing, structural, fft, calls, libm  # noqa: F401
from .oracles import oracle
from .table import UNKNOWN, ArrayOp, Elementwise, Op, freeze, resolve
from .text import version_of

# Other files of this folder register themselves without being named anywhere; their ops come last.
for _folder in __path__:
    for _file in sorted(os.listdir(_folder)):
        if _file.endswith(".py") and not _file.startswith("__"):
            import_module(f"{__name__}.{_file.removesuffix('.py')}")

__all__ = [
    "BY_FUNCTION",
    "OPCODE",
    "OPS",
    "ROWS",
    "UNKNOWN_PARTIALS",
    "ArrayOp",
    "Elementwise",
    "find",
    "oracle",
    "resolve",
]

OPS = freeze()
OPCODE = {op.name: k for k, op in enumerate(OPS)}
ROWS = Rows(OPS, version_of)
# For each row, the operands whose partial is not known, as bits like those of an instruction's "active".
UNKNOWN_PARTIALS = np.array(
    [sum((part == UNKNOWN) << k for k, part in enumerate(getattr(op, "partials", ()))) for op in OPS]
)
BY_FUNCTION = {f: op for op in reversed(OPS) for f in op.numpy}


def find(function) -> Op | None:
    """Return the row that serves a NumPy or SciPy function, or None. Never imports SciPy."""
    op = BY_FUNCTION.get(function)
    if op is None and "scipy.special" in sys.modules:
        # SciPy's ufuncs have no ``__module__``: a row is found by the name, and accepted by identity.
        key = f"sc.{getattr(function, '__name__', '')}"
        if key in BY_FUNCTION and resolve(key) is function:
            op = BY_FUNCTION[key]
    return op
