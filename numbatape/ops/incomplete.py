"""Incomplete integrals, distribution functions and their inverses: one row per op.

The derivative with respect to the end of the integral is the integrand (DLMF 8.8, 8.17, 19.4). Derivatives
with respect to parameters of gamma, beta and Student's t have series (`parameters`). For other parameters
there is no closed form: such an operand is opaque, and the tracer refuses its derivative.
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

from ..late import imported
from .parameters import beta_density, beta_text, gamma_density, gamma_text, large_beta
from .table import BOOLEAN, POSITIVE, POSITIVES, PROBABILITY, REAL, UNKNOWN, binary, ternary, unary


def kolmogorov_derivative(n, x):
    """The n-th derivative of ``scipy.special.kolmogorov``, n = 1, 2, ..."""
    import numpy as np

    kolmogorov_slope = imported(".series", __package__).kolmogorov_slope
    return np.vectorize(kolmogorov_slope, otypes=[float])(n, x)[()]


def chi2_far_of_arrays(x, k, w):
    """Twice the density of the noncentral chi-squared law, as `scalars.chi2_far` computes it."""
    import numpy as np
    import scipy.special

    chi2_far = imported(".scalars", __package__).chi2_far
    bessel = scipy.special.ive(0.5 * np.asarray(k) - 1.0, np.sqrt(np.multiply(x, w)))
    return np.vectorize(chi2_far, otypes=[float])(x, k, w, bessel)[()]


def student_quantile_slope(n):
    """Return `scalars.student_rise` for an n, as a function of arrays."""
    def function(v, t):
        import numpy as np

        student_rise = imported(".scalars", __package__).student_rise
        return np.vectorize(student_rise, otypes=[float])(n, v, t)[()]

    return function


# The logarithm of gamma((v + 1)/2)/gamma(v/2)/sqrt(v/2) is minus a series of odd powers of 1/v (DLMF 5.11.8), from 20 on.
_RESTS = (1 / 4, -1 / 24, 1 / 20, -17 / 112, 31 / 36, -7.852272727272727, 105.01923076923077, -1936.6020833333334)


def _horner(coefficients, u):
    """Return the text of a polynomial."""
    first, *rest = coefficients
    return f"({first!r} + {u}*{_horner(rest, u)})" if rest else repr(first)


_LOSS = _horner(_RESTS, "1.0/(x*x)") + "/x"


def student_height(v):
    """Return the logarithm of Student's density at 0."""
    import numpy as np
    import scipy.special

    near, far = np.minimum(v, 20.0), np.maximum(v, 20.0)
    near = np.log(scipy.special.poch(0.5 * near, 0.5)) - 0.5 * (np.log(near) + 1.1447298858494002)
    far = -0.9189385332046727 - np.polyval(_RESTS[::-1], 1.0 / (far * far)) / far
    return np.where(np.less(v, 20.0), near, far)[()]


def student_tail(v, t):
    """Return the logarithm of Student's density, over that at 0."""
    import numpy as np

    return np.where(np.equal(v, np.inf), -0.5 * t * t, -0.5 * (v + 1.0) * np.log1p(t * t / v))[()]


THREE = (POSITIVE, POSITIVE, PROBABILITY)

# ---- gamma and Poisson
_A, _AA, _LOG = gamma_text(1, "x", "y"), gamma_text(2, "x", "y"), "(math.log(y) - sc.psi(x))"
_P = gamma_density("x", "y")
_BEND = "math.exp(sc.xlogy(x - 2.0, y) - sc.gammaln(x - 1.0))"  # the density of x - 1, which the density's slope has
_AT_ZERO = "math.pow(y, x - 1.0)*math.exp(-y)*sc.rgamma(x)"
binary("gammainc",  "sc.gammainc(x, y)",  "sc.gammainc",  POSITIVES, loop="sc.gammainc", dx=_A, dxx=_AA, dxy=f"dy*{_LOG} if dy != 0.0 else 0.0",
       dy=f"{_P}", smooth={"y": f"{_AT_ZERO} if y == 0.0 and x > 1.0 else {_P}"}, dyy=f"{_BEND} - dy if y == 0.0 and x > 1.0 else dy*((x - 1.0)/y - 1.0)", edges=((2.0, 0.0), (3.5, 0.0), (1.0, 0.0)))
