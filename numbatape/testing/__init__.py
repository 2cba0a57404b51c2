"""Checks of derivatives and of hand-written rules, for tests."""

from .check import check_derivatives
from .failures import DerivativeError
from .rules import test_rule

__all__ = ["DerivativeError", "check_derivatives", "test_rule"]
