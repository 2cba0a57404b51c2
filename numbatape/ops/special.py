"""The functions of ``scipy.special``: one row per op, operands x, y and result z.

This does not import SciPy (0.3 s): ``"sc.psi"`` names the ufunc, for `resolve` and `find`. A formula uses
SciPy's scalar code as ``sc.psi(x)`` where libm has nothing as accurate. Rows whose function is in
`error_functions` or `gamma_functions` have no ``loop=``: these take a third of SciPy's time, and err less. Bessel
functions are in `bessel`, incomplete integrals in `incomplete`. Numbers beside the headings are those of the
DLMF (dlmf.nist.gov), where the formulas of the derivatives are.
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import numpy as np

from ..late import imported
from .elementwise import POWER_MIXED
from .table import POSITIVE, POSITIVES, PROBABILITY, REAL, binary, ternary, unary


def trigamma(x):
    """The derivative of ``scipy.special.digamma``: ``polygamma(1, x)``."""
    from scipy.special import polygamma

    return polygamma(1, x)


def hurwitz_zeta(s, x):
    """Hurwitz' zeta function, the sum of ``(x + n)**-s``, at whole orders s >= 2."""
    from scipy.special import zeta

    return zeta(s, x)


def hurwitz_zeta_rise(s, x, w):
    """``psi(x + w) - psi(x)`` for s = 1, ``zeta(s, x) - zeta(s, x + w)`` for s = 2, 3, ..."""
    zeta_rise = imported(".scalars", __package__).zeta_rise
    return np.vectorize(zeta_rise, otypes=[float])(s, x, w)[()]


def erfc_integral_ratio(n, x):
    """``i^n erfc(x) / i^(n-1) erfc(x)`` of repeated integrals of erfc (DLMF 7.18), x > 1."""
    erfc_ratio = imported(".scalars", __package__).erfc_ratio
    return np.vectorize(erfc_ratio, otypes=[float])(n, x)[()]


# ---- gamma functions: 5.2.2, 5.15.1. Derivatives of psi are zeta functions of Hurwitz' (25.11.12), whose
# derivative for the second argument is one of the next order (25.11.17)
_TURN = "(3.141592653589793*(x - 2.0*rint(0.5*x)))"  # pi x without whole turns
_COSINE, _SINE = f"math.cos({_TURN})", f"0.3183098861837907*math.sin({_TURN})"
unary ("gammaln",   "sc.gammaln(x)",   "sc.gammaln",  POSITIVE, dx="sc.psi(x)", dxx="zeta(2.0, x)")
unary ("loggamma",  "sc.loggamma(x)",  "sc.loggamma", POSITIVE, dx="sc.psi(x)", dxx="zeta(2.0, x)", loop="sc.loggamma")
unary ("gamma",     "sc.gamma(x)",     "sc.gamma",    POSITIVE, dx="z*sc.psi(x)", dxx="dx*sc.psi(x) + z*zeta(2.0, x)", loop="sc.gamma")
# Left of 1/2 the slope goes by reflection (5.5.3), gamma(1 - x) sin(pi x)/pi, which needs no psi at its poles
# 0, -1, ...
unary ("rgamma",    "sc.rgamma(x)",    "sc.rgamma",   POSITIVE, loop="sc.rgamma",
       dx=f"-z*sc.psi(x) if x > 0.5 else sc.gamma(1.0 - x)*({_COSINE} - sc.psi(1.0 - x)*{_SINE})",
       dxx=f"-dx*sc.psi(x) - z*zeta(2.0, x) if x > 0.5 else sc.gamma(1.0 - x)*((sc.psi(1.0 - x)*sc.psi(1.0 - x) + zeta(2.0, 1.0 - x) - 9.869604401089358)*{_SINE} - 2.0*sc.psi(1.0 - x)*{_COSINE})",
       edges=((0.0,), (-1.0,), (-2.0,), (-0.5,), (1e-9,)))
