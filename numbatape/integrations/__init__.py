"""Functions of other packages whose derivatives are computed by calling these packages again.

Importing this package announces their stand-ins (`numbatape.numpy_api.stand_ins`). A file here is
imported only once a traced function refers to one of its functions.
"""

from ..numpy_api.function_tables import announce

announce("scipy.integrate", f"{__name__}.ode", ("odeint", "solve_ivp"))
announce("scipy.integrate", f"{__name__}.quadrature", ("quad",))
announce("scipy.signal", f"{__name__}.filters", ("lfilter", "sosfilt", "filtfilt"))
announce("scipy.sparse.linalg", f"{__name__}.sparse_solve", ("spsolve", "spsolve_triangular"))