binary("gammaincc", "sc.gammaincc(x, y)", "sc.gammaincc", POSITIVES, loop="sc.gammaincc", dx=f"-{_A}", dxx=f"-{_AA}", dxy=f"dy*{_LOG} if dy != 0.0 else 0.0",
       dy=f"-{_P}", smooth={"y": f"-{_AT_ZERO} if y == 0.0 and x > 1.0 else -{_P}"}, dyy=f"-{_BEND} - dy if y == 0.0 and x > 1.0 else dy*((x - 1.0)/y - 1.0)", edges=((2.0, 0.0), (3.5, 0.0), (1.0, 0.0)))
# The following are inverses z of P(x, z) = y: z_x = -P_x/p and z_y = 1/p, with the density p, whose logarithm
# has the slopes log(z) - psi(x) for x and (x - 1)/z - 1 for z.
_A, _AA, _LOG, _BEND = gamma_text(1, "x", "z"), gamma_text(2, "x", "z"), "(math.log(z) - sc.psi(x))", "((x - 1.0)/z - 1.0)"
_P = gamma_density("x", "z")
for _name, _sign in (("gammaincinv", ""), ("gammainccinv", "-")):
    _inverse, _END = f"(1.0/{_P})", "z == 0.0 or z == math.inf"  # the ends of the law, which do not move
    binary(_name, f"sc.{_name}(x, y)", f"sc.{_name}", (POSITIVE, PROBABILITY), loop=f"sc.{_name}", steps="x", dx=f"0.0 if {_END} else -{_A}*{_inverse}", dy=f"{_sign}{_inverse}",
           dxx=f"0.0 if {_END} else -{_AA}*{_inverse} - 2.0*dx*{_LOG} - dx*dx*{_BEND}", dxy=f"-dy*({_LOG} + dx*{_BEND})", dyy=f"-dy*dy*{_BEND}")
_A, _AA, _LOG = gamma_text(1, "0.5*x", "0.5*y"), gamma_text(2, "0.5*x", "0.5*y"), "0.5*(math.log(0.5*y) - sc.psi(0.5*x))"
_P = gamma_density("0.5*x", "0.5*y")
binary("chdtr",     "sc.chdtr(x, y)",     "sc.chdtr",     POSITIVES, loop="sc.chdtr", dx=f"0.5*{_A}", dxx=f"0.25*{_AA}", dxy=f"dy*{_LOG}",
       dy=f"0.5*{_P}", dyy="dy*((0.5*x - 1.0)/y - 0.5)")
binary("chdtrc",    "sc.chdtrc(x, y)",    "sc.chdtrc",    POSITIVES, loop="sc.chdtrc", dx=f"-0.5*{_A}", dxx=f"-0.25*{_AA}", dxy=f"dy*{_LOG}",
       dy=f"-0.5*{_P}", dyy="dy*((0.5*x - 1.0)/y - 0.5)")
_P = gamma_density("(floor(x) + 1.0)", "y")
binary("pdtr",      "sc.pdtr(x, y)",      "sc.pdtr",      POSITIVES, loop="sc.pdtr",
       dy=f"-{_P}", dyy="dy*(floor(x)/y - 1.0)")
binary("pdtrc",     "sc.pdtrc(x, y)",     "sc.pdtrc",     POSITIVES, loop="sc.pdtrc",
       dy=f"{_P}", dyy="dy*(floor(x)/y - 1.0)")
