"""Elementwise arithmetic, comparisons and logic: one row per op, operands x, y, w and result z.

Partials are written so that they keep their relative accuracy over the whole domain. The
conventions at points without a unique derivative are listed in docs/conventions.md.

A row has ``loop=`` where NumPy has SIMD code for some CPUs and is no slower than libm on others
(measured on AVX2 at 1e5 cells, ns per cell, NumPy against a kernel's loop: tanh 14.8/18.7, sinh 19.7/25.2,
exp 9.6/9.7). Where the kernel's loop was faster, the formula is used: sqrt 1.3/0.7, remainder 21/7,
logaddexp 20/16, hypot 20/18. NumPy's cbrt errs by 2 ulp, SciPy's by 0.5.
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import numpy as np

from .table import ABOVE_ONE, BOOLEAN, BOOLEANS, POSITIVE, REAL, UNIT, binary, ternary, unary


def weigh(x, y):
    """A cotangent times a partial derivative: a zero cotangent adds nothing, whatever the partial."""
    return np.where(np.equal(x, 0.0), np.zeros_like(y), np.multiply(x, y))[()]


def strong_mul(x, y):
    """A product that is zero where either factor is, whatever the other is."""
    return np.where(np.logical_or(np.equal(x, 0.0), np.equal(y, 0.0)), 0.0, np.multiply(x, y))[()]


def gap(x, y):
    """The difference of two operands, zero between equal infinities."""
    return np.where(np.equal(x, y), 0.0, np.subtract(x, y))[()]


def addmul(x, y, w):
    """An addend and a product: what `numbatape.tape.passes.fuse` makes of two one-cell instructions."""
    return np.add(x, np.multiply(y, w))


def addweigh(x, y, w):
    return np.add(x, weigh(y, w))


def submul(x, y, w):
    """A product subtracted from a number."""
    return np.subtract(x, np.multiply(y, w))


def mulsub(x, y, w):
    """A number subtracted from a product."""
    return np.subtract(np.multiply(y, w), x)


def quotient(x, y, w):
    """The quotient x/y, given the reciprocal w of y: ``x*w``, unless w may be infinite, or have lost bits."""
    return np.where((w + 4.0 * y) * 0.0 != 0.0, np.divide(x, y), np.multiply(x, w))[()]


def turn(x, y):
    """The derivative of ``np.arctan2(x, y)`` for x."""
    r = np.hypot(x, y)
    return np.divide(np.divide(y, r), r)


def power_slope(x, y, w):
    """The derivative of w = x**y for x."""
    with np.errstate(all="ignore"):
        far = np.multiply(y, np.power(x, np.subtract(y, 1.0)))
        near = np.multiply(y, np.divide(w, x))
        size = np.abs(w)
        slope = np.where(np.greater(size, 1e-290) & np.less(size, 1e290), near, far)
    return np.where(np.equal(y, 0.0), 0.0, slope)[()]


def power_rise(x, y, w):
    """The derivative of w = x**y for y."""
    return np.where(np.equal(x, 0.0) & np.greater_equal(y, 0.0), 0.0, np.multiply(w, np.log(x)))[()]


def upper_share(x, y):
    """The share of x in the adjoint of ``np.maximum(x, y)``."""
    return np.where(np.isnan(x), 1.0, np.where(np.equal(x, y), 0.5, np.where(np.greater(x, y), 1.0, 0.0)))[()]


def lower_share(x, y):
    """The share of x in the adjoint of ``np.minimum(x, y)``."""
    return upper_share(np.negative(x), np.negative(y))


def upper_number_share(x, y):
    """The share of x in the adjoint of ``np.fmax(x, y)``."""
    return np.where(np.isnan(y), 1.0, np.where(np.equal(x, y), 0.5, np.where(np.greater(x, y), 1.0, 0.0)))[()]


def lower_number_share(x, y):
    """The share of x in the adjoint of ``np.fmin(x, y)``."""
    return upper_number_share(np.negative(x), np.negative(y))


def tanh_slope(x, y):
    """The derivative of tanh, from its result y."""
    return np.exp(-2.0 * np.abs(x)) * np.square(1.0 + np.abs(y))


QUOTIENTS = ((1e-310, 5e-324, np.inf), (3.0, 1.7e308, 0.5e-308), (0.0, 0.0, np.inf), (1.0, -0.0, -np.inf), (np.inf, np.inf, 0.0), (2.0, np.nan, np.nan))
TIES = ((1.0, 1.0), (0.0, -0.0), (np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan), (np.inf, np.inf), (-np.inf, 2.0))

# ---- arithmetic
unary ("copy",         "x",                     (np.positive, np.conjugate), dx="1.0", hot=True, exact=True, signs=(1,), moves=True, narrows=True, vector_arm=6, integers="within")
unary ("neg",          "-x",                    np.negative,                 dx="-1.0", hot=True, exact=True, signs=(-1,), narrows=True, vector_arm=5, integers="mirror")
binary("add",          "x + y",                 np.add,                      dx="1.0", dy="1.0", hot=True, exact=True, signs=(1, 1), commutes=True, narrows=True, in_register="xy", vector_arm=0, integers="sum")
binary("sub",          "x - y",                 np.subtract,                 dx="1.0", dy="-1.0", hot=True, exact=True, signs=(1, -1), narrows=True, in_register="xy", vector_arm=1, integers="sum")
binary("mul",          "x*y",                   np.multiply,                 dx="y", dy="x", dxy="1.0", hot=True, exact=True, factors="xy", added="addmul", taken="submul", taken_from="mulsub", summed="dot", summed_apart="outer_sum", twice="square", commutes=True, narrows=True, in_register="xy", vector_arm=2, integers="product")
binary("weigh",        "x*y if x != 0.0 else 0.0", weigh,                    dx="y", dy="x if x != 0.0 else 0.0", dxy="1.0", hot=True, exact=True, edges=((0.0, np.inf), (-0.0, np.nan), (2.0, np.inf)), factors="xy", zero_wins="x", added="addweigh", narrows=True, vector_arm=3)
binary("strong_mul",   "strong_mul(x, y)", strong_mul,                       dx="y if y != 0.0 else 0.0", dy="x if x != 0.0 else 0.0", dxy="1.0", edges=((0.0, np.inf), (np.nan, 0.0), (2.0, np.inf)))
binary("gap",          "gap(x, y)", gap,                                     dx="1.0", dy="-1.0", edges=((np.inf, np.inf), (-np.inf, -np.inf), (-np.inf, 1.0)))
ternary("addmul",      "x + y*w", addmul, (REAL, REAL, REAL),                dx="1.0", dy="w", dw="y", second={"yw": "1.0"}, hot=True, in_register="xyw", vector_arm=8)
ternary("submul",      "x - y*w", submul, (REAL, REAL, REAL),                dx="1.0", dy="-w", dw="-y", second={"yw": "-1.0"}, hot=True, in_register="xyw", vector_arm=11)
ternary("mulsub",      "y*w - x", mulsub, (REAL, REAL, REAL),                dx="-1.0", dy="w", dw="y", second={"yw": "1.0"}, hot=True, in_register="xyw", vector_arm=12)
ternary("addweigh",    "x + (y*w if y != 0.0 else 0.0)", addweigh, (REAL, REAL, REAL), dx="1.0", dy="w", dw="y if y != 0.0 else 0.0", second={"yw": "1.0"}, hot=True, edges=((1.0, 0.0, np.inf), (1.0, -0.0, np.nan)), in_register="x", vector_arm=9)
binary("div",          "x/y",                   np.divide, (REAL, POSITIVE), dx="1.0/y", dy="-(1.0/y)*z", dxy="-dx*dx", dyy="-2.0*dy/y", quotient=True, by_reciprocal="quotient", hot=True, exact=True, narrows=True, in_register="x", vector_arm=4)
ternary("quotient",    "x/y if (w + 4.0*y)*0.0 != 0.0 else x*w", quotient, (REAL, POSITIVE, POSITIVE), dx="w", dw="x", second={"xw": "1.0"}, edges=QUOTIENTS, vector_arm=10)
unary ("reciprocal",   "1.0/x",                 np.reciprocal, POSITIVE,     dx="-z*z", dxx="-2.0*z*dx", hot=True, exact=True)
unary ("square",       "x*x",                   np.square,                   dx="2.0*x", dxx="2.0", hot=True, exact=True, factors="xx", added="addmul", taken="submul", taken_from="mulsub", summed="dot", vector_arm=7, integers="product")
unary ("abs",          "math.fabs(x)",          (np.absolute, np.fabs),      dx="sign(x)", hot=True, exact=True, magnitude=True, integers="mirror")
binary("remainder",    "remainder(x, y)",       np.remainder,                dx="1.0", dy="rint((z - x)/y)", floored="remainder", integers="divisor")
binary("fmod",         "math.copysign(remainder(math.fabs(x), math.fabs(y)), x)", np.fmod, dx="1.0", dy="rint((z - x)/y)", integers="divisor")
binary("floor_divide", "x // y",                np.floor_divide, floored="quotient", integers="within")
binary("copysign",     "math.copysign(x, y)",   np.copysign,                 dx="sign(x)*math.copysign(1.0, y)")
binary("ldexp",        "ldexp(x, y)",           np.ldexp, (REAL, BOOLEAN),   dx="ldexp(1.0, y)", edges=((1e-300, 1100.0), (-1.0, -3.0)), oracle=lambda x, y: np.ldexp(x, np.asarray(y).astype(int)))
unary ("deg2rad",      "0.017453292519943295*x", (np.deg2rad, np.radians),   dx="0.017453292519943295")
unary ("rad2deg",      "57.29577951308232*x",   (np.rad2deg, np.degrees),    dx="57.29577951308232")

# ---- steps
unary ("sign",         "sign(x)",               np.sign, hot=True, integers="within")
unary ("floor",        "floor(x)",              np.floor, hot=True, integers="within")
unary ("ceil",         "-floor(-x)",            np.ceil, integers="within")
unary ("rint",         "rint(x)",               (np.rint, "sc.round"), edges=((0.5,), (1.5,), (2.5,), (-0.5,)), integers="within")
unary ("trunc",        "math.copysign(floor(math.fabs(x)), x)", (np.trunc, np.fix), integers="within")
binary("heaviside",    "0.0 if x < 0.0 else 1.0 if x > 0.0 else y if x == 0.0 else x", np.heaviside, dy="1.0 if x == 0.0 else 0.0")

# What maxima and minima give to x of their adjoint.
binary("upper_share",  "upper_share(x, y)",     upper_share, edges=TIES)
binary("lower_share",  "lower_share(x, y)",     lower_share, edges=TIES)
binary("upper_number_share", "upper_number_share(x, y)", upper_number_share, edges=TIES)
binary("lower_number_share", "lower_number_share(x, y)", lower_number_share, edges=TIES)

# Choices: the chosen operand gets the adjoint, and equal operands share it. Where one operand is NaN, max and
# min choose it, and fmax and fmin choose the other one.
binary("maximum",      "x if x >= y or x != x else y", np.maximum, dx="upper_share(x, y)", dy="upper_share(y, x)", hot=True, edges=TIES, integers="within")
binary("minimum",      "x if x <= y or x != x else y", np.minimum, dx="lower_share(x, y)", dy="lower_share(y, x)", hot=True, edges=TIES, integers="within")
binary("fmax",         "x if x >= y or y != y else y", np.fmax,    dx="upper_number_share(x, y)", dy="upper_number_share(y, x)", edges=TIES, integers="within")
binary("fmin",         "x if x <= y or y != y else y", np.fmin,    dx="lower_number_share(x, y)", dy="lower_number_share(y, x)", edges=TIES, integers="within")
ternary("where",       "y if x != 0.0 else w", np.where, (BOOLEAN, REAL, REAL), dy="1.0 if x != 0.0 else 0.0", dw="1.0 if x == 0.0 else 0.0", hot=True, reads_narrow=True, chooses=True, integers="within")

# Powers and roots. The partials of a power are rows: one pass over the cells in the place of a dozen. Their third
# operand is the power itself. At x = 0 the mixed partial has the logarithm only where it is infinite (y <= 1).
POWER_MIXED = "0.0 if x == 0.0 and (y > 1.0 or y == 0.0) else math.pow(x, y - 1.0)*(1.0 + y*math.log(x))"
POWERS = ((0.0, 0.0), (0.0, 2.0), (0.0, -1.0), (-2.0, 3.0), (-2.0, 0.5), (1.0, np.nan), (np.nan, 0.0))
OF_POWERS = ((0.0, 2.0, 0.0), (-2.0, 3.0, -8.0), (-2.0, 0.5, np.nan), (1e200, 1.5, 1e300), (1e-200, 1.5, 1e-300), (0.0, 1.0, 0.0), (np.nan, 0.0, 1.0))
binary("power", "math.pow(x, y)", (np.power, np.float_power), (POSITIVE, REAL), hot=True, loop="power", signed="signed_power",
       dx="power_slope(x, y, z)", dy="power_rise(x, y, z)", dxx="0.0 if y == 0.0 or y == 1.0 else y*(y - 1.0)*math.pow(x, y - 2.0)",
       dxy=POWER_MIXED, dyy="0.0 if x == 0.0 and y >= 0.0 else dy*math.log(x)", edges=POWERS, integers="power")
ternary("power_slope", "power_slope(x, y, w)", power_slope, (POSITIVE, REAL, POSITIVE), follows="math.pow(x, y)", edges=OF_POWERS,
       dx="0.0 if y == 0.0 or y == 1.0 else y*(y - 1.0)*math.pow(x, y - 2.0)", dy=POWER_MIXED,
       second={"xx": "0.0 if y == 0.0 or y == 1.0 or y == 2.0 else y*(y - 1.0)*(y - 2.0)*math.pow(x, y - 3.0)",
               "xy": "0.0 if x == 0.0 and (y > 2.0 or y == 0.0) else math.pow(x, y - 2.0)*(2.0*y - 1.0 + y*(y - 1.0)*math.log(x))",
               "yy": "0.0 if x == 0.0 and (y > 1.0 or y == 0.0) else math.pow(x, y - 1.0)*math.log(x)*(2.0 + y*math.log(x))"},
       smooth={"x": "0.0 if x == 0.0 and y == 0.0 else strong_mul(y*(y - 1.0), math.pow(x, y - 2.0))"}, steps="xy")
ternary("power_rise", "power_rise(x, y, w)", power_rise, (POSITIVE, REAL, POSITIVE), follows="math.pow(x, y)", edges=OF_POWERS,
       dx=POWER_MIXED, dy="0.0 if x == 0.0 and y >= 0.0 else math.pow(x, y)*math.log(x)*math.log(x)",
       second={"xx": "0.0 if x == 0.0 and y > 2.0 else math.pow(x, y - 2.0)*(2.0*y - 1.0 + y*(y - 1.0)*math.log(x))",
               "xy": "0.0 if x == 0.0 and (y > 1.0 or y == 0.0) else math.pow(x, y - 1.0)*math.log(x)*(2.0 + y*math.log(x))",
               "yy": "0.0 if x == 0.0 and y >= 0.0 else dy*math.log(x)"}, steps="xy")
unary ("sqrt",         "math.sqrt(x)",          np.sqrt, POSITIVE,    dx="0.5/(z + 0.0)", dxx="-2.0*dx*dx*dx", hot=True, exact=True)
unary ("cbrt",         "sc.cbrt(x)",            (np.cbrt, "sc.cbrt"), dx="0.3333333333333333/(z*z)", dxx="-2.0*dx/(3.0*x)")
binary("hypot",        "hypot(x, y)",           np.hypot, dx="x/z if z != 0.0 else 0.0", dy="y/z if z != 0.0 else 0.0",
       dxx="dy*dy/z if z != 0.0 else 0.0", dxy="-dx*dy/z if z != 0.0 else 0.0", dyy="dx*dx/z if z != 0.0 else 0.0", steps="xy",
       edges=((3e200, 4e200), (3e-200, 4e-200), (5e-324, 0.0), (np.inf, np.nan)))

# ---- exponentials and logarithms
unary ("exp",          "math.exp(x)",           np.exp,                 dx="z", dxx="z", hot=True, loop="exp")
unary ("exp2",         "math.exp2(x)",          (np.exp2, "sc.exp2"),   dx="0.6931471805599453*z", dxx="0.6931471805599453*dx", loop="exp2")
unary ("expm1",        "math.expm1(x)",         (np.expm1, "sc.expm1"), dx="z + 1.0 if z > -0.5 else math.exp(x)", dxx="dx", smooth={"x": "math.exp(x)"}, hot=True, loop="expm1", paired="exp")
unary ("log",          "math.log(x)",           np.log, POSITIVE,       dx="1.0/x", dxx="-dx*dx", hot=True, loop="log")
unary ("log2",         "math.log2(x)",          np.log2, POSITIVE,      dx="1.4426950408889634/x", dxx="-dx/x", loop="log2")
unary ("log10",        "math.log10(x)",         np.log10, POSITIVE,     dx="0.4342944819032518/x", dxx="-dx/x", loop="log10")
unary ("log1p",        "math.log1p(x)",         (np.log1p, "sc.log1p"), (-0.9, 4.0), dx="1.0/(1.0 + x)", dxx="-dx*dx", hot=True, loop="log1p")
binary("logaddexp",    "logaddexp(x, y)",       np.logaddexp,  dx="logistic(x - y) if x != y else 0.5", dy="logistic(y - x) if x != y else 0.5",
       dxx="dx*dy", dxy="-dx*dy", dyy="dx*dy", hot=True, edges=TIES, smooth={"x": "logistic(gap(x, y))", "y": "logistic(gap(y, x))"})
binary("logaddexp2",   "logaddexp2(x, y)",      np.logaddexp2, dx="logistic(0.6931471805599453*(x - y)) if x != y else 0.5", dy="logistic(0.6931471805599453*(y - x)) if x != y else 0.5",
       dxx="0.6931471805599453*dx*dy", dxy="-0.6931471805599453*dx*dy", dyy="0.6931471805599453*dx*dy", edges=TIES,
       smooth={"x": "logistic(0.6931471805599453*gap(x, y))", "y": "logistic(0.6931471805599453*gap(y, x))"})

# ---- trigonometric functions
unary ("sin",          "math.sin(x)",           np.sin,               dx="math.cos(x)", dxx="-z", hot=True, single_loop="sin", paired="cos")
unary ("cos",          "math.cos(x)",           np.cos,               dx="-math.sin(x)", dxx="-z", hot=True, single_loop="cos", paired="sin")
unary ("tan",          "math.tan(x)",           np.tan, (-1.4, 1.4),  dx="1.0 + z*z", dxx="2.0*z*dx", hot=True, loop="tan")
unary ("arcsin",       "math.asin(x)",          np.arcsin, UNIT,      dx="1.0/math.sqrt((1.0 - x)*(1.0 + x))", dxx="x*dx*dx*dx", loop="arcsin")
unary ("arccos",       "math.acos(x)",          np.arccos, UNIT,      dx="-1.0/math.sqrt((1.0 - x)*(1.0 + x))", dxx="x*dx*dx*dx", loop="arccos")
unary ("arctan",       "math.atan(x)",          np.arctan,            dx="1.0/(1.0 + x*x)", dxx="-2.0*x*dx*dx", hot=True, loop="arctan")
binary("arctan2",      "math.atan2(x, y)",      np.arctan2,           dx="turn(x, y)", dy="-turn(y, x)",
       dxx="2.0*dx*dy", dxy="(dy - dx)*(dy + dx)", dyy="-2.0*dx*dy", loop="arctan2")
binary("turn",         "turn(x, y)",            turn,                 dx="-2.0*z*turn(y, x)", dy="(turn(y, x) - z)*(turn(y, x) + z)",
       dxx="2.0*(z*dy - dx*turn(y, x))", dxy="-2.0*(dy*turn(y, x) + z*dx)", dyy="2.0*(dx*turn(y, x) - z*dy)", edges=((3e200, 4e200), (3e-200, 4e-200)))
unary ("sinc",         "sinc(x)",               np.sinc,              dx="9.869604401089358*x*sinc_bend(3.141592653589793*x)", dxx="-9.869604401089358*(z + 2.0*sinc_bend(3.141592653589793*x))")

# ---- hyperbolic functions
unary ("sinh",         "math.sinh(x)",          np.sinh,              dx="math.cosh(x)", dxx="z", hot=True, loop="sinh", paired="cosh")
unary ("cosh",         "math.cosh(x)",          np.cosh,              dx="math.sinh(x)", dxx="z", hot=True, loop="cosh", paired="sinh")
unary ("tanh",         "math.tanh(x)",          np.tanh,              dx="tanh_slope(x, z)", dxx="-2.0*z*dx", hot=True, loop="tanh", paired="tanh_slope")
binary("tanh_slope",   "tanh_slope(x, y)",      tanh_slope,           dx="-2.0*y*z", dxx="-2.0*(z*z + y*dx)", follows="math.tanh(x)")
unary ("arcsinh",      "math.asinh(x)",         np.arcsinh,           dx="1.0/hypot(1.0, x)", dxx="-x*dx*dx*dx", loop="arcsinh")
unary ("arccosh",      "math.acosh(x)",         np.arccosh, ABOVE_ONE, dx="1.0/(math.sqrt(x - 1.0)*math.sqrt(x + 1.0))", dxx="-x*dx*dx*dx", loop="arccosh")
unary ("arctanh",      "math.atanh(x)",         np.arctanh, UNIT,     dx="1.0/((1.0 - x)*(1.0 + x))", dxx="2.0*x*dx*dx", loop="arctanh")

# Truth values are 1.0 and 0.0, without adjoints. The bitwise functions take booleans only, which the tracer checks.

# ---- comparisons
binary("greater",       "1.0 if x > y else 0.0",   np.greater,       hot=True, compares=">")
binary("greater_equal", "1.0 if x >= y else 0.0",  np.greater_equal, hot=True, compares=">=")
binary("less",          "1.0 if x < y else 0.0",   np.less,          hot=True, compares="<")
binary("less_equal",    "1.0 if x <= y else 0.0",  np.less_equal,    hot=True, compares="<=")
binary("equal",         "1.0 if x == y else 0.0",  np.equal,         hot=True, compares="==")
binary("not_equal",     "1.0 if x != y else 0.0",  np.not_equal,     hot=True, compares="!=")

# ---- logic
binary("logical_and", "1.0 if x != 0.0 and y != 0.0 else 0.0",
       (np.logical_and, np.bitwise_and), BOOLEANS, hot=True, logic="and")
binary("logical_or",  "1.0 if x != 0.0 or y != 0.0 else 0.0",
       (np.logical_or, np.bitwise_or), BOOLEANS, hot=True, logic="or")
binary("logical_xor", "1.0 if (x != 0.0) != (y != 0.0) else 0.0",
       (np.logical_xor, np.bitwise_xor), BOOLEANS, logic="xor")
unary ("logical_not", "1.0 if x == 0.0 else 0.0",
       (np.logical_not, np.invert), BOOLEAN, hot=True, logic="not")

# ---- kinds of numbers
unary ("isnan",       "1.0 if x != x else 0.0",                          np.isnan)
unary ("isinf",       "1.0 if math.fabs(x) == math.inf else 0.0",        np.isinf)
unary ("isfinite",    "1.0 if x - x == 0.0 else 0.0",                    np.isfinite)
unary ("signbit",     "1.0 if math.copysign(1.0, x) < 0.0 else 0.0",     np.signbit)
