"""Derivatives of plain NumPy and SciPy functions, without compiling them.

Names are imported when they are first used: a gradient need not wait for sparse matrices, which
import ``scipy.sparse`` (0.2 s), nor for batches.
"""

import sys
from typing import TYPE_CHECKING

from .late import LOCK, imported

if TYPE_CHECKING:
    from . import distributed, integrations, testing, transforms
    from .caches.derivative import DerivativeCache, prepare_derivative_cache, value_and_derivative
    from .caches.gradient import GradientCache, prepare_gradient_cache, value_and_gradient
    from .caches.hessian import HessianCache, prepare_hessian_cache, value_gradient_and_hessian
    from .caches.hvp import HvpCache, prepare_hvp_cache, value_and_hvp
    from .caches.pullback import PullbackCache, prepare_pullback_cache, value_and_pullback
    from .caches.registry import clear_caches
    from .caches.sparse_hessian import (
        SparseHessianCache,
        prepare_sparse_hessian_cache,
        value_gradient_and_sparse_hessian,
    )
    from .caches.sparse_jacobian import (
        SparseJacobianCache,
        prepare_sparse_jacobian_cache,
        value_and_sparse_jacobian,
    )
    from .config import Config
    from .control.choices import cond, switch
    from .control.scans import fori_loop, map, scan
    from .control.while_loops import while_loop
    from .engine.library import warmup
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
        RetracingWarning,
        ShapeError,
        SpecError,
        StepsError,
        StructureError,
        UnsupportedOperationError,
        UnwatchedWarning,
        VerificationError,
    )
    from .jit.loader import kernel_info
    from .programs.roles import Cache, Constant, Static
    from .rules.primitive import primitive, zero_derivative
    from .rules.site import ArgumentSpec
    from .solvers.implicit import fixed_point, minimize_scalar, root
    from .solvers.linear_solve import linear_solve
    from .subtapes.functions import checkpoint, function, guarded
    from .testing.check import check
    from .verbs.batch import batch
    from .verbs.composed import directional_derivative, elementwise_grad, laplacian, make_hvp
    from .verbs.directions import derivative, hvp, jvp
    from .verbs.first_order import grad, stop_gradient, value_and_grad
    from .verbs.hessians import hessian, hessian_diagonal
    from .verbs.jacobians import jacobian, value_and_jacobian
    from .verbs.show import show
    from .verbs.sparse import sparse_hessian, sparse_jacobian, sparsity
    from .verbs.structures import flatten
    from .verbs.vjp import vjp
    from .verbs.vmap import vmap

_NAMES = {
    "caches.derivative": (
        "DerivativeCache",
        "prepare_derivative_cache",
        "value_and_derivative",
    ),
    "caches.gradient": (
        "GradientCache",
        "prepare_gradient_cache",
        "value_and_gradient",
    ),
    "caches.hessian": (
        "HessianCache",
        "prepare_hessian_cache",
        "value_gradient_and_hessian",
    ),
    "caches.hvp": (
        "HvpCache",
        "prepare_hvp_cache",
        "value_and_hvp",
    ),
    "programs.roles": (
        "Cache",
        "Constant",
        "Static",
    ),
    "caches.pullback": (
        "PullbackCache",
        "prepare_pullback_cache",
        "value_and_pullback",
    ),
    "caches.registry": ("clear_caches",),
    "caches.sparse_hessian": (
        "SparseHessianCache",
        "prepare_sparse_hessian_cache",
        "value_gradient_and_sparse_hessian",
    ),
    "caches.sparse_jacobian": (
        "SparseJacobianCache",
        "prepare_sparse_jacobian_cache",
        "value_and_sparse_jacobian",
    ),
    "config": ("Config",),
    "control.choices": (
        "cond",
        "switch",
    ),
    "control.while_loops": ("while_loop",),
    "control.scans": (
        "fori_loop",
        "map",
        "scan",
    ),
    "engine.library": ("warmup",),
    "errors": (
        "ArityError",
        "BusyError",
        "ConfigError",
        "DebugError",
        "DtypeError",
        "LeakError",
        "NumbatapeError",
        "OutputError",
        "PatternError",
        "ShapeError",
        "SpecError",
        "StepsError",
        "StructureError",
        "UnsupportedOperationError",
        "RetracingWarning",
        "UnwatchedWarning",
        "VerificationError",
    ),
    "jit.loader": ("kernel_info",),
    "rules.primitive": (
        "primitive",
        "zero_derivative",
    ),
    "rules.site": ("ArgumentSpec",),
    "solvers.implicit": (
        "fixed_point",
        "minimize_scalar",
        "root",
    ),
    "solvers.linear_solve": ("linear_solve",),
    "subtapes.functions": (
        "checkpoint",
        "function",
        "guarded",
    ),
    "testing.check": ("check",),
    "verbs.batch": ("batch",),
    "verbs.composed": (
        "directional_derivative",
        "elementwise_grad",
        "laplacian",
        "make_hvp",
    ),
    "verbs.directions": (
        "derivative",
        "hvp",
        "jvp",
    ),
    "verbs.first_order": (
        "grad",
        "stop_gradient",
        "value_and_grad",
    ),
    "verbs.hessians": (
        "hessian",
        "hessian_diagonal",
    ),
    "verbs.jacobians": (
        "jacobian",
        "value_and_jacobian",
    ),
    "verbs.show": ("show",),
    "verbs.sparse": (
        "sparse_hessian",
        "sparse_jacobian",
        "sparsity",
    ),
    "verbs.structures": ("flatten",),
    "verbs.vjp": ("vjp",),
    "verbs.vmap": ("vmap",),
}
_MODULES = ("distributed", "integrations", "testing", "transforms")
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str):
    if name in _MODULES:
        return imported(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with LOCK:
        found = globals()[name] = getattr(imported(f".{_HOME[name]}", __name__), name)
        if f"{__name__}.trace" in sys.modules:
            imported(".solvers", __name__)  # importing this package announces its stand-ins to the tracer
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    "RetracingWarning",
    "ShapeError",
    "SparseHessianCache",
    "SparseJacobianCache",
    "SpecError",
    "Static",
    "StepsError",
    "StructureError",
    "UnsupportedOperationError",
    "UnwatchedWarning",
    "VerificationError",
    "batch",
    "check",
    "checkpoint",
    "clear_caches",
    "cond",
    "derivative",
    "directional_derivative",
    "distributed",
    "elementwise_grad",
    "fixed_point",
    "flatten",
    "fori_loop",
    "function",
    "grad",
    "guarded",
    "hessian",
    "hessian_diagonal",
    "hvp",
    "integrations",
    "jacobian",
    "jvp",
    "kernel_info",
    "laplacian",
    "linear_solve",
    "make_hvp",
    "map",
    "minimize_scalar",
    "prepare_derivative_cache",
    "prepare_gradient_cache",
    "prepare_hessian_cache",
    "prepare_hvp_cache",
    "prepare_pullback_cache",
    "prepare_sparse_hessian_cache",
    "prepare_sparse_jacobian_cache",
    "primitive",
    "root",
    "scan",
    "show",
    "sparse_hessian",
    "sparse_jacobian",
    "sparsity",
    "stop_gradient",
    "switch",
    "testing",
    "transforms",
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
    "vmap",
    "warmup",
    "while_loop",
    "zero_derivative",
]
