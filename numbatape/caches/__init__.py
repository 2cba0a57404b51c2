"""Prepared caches: an input contract, a program and workspaces."""

from .arguments import Constant, Static
from .derivative import (
    DerivativeCache,
    prepare_derivative_cache,
    value_and_derivative,
    value_and_jacobian,
)
from .gradient import GradientCache, prepare_gradient_cache, value_and_gradient
from .memory import Cache
from .pullback import PullbackCache, prepare_pullback_cache, value_and_pullback
from .registry import clear_caches
from .second_order import (
    HessianCache,
    HvpCache,
    prepare_hessian_cache,
    prepare_hvp_cache,
    value_and_hvp,
    value_gradient_and_hessian,
)

__all__ = [
    "Cache",
    "Constant",
    "DerivativeCache",
    "GradientCache",
    "HessianCache",
    "HvpCache",
    "PullbackCache",
    "Static",
    "clear_caches",
    "prepare_derivative_cache",
    "prepare_gradient_cache",
    "prepare_hessian_cache",
    "prepare_hvp_cache",
    "prepare_pullback_cache",
    "value_and_derivative",
    "value_and_gradient",
    "value_and_hvp",
    "value_and_jacobian",
    "value_and_pullback",
    "value_gradient_and_hessian",
]
