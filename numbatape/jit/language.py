"""The kernel language's functions beyond ``math``, in their plain Python form.

Kernels are written once, as Python over cell arrays (``v[o + i] = x``). They run in three forms:

* raw: compiled by Numba with every ``v[i]`` turned into a load or store by address;
* checked: interpreted by Python over bounds-checked cells, calling the functions of this file;
* as text: `numbatape.engine.codegen` prints them.

Here stands what the checked form calls; the raw form's twins, of the same names and arguments,
stand in `numbatape.jit.raw`. An operand of these functions is a pair (cells, first cell).
"""

from __future__ import annotations

import numpy as np


def radd(total, term):
    """``total + term``, where the raw form may reassociate (so that LLVM sums in SIMD lanes)."""
    return total + term