_A, _AA, _LOG = gamma_text(1, "y", "x*w"), gamma_text(2, "y", "x*w"), "(math.log(x*w) - sc.psi(y))"
_P = gamma_density("y", "x*w")
ternary("gdtr",     "sc.gdtr(x, y, w)",   "sc.gdtr",      (POSITIVE, POSITIVE, POSITIVE), dy=_A,
       dx=f"w*{_P}", dw=f"x*{_P}",
       second={"xx": "dx*((y - 1.0)/x - w)", "xy": f"dx*{_LOG}", "xw": "dx/w*(y - x*w)", "yy": _AA, "yw": f"dw*{_LOG}", "ww": "dw*((y - 1.0)/w - x)"})
ternary("gdtrc",    "sc.gdtrc(x, y, w)",  "sc.gdtrc",     (POSITIVE, POSITIVE, POSITIVE), dy=f"-{_A}",
       dx=f"-w*{_P}", dw=f"-x*{_P}",
       second={"xx": "dx*((y - 1.0)/x - w)", "xy": f"dx*{_LOG}", "xw": "dx/w*(y - x*w)", "yy": f"-{_AA}", "yw": f"dw*{_LOG}", "ww": "dw*((y - 1.0)/w - x)"})

# ---- beta, F and Student's t (the last two by betainc: Abramowitz and Stegun 26.6.2, 26.7.1); one constant
# is sqrt(pi)
_LOGS = ("(math.log(w) - sc.psi(x) + sc.psi(x + y))", "(math.log1p(-w) - sc.psi(y) + sc.psi(x + y))")
_P = beta_density("x", "y", "w")
for _name, _sign in (("betainc", ""), ("betaincc", "-")):
    ternary(_name, f"sc.{_name}(x, y, w)", f"sc.{_name}", THREE, dx=_sign + beta_text(1, 0, "x", "y", "w"), dy=_sign + beta_text(0, 1, "x", "y", "w"),
            dw=f"{_sign}{_P}", smooth={"w": f"{_sign}math.pow(w, x - 1.0)*math.pow(1.0 - w, y - 1.0)*math.exp(-sc.betaln(x, y)) if (w == 0.0 and x > 1.0) or (w == 1.0 and y > 1.0) else {_sign}{_P}"},
            second={"xx": _sign + beta_text(2, 0, "x", "y", "w"), "xy": _sign + beta_text(1, 1, "x", "y", "w"), "yy": _sign + beta_text(0, 2, "x", "y", "w"),
                    "xw": f"dw*{_LOGS[0]} if dw != 0.0 else 0.0", "yw": f"dw*{_LOGS[1]} if dw != 0.0 else 0.0",
                    "ww": f"{_sign}(x - 1.0)*math.exp(sc.xlogy(x - 2.0, w) - sc.betaln(x, y)) - dw*(y - 1.0) if w == 0.0 and x > 1.0 else "
                          f"dw*(x - 1.0) - {_sign}(y - 1.0)*math.exp(sc.xlog1py(y - 2.0, -w) - sc.betaln(x, y)) if w == 1.0 and y > 1.0 else "
                          "dw*((x - 1.0)/w - (y - 1.0)/(1.0 - w))"})
# The following are inverses z of I(x, y, z) = w, differentiated as those of gamma.
_LOGS = ("(math.log(z) - sc.psi(x) + sc.psi(x + y))", "(math.log1p(-z) - sc.psi(y) + sc.psi(x + y))")
_BEND = "((x - 1.0)/z - (y - 1.0)/(1.0 - z))"
for _name, _sign in (("betaincinv", ""), ("betainccinv", "-")):
    _inverse, _END = f"(1.0/{beta_density('x', 'y', 'z')})", "z == 0.0 or z == 1.0"
    ternary(_name, f"sc.{_name}(x, y, w)", f"sc.{_name}", THREE, dw=f"{_sign}{_inverse}", steps="xy",
            dx=f"0.0 if {_END} else -{beta_text(1, 0, 'x', 'y', 'z')}*{_inverse}", dy=f"0.0 if {_END} else -{beta_text(0, 1, 'x', 'y', 'z')}*{_inverse}",
            second={"xx": f"0.0 if {_END} else -{beta_text(2, 0, 'x', 'y', 'z')}*{_inverse} - 2.0*dx*{_LOGS[0]} - dx*dx*{_BEND}",
                    "xy": f"0.0 if {_END} else -{beta_text(1, 1, 'x', 'y', 'z')}*{_inverse} - dx*{_LOGS[1]} - dy*{_LOGS[0]} - dx*dy*{_BEND}",
                    "yy": f"0.0 if {_END} else -{beta_text(0, 2, 'x', 'y', 'z')}*{_inverse} - 2.0*dy*{_LOGS[1]} - dy*dy*{_BEND}",
                    "xw": f"-dw*({_LOGS[0]} + dx*{_BEND})", "yw": f"-dw*({_LOGS[1]} + dy*{_BEND})", "ww": f"-dw*dw*{_BEND}"})
