"""Reverse rules of the array ops, as compositions: ``rule(ct, z, operands, need) -> cotangents``.

``ct`` is the cotangent of the result ``z``. A rule returns one cotangent an operand (None where none
is needed), of the operand's shape or one that broadcasts to it, batch dimensions in front; the caller
adds up over what was broadcast. Formulas: Giles, "Collected matrix derivative results" (2008).
"""

from __future__ import annotations

import numpy as np

from ...ops import oracle
from ..primitives import array_instruction, dims_of, elementwise, expand, row, stop_gradient, value_of
from .marks import weigh

PULLBACKS: dict = {}


def pulls(*names):
    """Register a rule for array ops."""

    def register(rule):
        for name in names:
            PULLBACKS[name] = rule
        return rule

    return register


def transposed(x):
    return np.swapaxes(x, -1, -2)


def _by_name(name, *args, value, dims=None):
    return array_instruction(name, args, value, dims=dims)


def _last(x):
    """Return x with a new last axis."""
    return expand(x, (-1,))


def _times(ct, x):
    """Return ``ct * x``; with ``Config(strong_zero=True)`` zero where ct is zero, whatever x is."""
    return weigh(ct, x) if x._trace.strong else ct * x


# ---- reductions


@pulls("sum")
def sum_(ct, z, operands, need):
    return (ct if ct.__class__ is float else _last(ct),)


@pulls("prod")
def prod(ct, z, operands, need):
    """The products of what stands before and behind: exact with zeros."""
    (x,) = operands
    if x.shape[-1] == 0:
        return (None,)
    one = np.ones((*x.shape[:-1], 1), x.dtype)
    before = np.concatenate([one, np.cumprod(x, -1)[..., :-1]], -1)
    behind = np.flip(np.concatenate([one, np.cumprod(np.flip(x, -1), -1)[..., :-1]], -1), -1)
    return (_times(_last(ct), before * behind),)


@pulls("cumprod")
def cumprod(ct, z, operands, need):
    """Entry (j, i) of the Jacobian is the product up to i without factor j: n*n cells, no division."""
    (x,) = operands
    n = x.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1.0, expand(x, (-2,)))
    products = np.triu(np.cumprod(others, -1))
    return (np.sum(products * expand(ct, (-2,)), -1),)


@pulls("max", "min")
def extremum(ct, z, operands, need):
    (x,) = operands
    best = _last(z)
    chosen = np.logical_or(x == best, np.logical_and(np.isnan(x), np.isnan(best)))
    share = ct / np.sum(np.where(chosen, 1.0, 0.0), -1)
    return (np.where(chosen, _last(share), 0.0),)


@pulls("cumsum")
def cumsum(ct, z, operands, need):
    return (np.flip(np.cumsum(np.flip(ct, -1), -1), -1),)


@pulls("logsumexp")
def logsumexp(ct, z, operands, need):
    (x,) = operands
    if x.shape[-1] == 0:
        return (None,)
    largest = stop_gradient(np.max(x, -1, keepdims=True))
    # Infinite maxima share the adjoint like ties; where all is -inf nothing has any.
    e = np.exp(np.where(largest == -np.inf, x, elementwise("gap", x, largest)))
    total = np.sum(e, -1)
    return (_last(ct / np.where(total == 0.0, 1.0, total)) * e,)


@pulls("dot")
def dot(ct, z, operands, need):
    a, b = operands
    return (_times(_last(ct), b) if need[0] else None, _times(_last(ct), a) if need[1] else None)


@pulls("norm2")
def norm2(ct, z, operands, need):
    at_zero = z == 0.0
    return (_times(_last(np.where(at_zero, 0.0, ct / np.where(at_zero, 1.0, z))), operands[0]),)


# ---- order and positions


@pulls("sort")
def sort(ct, z, operands, need):
    (x,) = operands
    order = np.argsort(value_of(x), -1, kind="stable")
    positions = _by_name("argsort", x, value=order)
    inverse = _by_name("argsort", positions, value=np.argsort(order, -1, kind="stable"))
    return (_gathered("take1", ct, inverse),)


def _gathered(name, x, positions):
    """Run `take`, `take1` or a scatter's transpose over batch dimensions; compute its value."""
    values, places = value_of(x), np.asarray(value_of(positions)).astype(int)
    core = 2 if name == "take" else 1
    batch = np.broadcast_shapes(values.shape[:-core], places.shape[:-1])
    values = np.broadcast_to(values, batch + values.shape[values.ndim - core :])
    places = np.broadcast_to(places, batch + places.shape[-1:])
    if core == 2:
        places = places[..., None]
    return _by_name(name, x, positions, value=np.take_along_axis(values, places, -core))


def _scattered(name, ct, x, positions):
    """Add ct up at positions of an array of zeros, in the shape of x's core."""
    values, places = value_of(ct), np.asarray(value_of(positions)).astype(int)
    core = 2 if name == "scatter" else 1
    size = x.shape[-core]
    batch = np.broadcast_shapes(values.shape[:-core], places.shape[:-1])
    values = np.broadcast_to(values, batch + values.shape[values.ndim - core :])
    places = np.broadcast_to(places, batch + places.shape[-1:])
    value = np.zeros((*batch, size, *values.shape[values.ndim - core + 1 :]), values.dtype)
    for k in np.ndindex(*batch):
        np.add.at(value[k], places[k], values[k])
    return _by_name(name, ct, positions, value=value, dims={"m": dims_of(x)[-core]})


