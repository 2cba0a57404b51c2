"""Functions of ``scipy.special`` that give several results, or complex ones: one row per result.

A loop is named in full (see `numbatape.jit.symbols`): ``sc.airy__d_dddd_1(x)`` is Ai'. The tracer
puts the results together again (`numbatape.scipy_api.special.composed_ufuncs`).
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import numpy as np

from .table import POSITIVE, REAL, binary, unary


def result(name, which):
    """Return one result of a ufunc as a function of arrays."""

    def function(*args):
        import scipy.special

        return getattr(scipy.special, name)(*args)[which]

    function.__name__ = function.__qualname__ = f"{name}_{which}"
    return function


def lambert(branch):
    def function(x):
        import scipy.special

        return scipy.special.lambertw(x, branch).real

    return function


def faddeeva(part):
    def function(x, y):
        import scipy.special

        z = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), complex)
        z.real, z.imag = x, y  # assigned apart, because x + 1j * y turns infinities into NaN
        return getattr(scipy.special.wofz(z), part)[()]

    return function


def row(name, ufunc, which, outputs, domain, dx, dxx, **options):
    unary(name, f"sc.{ufunc}__d_{'d' * outputs}_{which}(x)", result(ufunc, which), domain, dx=dx, dxx=dxx, **options)


# ---- Airy functions, DLMF 9.2.1 (SciPy's integrals of them err by up to 1e-5)
row("airy_ai",   "airy",   0, 4, REAL, "sc.airy__d_dddd_1(x)", "x*z")
row("airy_aip",  "airy",   1, 4, REAL, "x*sc.airy__d_dddd_0(x)", "sc.airy__d_dddd_0(x) + x*z")
row("airy_bi",   "airy",   2, 4, REAL, "sc.airy__d_dddd_3(x)", "x*z")
row("airy_bip",  "airy",   3, 4, REAL, "x*sc.airy__d_dddd_2(x)", "sc.airy__d_dddd_2(x) + x*z")

# These are scaled: Ai and Ai' by exp(2/3 x**1.5), where x is positive; Bi and Bi' by its inverse. Left of 0
# SciPy has no Ai, and Bi unscaled. Partials are differences, which lose digits as x**1.5.
_NEAR = (0.1, 1.5)
row("airye_ai",  "airye",  0, 4, _NEAR, "sc.airye__d_dddd_1(x) + math.sqrt(x)*z", "x*z + math.sqrt(x)*(sc.airye__d_dddd_1(x) + dx) + 0.5*z/math.sqrt(x)")
row("airye_aip", "airye",  1, 4, _NEAR, "x*sc.airye__d_dddd_0(x) + math.sqrt(x)*z", "sc.airye__d_dddd_0(x) + x*sc.airye__d_dddd_1(x) + math.sqrt(x)*(x*sc.airye__d_dddd_0(x) + dx) + 0.5*z/math.sqrt(x)")
row("airye_bi",  "airye",  2, 4, (-2.0, 1.5), "sc.airye__d_dddd_3(x) - math.sqrt(x)*z if x > 0.0 else sc.airye__d_dddd_3(x)", "x*z - math.sqrt(x)*(sc.airye__d_dddd_3(x) + dx) - 0.5*z/math.sqrt(x) if x > 0.0 else x*z")
row("airye_bip", "airye",  3, 4, (-2.0, 1.5), "x*sc.airye__d_dddd_2(x) - math.sqrt(x)*z if x > 0.0 else x*sc.airye__d_dddd_2(x)", "sc.airye__d_dddd_2(x) + x*sc.airye__d_dddd_3(x) - math.sqrt(x)*(x*sc.airye__d_dddd_2(x) + dx) - 0.5*z/math.sqrt(x) if x > 0.0 else sc.airye__d_dddd_2(x) + x*sc.airye__d_dddd_3(x)")

# ---- sine and cosine integrals, DLMF 6.2, and Fresnel's, DLMF 7.2, with the constants 1/pi, pi/2 and pi
row("sine_integral",   "sici",   0, 2, REAL, "sinc(0.3183098861837907*x)", "x*sinc_bend(x)")
row("cosine_integral", "sici",   1, 2, POSITIVE, "math.cos(x)/x", "-(math.sin(x) + dx)/x")
row("sinh_integral",   "shichi", 0, 2, REAL, "math.sinh(x)/x if x != 0.0 else 1.0", "(math.cosh(x) - dx)/x if math.fabs(x) > 0.2 else x*(1/3 + x*x*(1/30 + x*x*(1/840 + x*x*(1/45360 + x*x/3991680))))",
    smooth={"x": "math.sinh(x)/x if math.fabs(x) > 0.3 else 1.0 + x*x*(1/6 + x*x*(1/120 + x*x*(1/5040 + x*x*(1/362880 + x*x/39916800))))"})
row("cosh_integral",   "shichi", 1, 2, POSITIVE, "math.cosh(x)/x", "(math.sinh(x) - dx)/x")
row("fresnel_sine",    "fresnel", 0, 2, REAL, "math.sin(1.5707963267948966*x*x)", "3.141592653589793*x*math.cos(1.5707963267948966*x*x)")
row("fresnel_cosine",  "fresnel", 1, 2, REAL, "math.cos(1.5707963267948966*x*x)", "-3.141592653589793*x*math.sin(1.5707963267948966*x*x)")

# ---- Jacobi's amplitude of (u, m), DLMF 22.16; elliptic sines and cosines follow from it
binary("amplitude", "sc.ellipj__dd_dddd_3(x, y)", result("ellipj", 3), (REAL, (0.05, 0.95)), opaque="y",
       dx="math.sqrt(math.cos(z)*math.cos(z) + (1.0 - y)*math.sin(z)*math.sin(z))", dxx="-y*math.sin(z)*math.cos(z)", two_tiers="reverse")

# ---- Lambert's W on its two real branches, DLMF 4.13.4; the loop takes (re, im, branch, tolerance)
unary("lambertw",       "sc._lambertw__Dld_D(x, 0.0, 0.0, 1e-8)",  lambert(0),  POSITIVE, dx="1.0/(x + math.exp(z))", dxx="-dx*dx*(1.0 + math.exp(z)*dx)")
unary("lambertw_minus", "sc._lambertw__Dld_D(x, 0.0, -1.0, 1e-8)", lambert(-1), (-0.35, -0.05), dx="1.0/(x + math.exp(z))", dxx="-dx*dx*(1.0 + math.exp(z)*dx)")

# ---- Faddeeva's w(x + iy), DLMF 7.10.2: w' = -2 (x + iy) w + 2i/sqrt(pi); the Voigt profile is its real part
binary("faddeeva_re", "sc.wofz__D_D_0(x, y)", faddeeva("real"), (REAL, POSITIVE), dx="2.0*(y*sc.wofz__D_D_1(x, y) - x*z)", dy="2.0*(x*sc.wofz__D_D_1(x, y) + y*z) - 1.1283791670955126",
       dxx="2.0*(-z - x*dx + y*(1.1283791670955126 - 2.0*(x*sc.wofz__D_D_1(x, y) + y*z)))", dxy="2.0*(sc.wofz__D_D_1(x, y) + y*dx - x*dy)",
       dyy="2.0*(z + y*dy + x*dx)")
binary("faddeeva_im", "sc.wofz__D_D_1(x, y)", faddeeva("imag"), (REAL, POSITIVE), dx="1.1283791670955126 - 2.0*(x*z + y*sc.wofz__D_D_0(x, y))", dy="2.0*(y*z - x*sc.wofz__D_D_0(x, y))",
       dxx="-2.0*(z + x*dx + y*(2.0*(y*z - x*sc.wofz__D_D_0(x, y))))", dxy="2.0*(y*dx - sc.wofz__D_D_0(x, y) - x*2.0*(y*z - x*sc.wofz__D_D_0(x, y)))", dyy="2.0*(z + y*dy - x*(2.0*(x*z + y*sc.wofz__D_D_0(x, y)) - 1.1283791670955126))")