# The cdf of F is a betainc of x/2 and y/2 at x*w/(y + x*w).
_Z, _REST = "x*w/(y + x*w)", "y/(y + x*w)"
_PSI = "sc.psi(0.5*(x + y))"
_LOG_A, _LOG_B = f"(math.log({_Z}) - sc.psi(0.5*x) + {_PSI})", f"(math.log({_REST}) - sc.psi(0.5*y) + {_PSI})"
_LOG_X, _LOG_Y = f"(0.5*{_LOG_A} + 0.5*{_REST} - 0.5*y/x*{_Z})", f"(0.5*{_LOG_B} + 0.5*{_Z} - 0.5*x/y*{_REST})"  # slopes of the density's logarithm
for _name, _sign in (("fdtr", ""), ("fdtrc", "-")):
    _density = f"{_sign}({large_beta('0.5*x', '0.5*y', _Z, _REST, '/w')} else x/(y + x*w)*math.exp(sc.xlogy(0.5*x - 1.0, {_Z}) + 0.5*y*math.log({_REST}) - sc.betaln(0.5*x, 0.5*y)))"
    _part = {(p, q): _sign + beta_text(p, q, "0.5*x", "0.5*y", _Z, _REST) for p, q in ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))}
    ternary(_name, f"sc.{_name}(x, y, w)", f"sc.{_name}", (POSITIVE, POSITIVE, POSITIVE),
            dx=f"0.5*({_part[1, 0]}) + w/x*({_density})", dy=f"0.5*({_part[0, 1]}) - w/y*({_density})", dw=_density,
            second={"xx": f"0.25*({_part[2, 0]}) + w/x*dw*(0.5*{_LOG_A} - 1.0/x + {_LOG_X})", "xy": f"0.25*({_part[1, 1]}) - 0.5*w/y*dw*{_LOG_A} + w/x*dw*{_LOG_Y}",
                    "yy": f"0.25*({_part[0, 2]}) - w/y*dw*(0.5*{_LOG_B} - 1.0/y + {_LOG_Y})", "xw": f"dw*{_LOG_X}", "yw": f"dw*{_LOG_Y}", "ww": "dw*((0.5*x - 1.0)/w - 0.5*(x + y)*x/(y + x*w))"})