unary ("gammasgn",  "sc.gammasgn(x)",  "sc.gammasgn", loop="sc.gammasgn")
unary ("psi",       "sc.psi(x)",       "sc.psi",      POSITIVE, dx="trigamma(x)", dxx="-2.0*zeta(3.0, x)", two_tiers="reverse")
unary ("trigamma",  "trigamma(x)",    trigamma,      POSITIVE, dx="-2.0*zeta(3.0, x)", dxx="6.0*zeta(4.0, x)", two_tiers="forward, reverse")
binary("hurwitz",   "zeta(x, y)",      hurwitz_zeta,  ((2.0, 2.0), POSITIVE), opaque="x", dy="-x*zeta(x + 1.0, y)", dyy="x*(x + 1.0)*zeta(x + 2.0, y)")
# ---- differences of psi, and of zeta, for arguments with the difference w; right of 0 without cancellation
ternary("zeta_rise", "zeta_rise(x, y, w)", hurwitz_zeta_rise, ((1.0, 1.0), POSITIVE, POSITIVE), opaque="x",
       dy="-x*zeta_rise(x + 1.0, y, w)", dw="x*zeta(x + 1.0, y + w)",
       second={"yy": "x*(x + 1.0)*zeta_rise(x + 2.0, y, w)", "yw": "-x*(x + 1.0)*zeta(x + 2.0, y + w)", "ww": "-x*(x + 1.0)*zeta(x + 2.0, y + w)"})


def _psi_rise(x, w, y):
    """The text of psi(y) - psi(x), where y = x + w. Left of 0 digits cancel where w is small."""
    return f"(psi_rise({x}, {w}) if {x} > 0.0 and {y} > 0.0 else sc.psi({y}) - sc.psi({x}))"


def _zeta_fall(x, w, y):
    """The text of zeta(2, x) - zeta(2, y), where y = x + w."""
    return f"(zeta_rise(2.0, {x}, {w}) if math.fabs({w}) < 0.5*{x} else zeta(2.0, {x}) - zeta(2.0, {y}))"


_A, _B = _psi_rise("x", "y", "x + y"), _psi_rise("y", "x", "x + y")
_AA, _BB = _zeta_fall("x", "y", "x + y"), _zeta_fall("y", "x", "x + y")
# ---- the beta function by three gamma functions (5.12.1)
binary("betaln",    "sc.betaln(x, y)", "sc.betaln",   POSITIVES, loop="sc.betaln",
       dx=f"-{_A}", dy=f"-{_B}", dxx=_AA, dxy="-zeta(2.0, x + y)", dyy=_BB)
# Where x + y is 0, -1, ... and neither is whole, beta is zero and the reciprocal of gamma(x + y) has a slope. The last
# factor is 1 there, but its slope completes the second derivative, in which that of the slope counts twice. Where
# both are whole, psi is infinite twice, and the difference is that of the reflected arguments.
_WHOLE = "x + y <= 0.0 and floor(x + y) == x + y"
_ZERO = "sc.gamma(x)*sc.gamma(y)*sc.gamma(1.0 - (x + y))*math.cos(3.141592653589793*(x + y))*(1.0 + (sc.psi({0}) - sc.psi(1.0 - (x + y)))*(x + y - rint(x + y)))"
_REFLECTED = "z*(sc.psi(1.0 - {0}) - sc.psi(1.0 - (x + y))) if floor({1}) == {1} and {1} > 0.0 else " + _ZERO
binary("beta",      "sc.beta(x, y)",   "sc.beta",     POSITIVES, loop="sc.beta",
       dx=f"({_REFLECTED.format('x', 'y')}) if {_WHOLE} else -z*{_A}",
       dy=f"({_REFLECTED.format('y', 'x')}) if {_WHOLE} else -z*{_B}",
       edges=((-3.7, 2.7), (-2.5, -0.5), (-1.25, 0.25)),
       dxx=f"z*{_AA} - dx*{_A}", dxy=f"-dx*{_B} - z*zeta(2.0, x + y)", dyy=f"z*{_BB} - dy*{_B}")
