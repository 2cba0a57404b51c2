"""Checks of derivatives and of hand-written rules, for tests."""

from .check import check_derivatives
from .derivative_error import DerivativeError
from .rule_checks import test_rule

__all__ = ["DerivativeError", "check_derivatives", "test_rule"]
