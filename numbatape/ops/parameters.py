"""Derivatives of regularised gamma and beta functions for their parameters: helpers, rows, texts.

There is no closed form: series and continued fractions are differentiated term by term, to a relative error
of about 1e-13 wherever the derivative itself does not cancel. There are no third derivatives with respect
to parameters only: the tracer refuses them where they are needed, not already where a second one is
computed.
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import numpy as np

from ..late import imported
from .table import POSITIVE, POSITIVES, PROBABILITY, UNKNOWN, binary, ternary


def gamma_text(n, a, x):
    """Text of the n-th derivative of gammainc(a, x) for a."""
    factor = f"(sc._igam_fac({a}, {x}) if {a} > 10.0 else {a}*math.exp(sc.xlogy({a}, {x}) - {x} - sc.gammaln({a} + 1.0)))"
    return f"gamma_slope({n}.0, {a}, {x}, sc.psi({a} + 1.0), {factor})"


def gamma_density(a, x):
    """Text of the derivative of gammainc(a, x) for x; the exponential's operand loses all digits of a large a."""
    return f"(sc._igam_fac({a}, {x})/{x} if {a} > 1e5 and {x} > 0.0 else math.exp(sc.xlogy({a} - 1.0, {x}) - {x} - sc.gammaln({a})))"


def large_beta(a, b, x, rest, scale=""):
    """Begin a text for large a or b inside of the ends, where logarithms of the powers, or of the beta function, lose as many digits as they have."""
    inside = f"{x} > 0.0 and {rest} > 0.0"
    even = f"beta_factor({a}, {b}, {x}, {rest}){scale} if {a} > 30.0 and {b} > 30.0 and {inside}"
    if "0.5" in (a, b):  # of Student's law, whose other parameter is small
        return even
    uneven = f"uneven_factor({a}, {b}, {x}, {rest}, sc._igam_fac({a} if {a} < {b} else {b}, uneven_place({a}, {b}, {x}, {rest}))){scale} if unevenness({a}, {b}) > 0.0 and {inside}"
    return f"{uneven} else {even}"


def beta_density(a, b, x):
    """Text of the derivative of betainc(a, b, x) for x."""
    large = large_beta(a, b, x, f"1.0 - {x}", f"/({x}*(1.0 - {x}))")
    return f"({large} else math.exp(sc.xlogy({a} - 1.0, {x}) + sc.xlog1py({b} - 1.0, -{x}) - sc.betaln({a}, {b})))"


def beta_text(p, q, a, b, x, rest=None):
    """Text of the derivative of betainc(a, b, x), p times for a and q times for b; rest is 1 - x."""
    digammas = f"sc.psi({a} + 1.0), sc.psi({b} + 1.0), sc.psi({a} + {b})"
    rest = rest or f"1.0 - {x}"
    power = f"sc.xlogy({b}, {rest})" if rest != f"1.0 - {x}" else f"sc.xlog1py({b}, -{x})"
    factor = f"({large_beta(a, b, x, rest)} else math.exp(sc.xlogy({a}, {x}) + {power} - sc.betaln({a}, {b})))"
    return f"beta_slope({p}.0, {q}.0, {a}, {b}, {x}, {rest}, {digammas}, {factor})"


def _vectorised(text, names):
    """Return a formula as a function of arrays: what the rows' own values are compared with."""
    def function(*args):
        """Evaluate the formula for each entry; what raises in Python is NaN."""
        import math
        import types

        import scipy.special

        scalars = imported(".scalars", __package__)

        special = types.SimpleNamespace(_igam_fac=scipy.special._ufuncs._igam_fac, **{name: getattr(scipy.special, name) for name in ("psi", "xlogy", "xlog1py", "gammaln", "betaln")})
        scope = {**vars(scalars), "math": math, "sc": special}
        code = compile(text, "<formula>", "eval")

        def one(*values):
            try:
                return eval(code, scope, dict(zip(names, map(np.float64, values), strict=True)))
            except (ArithmeticError, ValueError):  # `math` raises where compiled code gives inf or NaN
                return np.nan

        with np.errstate(all="ignore"):
            return np.vectorize(one, otypes=[float])(*args)[()]

    return function