# ---- Pochhammer's symbol and binomials by gamma functions (5.2.5, 1.2.6). The reciprocal of gamma has the
# slope (-1)**m m! where it is zero, at -m (residues: 5.2.1); there psi is infinite
_POLE = "sc.gamma(x + 1.0)*sc.rgamma(y + 1.0)*sc.gamma(y - x)*math.cos(3.141592653589793*(y - x - 1.0))*(1.0 + (sc.psi({0} + 1.0) - sc.psi(y - x))*(x - y - rint(x - y)))"
binary("poch",      "sc.poch(x, y)",   "sc.poch",     POSITIVES, loop="sc.poch",
       dx=f"z*{_A} if x > 0.0 or floor(x) != x else "
          "z*(sc.psi(1.0 - x - y) - sc.psi(1.0 - x)) if x + y <= 0.0 and floor(y) == y else sc.gamma(x + y)*sc.gamma(1.0 - x)*math.cos(3.141592653589793*x)*(1.0 + (sc.psi(x + y) - sc.psi(1.0 - x))*(x - rint(x)))",
       dy="z*sc.psi(x + y)", edges=((-2.0, 1.0), (-2.0, 4.0), (-3.0, 1.5), (0.0, 2.0)),
       dxx=f"dx*{_A} - z*{_AA}",
       dxy="dx*sc.psi(x + y) + z*zeta(2.0, x + y)",
       dyy="dy*sc.psi(x + y) + z*zeta(2.0, x + y)")
_ROOT = "sc.gamma(x + 1.0)*sc.rgamma(x - y + 1.0)*sc.gamma(-y)*math.cos(3.141592653589793*(y + 1.0))*(1.0 + (sc.psi(x - y + 1.0) - sc.psi(-y))*(y - rint(y)))"
_A, _B = _psi_rise("(x - y + 1.0)", "y", "(x + 1.0)"), _psi_rise("(y + 1.0)", "(x - 2.0*y)", "(x - y + 1.0)")
_AA = _zeta_fall("(x - y + 1.0)", "y", "(x + 1.0)")
binary("binom",     "sc.binom(x, y)",  "sc.binom",    ((4.5, 9.5), POSITIVE), loop="sc.binom",
       dx=f"z*{_A} if x - y > -1.0 or floor(x - y) != x - y else {_POLE.format('x')}",
       dy=f"({_ROOT} if y < 0.0 and floor(y) == y else z*{_B}) if x - y > -1.0 or floor(x - y) != x - y else -{_POLE.format('y')}",
       edges=((2.0, 4.0), (-0.5, 1.5), (1.5, 2.5), (0.7, -1.0), (2.3, -3.0)),
       dxx=f"dx*{_A} - z*{_AA}",
       dxy=f"dy*{_A} + z*zeta(2.0, x - y + 1.0)",
       dyy=f"dy*{_B} - z*(zeta(2.0, x - y + 1.0) + zeta(2.0, y + 1.0))")

# ---- error functions (7.2, derivatives 7.10.1), with the constants 2/sqrt(pi) and sqrt(pi)/2. Where the
# slope of erfcx cancels, it is a ratio of repeated integrals of erfc (7.18)
unary ("erf",       "math.erf(x)",     "sc.erf",      dx="1.1283791670955126*math.exp(-x*x)", dxx="-2.0*x*dx", hot=True)
unary ("erfc",      "math.erfc(x)",    "sc.erfc",     dx="-1.1283791670955126*math.exp(-x*x)", dxx="-2.0*x*dx", hot=True)
unary ("erfi",      "sc.erfi(x)",      "sc.erfi",     dx="1.1283791670955126*math.exp(x*x)", dxx="2.0*x*dx", loop="sc.erfi")
unary ("erfcx",     "sc.erfcx(x)",     "sc.erfcx",
       dx="-2.0*z*erfc_ratio(1.0, x) if x > 2.0 else 2.0*x*z - 1.1283791670955126",
       dxx="-4.0*dx*erfc_ratio(2.0, x) if x > 2.0 else 2.0*(z + x*dx)")
