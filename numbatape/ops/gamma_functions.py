"""The logarithm of the gamma function, its derivative, and scaled Bessel functions in the kernel language, as
SIMD code.

Where its zeros are, each is the distance from the zeros times a quotient of polynomials. Beyond, it is an
asymptotic series in 1/x (DLMF 5.11.1, 5.11.2), whose coefficients are fitted so that it begins early. The far
pieces of the Bessel functions have the form of DLMF 10.40.1, fitted as well. Left of zero SciPy is called,
cell by cell. ``tests/engine/test_elementary.py`` holds them to 4 ulp.

The polynomials are printed by ``python -m benchmarks.coefficients``.
"""

import math

from ..jit.language import bits_of, float_of, horner
from .elementary import LN2_HIGH, LN2_LOW, fast_log, log_exponent, log_rest

ROOT = 1.4616321449683622  # the positive root of digamma to 53 bits, and below what is missing of it
ROOT_REST = 9.549995429965697e-17


def fast_gammaln(x):
    return positive_gammaln(x) if not x <= 0.0 else sc_gammaln(x)  # noqa: F821  (a kernel calls SciPy's)


def positive_gammaln(x):
    """Stirling's formula from 3 on, with log(x) - 1 as a sum of two, since its error is multiplied by x."""
    small = x < 0.75
    y = x + 1.0 if small else min(x, 3.0)
    near = (y - 1.0) * (y - 2.0) * gammaln_ratio(y) + 0.0  # adding 0 makes the zero at 1 positive
    near = near - fast_log(x) if small else near
    e = log_exponent(x)
    k = float_of(e + 4841369599423283200) - (4503599627370496.0 + 1023.0)
    f = float_of(bits_of(x) - ((e - 1023) << 52)) - 1.0
    high = k * LN2_HIGH - 1.0
    log = high + f
    back = log - high
    rest = (high - (log - back)) + (f - back) + (log_rest(f) + k * LN2_LOW - 0.5 * f * f)
    t = 1.0 / x
    far = (x - 0.5) * log + ((x - 0.5) * rest + (0.41893853320467274 + t * stirling_rest(t * t)))
    return near if x < 3.0 else far if x < 1e305 else x * (fast_log(x) - 1.0)


def gammaln_ratio(y):
    """gammaln(y)/((y - 1) (y - 2)) for y from 0.75 to 3: its value in the middle, and a correction."""
    x = y - 0.75
    u = x * x
    p = horner(u, -0.21107360824893515, -1.1957808743916747, -0.31151484941099283,
               -0.003889066413666307)  # fmt: skip
    p += x * horner(u, -0.8099172012724504, -0.8578605127845859, -0.05434061994452909,
                    -7.64661599991809e-05)  # fmt: skip
    q = horner(u, 1.0, 8.467767471483949, 4.109897359346559, 0.16051210839531435,
               0.0001668607191651143)  # fmt: skip
    q += x * horner(u, 4.602122866711274, 7.981176516141596, 1.1446464604211357,
                    0.009633343381808544)  # fmt: skip
    return 0.46580963736232694 + (y - 1.625) * (p / q)


def stirling_rest(x):
    """What Stirling's formula for gammaln(y) lacks, times y; x is 1/y**2, and y at least 3."""
    u = x * x
    p = horner(u, 0.08333333333333333, 0.0007936507898800207, 0.0008416865312385291, 0.0062746395388514325,
               0.11378126240996475, 1.0737800015394934)  # fmt: skip
    q = horner(u, -0.002777777777769552, -0.0005952374140519372, -0.0019138754338436858,
               -0.026055945382339914, -0.4229311066199233, -1.3200180114970002)  # fmt: skip
    return p + x * q


def fast_psi(x):
    return positive_psi(x) if not x <= 0.0 else sc_psi(x)  # noqa: F821


def positive_psi(x):
    small = x < 1.0
    y = x + 1.0 if small else min(x, 4.0)
    t = 1.0 / x
    near = ((y - ROOT) - ROOT_REST) * psi_ratio(y)
    near = near - t if small else near
    u = t * t
    far = fast_log(x) - (0.5 * t + u * psi_rest(u))
    return near if x < 4.0 else far


def psi_ratio(y):
    """digamma(y) divided by the distance of y from digamma's root, for y from 1 to 4."""
    x = y - 1.0
    u = x * x
    p = horner(u, -0.4650725988993001, -0.34745185526380756, -0.008864050944082201,
               -4.903434031141193e-06)  # fmt: skip
    p += x * horner(u, -0.6689638866928544, -0.08177340292213528, -0.0003928704700887341)
    q = horner(u, 1.0, 1.8737885868219777, 0.1411877883703751, 0.0005369203623581276)
    q += x * horner(u, 2.27617075463212, 0.7259740722985231, 0.01336218144360768,
                    6.285627349480681e-06)  # fmt: skip
    return 0.7853075386041053 + (y - 2.0) * (p / q)


