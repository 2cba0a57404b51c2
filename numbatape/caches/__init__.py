"""Prepared caches: an input contract, a program and workspaces."""

from .arguments import Constant, Static
from .gradient import GradientCache, prepare_gradient_cache, value_and_gradient
from .memory import Cache
from .pullback import PullbackCache, prepare_pullback_cache, value_and_pullback
from .registry import clear_caches

__all__ = [
    "Cache",
    "Constant",
    "GradientCache",
    "PullbackCache",
    "Static",
    "clear_caches",
    "prepare_gradient_cache",
    "prepare_pullback_cache",
    "value_and_gradient",
    "value_and_pullback",
]