def _student(t):
    """Return texts at t: the density, the slope for x, its own slope, both over minus the density, those of its logarithm.

    From 20 degrees of freedom on by `student_rise`, which loses no digits, and below by the incomplete beta
    function, which has no place where it needs more than 60 terms.
    """
    bell = f"0.3989422804014327*math.exp(-{_LOSS} - 0.5*({t}*{t} if x == math.inf else (x + 1.0)*math.log1p({t}*{t}/x)))"
    density = f"({bell} if x >= 20.0 else sc.poch(0.5*x, 0.5)*math.exp(-0.5*(x + 1.0)*math.log1p({t}*{t}/x))/(1.772453850905516*math.sqrt(x)))"
    share, rest = f"x/(x + {t}*{t})", f"{t}*{t}/(x + {t}*{t})"  # the cdf is half a betainc of x/2 and 1/2 at the share

    def part(n):
        tail, middle = beta_text(n, 0, "0.5*x", "0.5", share, rest), beta_text(0, n, "0.5", "0.5*x", rest, share)
        return f"({tail} if {t}*{t} > x else -{middle})"

    slope = f"(-0.25*sign({t})*{part(1)} - 0.5*{t}/x*{density})"
    log_x = f"(0.5*sc.psi(0.5*(x + 1.0)) - 0.5*sc.psi(0.5*x) - 0.5/x - 0.5*math.log1p({t}*{t}/x) + 0.5*(x + 1.0)*{t}*{t}/(x*(x + {t}*{t})))"
    log_w = f"(-math.log1p({t}*{t}/x) - sc.psi(0.5*x) + sc.psi(0.5*(x + 1.0)))"
    bend = f"(-0.125*sign({t})*{part(2)} + {t}/x*{density}*(0.5/x - 0.25*{log_w} - 0.5*{log_x}))"
    log_x = f"(student_score(x, {t}) if x >= 20.0 else {log_x})"
    rise = f"(student_rise(1.0, x, {t}) if x >= 20.0 else -{slope}/({density}))"
    lift = f"(student_rise(2.0, x, {t}) + student_rise(1.0, x, {t})*student_score(x, {t}) if x >= 20.0 else -{bend}/({density}))"
    slope = f"(-{density}*student_rise(1.0, x, {t}) if x >= 20.0 else {slope})"
    bend = f"(-{density}*(student_rise(2.0, x, {t}) + student_rise(1.0, x, {t})*student_score(x, {t})) if x >= 20.0 else {bend})"
    log_t = f"(-{t} if x == math.inf else -(x + 1.0)*{t}/(x + {t}*{t}))"
    return density, slope, bend, rise, lift, log_x, log_t


_density, _slope, _bend, _, _, _log_x, _log_t = _student("y")
binary("stdtr",     "sc.stdtr(x, y)",     "sc.stdtr",     (POSITIVE, REAL), loop="sc.stdtr", steps="x", dx=f"0.0 if math.fabs(y) == math.inf else {_slope}", dxx=f"0.0 if math.fabs(y) == math.inf else {_bend}", dxy=f"dy*{_log_x}", dy=_density, dyy=f"dy*{_log_t}",
       # Written apart at 0, where a betainc has an infinite slope.
       smooth={"x": f"0.0 if math.fabs(y) == math.inf else {_slope} if y != 0.0 else y*{_density}*{_log_x}"})
_density, _, _, _rise, _lift, _log_x, _log_t = _student("z")
binary("stdtrit",   "sc.stdtrit(x, y)",   "sc.stdtrit",   (POSITIVE, PROBABILITY), loop="sc.stdtrit", dx=_rise, dy=f"1.0/({_density})",
       dxx=f"{_lift} - 2.0*dx*{_log_x} - dx*dx*{_log_t}", dxy=f"-dy*({_log_x} + dx*{_log_t})", dyy=f"-dy*dy*{_log_t}",
       smooth={"x": f"{_rise} if z != 0.0 else -z*{_log_x}"})
# The density's logarithm has a height, which x degrees of freedom give, and a tail, which is zero at y = 0.
_HEIGHT = "0.5*sc.psi(0.5*(x + 1.0)) - 0.5*sc.psi(0.5*x) - 0.5/x"
_SLOPES = [(2.0 * k + 1.0) * rest for k, rest in enumerate(_RESTS)]
unary("student_height", f"-0.9189385332046727 - {_LOSS} if x >= 20.0 else math.log(sc.poch(0.5*x, 0.5)) - 0.5*(math.log(x) + 1.1447298858494002)", student_height, POSITIVE,
      dx=f"{_horner(_SLOPES, '1.0/(x*x)')}/(x*x) if x >= 20.0 else {_HEIGHT}",
      dxx="student_bend(x, 0.0) if x >= 20.0 else 0.25*(zeta(2.0, 0.5*(x + 1.0)) - zeta(2.0, 0.5*x)) + 0.5/(x*x)")
