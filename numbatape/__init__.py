"""numbatape: derivatives of plain NumPy and SciPy functions, without compiling them."""

from importlib import import_module
from typing import TYPE_CHECKING

from .caches import (
    Cache,
    Constant,
    DerivativeCache,
    GradientCache,
    HessianCache,
    HvpCache,
    PullbackCache,
    Static,
    clear_caches,
    prepare_derivative_cache,
    prepare_gradient_cache,
    prepare_hessian_cache,
    prepare_hvp_cache,
    prepare_pullback_cache,
    value_and_derivative,
    value_and_gradient,
    value_and_hvp,
    value_and_jacobian,
    value_and_pullback,
    value_gradient_and_hessian,
)
from .config import Config
from .engine.kernels import warmup
from .errors import (
    ArityError,
    BusyError,
    ConfigError,
    DebugError,
    DtypeError,
    LeakError,
    NumbatapeError,
    OutputError,
    PatternError,
    ShapeError,
    SpecError,
    StructureError,
    UnsupportedOperationError,
    UnwatchedWarning,
    VerificationError,
)
from .integrations import ode as _ode  # noqa: F401  (they register themselves)
from .jit import kernel_info
from .trace.rules import ArgumentSpec, primitive, zero_derivative
from .verbs import (
    batch,
    derivative,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    stop_gradient,
    value_and_grad,
    vjp,
)

if TYPE_CHECKING:
    from . import testing
    from .caches.sparse import (
        SparseHessianCache,
        SparseJacobianCache,
        prepare_sparse_hessian_cache,
        prepare_sparse_jacobian_cache,
        value_and_sparse_jacobian,
        value_gradient_and_sparse_hessian,
    )
    from .verbs.sparse import sparse_hessian, sparse_jacobian, sparsity

# scipy.sparse takes 0.2 s to import: only who asks for one of these names pays.
_SPARSE = {
    "SparseHessianCache": "caches",
    "SparseJacobianCache": "caches",
    "prepare_sparse_hessian_cache": "caches",
    "prepare_sparse_jacobian_cache": "caches",
    "value_and_sparse_jacobian": "caches",
    "value_gradient_and_sparse_hessian": "caches",
    "sparse_hessian": "verbs",
    "sparse_jacobian": "verbs",
    "sparsity": "verbs",
}


def __getattr__(name: str):
    if name == "testing":  # no part of a program that is not a test
        return import_module(".testing", __name__)
    if name not in _SPARSE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_SPARSE[name]}.sparse", __name__), name)
    globals()[name] = found
    return found


__version__ = "0.1.0"

__all__ = [
    "ArgumentSpec",
    "ArityError",
    "BusyError",
    "Cache",
    "Config",
    "ConfigError",
    "Constant",
    "DebugError",
    "DerivativeCache",
    "DtypeError",
    "GradientCache",
    "HessianCache",
    "HvpCache",
    "LeakError",
    "NumbatapeError",
    "OutputError",
    "PatternError",
    "PullbackCache",
    "ShapeError",
    "SparseHessianCache",
    "SparseJacobianCache",
    "SpecError",
    "Static",
    "StructureError",
    "UnsupportedOperationError",
    "UnwatchedWarning",
    "VerificationError",
    "batch",
    "clear_caches",
    "derivative",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "kernel_info",
    "prepare_derivative_cache",
    "prepare_gradient_cache",
    "prepare_hessian_cache",
    "prepare_hvp_cache",
    "prepare_pullback_cache",
    "prepare_sparse_hessian_cache",
    "prepare_sparse_jacobian_cache",
    "primitive",
    "sparse_hessian",
    "sparse_jacobian",
    "sparsity",
    "stop_gradient",
    "testing",
    "value_and_derivative",
    "value_and_grad",
    "value_and_gradient",
    "value_and_hvp",
    "value_and_jacobian",
    "value_and_pullback",
    "value_and_sparse_jacobian",
    "value_gradient_and_hessian",
    "value_gradient_and_sparse_hessian",
    "vjp",
    "warmup",
    "zero_derivative",
]
