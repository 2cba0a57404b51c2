"""numbatape: derivatives of plain NumPy and SciPy functions, without compiling them."""

from .caches import (
    Cache,
    Constant,
    GradientCache,
    PullbackCache,
    Static,
    clear_caches,
    prepare_gradient_cache,
    prepare_pullback_cache,
    value_and_gradient,
    value_and_pullback,
)
from .config import Config
from .engine.kernels import warmup
from .errors import (
    ArityError,
    DebugError,
    DtypeError,
    LeakError,
    NumbatapeError,
    OutputError,
    ShapeError,
    SpecError,
    StructureError,
    UnsupportedOperationError,
    VerificationError,
)
from .jit import kernel_info
from .verbs import derivative, grad, stop_gradient, value_and_grad, vjp

__version__ = "0.1.0"

__all__ = [
    "ArityError",
    "Cache",
    "Config",
    "Constant",
    "DebugError",
    "DtypeError",
    "GradientCache",
    "LeakError",
    "NumbatapeError",
    "OutputError",
    "PullbackCache",
    "ShapeError",
    "SpecError",
    "Static",
    "StructureError",
    "UnsupportedOperationError",
    "VerificationError",
    "clear_caches",
    "derivative",
    "grad",
    "kernel_info",
    "prepare_gradient_cache",
    "prepare_pullback_cache",
    "stop_gradient",
    "value_and_grad",
    "value_and_gradient",
    "value_and_pullback",
    "vjp",
    "warmup",
]