binary("erfc_ratio", "erfc_ratio(x, y)", erfc_integral_ratio, ((1.0, 1.0), (2.0, 6.0)), opaque="x", dy="2.0*z*(x*z - (x + 1.0)*erfc_ratio(x + 1.0, y))",
       dyy="2.0*(dy*(x*z - (x + 1.0)*erfc_ratio(x + 1.0, y)) + z*(x*dy - 2.0*(x + 1.0)*erfc_ratio(x + 1.0, y)*((x + 1.0)*erfc_ratio(x + 1.0, y) - (x + 2.0)*erfc_ratio(x + 2.0, y))))")
unary ("erfinv",    "sc.erfinv(x)",    "sc.erfinv",   (-0.95, 0.95), dx="0.886226925452758*math.exp(z*z)", dxx="2.0*z*dx*dx", loop="sc.erfinv")
unary ("erfcinv",   "sc.erfcinv(x)",   "sc.erfcinv",  (0.05, 1.95), dx="-0.886226925452758*math.exp(z*z)", dxx="2.0*z*dx*dx", loop="sc.erfcinv")

# ---- the normal distribution, an error function of x/sqrt(2), with the constants 1/sqrt(2 pi), sqrt(2/pi),
# sqrt(2 pi), sqrt(pi/2)
unary ("ndtr",      "sc.ndtr(x)",      "sc.ndtr",     dx="0.3989422804014327*math.exp(-0.5*x*x)", dxx="-x*dx")
unary ("log_ndtr",  "sc.log_ndtr(x)",  "sc.log_ndtr", dx="0.7978845608028654/sc.erfcx(-0.7071067811865476*x)",
       smooth={"x": "0.7978845608028654/sc.erfcx(-0.7071067811865476*x) if x < 5.0 else 0.3989422804014327*math.exp(-0.5*x*x - z)"},
       dxx="-1.4142135623730951*dx*erfc_ratio(1.0, -0.7071067811865476*x) if x < -3.0 else -dx*(x + dx)")
unary ("ndtri",     "sc.ndtri(x)",     "sc.ndtri",    PROBABILITY, dx="2.5066282746310007*math.exp(0.5*z*z)", dxx="z*dx*dx", loop="sc.ndtri")
unary ("ndtri_exp", "sc.ndtri_exp(x)", "sc.ndtri_exp", (-3.0, -0.05), dx="1.2533141373155003*sc.erfcx(-0.7071067811865476*z)",
       dxx="1.4142135623730951*dx*dx*erfc_ratio(1.0, -0.7071067811865476*z) if z < -3.0 else dx*(1.0 + z*dx)", loop="sc.ndtri_exp")

# ---- the logistic function
unary ("expit",     "logistic(x)",     "sc.expit",    dx="expit_slope(x, z)", dxx="-dx*math.tanh(0.5*x)", hot=True, smooth={"x": "z*logistic(-x)"})
unary ("log_expit", "(x if x < 0.0 else 0.0) - math.log1p(math.exp(-math.fabs(x)))", "sc.log_expit", dx="logistic(-x)", dxx="-logistic_slope(x)")
unary ("logit",     "logit(x)",        "sc.logit",    PROBABILITY, dx="1.0/(x*(1.0 - x))", dxx="(2.0*x - 1.0)*dx*dx")

# Entropies: 0 log 0 is 0. In ``smooth``, x/y is x*(1/y), whose derivative for x at 0 is right; LOG_RATIO
# splits log(x/y), which would have no derivative for y at x = 0.
LOG_RATIO = "math.log1p((x - y)/y) if 0.5*y < x < 2.0*y else math.log(x) - math.log(y)"
binary("xlogy",     "0.0 if x == 0.0 and y == y else x*math.log(y)",   "sc.xlogy",   (REAL, POSITIVE), dx="math.log(y)", dy="0.0 if x == 0.0 else x/y",
       dxy="1.0/y", dyy="0.0 if x == 0.0 else -dy/y", smooth={"y": "strong_mul(x, 1.0/y)"})
