"""Functions of other packages whose derivatives are computed by calling these packages again.

Importing this announces their stand-ins (`numbatape.trace.functions.stand_ins`); the files here are imported
when their package has been imported by who uses it.
"""

from ..trace.functions.stand_ins import announce

announce("scipy.integrate", f"{__name__}.ode", f"{__name__}.quadrature")
announce("scipy.signal", f"{__name__}.filters")
announce("scipy.sparse.linalg", f"{__name__}.sparse_solve")
