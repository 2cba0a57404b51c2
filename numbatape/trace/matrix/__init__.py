"""Linear algebra beyond the op table: rules of matrix functions, and what is composed of them."""

from . import functions, numpys, refusals, scipys, structured  # they register themselves

__all__ = ["functions", "numpys", "refusals", "scipys", "structured"]