_SHARE = "y*y/(x + y*y)"
binary("student_tail", "-0.5*y*y if x == math.inf else -0.5*(x + 1.0)*math.log1p(y*y/x)", student_tail, (POSITIVE, REAL),
       dx="student_fall(x, y)", dy="-y if x == math.inf else -(x + 1.0)*y/(x + y*y)",
       dxx=f"0.5*{_SHARE}*((x - 1.0)*{_SHARE} - 2.0*x/(x + y*y))/(x*x)", dxy="(1.0 - y*y)/(x + y*y)*y/(x + y*y)",
       dyy="-1.0 if x == math.inf else (x + 1.0)*(y*y - x)/((x + y*y)*(x + y*y))",
       smooth={"x": f"0.5*({_SHARE}/x - ({_SHARE}*{_SHARE}*{_horner([1 / k for k in range(2, 17)], _SHARE)} if math.fabs({_SHARE}) < 0.1 else math.log1p(y*y/x) - {_SHARE}))",
               "y": "-y if x == math.inf else -y - y*(1.0 - y*y)/(x + y*y) if y*y < x else -(x + 1.0)*y/(x + y*y)"})
# The rise is how fast a quantile y of Student's grows with x degrees of freedom, from 20 on; it has a
# derivative for x, too.
_rise, _log_t = "student_rise(1.0, x, y)", "(-y if x == math.inf else -(x + 1.0)*y/(x + y*y))"
_turn, _bow = "(1.0 - y*y)/(x + y*y)*y/(x + y*y)", "((x + 1.0)*(y*y - x)/((x + y*y)*(x + y*y)))"  # slopes of the score and of _log_t for y
binary("stdtr_rise", _rise, student_quantile_slope(1.0), ((20.0, 90.0), REAL), dx="student_rise(2.0, x, y)", dy=f"-z*{_log_t} - student_score(x, y)",
       dxy=f"-dx*{_log_t} - z*{_turn} - student_bend(x, y)", dyy=f"-dy*{_log_t} - z*{_bow} - {_turn}")
binary("stdtr_rise_n", "student_rise(2.0, x, y)", student_quantile_slope(2.0), ((20.0, 90.0), REAL), third_of="stdtr (of stdtr, stdtrit and the distributions made of them)", dx=UNKNOWN, dy=f"-z*{_log_t} - {_rise}*{_turn} - student_bend(x, y)")

# Noncentral chi-squared has (end, degrees of freedom, noncentrality): the slope for the noncentrality is
# minus the density for two more degrees (J. D. Cohen, "Noncentral chi-square: some observations on
# recurrence", 1988).
def _chi2_density(more):
    half = f"(0.5*y + {0.5 * more})"
    # Near w = 0, where x/w is infinite in the end, by the series of the Bessel function without its first power.
    near = f"math.exp(sc.xlogy({half} - 1.0, 0.5*x) - 0.5*(x + w) - sc.gammaln({half}))*sc.hyp0f1({half}, 0.25*x*w)"
    return f"0.5*({near} if x*w < {half} else {_chi2_far(more)})"


def _chi2_far(more):
    """Return the text of the density, times 2, where the Bessel function is of use."""
    return f"chi2_far(x, y + {more:.1f}, w, sc.ive(0.5*y + {0.5 * more - 1.0}, math.sqrt(x*w)))"


ternary("chndtr",   "sc.chndtr(x, y, w)", "sc.chndtr",    (POSITIVE, POSITIVE, POSITIVE), opaque="y",
       dx=_chi2_density(0), dw=f"-({_chi2_density(2)})",
       second={"xx": f"0.5*({_chi2_density(-2)} - dx)", "xw": "-0.5*(dw + dx)", "ww": f"-0.5*({_chi2_density(4)} + dw)"})
ternary("chi2_far", "chi2_far(x, y, w, sc.ive(0.5*y - 1.0, math.sqrt(x*w)))", chi2_far_of_arrays, ((3.0, 9.0), (1.0, 7.0), (3.0, 9.0)), opaque="y",
       dx=f"0.5*({_chi2_far(-2)} - z)", dw=f"0.5*({_chi2_far(2)} - z)",
       second={"xx": f"0.25*({_chi2_far(-4)} - z) - dx", "xw": "-0.5*(dw + dx)", "ww": f"0.25*({_chi2_far(4)} - z) - dw"})

