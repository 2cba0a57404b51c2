"""Linear algebra beyond the op table: rules of matrix functions, and what is composed of them.

NumPy's functions are registered here; SciPy's files are imported when ``scipy.linalg`` is there
(`numbatape.trace.functions.stand_ins`).
"""

from . import numpys  # it registers itself

__all__ = ["numpys"]
