"""``cast``: a copy between float64 and float32 cells. Only its operand has other cells."""

import numpy as np

from .table import unary

unary("cast", "x", (np.float64, np.float32), dx="1.0", casts=True)