# ---- Kolmogorov's limit, by its two theta series (DLMF 20.7.32)
unary ("kolmogorov", "sc.kolmogorov(x)",  "sc.kolmogorov", (0.3, 2.0), dx="kolmogorov_slope(1.0, x)", dxx="kolmogorov_slope(2.0, x)", loop="sc.kolmogorov")
binary("kolmogorov_slope", "kolmogorov_slope(x, y)", kolmogorov_derivative, ((1.0, 1.0), (0.6, 2.0)), opaque="x",
       dy="kolmogorov_slope(x + 1.0, y)", dyy="kolmogorov_slope(x + 2.0, y)")
unary ("kolmogi",   "sc.kolmogi(x)",      "sc.kolmogi",   PROBABILITY, dx="1.0/kolmogorov_slope(1.0, z)", dxx="-dx*dx*dx*kolmogorov_slope(2.0, z)", loop="sc.kolmogi")

# ---- Owen's T ("Tables for computing bivariate normal probabilities", 1956), with the constants 1/(2 sqrt(2
# pi)) and 1/(2 pi)
binary("owens_t",   "sc.owens_t(x, y)",   "sc.owens_t",   loop="sc.owens_t",
       dx="-0.19947114020071635*math.erf(0.7071067811865476*x*y)*math.exp(-0.5*x*x)", dy="0.15915494309189535*math.exp(-0.5*x*x*(1.0 + y*y))/(1.0 + y*y)",
       dxx="-x*dx - y*(1.0 + y*y)*dy", dxy="-x*(1.0 + y*y)*dy", dyy="-dy*y*(x*x + 2.0/(1.0 + y*y))")

# ---- integrals of exponentials and logarithms (Dawson's: DLMF 7.2.5; expn: 8.19; spence is a dilogarithm:
# 25.12), as series where the closed form cancels
unary ("dawsn",     "sc.dawsn(x)",        "sc.dawsn",     loop="sc.dawsn",
       dx="1.0 - 2.0*x*z if math.fabs(x) < 15.0 else -0.5/(x*x)*(1.0 + 1.5/(x*x)*(1.0 + 2.5/(x*x)*(1.0 + 3.5/(x*x)*(1.0 + 4.5/(x*x)*(1.0 + 5.5/(x*x)*(1.0 + 6.5/(x*x)*(1.0 + 7.5/(x*x)*(1.0 + 8.5/(x*x)*(1.0 + 9.5/(x*x))))))))))",
       dxx="-2.0*(z + x*dx) if math.fabs(x) < 15.0 else 1.0/(x*x*x)*(1.0 + 3.0/(x*x)*(1.0 + 3.75/(x*x)*(1.0 + (14/3)/(x*x)*(1.0 + 5.625/(x*x)*(1.0 + 6.6/(x*x)*(1.0 + (91/12)/(x*x)*(1.0 + (60/7)/(x*x)*(1.0 + 9.5625/(x*x)*(1.0 + 10.6/(x*x))))))))))")
binary("expn",      "sc.expn(x, y)",      "sc.expn",      (BOOLEAN, POSITIVE), opaque="x", loop="sc.expn",
       dy="-sc.expn(x - 1.0, y) if x >= 1.0 else -z*(1.0 + 1.0/y)",
       dyy="sc.expn(x - 2.0, y) if x >= 2.0 else -dy*(1.0 + 1.0/y) if x >= 1.0 else z*(1.0 + 2.0/y + 2.0/(y*y))")
_SPENCE = "1/10"
for _k in range(9, 0, -1):  # -log(x)/(1 - x), in powers of 1 - x
    _SPENCE = f"1/{_k} + (1.0 - x)*({_SPENCE})"