binary("xlog1py",   "0.0 if x == 0.0 and y == y else x*math.log1p(y)", "sc.xlog1py", (REAL, POSITIVE), dx="math.log1p(y)", dy="0.0 if x == 0.0 else x/(1.0 + y)",
       dxy="1.0/(1.0 + y)", dyy="0.0 if x == 0.0 else -dy/(1.0 + y)", smooth={"y": "strong_mul(x, 1.0/(1.0 + y))"})
unary ("entr",      "-x*math.log(x) if x > 0.0 else 0.0 if x == 0.0 else x*math.inf", "sc.entr", POSITIVE, dx="-1.0 - math.log(x)", dxx="-1.0/x")
binary("rel_entr",  "sc.rel_entr(x, y)", "sc.rel_entr", POSITIVES, dx="1.0 + log_ratio(x, y)", dy="0.0 if x == 0.0 else -x/y",
       dxx="1.0/x", dxy="-1.0/y", dyy="0.0 if x == 0.0 else -dy/y", loop="sc.rel_entr",
       smooth={"x": f"1.0 + ({LOG_RATIO})", "y": "-strong_mul(x, 1.0/y)"})
binary("kl_div",    "sc.kl_div(x, y)", "sc.kl_div",   POSITIVES, dx="log_ratio(x, y)", dy="1.0 if x == 0.0 else (y - x)/y",
       dxx="1.0/x", dxy="-1.0/y", dyy="0.0 if x == 0.0 else x/(y*y)", loop="sc.kl_div",
       smooth={"x": LOG_RATIO, "y": "(y - x)/y if y != 0.0 else 1.0 - strong_mul(x, 1.0/y)"})
binary("huber",     "sc.huber(x, y)",  "sc.huber",    (POSITIVE, REAL), loop="sc.huber",
       dx="0.0 if math.fabs(y) <= x else math.fabs(y) - x", dy="y if math.fabs(y) <= x else x*sign(y)", steps="x",
       dxx="0.0 if math.fabs(y) <= x else -1.0", dxy="0.0 if math.fabs(y) <= x else sign(y)", dyy="1.0 if math.fabs(y) <= x else 0.0")

# ---- losses, and the transformations of Box and Cox ("An analysis of transformations", 1964)
binary("pseudo_huber", "sc.pseudo_huber(x, y)", "sc.pseudo_huber", (POSITIVE, REAL), loop="sc.pseudo_huber",
       dx="x*(y/x*(y/x)/(1.0 + hypot(1.0, y/x)))*(y/x*(y/x)/(1.0 + hypot(1.0, y/x)))/hypot(1.0, y/x)", dy="y/hypot(1.0, y/x)",
       dxx="(dx - y*math.pow(y/x/hypot(1.0, y/x), 3.0))/x", dxy="math.pow(y/x/hypot(1.0, y/x), 3.0)", dyy="math.pow(hypot(1.0, y/x), -3.0)")
binary("boxcox",    "sc.boxcox(x, y)", "sc.boxcox",   (POSITIVE, REAL), loop="sc.boxcox",
       dx="math.pow(x, y - 1.0)",
       dy="-z/y if x == 0.0 and y > 0.0 else math.log(x)*math.log(x)*exprel_slope(y*math.log(x)) if math.fabs(y*math.log(x)) < 0.03 else (math.pow(x, y)*math.log(x) - z)/y",
       dxx="(y - 1.0)*math.pow(x, y - 2.0)", dxy="math.log(x)*dx",
       dyy="2.0*z/(y*y) if x == 0.0 and y > 0.0 else math.pow(math.log(x), 3.0)*exprel_bend(y*math.log(x)) if math.fabs(y*math.log(x)) < 0.03 else (math.pow(x, y)*math.log(x)*math.log(x) - 2.0*dy)/y", two_tiers="reverse")