@pulls("take")
def take(ct, z, operands, need):
    return (_scattered("scatter", ct, *operands), None)


@pulls("take1")
def take1(ct, z, operands, need):
    return (_scattered("scatter1", ct, *operands), None)


@pulls("scatter")
def scatter(ct, z, operands, need):
    return (_gathered("take", ct, operands[1]), None)


@pulls("scatter1")
def scatter1(ct, z, operands, need):
    return (_gathered("take1", ct, operands[1]), None)


@pulls("add_at")
def add_at(ct, z, operands, need):
    return (ct, _gathered("take1", ct, operands[2]) if need[1] else None, None)


@pulls("fill")
def fill(ct, z, operands, need):
    return (np.sum(ct, -1),)


@pulls("tril")
def tril(ct, z, operands, need):
    return (_by_name("tril", ct, operands[1], value=np.tril(value_of(ct), int(value_of(operands[1])))), None)


@pulls("triu")
def triu(ct, z, operands, need):
    return (_by_name("triu", ct, operands[1], value=np.triu(value_of(ct), int(value_of(operands[1])))), None)


@pulls("fft")
def fft(ct, z, operands, need):
    """The inverse transform times n: the same one with real and imaginary parts exchanged."""
    re, im = (np.moveaxis(ct, -2, 0)[k] for k in (0, 1))
    value = value_of(im) + 1j * value_of(re)
    value = np.fft.fft(value)
    value = np.stack([value.real, value.imag], -2).astype(value_of(ct).dtype)
    back = np.moveaxis(_by_name("fft", im, re, operands[2], value=value), -2, 0)
    return back[1], back[0], None


# ---- linear algebra


@pulls("matmul")
def matmul(ct, z, operands, need):
    a, b = operands
    return (
        np.matmul(ct, transposed(b)) if need[0] else None,
        np.matmul(transposed(a), ct) if need[1] else None,
    )


@pulls("cholesky")
def cholesky(ct, z, operands, need):
    """``L^-T Phi(L^T Lbar) L^-1``, Phi the lower triangle with half of its diagonal, as A's lower half."""
    n = z.shape[-1]
    half = np.tril(np.ones((n, n)), -1) + 0.5 * np.eye(n)
    inner = np.matmul(transposed(z), np.tril(ct)) * half
    left = triangular("solve_upper", transposed(z), inner)
    whole = transposed(triangular("solve_upper", transposed(z), transposed(left)))
    return ((whole + transposed(whole)) * half,)


def triangular(name, a, b):
    """Solve a triangular system by one of the table's four ops."""
    import scipy.linalg

    lower, unit = "lower" in name, name.endswith("unit")
    left, right = value_of(a), value_of(b)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (left, right))
    value = np.empty(batch + right.shape[-2:])
    for k in np.ndindex(*batch):
        if right[k].size:
            value[k] = scipy.linalg.solve_triangular(left[k], right[k], lower=lower, unit_diagonal=unit)
    return _by_name(name, a, b, value=value.astype(right.dtype))


def _triangular(name):
    lower, unit = "lower" in name, name.endswith("unit")
    other = name.replace("lower", "upper") if lower else name.replace("upper", "lower")

    @pulls(name)
    def rule(ct, z, operands, need):
        a, _ = operands
        t = triangular(other, transposed(a), ct)
        left = None
        if need[0]:
            product = np.matmul(t, transposed(z))
            left = -(np.tril(product, -unit) if lower else np.triu(product, int(unit)))
        return left, t

    return rule


for _name in ("solve_lower", "solve_upper", "solve_lower_unit", "solve_upper_unit"):
    _triangular(_name)


@pulls("solve")
def solve(ct, z, operands, need):
    a, _ = operands
    t = np.linalg.solve(transposed(a), ct)
    return (-np.matmul(t, transposed(z)) if need[0] else None, t)


@pulls("inv")
def inv(ct, z, operands, need):
    return (-np.matmul(np.matmul(transposed(z), ct), transposed(z)),)


def _both(ct):
    return expand(ct, (-2, -1))


@pulls("logabsdet")
def logabsdet(ct, z, operands, need):
    return (_both(ct) * transposed(np.linalg.inv(operands[0])),)


@pulls("det")
def det(ct, z, operands, need):
    """``z A^-T``; near singular matrices the cofactors by themselves, which have derivatives there too."""
    from ..matrix.determinants import cofactors

    (a,) = operands
    if a.shape[-1] == 0:
        return (None,)
    near = oracle(row("near_singular"))(value_of(a))
    if np.any(array_instruction("near_singular", (stop_gradient(a),), near[()])):  # a guard
        return (_both(ct) * np.astype(cofactors(a), a.dtype),)
    return (_both(ct * z) * transposed(np.linalg.inv(a)),)
