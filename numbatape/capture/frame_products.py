"""Products of pandas' objects with traced vectors: ``df[["a", "b"]] @ beta``.

pandas converts the right operand by ``np.asarray``, and does not ask it for a product of its own. So the
methods are lent to a trace whose function refers to something of pandas.
"""

from __future__ import annotations

import functools
import sys

from ..trace import operations
from ..trace.array import TracedArray
from ..trace.series import TracedSeries
from . import lending

_METHODS = ("dot", "__matmul__")


class ProductSwitch(lending.Switch):
    """Returns a product for traced right operands by `numbatape.trace.series_calls.product`."""

    __slots__ = ()

    def __get__(self, owner, cls=None):
        return self.__wrapped__ if owner is None else functools.partial(_product, self.__wrapped__, owner)


def _product(method, left, other):
    return (
        operations.product(left, other) if type(other) in (TracedArray, TracedSeries) else method(left, other)
    )


def lend_products(trace) -> None:
    """Let pandas' products know traced values, for as long as a trace lasts."""
    pd = sys.modules["pandas"]
    for cls in (pd.DataFrame, pd.Series):
        for name in _METHODS:
            lending.lend(trace, cls, name, ProductSwitch(vars(cls)[name]))
