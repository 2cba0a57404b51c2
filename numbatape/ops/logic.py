"""Comparisons and logical functions: 1.0 for true, 0.0 for false, no adjoint.

The bitwise functions are supported for Boolean operands only, which the tracer checks.
"""

# fmt: off

import numpy as np

from .table import BOOLEAN, BOOLEANS, binary, unary

# Comparisons
binary("greater",       "1.0 if x > y else 0.0",   np.greater,       hot=True)
binary("greater_equal", "1.0 if x >= y else 0.0",  np.greater_equal, hot=True)
binary("less",          "1.0 if x < y else 0.0",   np.less,          hot=True)
binary("less_equal",    "1.0 if x <= y else 0.0",  np.less_equal,    hot=True)
binary("equal",         "1.0 if x == y else 0.0",  np.equal,         hot=True)
binary("not_equal",     "1.0 if x != y else 0.0",  np.not_equal,     hot=True)

# Logic
binary("logical_and", "1.0 if x != 0.0 and y != 0.0 else 0.0",
       (np.logical_and, np.bitwise_and), BOOLEANS, hot=True)
binary("logical_or",  "1.0 if x != 0.0 or y != 0.0 else 0.0",
       (np.logical_or, np.bitwise_or), BOOLEANS, hot=True)
binary("logical_xor", "1.0 if (x != 0.0) != (y != 0.0) else 0.0",
       (np.logical_xor, np.bitwise_xor), BOOLEANS)
unary ("logical_not", "1.0 if x == 0.0 else 0.0",
       (np.logical_not, np.invert), BOOLEAN, hot=True)

# Kinds of numbers
unary ("isnan",       "1.0 if x != x else 0.0",                          np.isnan)
unary ("isinf",       "1.0 if math.fabs(x) == math.inf else 0.0",        np.isinf)
unary ("isfinite",    "1.0 if x - x == 0.0 else 0.0",                    np.isfinite)
unary ("signbit",     "1.0 if math.copysign(1.0, x) < 0.0 else 0.0",     np.signbit)
