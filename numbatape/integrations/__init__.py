"""Functions of other packages whose derivatives are computed by calling these packages again.

Importing this package announces their stand-ins (`numbatape.trace.functions.stand_ins`). A file here is
imported only once the user's program has imported the package that it is about.
"""

from ..trace.functions.stand_ins import announce

announce("scipy.integrate", f"{__name__}.ode", f"{__name__}.quadrature")
announce("scipy.signal", f"{__name__}.filters")
announce("scipy.sparse.linalg", f"{__name__}.sparse_solve")
