"""Coefficients of the special functions in the kernel language: ``python -m benchmarks.coefficients``.

Prints the polynomials, and quotients of polynomials, of `numbatape.ops.error_functions` and
`numbatape.ops.gamma_functions`, each with the relative error of its fit. A fit is a sequence of weighted
least squares in 60 digits: each round gives points more weight where the error of the last one was large
(Lawson 1961), and the denominator of the last round makes a quotient linear (Sanathanan and Koerner 1963).
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

DIGITS = 60
ROUNDS = 10


def fitted(function: Callable, low, high, above: int, below: int):
    """Return (error, P, Q): the coefficients of P/Q, degrees ``above`` and ``below``, with Q(0) = 1."""
    count = 6 * (above + below + 2)
    points = [
        (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)
    ]
    values = [function(point) for point in points]
    weights, bottom, best = [mp.mpf(1)] * count, [mp.mpf(1)], None
    for _ in range(ROUNDS):
        rows, right = [], []
        for x, y, weight in zip(points, values, weights, strict=True):
            scale = mp.sqrt(weight) / abs(y * polynomial(bottom, x))
            powers = [scale * x**k for k in range(above + 1)]
            rows.append(powers + [-scale * y * x**k for k in range(1, below + 1)])
            right.append(scale * y)
        matrix = mp.matrix(rows)
        solution = list(mp.lu_solve(matrix.T * matrix, matrix.T * mp.matrix(right)))
        top, bottom = solution[: above + 1], [mp.mpf(1), *solution[above + 1 :]]
        errors = [
            abs(polynomial(top, x) / polynomial(bottom, x) / y - 1)
            for x, y in zip(points, values, strict=True)
        ]
        if best is None or max(errors) < best[0]:
            best = max(errors), top, bottom
        weights = [weight * error for weight, error in zip(weights, errors, strict=True)]
        mean = sum(weights) / count
        weights = [weight / mean + mp.mpf(10) ** -12 for weight in weights]
    return best


def polynomial(coefficients, x):
    total = mp.mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def text(coefficients, parts: int) -> str:
    """Return a polynomial as several in a power of x, which a processor computes side by side.

    Three parts are the first coefficient and two, which are rounded before they are added to it.
    """
    if parts == 3:
        return f"{float(coefficients[0])!r} + x * ({text(coefficients[1:], 2)})"
    power = {1: "x", 2: "u", 4: "w"}[parts]

    def nested(its):
        return f"horner({power}, {', '.join(repr(float(each)) for each in its)})"

    pieces = [nested(coefficients[k::parts]) for k in range(parts)]
    if parts == 1:
        return pieces[0]
    if parts == 2:
        return f"{pieces[0]} + x * {pieces[1]}"
    return f"{pieces[0]} + x * {pieces[1]} + u * ({pieces[2]} + x * {pieces[3]})"


def scaled_erfc(t):
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erf_ratio(z):
    x = mp.sqrt(z)
    return mp.erf(x) / x


def log_ndtr_near_one(x):
    return mp.log(mp.ncdf(x + mp.mpf(0.9375)))


def log_ndtr_near_zero(x):
    return mp.log(mp.ncdf(x - mp.mpf(0.0625)))


def log_ndtr_near_half(x):
    return mp.log(mp.ncdf(x + mp.mpf(0.4375)))


def slope(function: Callable, middle, x):
    """Return (f(x) - f(middle))/(x - middle): f(middle) plus a correction rounds less than one quotient."""
    return (function(x) - function(mp.mpf(middle))) / (x - middle)


def gammaln_ratio(x):
    if x in (1, 2):
        return mp.euler if x == 1 else 1 - mp.euler
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def psi_ratio(x):
    return mp.digamma(x) / (x - mp.findroot(mp.digamma, 1.46))


def gammaln_slope(u):
    return slope(gammaln_ratio, 1.625, u + mp.mpf(3) / 4)


def psi_slope(u):
    return slope(psi_ratio, 2, u + 1)


def stirling_rest(t):
    x = 1 / mp.sqrt(t)
    half = mp.mpf(1) / 2
    return (mp.loggamma(x) - (x - half) * (mp.log(x) - 1) - (mp.log(2 * mp.pi) - 1) * half) * x


def psi_rest(t):
    x = 1 / mp.sqrt(t)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / t


def i0e_near(x):
    return mp.exp(-x) * mp.besseli(0, x)


def i1e_near(x):
    return mp.exp(-x) * mp.besseli(1, x) / x


def i0e_far(t):
    return mp.sqrt(16 / (t + 1)) * i0e_near(16 / (t + 1))


def i1e_far(t):
    return mp.sqrt(16 / (t + 1)) * mp.exp(-16 / (t + 1)) * mp.besseli(1, 16 / (t + 1))


def log1p_rest(z):
    """What `numbatape.ops.elementary.log1p_to_one` adds, for the square z of x/(2 + x)."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


# function, interval, degrees above and below, parts
FITS = [
    (scaled_erfc, -1, 0.9999, 24, 0, 4),
    (erf_ratio, 1e-9, 0.5625, 10, 0, 2),
    (log_ndtr_near_one, -0.3125, 0.3125, 12, 0, 2),
    (log_ndtr_near_zero, -0.3125, 0.3125, 12, 0, 2),
    (log_ndtr_near_half, -0.1875, 0.1875, 10, 0, 2),
    (gammaln_slope, 0, 2.25, 7, 8, 2),
    (stirling_rest, 1e-9, 1 / 3**2, 11, 0, 2),
    (psi_slope, 0, 3, 6, 7, 2),
    (psi_rest, 1e-9, 1 / 16, 9, 0, 2),
    (log1p_rest, 1e-9, 1 / 9, 9, 0, 2),
    (i0e_near, 0, 8, 11, 11, 3),
    (i1e_near, 0, 8, 11, 11, 3),
    (i0e_far, -1, 1, 23, 0, 4),
    (i1e_far, -1, 1, 23, 0, 4),
]


def main() -> None:
    mp.mp.dps = DIGITS
    root = mp.findroot(mp.digamma, 1.46)
    middles = float(gammaln_ratio(mp.mpf(1.625))), float(psi_ratio(mp.mpf(2)))
    print(f"# in the middle: gammaln {middles[0]!r}, digamma {middles[1]!r}")
    print(f"# digamma's root: {float(root)!r} and {float(root - mp.mpf(float(root)))!r}\n")
    for function, low, high, above, below, parts in FITS:
        error, top, bottom = fitted(function, mp.mpf(low), mp.mpf(high), above, below)
        print(f"def {function.__name__}(x):  # error {mp.nstr(error, 2)}")
        powers = {1: "", 2: "    u = x * x\n", 3: "    u = x * x\n", 4: "    u = x * x\n    w = u * u\n"}[
            parts
        ]
        if below:
            print(f"{powers}    p = {text(top, parts)}\n    q = {text(bottom, parts)}\n    return p / q\n")
        else:
            print(f"{powers}    return {text(top, parts)}\n")


if __name__ == "__main__":
    main()
