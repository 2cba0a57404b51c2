"""Functions of matrices: exponential, logarithm, roots, trigonometric and hyperbolic ones."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...matrix.equations import EXPM, LOGM, SQRTM, by_block, linalg, undisturbed
from ...matrix.matrix_rule import call, is_complex, traced
from ...numpy_api.registration import recurring, unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace import extents
from ...trace.axes import is_empty, length
from ...trace.complex_pairs import join
from ...trace.operands import adopt, lift_all, lift_first
from ...trace.primitives import dims_of, stop_gradient

# The coefficients of the approximant [13/13], and the largest norm up to which that is exact to the
# precision of float64.
PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
        10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)  # fmt: skip
LARGEST_NORM = 5.371920351148152


def exponential(a, value=None):
    """Return the exponential of a matrix, by scaling and squaring of a Padé approximant (Higham 2005).

    The number of squarings is a guard. The body of a loop can't have one, so there SciPy is called,
    which takes ten times as long. ``value`` is what the result carries, where the caller knows that.
    """
    if is_complex(a):
        n = length(a, -1)
        doubled = exponential(_blocks(a.real, -a.imag, a.imag, a.real))
        return join(doubled[..., :n, :n], doubled[..., n:, :n])
    if a._trace.in_loop:
        return call(EXPM, a)[0]
    norm: Any = 0.0
    if not is_empty(a):
        plain = np.max(np.sum(np.abs(a._value), -2))
        norm = recurring(_column_norm, plain, (a,), {}, lambda: adopt(_column_norm(a), plain))
    # The guards are outside of what is repeated, because a template has none.
    squarings = 0
    while bool(norm > LARGEST_NORM * 2.0**squarings):
        squarings += 1
    if value is None:
        return _squared_approximant(a, squarings)
    run = functools.partial(_squared_approximant, a, squarings)
    return recurring(_squared_approximant, value, (a, squarings), {}, lambda: adopt(run(), value))


def _column_norm(a):
    return np.max(np.sum(np.abs(stop_gradient(a)), -2))


def _squared_approximant(a, squarings: int):
    a = a * 0.5**squarings
    eye = extents.eye(a._trace, *dims_of(a)[-2:])
    a2 = np.matmul(a, a)
    a4 = np.matmul(a2, a2)
    a6 = np.matmul(a2, a4)
    b = [float(c) for c in PADE]
    high = np.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = np.matmul(a, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    even = np.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = np.matmul(result, result)
    return result


def _blocks(a, b, c, d):
    """Return ``[[a, b], [c, d]]``."""
    return np.concatenate([np.concatenate([a, b], -1), np.concatenate([c, d], -1)], -2)


@stands_for("scipy.linalg", "expm")
def expm(A):
    A = lift_first(A)
    if A.ndim < 2:
        return np.reshape(np.exp(A), (1, 1))
    # Numbers of the result's class and shape will do: SciPy's take their place.
    return exponential(A, None if is_complex(A) else A._value * 1.0)


@stands_for("scipy.linalg", "expm_frechet")
def expm_frechet(A, E, method=None, compute_expm=True, check_finite=True):
    """Return the exponential and its derivative, by ``exp([[A, E], [0, A]])`` (Higham 2008, 3.16)."""
    a, e = np.broadcast_arrays(*lift_all(A, E))  # stacks since SciPy 1.17
    n = length(a, -1)
    both = exponential(_blocks(a, e, np.zeros_like(a), a))
    derivative = both[..., :n, n:]
    return (both[..., :n, :n], derivative) if compute_expm else derivative


# ---- trigonometric and hyperbolic functions


def _circular(a):
    """Return cosine and sine: of a real matrix those of one exponential, ``exp [[0, -A], [A, 0]]``."""
    n = length(a, -1)
    if is_complex(a):
        there, back = exponential(1j * a), exponential(-1j * a)
        return 0.5 * (there + back), -0.5j * (there - back)
    zero = np.zeros_like(a)
    both = exponential(_blocks(zero, -a, a, zero))
    return both[..., :n, :n], both[..., n:, :n]


def _hyperbolic(a):
    there, back = exponential(a), exponential(-a)
    return 0.5 * (there + back), 0.5 * (there - back)


def _one_of(pair, choose):
    return lambda A: choose(*pair(lift_first(A)))


for _name, _pair in (("", _circular), ("h", _hyperbolic)):
    stands_for("scipy.linalg", f"cos{_name}m")(_one_of(_pair, lambda c, s: c))
    stands_for("scipy.linalg", f"sin{_name}m")(_one_of(_pair, lambda c, s: s))
    stands_for("scipy.linalg", f"tan{_name}m")(_one_of(_pair, np.linalg.solve))


# ---- inverses of the exponential and of powers


@stands_for("scipy.linalg", "sqrtm")
def sqrtm(A):
    a = lift_first(A)
    if a.ndim == 0:  # of which SciPy gives the exponential
        raise unsupported_argument("scipy.linalg.sqrtm", "a number", "np.sqrt is")
    return call(SQRTM, a)[0]


@stands_for("scipy.linalg", "signm")
def signm(A):
    """A square root of the square has the same eigenvectors, and eigenvalues with positive real parts."""
    a = lift_first(A)
    return np.linalg.solve(sqrtm(np.matmul(a, a)), a)


@stands_for("scipy.linalg", "logm", run=None)
def logm(A):
    return _off_the_cut("logm", LOGM, lift_first(A))


@stands_for("scipy.linalg", "fractional_matrix_power", run=None)
def fractional_matrix_power(A, t):
    if traced(t):
        raise unsupported_argument("scipy.linalg.fractional_matrix_power", "t", "t must be a plain number")
    a = lift_first(A)
    if t == int(t):
        return np.linalg.matrix_power(a, int(t))

    def value(x):
        with undisturbed():
            return linalg().fractional_matrix_power(x, t)

    name = "fractional_matrix_power"
    return _off_the_cut(name, by_block(f"scipy.linalg.{name}(..., {t})", value), a)


def _off_the_cut(name: str, rule, a):
    """Return a function of a matrix, which raises if real eigenvalues are on the cut of the logarithm."""
    result = call(rule, a)[0]
    if is_complex(result) and not is_complex(a):
        hint = "the logarithm is cut there"
        raise unsupported_argument(f"scipy.linalg.{name}", "a real matrix with a negative eigenvalue", hint)
    return result
