"""SciPy's solvers in traced functions: integrals, differential equations, roots, minima, linear systems.

A solver runs with plain numbers, and its solution is differentiated by the equation that it satisfies
(`numbatape.solvers.implicit`). Importing this package announces the stand-ins for SciPy's solvers
(`numbatape.numpy_api.stand_ins`); a file here is imported only once a traced function refers to one of its
functions.
"""

from ..numpy_api.function_tables import OBJECTS, announce

announce("scipy.integrate", f"{__name__}.boundary_values", ("solve_bvp",))
announce("scipy.integrate", f"{__name__}.ode", ("odeint",))
announce("scipy.integrate", f"{__name__}.initial_values", ("solve_ivp",))
announce("scipy.integrate", f"{__name__}.integrals_of_arrays", ("quad_vec",))
announce("scipy.integrate", f"{__name__}.quadrature", ("dblquad", "nquad", "quad", "tplquad"))
announce(
    "scipy.optimize",
    f"{__name__}.optimisers",
    (
        *("bisect", "brenth", "brentq", "curve_fit", "fixed_point", "fsolve", "least_squares", "minimize"),
        *("minimize_scalar", "newton", "ridder", "root", "root_scalar", "toms748"),
    ),
)
announce(
    "scipy.stats",
    f"{__name__}.expectations",
    ("_methods.expect", "_methods.moment", "_methods.nnlf"),
)
announce(
    "scipy.stats",
    f"{__name__}.implied_methods",
    ("_implied.areas", "_implied.expected", "_implied.quantiles"),
)
announce("scipy.stats", f"{__name__}.fits", ("_methods.fit",))
announce("scipy.optimize", f"{__name__}.linear_programs", ("isotonic_regression", "linprog"))
announce("scipy.optimize", f"{__name__}.least_squares", ("lsq_linear", "nnls"))
announce(
    "scipy.optimize",
    f"{__name__}.older_optimisers",
    (
        *("brent", "fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell", "fminbound", "golden"),
        "leastsq",
    ),
)
announce(
    "scipy.optimize",
    f"{__name__}.global_optimisers",
    ("basinhopping", "differential_evolution", "dual_annealing", "shgo"),
)
announce(
    "scipy.signal", f"{__name__}.filters", ("filtfilt", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi")
)
announce(
    "scipy.sparse.linalg",
    f"{__name__}.linear_rules",
    (
        *("bicg", "bicgstab", "cg", "cgs", "factorized", "gcrotmk", "gmres"),
        *("lgmres", "minres", "qmr", "spilu", "splu", "tfqmr"),
    ),
)
OBJECTS["builtins.SuperLU"] = f"{__name__}.linear_rules"
announce(
    "scipy.sparse.linalg",
    f"{__name__}.sparse_eigenvalues",
    ("eigs", "eigsh", "lobpcg", "svds"),
)
announce("scipy.sparse.linalg", f"{__name__}.sparse_least_squares", ("lsmr", "lsqr"))
announce("scipy.sparse.linalg", f"{__name__}.sparse_solve", ("spsolve", "spsolve_triangular"))