unary ("spence",    "sc.spence(x)",       "sc.spence",    POSITIVE, loop="sc.spence",
       dx="math.log(x)/(1.0 - x) if x != 1.0 else -1.0",
       dxx="(1.0/x + dx)/(1.0 - x) if math.fabs(1.0 - x) > 0.01 else 1/2 + (1.0 - x)*(2/3 + (1.0 - x)*(3/4 + (1.0 - x)*(4/5 + (1.0 - x)*(5/6 + (1.0 - x)*(6/7)))))",
       smooth={"x": f"math.log(x)/(1.0 - x) if math.fabs(1.0 - x) > 0.03 else -({_SPENCE})"})

# ---- elliptic integrals of the parameter m, near 0 by the series of DLMF 19.5; one constant is pi/8
unary ("ellipk",    "sc.ellipk(x)",       "sc.ellipk",    PROBABILITY, loop="sc.ellipk",
       dx="0.5*(sc.ellipe(x)/(1.0 - x) - z)/x if math.fabs(x) > 0.01 else 0.39269908169872414*(1.0 + x*(1.125 + x*(1.171875 + x*(1.1962890625 + x*(1.21124267578125 + x*(1.22133636474609375 + x*1.228606224060059))))))",
       dxx="(0.25*z - (1.0 - 2.0*x)*dx)/(x*(1.0 - x)) if math.fabs(x) > 0.01 else 0.39269908169872414*(1.125 + x*(2.34375 + x*(3.5888671875 + x*(4.844970703125 + x*(6.10668182373046875 + x*7.371637344360352)))))")
unary ("ellipkm1",  "sc.ellipkm1(x)",     "sc.ellipkm1",  PROBABILITY, loop="sc.ellipkm1",
       dx="-0.5*(sc.ellipe(1.0 - x)/x - z)/(1.0 - x) if math.fabs(1.0 - x) > 0.01 else -0.39269908169872414*(1.0 + (1.0 - x)*(1.125 + (1.0 - x)*(1.171875 + (1.0 - x)*(1.1962890625 + (1.0 - x)*(1.21124267578125 + (1.0 - x)*(1.22133636474609375 + (1.0 - x)*1.228606224060059))))))",
       dxx="(0.25*z + (2.0*x - 1.0)*dx)/(x*(1.0 - x)) if math.fabs(1.0 - x) > 0.01 else 0.39269908169872414*(1.125 + (1.0 - x)*(2.34375 + (1.0 - x)*(3.5888671875 + (1.0 - x)*(4.844970703125 + (1.0 - x)*(6.10668182373046875 + (1.0 - x)*7.371637344360352)))))")
unary ("ellipe",    "sc.ellipe(x)",       "sc.ellipe",    PROBABILITY, loop="sc.ellipe",
       dx="0.5*(z - sc.ellipk(x))/x if math.fabs(x) > 0.01 else -0.39269908169872414*(1.0 + x*(0.375 + x*(0.234375 + x*(0.1708984375 + x*(0.13458251953125 + x*(0.11103057861328125 + x*0.09450817108154297))))))",
       dxx="-(0.25*z + (1.0 - x)*dx)/(x*(1.0 - x)) if math.fabs(x) > 0.01 else -0.39269908169872414*(0.375 + x*(0.46875 + x*(0.5126953125 + x*(0.538330078125 + x*(0.55515289306640625 + x*0.5670490264892578)))))")
binary("ellipkinc", "sc.ellipkinc(x, y)", "sc.ellipkinc", (REAL, PROBABILITY), opaque="y", loop="sc.ellipkinc",
       dx="1.0/math.sqrt(1.0 - y*math.sin(x)*math.sin(x))", dxx="y*math.sin(x)*math.cos(x)*dx*dx*dx")
binary("ellipeinc", "sc.ellipeinc(x, y)", "sc.ellipeinc", (REAL, PROBABILITY), opaque="y", loop="sc.ellipeinc",
       dx="math.sqrt(1.0 - y*math.sin(x)*math.sin(x))", dxx="-y*math.sin(x)*math.cos(x)/dx")
