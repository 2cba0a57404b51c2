"""Bessel functions and their relatives: one row per op, operands x, y and result z.

Partials in ``smooth`` avoid a division by x, in which more digits cancel near 0 with each derivative.
Derivatives follow from the recurrences of DLMF 10.6, 10.29, 10.46, 10.51, 10.63, 11.4, 13.3, 14.10 and
16.3. The derivative with respect to an order or another parameter has no closed form: such an operand is
opaque, and the tracer refuses it. The order of kv and kve is an exception: `series.kve_slope` adds up an integral.
Those of jv, yv, iv and ive are integrals along complex paths, which SciPy's side has (`special/bessel_orders.py`).
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import numpy as np

from ..late import imported
from .table import BOOLEAN, POSITIVE, POSITIVES, UNIT, binary, ternary, unary


def _spherical(name):
    def function(n, x):
        import scipy.special

        return getattr(scipy.special, name)(np.asarray(n).astype(int), x)

    return function


def kve_order_derivative(n, v, x):
    """The n-th derivative of ``scipy.special.kve(v, x)`` for v, n = 1, 2, ..."""
    import scipy.special

    kve_slope = imported(".series", __package__).kve_slope
    return np.vectorize(kve_slope, otypes=[float])(n, v, x, scipy.special.kve(v, x))[()]


_SIDES = "kve_slope(x, y - 1.0, w, sc.kve(y - 1.0, w)) + kve_slope(x, y + 1.0, w, sc.kve(y + 1.0, w))"

# ---- Bessel functions
unary ("i0",        "sc.i0(x)",        ("sc.i0", np.i0), dx="sc.i1(x)", dxx="0.5*(z + sc.iv(2.0, x))", loop="sc.i0")
unary ("i1",        "sc.i1(x)",        "sc.i1",       dx="sc.i0(x) - z/x if x != 0.0 else 0.5", dxx="0.75*z + 0.25*sc.iv(3.0, x)", loop="sc.i1", smooth={"x": "0.5*(sc.i0(x) + sc.iv(2.0, x))"})
unary ("i0e",       "sc.i0e(x)",       "sc.i0e",      dx="-sign(x)*i0e_gap(x, z, sc.i1e(x))", dxx="2.0*math.fabs(dx) - sc.i1e(x)/x if x != 0.0 else 1.5",
       smooth={"x": "-sign(x)*i0e_gap(x, z, sc.i1e(x)) if x != 0.0 else x*(1.5 + 35/48*x*x)"})
unary ("i1e",       "sc.i1e(x)",       "sc.i1e",      dx="i0e_gap(x, sc.i0e(x), z) - z/x if x != 0.0 else 0.5",
       dxx="1.75*z + 0.25*sc.ive(3.0, x) - sign(x)*(sc.i0e(x) + sc.ive(2.0, x)) if math.fabs(x) < 10.0 else i1e_bend(x, z, dx)",
       smooth={"x": "0.5 + 0.9375*x*x if x == 0.0 else 0.5*(sc.i0e(x) + sc.ive(2.0, x)) - sign(x)*z if math.fabs(x) < 1.0 else i0e_gap(x, sc.i0e(x), z) - z/x"})
unary ("j0",        "sc.j0(x)",        "sc.j0",       dx="-sc.j1(x)", dxx="0.5*(sc.jv(2.0, x) - z)", loop="sc.j0")
unary ("j1",        "sc.j1(x)",        "sc.j1",       dx="sc.j0(x) - z/x if x != 0.0 else 0.5", dxx="0.25*(sc.jv(3.0, x) - 3.0*z)", loop="sc.j1", smooth={"x": "0.5*(sc.j0(x) - sc.jv(2.0, x))"})
unary ("y0",        "sc.y0(x)",        "sc.y0",       POSITIVE, dx="-sc.y1(x)", dxx="-z - dx/x", loop="sc.y0")
unary ("y1",        "sc.y1(x)",        "sc.y1",       POSITIVE, dx="sc.y0(x) - z/x", dxx="(1.0/(x*x) - 1.0)*z - dx/x", loop="sc.y1")
unary ("k0",        "sc.k0(x)",        "sc.k0",       POSITIVE, dx="-sc.k1(x)", dxx="z - dx/x", loop="sc.k0")
unary ("k1",        "sc.k1(x)",        "sc.k1",       POSITIVE, dx="-sc.k0(x) - z/x", dxx="(1.0 + 1.0/(x*x))*z - dx/x", loop="sc.k1")
unary ("k0e",       "sc.k0e(x)",       "sc.k0e",      POSITIVE, dx="z - sc.k1e(x) if x < 300.0 else z*scaled_fall(-1.0, 0.0, x)", dxx="2.0*dx + sc.k1e(x)/x if x < 300.0 else z*scaled_bend(-1.0, 0.0, x)", loop="sc.k0e")
unary ("k1e",       "sc.k1e(x)",       "sc.k1e",      POSITIVE, dx="z - sc.k0e(x) - z/x if x < 300.0 else z*scaled_fall(-1.0, 1.0, x)",
       dxx="2.0*dx + 2.0*z/(x*x) + sc.k0e(x)/x if x < 300.0 else z*scaled_bend(-1.0, 1.0, x)", loop="sc.k1e")

# The order x may be any number; derivatives are with respect to y.
binary("jv",        "sc.jv(x, y)",     ("sc.jv", "sc.jve"),     POSITIVES, opaque="x", loop="sc.jv",
       dy="0.5*(sc.jv(x - 1.0, y) - sc.jv(x + 1.0, y))", dyy="0.25*(sc.jv(x - 2.0, y) - 2.0*z + sc.jv(x + 2.0, y))")
binary("yv",        "sc.yv(x, y)",     ("sc.yv", "sc.yve"),     POSITIVES, opaque="x", loop="sc.yv",
       dy="0.5*(sc.yv(x - 1.0, y) - sc.yv(x + 1.0, y))", dyy="0.25*(sc.yv(x - 2.0, y) - 2.0*z + sc.yv(x + 2.0, y))")
# SciPy cuts off the fractions of the orders of yn and kn.
binary("yn",        "sc.yn(x, y)",     "sc.yn",       (BOOLEAN, POSITIVE), opaque="x", loop="sc.yn",
       dy="0.5*(sc.yn(math.trunc(x) - 1.0, y) - sc.yn(math.trunc(x) + 1.0, y))", dyy="0.25*(sc.yn(math.trunc(x) - 2.0, y) - 2.0*z + sc.yn(math.trunc(x) + 2.0, y))")
binary("iv",        "sc.iv(x, y)",     "sc.iv",       POSITIVES, opaque="x", loop="sc.iv",
       dy="0.5*(sc.iv(x - 1.0, y) + sc.iv(x + 1.0, y))", dyy="0.25*(sc.iv(x - 2.0, y) + 2.0*z + sc.iv(x + 2.0, y))")
binary("ive",       "sc.ive(x, y)",    "sc.ive",      POSITIVES, opaque="x", loop="sc.ive",
       dy="0.5*(sc.ive(x - 1.0, y) + sc.ive(x + 1.0, y)) - sign(y)*z if y < 300.0 else z*scaled_fall(1.0, x, y)",
       dyy="0.25*(sc.ive(x - 2.0, y) + 2.0*z + sc.ive(x + 2.0, y)) - sign(y)*(sc.ive(x - 1.0, y) + sc.ive(x + 1.0, y)) + z if y < 300.0 else z*scaled_bend(1.0, x, y)",
       smooth={"y": "0.5*(sc.ive(x - 1.0, y) + sc.ive(x + 1.0, y)) + (-sign(y) if y != 0.0 else y)*z if y < 300.0 else z*scaled_fall(1.0, x, y)"})
# The factor of kve_slope is kve or kv itself. Derivatives with respect to y by DLMF 10.29.2, whose terms have one sign.
_KV_DY, _KN_DY = "-0.5*(sc.kv(x - 1.0, y) + sc.kv(x + 1.0, y))", "-0.5*(sc.kv(math.trunc(x) - 1.0, y) + sc.kv(math.trunc(x) + 1.0, y))"
binary("kv",        "sc.kv(x, y)",     "sc.kv",       POSITIVES, loop="sc.kv",
       dx="kve_slope(1.0, x, y, z)", dxx="kve_slope(2.0, x, y, z)",
       dxy="-0.5*(kve_slope(1.0, x - 1.0, y, sc.kv(x - 1.0, y)) + kve_slope(1.0, x + 1.0, y, sc.kv(x + 1.0, y)))",
       dy="-sc.kv(math.fabs(x) - 1.0, y) - strong_mul(math.fabs(x)/y, z) if y != 0.0 else -math.inf", dyy="0.25*(sc.kv(x - 2.0, y) + 2.0*z + sc.kv(x + 2.0, y))",
       smooth={"x": "math.exp(-y)*kve_slope(1.0, x, y, sc.kve(x, y))", "y": _KV_DY})
binary("kn",        "sc.kn(x, y)",     "sc.kn",       (BOOLEAN, POSITIVE), opaque="x", loop="sc.kn",
       dy="-sc.kn(math.fabs(math.trunc(x)) - 1.0, y) - strong_mul(math.fabs(math.trunc(x))/y, z) if y != 0.0 else -math.inf",
       dyy="0.25*(sc.kv(math.trunc(x) - 2.0, y) + 2.0*z + sc.kv(math.trunc(x) + 2.0, y))", smooth={"y": _KN_DY})
binary("kve",       "sc.kve(x, y)",    "sc.kve",      POSITIVES, loop="sc.kve",
       dx="kve_slope(1.0, x, y, z)", dxx="kve_slope(2.0, x, y, z)",
       dxy="dx - 0.5*(kve_slope(1.0, x - 1.0, y, sc.kve(x - 1.0, y)) + kve_slope(1.0, x + 1.0, y, sc.kve(x + 1.0, y)))",
       dy="z - 0.5*(sc.kve(x - 1.0, y) + sc.kve(x + 1.0, y)) if y < 300.0 else z*scaled_fall(-1.0, x, y)",
       dyy="0.25*(sc.kve(x - 2.0, y) + 2.0*z + sc.kve(x + 2.0, y)) + 2.0*dy - z if y < 300.0 else z*scaled_bend(-1.0, x, y)")
# This is the x-th derivative of kve(y, w) for the order y.
ternary("kve_slope", "kve_slope(x, y, w, sc.kve(y, w))", kve_order_derivative, ((1.0, 1.0), POSITIVE, POSITIVE), opaque="x",
       dy="kve_slope(x + 1.0, y, w, sc.kve(y, w))", dw=f"z - 0.5*({_SIDES})",
       second={"yy": "kve_slope(x + 2.0, y, w, sc.kve(y, w))", "yw": f"dy - 0.5*({_SIDES})".replace("kve_slope(x, ", "kve_slope(x + 1.0, "),
               "ww": "2.0*dw - z + 0.25*(kve_slope(x, y - 2.0, w, sc.kve(y - 2.0, w)) + 2.0*z + kve_slope(x, y + 2.0, w, sc.kve(y + 2.0, w)))"})
# Both begin with (y/2)**(x + 1)/(gamma(3/2) gamma(x + 3/2)) at 0 and go on two powers higher.
_PI = "3.141592653589793"
_STRUVE_BEND = f"4.0/(3.0*{_PI}) if x == 1.0 else 0.0 if x == 0.0 or x > 1.0 else math.inf"
binary("struve",    "sc.struve(x, y)", "sc.struve",   POSITIVES, opaque="x", loop="sc.struve",
       dy=f"sc.struve(x - 1.0, y) - x/y*z if y != 0.0 else 2.0/{_PI} - sc.struve(1.0, y) if x == 0.0 else "
          f"0.5*(sc.struve(x - 1.0, y) - sc.struve(x + 1.0, y) + math.pow(0.5*y, x)/(1.772453850905516*sc.gamma(x + 1.5)))", edges=((0.0, 0.0), (1.0, 0.0), (2.5, 0.0)),
       dyy="math.pow(0.5*y, x - 1.0)/(1.772453850905516*sc.gamma(x + 0.5)) - dy/y - (1.0 - x*x/(y*y))*z if y != 0.0 else " + _STRUVE_BEND)
binary("modstruve", "sc.modstruve(x, y)", "sc.modstruve", POSITIVES, opaque="x", loop="sc.modstruve",
       dy=f"sc.modstruve(x - 1.0, y) - x/y*z if y != 0.0 else 2.0/{_PI} + sc.modstruve(1.0, y) if x == 0.0 else "
          f"0.5*(sc.modstruve(x - 1.0, y) + sc.modstruve(x + 1.0, y) + math.pow(0.5*y, x)/(1.772453850905516*sc.gamma(x + 1.5)))", edges=((0.0, 0.0), (1.0, 0.0), (2.5, 0.0)),
       dyy="math.pow(0.5*y, x - 1.0)/(1.772453850905516*sc.gamma(x + 0.5)) - dy/y + (1.0 + x*x/(y*y))*z if y != 0.0 else " + _STRUVE_BEND)

# ---- spherical ones of whole order x >= 0; derivatives are with respect to y: DLMF 10.51.2, 10.51.5,
# 10.47.1, 10.47.2
binary("spherical_jn", "sc._spherical_jn__ld_d(x, y)", _spherical("spherical_jn"), (BOOLEAN, POSITIVE), opaque="x",
       dy="x/y*z - sc._spherical_jn__ld_d(x + 1.0, y) if y != 0.0 else 1/3 if x == 1.0 else 0.0",
       dyy="(x*(x + 1.0)/(y*y) - 1.0)*z - 2.0/y*dy if y != 0.0 else -1/3 if x == 0.0 else 2/15 if x == 2.0 else 0.0",
       smooth={"y": "(x*sc._spherical_jn__ld_d(x - 1.0 if x > 0.0 else 0.0, y) - (x + 1.0)*sc._spherical_jn__ld_d(x + 1.0, y))/(2.0*x + 1.0)"})
binary("spherical_yn", "sc._spherical_yn__ld_d(x, y)", _spherical("spherical_yn"), (BOOLEAN, POSITIVE), opaque="x",
       dy="x/y*z - sc._spherical_yn__ld_d(x + 1.0, y)", dyy="(x*(x + 1.0)/(y*y) - 1.0)*z - 2.0/y*dy")
binary("spherical_in", "sc._spherical_in__ld_d(x, y)", _spherical("spherical_in"), (BOOLEAN, POSITIVE), opaque="x",
       dy="x/y*z + sc._spherical_in__ld_d(x + 1.0, y) if y != 0.0 else 1/3 if x == 1.0 else 0.0",
       dyy="(x*(x + 1.0)/(y*y) + 1.0)*z - 2.0/y*dy if y != 0.0 else 1/3 if x == 0.0 else 2/15 if x == 2.0 else 0.0",
       smooth={"y": "(x*sc._spherical_in__ld_d(x - 1.0 if x > 0.0 else 0.0, y) + (x + 1.0)*sc._spherical_in__ld_d(x + 1.0, y))/(2.0*x + 1.0)"})
binary("spherical_kn", "sc._spherical_kn__ld_d(x, y)", _spherical("spherical_kn"), (BOOLEAN, POSITIVE), opaque="x",
       dy="x/y*z - sc._spherical_kn__ld_d(x + 1.0, y)", dyy="(x*(x + 1.0)/(y*y) + 1.0)*z - 2.0/y*dy")

# ---- Kelvin functions: (ber + i bei)'' + (ber + i bei)'/x = i (ber + i bei), and ker, kei alike
unary ("ber",       "sc.ber(x)",       "sc.ber",      POSITIVE, dx="sc.berp(x)", dxx="-sc.bei(x) - dx/x if x != 0.0 else 0.0", loop="sc.ber")
unary ("bei",       "sc.bei(x)",       "sc.bei",      POSITIVE, dx="sc.beip(x)", dxx="sc.ber(x) - dx/x if x != 0.0 else 0.5", loop="sc.bei")
unary ("berp",      "sc.berp(x)",      "sc.berp",     POSITIVE, dx="-sc.bei(x) - z/x if x != 0.0 else 0.0", dxx="-sc.beip(x) - dx/x + z/(x*x) if x != 0.0 else 0.0", loop="sc.berp",
       smooth={"x": "-sc.bei(x) - z/x if math.fabs(x) > 0.3 else x*x*(x*x*x*x*(7/18432 - x*x*x*x*(11/176947200)) - 3/16)"})
unary ("beip",      "sc.beip(x)",      "sc.beip",     POSITIVE, dx="sc.ber(x) - z/x if x != 0.0 else 0.5", dxx="sc.berp(x) - dx/x + z/(x*x) if x != 0.0 else 0.0", loop="sc.beip",
       smooth={"x": "sc.ber(x) - z/x if math.fabs(x) > 0.3 else 0.5 - x*x*x*x*(5/384 - x*x*x*x*(1/163840))"})
unary ("ker",       "sc.ker(x)",       "sc.ker",      POSITIVE, dx="sc.kerp(x)", dxx="-sc.kei(x) - dx/x", loop="sc.ker")
unary ("kei",       "sc.kei(x)",       "sc.kei",      POSITIVE, dx="sc.keip(x)", dxx="sc.ker(x) - dx/x", loop="sc.kei")
unary ("kerp",      "sc.kerp(x)",      "sc.kerp",     POSITIVE, dx="-sc.kei(x) - z/x", dxx="-sc.keip(x) - dx/x + z/(x*x)", loop="sc.kerp")
unary ("keip",      "sc.keip(x)",      "sc.keip",     POSITIVE, dx="sc.ker(x) - z/x", dxx="sc.kerp(x) - dx/x + z/(x*x)", loop="sc.keip")

# ---- associated Legendre functions of degree y and order x, DLMF 14.10.5 and 14.2.2
ternary("lpmv",     "sc.lpmv(x, y, w)", "sc.lpmv",    (BOOLEAN, (1.0, 3.0), UNIT), opaque="xy",
       dw="((x + y)*(sc.lpmv(x, y - 1.0, w) if x + y != 0.0 else 0.0) - y*w*z)/((1.0 - w)*(1.0 + w))",
       second={"ww": "(2.0*w*dw + (x*x/((1.0 - w)*(1.0 + w)) - y*(y + 1.0))*z)/((1.0 - w)*(1.0 + w))"})

# ---- Wright's generalised Bessel function, DLMF 10.46.1
ternary("wright_bessel", "sc.wright_bessel(x, y, w)", "sc.wright_bessel", (POSITIVE, POSITIVE, POSITIVE), opaque="xy",
       dw="sc.wright_bessel(x, x + y, w)", second={"ww": "sc.wright_bessel(x, 2.0*x + y, w)"})

# ---- confluent hypergeometric functions
ternary("hyp1f1",   "sc.hyp1f1(x, y, w)", "sc.hyp1f1", (POSITIVE, POSITIVE, POSITIVE), opaque="xy",
       dw="x/y*sc.hyp1f1(x + 1.0, y + 1.0, w)", second={"ww": "x*(x + 1.0)/(y*(y + 1.0))*sc.hyp1f1(x + 2.0, y + 2.0, w)"})
binary("hyp0f1",    "sc.hyp0f1(x, y)", "sc.hyp0f1",   POSITIVES, opaque="x", loop="sc.hyp0f1",
       dy="sc.hyp0f1(x + 1.0, y)/x", dyy="sc.hyp0f1(x + 2.0, y)/(x*(x + 1.0))")
ternary("hyperu",   "sc.hyperu(x, y, w)", "sc.hyperu", ((0.5, 1.5), (2.2, 2.8), (0.2, 2.0)), opaque="xy",
       dw="-x*sc.hyperu(x + 1.0, y + 1.0, w)", second={"ww": "x*(x + 1.0)*sc.hyperu(x + 2.0, y + 2.0, w)"})
