"""Functions that SciPy computes, and whose slopes are formulas of such functions.

They have no row of the op table: they are rare, some take four or five arguments, and a row costs kernels.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable

import numpy as np

from ...derive.partials import weighed
from ...numpy_api.registration import unsupported_argument
from ...rules.primitive import Primitive, Rule
from ...trace.operands import find_trace
from .ufunc_table import is_active


def formula_rule(
    name: str,
    slopes: dict[int, Callable],
    part: Callable = lambda result: result,
    whole: tuple = (),
    home: str = "scipy.special",
    **options,
):
    """Return a function like one of SciPy's that takes traced arguments.

    Parameters
    ----------
    name
        The name of SciPy's function.
    slopes
        The derivative with respect to an argument, by its position (-1 for the last one): a function of the
        result and all arguments. Other arguments, such as orders, raise if they carry a derivative.
    part
        What is taken of SciPy's result, if it is not one real array.
    whole
        The positions of arguments that SciPy wants as integers.
    home
        The module in which the name is found; a name with a dot is a method of an object there.
    **options
        Keyword arguments for SciPy's function.
    """

    def value(*args):
        function = operator.attrgetter(name)(importlib.import_module(home))
        args = [np.asarray(arg).astype(int) if k in whole else arg for k, arg in enumerate(args)]
        return part(function(*args, **options))

    def slope_of(k, args):
        return slopes.get(k, slopes.get(k - len(args)))

    @functools.cache
    def rule_for(active: frozenset[int]) -> Primitive:
        """Return the rule for calls with derivatives for these arguments: other slopes are not computed."""

        def pullback(zbar, z, *args):
            known = [slope_of(k, args) if k in active else None for k in range(len(args))]
            # A zero cotangent stays zero where a slope is infinite or NaN, as for rows of the op table.
            with np.errstate(all="ignore"):
                return tuple(None if slope is None else weighed(zbar, slope(z, *args)) for slope in known)

        def pushforward(tangents, z, *args):
            pairs = [(t, slope_of(k, args)) for k, t in enumerate(tangents)]
            with np.errstate(all="ignore"):
                return sum(
                    weighed(t, slope(z, *args)) for t, slope in pairs if t is not None and slope is not None
                )

        return Primitive(Rule(value, pullback, pushforward, None, any_size=True))

    value.__name__ = value.__qualname__ = name

    def function(*args):
        active = frozenset(k for k, part in enumerate(args) if is_active(part))
        for k in sorted(active):
            if slope_of(k, args) is None:
                known = " and ".join(str(j + 1) for j in range(len(args)) if slope_of(j, args) is not None)
                hint = f"for it there is no closed form; argument {known} is" if known else "its value is"
                raise unsupported_argument(f"{home}.{name}", f"argument {k + 1} with a derivative", hint)
        return rule_for(active)(*broadcast(args))

    return function


def broadcast(args) -> list:
    """Return arguments of the same shape, except for plain numbers, which a rule takes as they are."""
    alone = [find_trace(part) is None and np.ndim(part) == 0 for part in args]
    arrays = iter(np.broadcast_arrays(*(part for part, one in zip(args, alone, strict=True) if not one)))
    return [np.float64(part) if one else next(arrays) + 0.0 for part, one in zip(args, alone, strict=True)]