def psi_rest(x):
    """(log(y) - 1/(2 y) - digamma(y)) y**2; x is 1/y**2, and y at least 4."""
    u = x * x
    p = horner(u, 0.0833333333333333, 0.003968253914398282, 0.007574465460294421, 0.07989635034846358,
               1.332452785181389)  # fmt: skip
    q = horner(u, -0.008333333333236125, -0.004166655025154943, -0.02100882247928986, -0.3504982916137738,
               -2.8156221000673716)  # fmt: skip
    return p + x * q


# ---- modified Bessel functions times exp(-|x|): a quotient up to 8, and beyond a polynomial in 16/|x| - 1


def fast_i0e(x):
    a = math.fabs(x)
    return i0e_near(a) if a < 8.0 else i0e_far(16.0 / a - 1.0) / math.sqrt(a)


def fast_i1e(x):
    a = math.fabs(x)
    return (x + 0.0) * i1e_near(a) if a < 8.0 else math.copysign(i1e_far(16.0 / a - 1.0) / math.sqrt(a), x)


def i0e_near(x):
    """Return exp(-x) I_0(x) for 0 <= x < 8, a quotient of polynomials in x."""
    u = x * x
    a = horner(u, 0.06708555813868651, 0.015155045598919701, 0.0006652326136265852, 8.939418466851274e-06,
               3.4991354646869724e-08, 8.24447808599066e-12)  # fmt: skip
    b = horner(u, 0.23053337851712108, 0.010952027667424218, 0.0001770462521038771, 1.0543473491585785e-06,
               1.681324352163399e-09)  # fmt: skip
    p = 1.0 + x * (a + x * b)
    c = horner(u, 1.0670855581386864, 0.17912648031736025, 0.007290745830072336, 0.00010341623944731873,
               5.061924463500756e-07, 4.633860572885068e-10)  # fmt: skip
    d = horner(u, 0.5476189366558091, 0.041691621384189324, 0.0009841472696775035, 8.38107586117155e-06,
               2.093606715942472e-08)  # fmt: skip
    q = 1.0 + x * (c + x * d)
    return p / q


def i1e_near(x):
    """Return exp(-x) I_1(x)/x for 0 <= x < 8, a quotient of polynomials in x."""
    u = x * x
    a = horner(u, 0.04748797070724617, 0.004834422563380886, 0.0001233933658247858, 1.0125467281332772e-06,
               2.0804561272182656e-09, -6.883364143269738e-14)  # fmt: skip
    b = horner(u, 0.05348916971294475, 0.0015553095101439021, 1.6670324429605164e-05, 6.105749385206343e-08,
               2.1276437378979975e-11)  # fmt: skip
    p = 0.5 + x * (a + x * b)
    c = horner(u, 1.0949759414144924, 0.19392982924976787, 0.008367987427891833, 0.00012701193437193877,
               6.786553893329314e-07, 7.236125984120713e-10)  # fmt: skip
    d = horner(u, 0.5769542808403806, 0.04643700565726012, 0.0011665940898057056, 1.0714985857328933e-05,
               2.981525015765514e-08)  # fmt: skip
    q = 1.0 + x * (c + x * d)
    return p / q


def i0e_far(x):
    """Return sqrt(x) exp(-x) I_0(x) for x >= 8, a polynomial in 16/x - 1."""
    u = x * x
    w = u * u
    a = horner(w, 0.4021765094450081, 1.4838476521578477e-06, 2.1564634383723363e-08, -5.060047215801158e-09,
               -4.624718669268805e-09, -6.787481187338686e-10)  # fmt: skip
    b = horner(w, 0.0033605519836678453, 2.973598209509645e-07, 7.551603137471556e-09, 7.519193798597744e-09,
               1.4553386907162175e-09, 1.3443840297351473e-10)  # fmt: skip
    c = horner(w, 0.0001362160743901717, 8.872054603761934e-08, -6.841794121370744e-09, 6.601117772096935e-09,
               2.233518786203303e-09, 9.645401904107669e-11)  # fmt: skip
    d = horner(w, 1.1143033792374237e-05, 3.93263026528491e-08, -1.339623980209847e-08,
               -3.4483669213444854e-09, -5.259156188592445e-10, -1.7054910121994412e-11)  # fmt: skip
    return a + x * b + u * (c + x * d)


def i1e_far(x):
    """Return sqrt(x) exp(-x) I_1(x) for x >= 8, a polynomial in 16/x - 1."""
    u = x * x
    w = u * u
    a = horner(w, 0.38939845902587233, -1.8349102228302412e-06, -2.339087532768005e-08, 5.615455286745734e-09,
               4.8600691397519385e-09, 7.072200446872193e-10)  # fmt: skip
    b = horner(w, -0.009749577193235725, -3.4838555014801357e-07, -8.425678980177003e-09,
               -7.620045403935659e-09, -1.395696419668036e-09, -1.2798525839069144e-10)  # fmt: skip
    c = horner(w, -0.0002192357638320512, -1.0001116027239322e-07, 6.832543710845434e-09,
               -7.025080905743617e-09, -2.333853640884449e-09, -1.0034344561855655e-10)  # fmt: skip
    d = horner(w, -1.5038547201563579e-05, -4.312948953408167e-08, 1.4025715881745292e-08,
               3.387826192971122e-09, 4.992991382118135e-10, 1.6401180459985987e-11)  # fmt: skip
    return a + x * b + u * (c + x * d)
