"""Distributions of ``scipy.stats`` that are known by their values alone: no formula gives their derivatives.

They are those of test statistics. A test computes its p-value along with its statistic, so a value here may
be traced as long as nobody asks for its derivative.
"""

from __future__ import annotations

import numpy as np

from ...errors import UnsupportedOperationError
from ...numpy_api.function_tables import MAKERS
from ...rules.primitive import Primitive, Rule
from ...trace.operands import find_trace, lift_all
from ...usercode.frames import where_in_user_code
from .distributions import StandIn

NAMES = ("ksone", "kstwo")
METHODS = frozenset(("cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"))


def _method(distribution, name: str):
    """Return a method whose results are known by their values; None for one that is SciPy's own."""
    if name not in METHODS:
        return None
    original = getattr(distribution, name)

    def call(*args, **kwargs):
        """Return values that SciPy computes in each call, of which no derivative is known."""
        keys = [*range(len(args)), *kwargs]
        given = dict(zip(keys, (*args, *kwargs.values()), strict=True))
        traced = [key for key in keys if find_trace(given[key]) is not None]
        if not traced:
            return original(*args, **kwargs)
        place = where_in_user_code()

        def value(*numbers):
            known = given | dict(zip(traced, numbers, strict=True))
            places = [known.pop(k) for k in range(len(args))]
            return np.asarray(original(*places, **known), float)

        def refuse(*_):
            raise UnsupportedOperationError(
                f"the derivative of scipy.stats.{distribution.name}.{name} at {place} is not supported, only "
                "its value; differentiate the statistic, or pass nt.stop_gradient of the p-value"
            )

        rule = Rule(value, refuse, refuse, None)
        rule.name = f"scipy.stats.{distribution.name}.{name}"
        return Primitive(rule)(*lift_all(*(given[key] for key in traced)))

    return call


for _name in NAMES:
    MAKERS["scipy.stats"][_name] = lambda original: StandIn(original, _method)