binary("boxcox1p",  "sc.boxcox1p(x, y)", "sc.boxcox1p", (POSITIVE, REAL), loop="sc.boxcox1p",
       dx="math.pow(1.0 + x, y - 1.0) if x == -1.0 else math.exp((y - 1.0)*math.log1p(x))",
       dy="-z/y if x == -1.0 and y > 0.0 else math.log1p(x)*math.log1p(x)*exprel_slope(y*math.log1p(x)) if math.fabs(y*math.log1p(x)) < 0.03 else (math.exp(y*math.log1p(x))*math.log1p(x) - z)/y",
       dxx="(y - 1.0)*math.exp((y - 2.0)*math.log1p(x))", dxy="math.log1p(x)*dx",
       dyy="2.0*z/(y*y) if x == -1.0 and y > 0.0 else math.pow(math.log1p(x), 3.0)*exprel_bend(y*math.log1p(x)) if math.fabs(y*math.log1p(x)) < 0.03 else (math.exp(y*math.log1p(x))*math.log1p(x)*math.log1p(x) - 2.0*dy)/y", two_tiers="reverse")
binary("powm1",     "sc.powm1(x, y)",  "sc.powm1",    (POSITIVE, REAL), loop="sc.powm1",
       dx="power_slope(x, y, math.pow(x, y))", dy="power_rise(x, y, math.pow(x, y))",
       dxx="0.0 if y == 0.0 or y == 1.0 else y*(y - 1.0)*math.pow(x, y - 2.0)",
       dxy=POWER_MIXED, dyy="0.0 if x == 0.0 and y >= 0.0 else dy*math.log(x)")

# ---- degrees, with the constants pi/180 and its square
unary ("sindg",     "sc.sindg(x)",     "sc.sindg",    dx="0.017453292519943295*sc.cosdg(x)", dxx="-0.00030461741978670857*z", loop="sc.sindg")
unary ("cosdg",     "sc.cosdg(x)",     "sc.cosdg",    dx="-0.017453292519943295*sc.sindg(x)", dxx="-0.00030461741978670857*z", loop="sc.cosdg")
unary ("tandg",     "sc.tandg(x)",     "sc.tandg",    dx="0.017453292519943295*(1.0 + z*z)", dxx="0.03490658503988659*z*dx", loop="sc.tandg")
unary ("cotdg",     "sc.cotdg(x)",     "sc.cotdg",    (5.0, 85.0), dx="-0.017453292519943295*(1.0 + z*z)", dxx="-0.03490658503988659*z*dx", loop="sc.cotdg")

# ---- relatives of the exponential: exponential integrals (6.2), and Wright's omega, whose slope is omega/(1
# + omega) (Corless and Jeffrey, "The Wright omega function", 2002)
unary ("exprel",    "sc.exprel(x)",    "sc.exprel",   dx="exprel_slope(x) if math.fabs(x) < 0.03 else (math.exp(x) - z)/x",
       dxx="exprel_bend(x) if math.fabs(x) < 0.03 else (math.exp(x) - 2.0*dx)/x", loop="sc.exprel")
unary ("exp10",     "math.pow(10.0, x)", "sc.exp10",  dx="2.302585092994046*z", dxx="2.302585092994046*dx", loop="sc.exp10")
unary ("cosm1",     "sc.cosm1(x)",     "sc.cosm1",    dx="-math.sin(x)", dxx="-math.cos(x)", loop="sc.cosm1")
unary ("expi",      "sc.expi(x)",      "sc.expi",     POSITIVE, dx="math.exp(x)/x", dxx="dx*(x - 1.0)/x", loop="sc.expi")
unary ("exp1",      "sc.exp1(x)",      "sc.exp1",     POSITIVE, dx="-math.exp(-x)/x", dxx="-dx*(x + 1.0)/x", loop="sc.exp1")
unary ("wrightomega", "sc.wrightomega(x)", "sc.wrightomega", dx="z/(1.0 + z)", dxx="dx/((1.0 + z)*(1.0 + z))", loop="sc.wrightomega")
