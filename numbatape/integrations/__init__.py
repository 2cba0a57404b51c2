"""Functions as other packages take them: SciPy's optimisers, samplers, Ipopt, JAX, PyTensor, PyTorch.

A file here is imported only when one of the names below is first used; so is the package that it is for.
"""

from .. import solvers  # noqa: F401  (whatever a function given to these packages solves has derivatives)
from ..late import imported

_HOME = {
    "as_jax_function": "jax_functions",
    "as_pytensor_op": "pytensor_op",
    "as_torch_function": "torch_functions",
    "scipy_problem": "scipy_problems",
    "to_blackjax": "jax_functions",
    "to_bridgestan_like": "stan_model",
    "to_cyipopt": "ipopt_problem",
    "to_emcee": "emcee_sampler",
    "to_numpyro": "jax_functions",
    "to_nutpie": "nutpie_model",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(imported(f".{_HOME[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