def _of_gamma(name, text, **options):
    binary(name, text, _vectorised(text, "xy"), POSITIVES, **options)


def _of_beta(name, text, **options):
    ternary(name, text, _vectorised(text, "xyw"), (POSITIVE, POSITIVE, PROBABILITY), **options)


_THIRD_OF_GAMMA = "gammainc (of gammainc, gammaincc, their inverses, chdtr, gdtr and the distributions made of them)"
_THIRD_OF_BETA = "betainc (of betainc, betaincc, their inverses, stdtr, fdtr and the distributions made of them)"

_GAMMA_DENSITY = gamma_density("x", "y")
_BETA_DENSITY = beta_density("x", "y", "w")
_FOR_A = "(math.log(w) - sc.psi(x) + sc.psi(x + y))"
_FOR_B = "(math.log1p(-w) - sc.psi(y) + sc.psi(x + y))"

_of_gamma("gamma_factor", "sc._igam_fac(x, y)", dx="z*(math.log(y) - sc.psi(x))", dy="z*(x/y - 1.0)", dxx="dx*(math.log(y) - sc.psi(x)) - z*zeta(2.0, x)",
     dxy="dy*(math.log(y) - sc.psi(x)) + z/y", dyy="dy*(x/y - 1.0) - z*x/y/y")
_of_gamma("gammainc_a",  gamma_text(1, "x", "y"), dx=gamma_text(2, "x", "y"), dy=f"strong_mul({_GAMMA_DENSITY}, math.log(y) - sc.psi(x))",
     dxy="dy*(math.log(y) - sc.psi(x)) - dy/(math.log(y) - sc.psi(x))*zeta(2.0, x)", dyy=f"dy*((x - 1.0)/y - 1.0) + {_GAMMA_DENSITY}/y")
_of_gamma("gammainc_aa", gamma_text(2, "x", "y"), third_of=_THIRD_OF_GAMMA, dx=UNKNOWN, dy=f"{_GAMMA_DENSITY}*((math.log(y) - sc.psi(x))*(math.log(y) - sc.psi(x)) - zeta(2.0, x))")
_of_beta("betainc_a",   beta_text(1, 0, "x", "y", "w"), dx=beta_text(2, 0, "x", "y", "w"), dy=beta_text(1, 1, "x", "y", "w"), dw=f"strong_mul({_BETA_DENSITY}, {_FOR_A})",
     second={"xw": f"dw*{_FOR_A} + {_BETA_DENSITY}*(zeta(2.0, x + y) - zeta(2.0, x))", "yw": f"dw*{_FOR_B} + {_BETA_DENSITY}*zeta(2.0, x + y)", "ww": f"dw*((x - 1.0)/w - (y - 1.0)/(1.0 - w)) + {_BETA_DENSITY}/w"})
_of_beta("betainc_b",   beta_text(0, 1, "x", "y", "w"), dx=beta_text(1, 1, "x", "y", "w"), dy=beta_text(0, 2, "x", "y", "w"), dw=f"strong_mul({_BETA_DENSITY}, {_FOR_B})",
     second={"xw": f"dw*{_FOR_A} + {_BETA_DENSITY}*zeta(2.0, x + y)", "yw": f"dw*{_FOR_B} + {_BETA_DENSITY}*(zeta(2.0, x + y) - zeta(2.0, y))", "ww": f"dw*((x - 1.0)/w - (y - 1.0)/(1.0 - w)) - {_BETA_DENSITY}/(1.0 - w)"})
_of_beta("betainc_aa",  beta_text(2, 0, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_A}*{_FOR_A} + zeta(2.0, x + y) - zeta(2.0, x))")
_of_beta("betainc_ab",  beta_text(1, 1, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_A}*{_FOR_B} + zeta(2.0, x + y))")
_of_beta("betainc_bb",  beta_text(0, 2, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_B}*{_FOR_B} + zeta(2.0, x + y) - zeta(2.0, y))")
