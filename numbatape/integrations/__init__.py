"""Functions of other packages whose derivatives are computed by calling these packages again.

Importing this registers their stand-ins (`numbatape.trace.functions.stand_ins`); the packages themselves
are imported by who uses them.
"""

from . import filters, ode, quadrature, sparse_solve

__all__ = ["filters", "ode", "quadrature", "sparse_solve"]
