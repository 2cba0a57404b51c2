"""Every hook through which NumPy and Python reach a traced value (ECOSYSTEM.md, section 2).

Each is either right, in value and in gradient (against central differences), or raises an error
that names it and the line in this file. None drops a derivative.
"""

import collections
import copy
import functools
import math
import operator
import pickle
import random
import re

import numpy as np
import pytest
import scipy.special as sc
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numbatape as nt
from tests.every_case import case, every

X = np.array([0.7173, 1.3291, 0.4117, 2.1309])
M = np.array([[0.7, -1.3, 0.4], [2.1, 0.9, -0.6]])
CAPTURED = np.zeros(())
W4 = np.array([0.3, -1.1, 0.8, 0.5])
SPD = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.1]])
MASK = np.array([True, False, True, True])
INDEX = np.array([2, 0, 2])


def weighted(y):
    """A scalar that feels every entry of a result, of tuples and lists too."""
    if isinstance(y, (tuple, list)):
        return functools.reduce(operator.add, [weighted(part) * (k + 1.0) for k, part in enumerate(y)])
    y = y * 1.0
    if y.ndim == 0:
        return y
    return np.sum(y * np.cos(np.arange(1.0, y.size + 1)).reshape(y.shape))


def differences(f, x, step=1e-6):
    """Central differences, Richardson-extrapolated."""
    grad = np.zeros_like(x)

    def slope(k, h):
        ahead, behind = x.copy(), x.copy()
        ahead.reshape(-1)[k] += h
        behind.reshape(-1)[k] -= h
        return (f(ahead) - f(behind)) / (2 * h)

    for k in range(x.size):
        grad.reshape(-1)[k] = (4 * slope(k, step * 50) - slope(k, step * 100)) / 3
    return grad


def check(f, x):
    """Value and gradient of a scalar function, twice: at the trace and on the tape."""
    kept = x.copy()
    g = nt.value_and_grad(f)
    for point in (x, x + 0.01):
        with np.errstate(all="ignore"):
            expected = f(point)
        value, gradient = g(point)
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradient, differences(f, point), rtol=2e-6, atol=1e-8)
    np.testing.assert_array_equal(x, kept)


# ---- what works

UNARY = (
    *(
        np.sin,
        np.cos,
        np.tan,
        np.exp,
        np.exp2,
        np.expm1,
        np.log,
        np.log2,
        np.log10,
        np.log1p,
        np.sqrt,
        np.cbrt,
    ),
    *(np.square, np.reciprocal, np.negative, np.positive, np.absolute, np.fabs, np.sign, np.floor, np.ceil),
    *(np.rint, np.trunc, np.sinh, np.cosh, np.tanh, np.arctan, np.arcsinh, np.deg2rad, np.rad2deg),
    *(sc.gammaln, sc.digamma, sc.psi, sc.erf, sc.erfc, sc.ndtr, sc.log_ndtr, sc.expit, sc.logit),
)
BINARY = (
    *(np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.minimum, np.fmax, np.fmin),
    *(np.hypot, np.arctan2, np.logaddexp, np.logaddexp2, np.fmod, np.remainder, np.floor_divide, np.copysign),
    *(np.float_power, sc.xlogy),
)
OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow),
    *(
        operator.mod,
        operator.floordiv,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.eq,
        operator.ne,
    ),
)
OPERANDS = {
    "ndarray": W4 + 2.0,
    "float64": np.float64(1.7),
    "float32": np.float32(1.5),
    "int64": np.int64(2),
    "0-d": np.array(1.7),
    "float": 1.7,
    "int": 3,
    "bool": True,
    "row": (W4 + 2.0)[None, :],
    "column": (W4 + 2.0)[:, None],
    "int array": np.array([1, 2, 3, 1]),
    "bool array": MASK,
}


def unit(x):  # a point in (0, 1), where all of the table is smooth
    return 0.2 + x / 5


WORKS = {
    # attributes and properties
    "shape": lambda x: x.shape[0] * x,
    "ndim": lambda x: x.ndim * x,
    "size": lambda x: x.size * x,
    "dtype": lambda x: x * np.ones(4, x.dtype),
    "itemsize": lambda x: x * x.itemsize,
    "nbytes": lambda x: x * x.nbytes,
    "T": lambda x: x.reshape(2, 2).T @ W4[:2],
    "mT": lambda x: x.reshape(2, 2).mT @ W4[:2],
    "real": lambda x: x.real * x,
    "imag": lambda x: x.imag + x,
    "flat": lambda x: np.stack([v * k for k, v in enumerate(x.flat)]) + x.flat[1],
    # methods
    "sum": lambda x: x.sum() * x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(ddof=1),
    "std": lambda x: x.std(),
    "prod": lambda x: x.prod(),
    "max": lambda x: x.max() + x.min(),
    "ptp": lambda x: np.ptp(x),
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(),
    "dot": lambda x: x.dot(W4) * x.dot(x),
    "clip": lambda x: x.clip(0.5, 1.5),
    "reshape": lambda x: x.reshape(2, -1) @ W4[:2],
    "reshape tuple": lambda x: x.reshape((2, 2)).reshape(4),
    "ravel": lambda x: x.reshape(2, 2).ravel(),
    "flatten": lambda x: x.reshape(2, 2).T.flatten(),
    "transpose": lambda x: x.reshape(2, 2).transpose() * x.reshape(2, 2).transpose(1, 0),
    "swapaxes": lambda x: x.reshape(2, 2).swapaxes(0, 1),
    "squeeze": lambda x: x.reshape(1, 4).squeeze(),
    "copy": lambda x: x.copy() * x,
    "astype": lambda x: x.astype(float) + x.astype(int),
    "round": lambda x: x.round() + x,
    "take": lambda x: x.take([2, 0]),
    "repeat": lambda x: x.repeat(2),
    "diagonal": lambda x: x.reshape(2, 2).diagonal(),
    "trace": lambda x: x.reshape(2, 2).trace(),
    "argmax": lambda x: x[x.argmax()] * x[x.argmin()],
    "argsort": lambda x: x[x.argsort()],
    "all any": lambda x: x * x.all() * x.any(),
    "conj": lambda x: x.conj() * x.conjugate(),
    "tolist": lambda x: x.tolist()[1] * x,
    "view": lambda x: x.view() * 2,
    "nonzero": lambda x: x[(x > 0.5).nonzero()],
    "searchsorted": lambda x: x * np.array([0.0, 1.0, 2.0]).searchsorted(1.5),
    "compress": lambda x: x.compress(MASK),
    # ufunc methods
    "add.reduce": lambda x: np.add.reduce(x),
    "multiply.reduce": lambda x: np.multiply.reduce(x.reshape(2, 2), axis=1),
    "maximum.reduce": lambda x: np.maximum.reduce(x),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "hypot.reduce": lambda x: np.hypot.reduce(x, keepdims=True),
    "subtract.reduce": lambda x: np.subtract.reduce(x),
    "add.reduce where": lambda x: np.add.reduce(x, where=MASK, initial=2.0),
    "add.accumulate": lambda x: np.add.accumulate(x),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x),
    "logaddexp.accumulate": lambda x: np.logaddexp.accumulate(x.reshape(2, 2), axis=1),
    "add.outer": lambda x: np.add.outer(x, W4),
    "multiply.outer": lambda x: np.multiply.outer(W4, x),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 2, 1]),
    "multiply.reduceat": lambda x: np.multiply.reduceat(x, np.array([1, 3])),
    # several results, gufuncs, dtype=
    "modf": lambda x: np.modf(x * 3.3),
    "divmod": lambda x: divmod(x, 0.6),
    "np.divmod": lambda x: np.divmod(x, W4),
    "matmul": lambda x: np.matmul(x.reshape(2, 2), x.reshape(2, 2)),
    "vecdot": lambda x: np.vecdot(x, W4),
    "matvec": lambda x: np.matvec(x.reshape(2, 2), W4[:2]),
    "ufunc dtype": lambda x: np.add(x, 1.0, dtype=float),
    # operators that are not elementwise
    "@": lambda x: (x @ W4) * (W4 @ x) + M[:, :2] @ x[:2],
    "neg pos abs": lambda x: -x + (+x) * abs(x),
    "and or not": lambda x: x * ((x > 0.5) & (x < 2.0)) + x * (~(x > 1.0) | MASK) + x * ((x > 1) ^ MASK),
    "x**2": lambda x: x**2 + x**3 + x**-1 + x**0.5 + x**0 + x**1 + 2.0**x + x**x,
    "round()": lambda x: x * round(x[0] * 3.3),
    "round(,1)": lambda x: x * round(x[1] * 3.3, 1),
    "math.floor": lambda x: x * math.floor(x[3]) + math.ceil(x[0]) + math.trunc(x[1]),
    # indexing
    "x[i]": lambda x: x[1] * x[-1] * x[np.int64(2)] * x[np.array(1)],
    "x[i:j]": lambda x: x[1:3] * x[:2] * x[-2:] * x[1:-1],
    "x[::2]": lambda x: x[::2] * x[::-2] + x[1::2],
    "x[::-1]": lambda x: x[::-1] * x,
    "x[a:b] empty": lambda x: np.sum(x[3:1]) + np.sum(x[5:]) + x,
    "x[-9:9]": lambda x: x[-9:9] * 2,
    "x[None]": lambda x: x[None] * x[:, None] * x[np.newaxis, :, np.newaxis][0],
    "x[...]": lambda x: x[...] * x[..., 1] * x[1, ...],
    "x[()]": lambda x: x[()] * x[1][()],
    "x[list]": lambda x: x[[0, 2, 2]] * x[[-1, 1, 0]],
    "x[array]": lambda x: x[INDEX] * x[INDEX[:, None]],
    "x[mask]": lambda x: x[MASK] ** 2,
    "x[list of bool]": lambda x: x[[True, False, False, True]],
    "x[traced mask]": lambda x: x[x > 0.6] ** 2,
    "x[[]]": lambda x: np.sum(x[[]]) + x,
    "x[i, j]": lambda x: x.reshape(2, 2)[1, 0] * x.reshape(2, 2)[:, 1],
    "x[i, list]": lambda x: x.reshape(2, 2)[1, [0, 1, 1]],
    "x[list, list]": lambda x: x.reshape(2, 2)[[0, 1, 1], [1, 1, 0]],
    "x[:, list]": lambda x: x.reshape(2, 2)[:, [1, 1, 0]],
    "x[list, :, None]": lambda x: x.reshape(2, 2)[[1, 0, 0], :, None],
    "x[np.ix_]": lambda x: x.reshape(2, 2)[np.ix_([1, 0], [0, 1, 1])],
    "x[2-d mask]": lambda x: x.reshape(2, 2)[np.array([[True, False], [True, True]])],
    "x[mask, i]": lambda x: x.reshape(2, 2)[np.array([False, True]), 1],
    "x[traced int]": lambda x: x[np.argmax(x)] * W4[np.argmin(x)],
    "x[traced ints]": lambda x: x[np.argsort(x)[:2]] * W4[:2],
    "x[True]": lambda x: x[True] * 2,
    "x[slice object]": lambda x: x[slice(1, None)] * x[slice(None, 3)],
    # iteration, unpacking, containers
    "for": lambda x: sum(v * k for k, v in enumerate(x)),
    "rows": lambda x: sum(row * k for k, row in enumerate(x.reshape(2, 2), 1)),
    "unpacking": lambda x: (lambda a, b, *rest: a * b + rest[0] * rest[1])(*x),
    "zip": lambda x: sum(a * b for a, b in zip(x, W4, strict=True)),
    "reversed": lambda x: sum(v * k for k, v in enumerate(reversed(x))),
    "len": lambda x: len(x) * x,
    "in": lambda x: x * (0.5 in x),
    "sorted": lambda x: sum(v * k for k, v in enumerate(sorted(x))),
    "max()": lambda x: max(x) * min(x[0], x[1]),
    "sum()": lambda x: sum(x),
    "bool()": lambda x: x if bool(x[0] > 0) else -x,
    "int()": lambda x: x * int(x[3]),
    "index()": lambda x: x * operator.index(np.argmax(x)),
    "range": lambda x: sum(x[k] for k in range(np.argmax(x))),
    "f-string": lambda x: x * bool(f"{x[0]:.1f} {x} {x!r}" + str(x)),
    "copy.copy": lambda x: copy.copy(x) * copy.deepcopy([x])[0],
    "object array": lambda x: np.sum(objects(x)) * x[0],
    # functions
    "np.sum...": lambda x: (
        np.sum(x) * np.mean(x) * np.var(x) * np.std(x) * np.max(x) * np.min(x) * np.prod(x)
    ),
    "np.cumsum": lambda x: np.cumsum(x) * np.cumprod(x),
    "np.dot": lambda x: np.dot(x, W4) * np.dot(W4, x),
    "np.einsum": lambda x: np.einsum("ij,j->i", x.reshape(2, 2), W4[:2]),
    "np.tensordot": lambda x: np.tensordot(x.reshape(2, 2), M, 1),
    "np.where": lambda x: np.where(x > 1.0, x**2, -x),
    "np.where 1": lambda x: x[np.where(x > 1.0)],
    "np.concatenate": lambda x: np.concatenate([x, W4, x[:1]]),
    "np.stack": lambda x: np.stack([x, W4]) + np.vstack([x, x]) + np.stack([x, x], 1).T,
    "np.block": lambda x: np.block([[x[:2], 1.0], [x[2:], 2.0]]) if isinstance(x, np.ndarray) else blocked(x),
    "np.select": lambda x: np.select([x > 1.5, x > 0.5], [x**2, -x], 0.3),
    "np.piecewise": lambda x: np.piecewise(x, [x < 1.0, x >= 1.0], [lambda v: v**2, lambda v: -v]),
    "np.clip": lambda x: np.clip(x, 0.5, 1.5),
    "np.sort": lambda x: np.sort(x),
    "np.take": lambda x: np.take(x, [1, 1, 0]),
    "np.reshape": lambda x: np.reshape(x, (2, 2)),
    "np.diag": lambda x: np.diag(x) + np.diag(np.diag(x.reshape(2, 2)), 2)[:4, :4],
    "np.atleast_1d": lambda x: np.atleast_1d(x[0]) * np.atleast_2d(x),
    "np.trapezoid": lambda x: np.trapezoid(x, dx=0.5),
    "np.convolve": lambda x: np.convolve(x, W4[:2]),
    "np.interp": lambda x: np.interp(1.2, np.array([0.0, 1.0, 2.0, 3.0]), x),
    "np.gradient": lambda x: np.gradient(x),
    "np.bincount": lambda x: np.bincount(np.array([0, 1, 1, 2]), weights=x),
    "np.linspace": lambda x: np.linspace(x[0], x[1], 5),
    "np.polyval": lambda x: np.polyval(x, 1.3) + np.polyval(W4, x),
    "np.nan_to_num": lambda x: np.nan_to_num(x),
    "np.apply_along_axis": lambda x: np.apply_along_axis(np.sum, 1, x.reshape(2, 2)),
    "np.searchsorted": lambda x: x * np.searchsorted([0.0, 1.0, 2.0], x),
    "np.allclose": lambda x: x * np.allclose(x, x),
    "np.array_equal": lambda x: x * np.array_equal(x, x),
    "np.result_type": lambda x: x.astype(np.result_type(x, np.float32)),
    "np.shape": lambda x: x * np.shape(x)[0] * np.ndim(x) * np.size(x),
    "np.zeros_like": lambda x: np.zeros_like(x) + np.ones_like(x) * np.full_like(x, 2.0) + x,
    "np.linalg.norm": lambda x: np.linalg.norm(x),
    "np.linalg.solve": lambda x: np.linalg.solve(SPD, x[:3]),
    "np.linalg.inv": lambda x: np.linalg.inv(x.reshape(2, 2)),
    "np.linalg.det": lambda x: np.linalg.det(x.reshape(2, 2)),
    "np.linalg.slogdet": lambda x: np.linalg.slogdet(x.reshape(2, 2))[1],
    "np.linalg.cholesky": lambda x: np.linalg.cholesky(x.reshape(2, 2) @ x.reshape(2, 2).T + np.eye(2)),
    "stop_gradient": lambda x: x * (nt.stop_gradient(x) if not isinstance(x, np.ndarray) else x),
}
WORKS |= {f"np.{u.__name__}" if u is getattr(np, u.__name__, 0) else f"sc.{u.__name__}":
          (lambda x, u=u: u(unit(x))) for u in UNARY}  # fmt: skip
WORKS |= {f"{u.__name__}(T, a)": (lambda x, u=u: u(unit(x), W4 + 2.0)) for u in BINARY}
WORKS |= {f"{u.__name__}(a, T)": (lambda x, u=u: u(W4 + 2.0, unit(x))) for u in BINARY}
WORKS |= {f"{u.__name__}(T, T)": (lambda x, u=u: u(unit(x), x[::-1] + 1.0)) for u in BINARY}
# the test's own formula must hold the derivative still for this one
del WORKS["stop_gradient"]


def blocked(x):
    return np.concatenate([np.block([x[:2], 1.0])[None], np.block([x[2:], 2.0])[None]])


def objects(x):
    array = np.empty(2, object)
    array[0], array[1] = x[1] * 2, x[2] ** 2
    return array


@every("first", range(0, len(WORKS), 10), tests=2)
def test_hook_is_right(first):
    """Ten at a time, which one trace serves; each alone if one of them is wrong."""
    names = list(WORKS)[first : first + 10]
    try:
        check(lambda x: sum(weighted(WORKS[name](x)) for name in names), X)
    except Exception:
        for name in names:
            with case(name):
                check(lambda x, name=name: weighted(WORKS[name](x)), X)
        raise


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", OPERANDS)
def test_operators_with_plain_operands(kind, side):
    other = OPERANDS[kind]

    def f(x):
        parts = []
        for op in OPERATORS:
            if op is operator.pow and kind == "bool":
                continue  # NumPy: int8 results
            if (
                side == "left"
                and kind == "bool array"
                and op in (operator.truediv, operator.mod, operator.floordiv)
            ):
                continue  # divides by zero
            pair = (unit(x), other) if side == "left" else (other, unit(x))
            parts.append(weighted(op(*pair)))
        return sum(parts)

    # floor division and comparisons are flat, powers and the rest are smooth around here
    check(f, X)


@pytest.mark.parametrize("op", OPERATORS)
@every("kind", ["float64", "float32", "int64", "float", "int", "bool"])
def test_operators_of_scalars(op, kind):
    """One-cell values take another way through the tracer than arrays."""
    other = OPERANDS[kind]
    check(lambda x: 1.0 * op(x[0] + 1.0, other) + 1.0 * op(other, x[1] + 1.0) + op(x[2], x[3]) * x[0], X)


# ---- what raises, naming itself and the line


def assign(target, key, value):
    target[key] = value
    return target.sum()


GENERATOR = np.random.default_rng(0)


class Converted:
    """An object that NumPy takes for an array."""

    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return self.data * 2.0


# name, function, what the message says; LeakError and UnsupportedOperationError both are
# UnsupportedOperationError. `None`: right or refused, whichever the tracer can.
RAISES = {
    "ufunc where=": (lambda x: np.add(x, 1.0, where=MASK).sum(), r"np\.add\(\.\.\., where=mask\)"),
    "unknown ufunc": (lambda x: np.spacing(x).sum(), r"np\.spacing"),
    "unknown scipy ufunc": (lambda x: sc.pro_rad2(1, 2, 1.5, x)[0].sum(), r"scipy\.special\.pro_rad2"),
    "unknown function": (lambda x: np.packbits(x > 0).sum(), r"np\.packbits"),
    "ufunc dtype=int": (lambda x: np.add(x, 1, dtype=np.int64), r"np\.add\(dtype=int64\)"),
    "std dtype=int": (lambda x: np.std(x, dtype=int) * x[0], r"np\.var\(\.\.\., dtype=int64\)"),
    "x << 1": (lambda x: (np.argsort(x) << 1).sum() * x[0], r"np\.left_shift"),
    "x.ctypes": (lambda x: x.ctypes, r"ndarray\.ctypes"),
    "x.tobytes": (lambda x: x.tobytes(), r"tobytes"),
    "x.view(int)": (lambda x: x.view(int).sum(), r"ndarray\.view"),
    "hash": (lambda x: hash(x[0]) * x[0], r"hash\(x\)"),
    "dict key": (lambda x: {x[0]: 1.0}[x[0]] * x[0], r"hash\(x\)"),
    "pickle": (lambda x: pickle.dumps(x), "pickling"),
    "float": (lambda x: float(x[0]) * x[0], r"float\(x\)"),
    "complex": (lambda x: complex(x[0]).real * x[0], r"complex\(x\)"),
    "Generator.normal": (lambda x: GENERATOR.normal(x).sum(), r"np\.asarray|float\(x\)"),
    "np.ma.asarray": (lambda x: np.ma.asarray(x).sum(), r"np\.asarray"),
    "returns objects": (lambda x: objects(x), "object"),
    "np.sum of an object": (
        lambda x: np.sum(Converted(x)),
        r"__array__ at .*test_protocols.*np\.asarray\(obj\)",
    ),
    "exp of an object": (lambda x: np.exp(Converted(x)).sum(), r"__array__ at .*test_protocols"),
    "np.matrix": (lambda x: (x * np.ones((1, 4)).view(np.matrix)).sum(), "matrix"),
    "masked": (lambda x: (x * np.ma.masked_array(np.ones(4), MASK)).sum(), "Masked|asarray"),
}
EITHER = {
    "np.asarray": lambda x: np.asarray(x).sum(),
    "np.array": lambda x: np.array([x[0], 2 * x[1]]).sum(),
    "np.full": lambda x: np.full(3, x[0]).sum(),
    "np.arange": lambda x: np.arange(x[3]).sum() * x[0],
    "np.c_": lambda x: np.c_[x, x].sum(),
    "np.r_": lambda x: np.r_[x, 1.0].sum(),
    "nd[:] = T": lambda x: assign(np.zeros(4), slice(None), x),
    "nd[0] = T": lambda x: assign(np.zeros(4), 0, x[0]),
    "math.log": lambda x: math.log(x[0]),
    "sc.logsumexp": lambda x: sc.logsumexp(x),
    "sc.polygamma": lambda x: sc.polygamma(1, x).sum(),
    "np.fromiter": lambda x: np.fromiter((v for v in x), float).sum(),
    "np.array of array": lambda x: np.array(x).sum(),
    "np.linalg.eigvalsh": lambda x: np.linalg.eigvalsh(x.reshape(2, 2)).sum(),
    "np.fft.fft": lambda x: np.abs(np.fft.fft(x)).sum(),
    "np.unique": lambda x: np.unique(x).sum(),
    "np.median": lambda x: np.median(x),
    "np.quantile": lambda x: np.quantile(x, 0.3),
    "sc.zeta": lambda x: sc.zeta(x + 2.0).sum(),
    "sc.erfinv": lambda x: sc.erfinv(x / 3).sum(),
    "x[..., mask]": lambda x: x[..., MASK].sum(),
    "np.frexp": lambda x: np.frexp(x)[0].sum(),
}


def refusal(f, x=X):
    """Return the error's text; the error names this file and a line."""
    with pytest.raises(nt.UnsupportedOperationError) as caught:
        nt.vjp(f, x)
    return str(caught.value)


@pytest.mark.parametrize("name", RAISES)
def test_hook_is_refused_by_name_and_line(name):
    f, says = RAISES[name]
    text = refusal(f)
    assert re.search(says, text), text
    if name != "returns objects":
        assert re.search(r"test_protocols\.py:\d+ in ", text), text


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x, out=np.zeros(())) * x,
        lambda x: np.sum(x, out=CAPTURED) * x,
        lambda x: operator.iadd(np.zeros(4), x) * x,
        lambda x: W4.dot(x) * x,
    ],
    ids=["out", "captured out", "iadd", "dot"],
)
def test_plain_arrays_take_part(f):
    value, jacobian = nt.vjp(f, X)[0], nt.jacobian(f)(X)
    np.testing.assert_allclose(value, f(X.copy()), rtol=1e-15)
    differences = [(f(X + step) - f(X - step)) / 2e-6 for step in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(jacobian, np.transpose(differences), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", EITHER)
def test_hook_is_right_or_refused(name):
    f = EITHER[name]
    try:
        nt.grad(f)(X)
    except nt.UnsupportedOperationError:
        assert re.search(r"test_protocols\.py:\d+ in ", refusal(f))
    else:
        check(f, X)


def test_the_line_is_the_users():
    def f(x):
        y = x * 2
        return np.packbits(y > 0).sum()  # two lines below the def

    assert f"test_protocols.py:{f.__code__.co_firstlineno + 2} in " in refusal(f)


def test_an_unsupported_function_names_close_ones():
    assert re.search(r"supported and close: .*np\.", refusal(lambda x: np.spacing(x).sum()))


def test_unsupported_functions_of_constants_work_and_follow_the_constants():
    count = functools.partial(np.histogram, bins=4, range=(0.0, 10.0))
    f = lambda x, c: np.sum(x * count(c)[0])  # noqa: E731
    g = nt.value_and_grad(f)
    for c in (np.array([0.0, 4.0, 8.0, 1.0]), np.array([0.0, 5.0, 1.0, 9.0]), np.array([0.0, 4.0, 8.0, 1.0])):
        value, gradient = g(X, c)
        np.testing.assert_allclose(value, f(X, c), rtol=1e-14)
        np.testing.assert_array_equal(gradient, count(c)[0])


def test_small_integers_wrap_around_as_numpys_do():
    f = lambda x, c: np.sum(x * (c + np.uint8(200)))  # noqa: E731
    g = nt.value_and_grad(f)
    for c in (np.array([1, 2, 3, 255], np.uint8), np.array([100, 2, 30, 7], np.uint8)):
        np.testing.assert_allclose(g(X, c)[0], f(X, c), rtol=1e-14)


def test_numpys_own_errors_pass_through():
    for f, error in (
        (lambda x: x[9], IndexError),
        (lambda x: x["a"], IndexError),
        (lambda x: x + np.ones(3), ValueError),
        (lambda x: x.reshape(3, 2), ValueError),
        (lambda x: np.sum(x, axis=3), np.exceptions.AxisError),
        (lambda x: bool(x), ValueError),
        (lambda x: len(x[0]), TypeError),
        (lambda x: list(x[0]), TypeError),
        (lambda x: round(x), TypeError),
        (lambda x: x + "a", TypeError),
        (lambda x: x + None, TypeError),
        (lambda x: pow(x, 2, 5), TypeError),
        (lambda x: x.no_such_thing, AttributeError),
        (lambda x: np.matmul(x, np.ones(3)), ValueError),
        (lambda x: range(x[0]), TypeError),
        (lambda x: [1, 2][x[0]], TypeError),
    ):
        with pytest.raises(error):
            f(X)
        with pytest.raises(error):
            nt.vjp(f, X)


def test_attributes_that_libraries_probe_answer_as_the_array():
    names = ("__array_interface__", "__array_struct__", "nonsense")
    seen = {}

    def f(x):
        seen.update({name: hasattr(x, name) for name in names})
        return x.sum()

    nt.grad(f)(X)
    assert seen == {name: hasattr(X, name) for name in names}


def test_stop_gradient_in_trees():
    f = lambda x: np.sum(nt.stop_gradient({"a": x, "b": [x, 2.0]})["b"][0] * x)  # noqa: E731
    np.testing.assert_array_equal(nt.grad(f)(X), X)


def test_frozen_float_steers_but_carries_no_derivative():
    f = lambda x: x * np.array(float(nt.stop_gradient(x[0])))  # noqa: E731
    check_value = nt.value_and_grad(lambda x: np.sum(f(x)))
    for point in (X, X + 1.0, X):
        value, gradient = check_value(point)
        np.testing.assert_allclose(value, np.sum(point) * point[0], rtol=1e-15)
        np.testing.assert_array_equal(gradient, np.full(4, point[0]))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_basic_indexing_of_any_shape(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    key = data.draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
    x = np.random.default_rng(1).normal(size=shape)
    picked = np.zeros(shape)
    picked[key] = 1.0
    value, gradient = nt.value_and_grad(lambda x: np.sum(x[key]) * 1.0)(x)
    np.testing.assert_allclose(value, np.sum(x[key]), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(gradient, picked)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_integer_indexing_of_any_shape(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    key = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3)))
    x = np.random.default_rng(2).normal(size=shape)
    weights = np.random.default_rng(3).normal(size=x[key].shape)
    expected = np.zeros(shape)
    np.add.at(expected, key, weights)
    np.testing.assert_allclose(
        nt.grad(lambda x: np.sum(x[key] * weights))(x), expected, rtol=1e-12, atol=1e-13
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
def test_operators_broadcast_any_shapes(shapes):
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(0.5, 2.0, shape) for shape in shapes.input_shapes)
    weights = rng.normal(size=shapes.result_shape)
    value, (da, db) = nt.value_and_grad(lambda a, b: np.sum(weights * (a / b)), (0, 1))(a, b)
    np.testing.assert_allclose(value, np.sum(weights * (a / b)), rtol=1e-12, atol=1e-12)

    def folded(full, like):
        lead = full.sum(axis=tuple(range(full.ndim - like.ndim)))
        return lead.sum(axis=tuple(k for k in range(like.ndim) if like.shape[k] == 1), keepdims=True)

    for got, slope, like in ((da, 1 / b, a), (db, -a / b**2, b)):
        full = np.broadcast_to(weights * slope, shapes.result_shape)
        np.testing.assert_allclose(got, folded(full, like).reshape(like.shape), rtol=1e-11, atol=1e-12)


def test_random_is_not_confused_by_the_tests_own_state():
    state = random.getstate(), np.random.get_state(legacy=False)["state"]["pos"]  # noqa: NPY002
    nt.grad(lambda x: x.sum())(X)
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["pos"]) == state  # noqa: NPY002


class Doubled:
    """A user's number, whose class has reflected operators."""

    def __init__(self, value):
        self.value = value

    def __rmul__(self, other):
        return 2.0 * self.value * other

    __radd__ = __rsub__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rdivmod__ = __rmul__

    def __gt__(self, other):
        return 2.0 * self.value > other

    def __eq__(self, other):
        return bool(self.value == other)


class Unit(Doubled):
    """An object whose operators come before an array's, as those of astropy's units do."""

    __array_priority__ = 1_000


BINARY = (
    operator.mul,
    operator.add,
    operator.sub,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    pow,
    divmod,
)


@pytest.mark.parametrize("operate", BINARY, ids=lambda operate: operate.__name__)
def test_a_number_asks_an_object_as_numpys_numbers_do(operate):
    value, slopes = nt.value_and_grad(lambda x: operate(x[0], Doubled(x[1])))(np.array([3.0, 5.0]))
    assert value == operate(np.float64(3.0), Doubled(5.0)) == 30.0
    np.testing.assert_array_equal(slopes, [10.0, 6.0])


@pytest.mark.parametrize("operate", BINARY, ids=lambda operate: operate.__name__)
def test_an_array_leaves_its_operators_to_a_class_of_higher_priority(operate):
    value, slopes = nt.value_and_grad(lambda x: np.sum(operate(x, Unit(x[1]))))(np.array([3.0, 5.0]))
    assert value == np.sum(operate(np.array([3.0, 5.0]), Unit(5.0))) == 80.0
    np.testing.assert_array_equal(slopes, [10.0, 26.0])


@pytest.mark.parametrize("operate", [*BINARY[:4], pow], ids=lambda operate: operate.__name__)
def test_a_complex_number_asks_an_object_too(operate):
    value, slopes = nt.value_and_grad(lambda x: operate(1j * x[0], Doubled(x[1])).imag)(np.array([3.0, 5.0]))
    assert value == 30.0
    np.testing.assert_array_equal(slopes, [10.0, 6.0])
    with pytest.raises(nt.UnsupportedOperationError, match=r"result of a traced operation|meets a traced"):
        nt.grad(lambda x: operate(np.array(x[0]), Doubled(2.0)))(np.ones(1))


def test_comparisons_of_a_number_with_an_object():
    def f(x):
        first = x[0] if x[0] < Doubled(x[1]) else 3.0 * x[0]
        return first * (x[1] if x[0] == Doubled(x[0]) else 1.0)

    for x in ([1.0, 5.0], [5.0, 1.0]):
        assert nt.value_and_grad(f)(np.array(x))[0] == f(np.array(x))
    with pytest.raises(TypeError, match="unsupported operand"):
        nt.grad(lambda x: x[0] * object.__new__(type("Plain", (), {})))(np.ones(2))


NUMBERS = {"sum": lambda x: (x > 0).sum(), "int32": lambda x: np.int32((x > 0).sum()), "argmax": np.argmax}
REPEATED = {
    "list": lambda x, k: [x[0], 2.0] * k,
    "tuple": lambda x, k: k * (x[0], x[1]),
    "list of lists": lambda x, k: [[1.0, x[0]]] * k,
    "in place": lambda x, k: operator.imul([x[1]], k),
    "deque": lambda x, k: list(collections.deque([x[0]]) * k),
    "bytes": lambda x, k: len(bytearray(b"ab") * k) * x[0],
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", REPEATED)
def test_numpys_integers_repeat_sequences(name, number):
    """Unlike NumPy's arrays, its numbers do what Python's do."""

    def f(x):
        made = REPEATED[name](x, NUMBERS[number](x))
        return np.sum(np.array(made)), made

    run = nt.value_and_grad(f, has_aux=True)
    for x in (np.array([0.5, 2.0, -1.0]), np.array([-0.5, -2.0, 3.0]), np.array([0.5, 1.0, 2.0])):
        value, made = run(x)[0]
        assert value == f(x)[0]
        assert made == f(x)[1]


OTHER_NUMBERS = {
    "float64": lambda x: x[0],
    "float32": lambda x: np.float32(x[0]),
    "bool": lambda x: x[0] > 0,
    "complex128": lambda x: x[0] + 1j,
}


@pytest.mark.parametrize("name", OTHER_NUMBERS)
def test_numpys_other_numbers_do_not_repeat_sequences(name):
    number = OTHER_NUMBERS[name]
    for f in (lambda x: [x[1], 2.0] * number(x), lambda x: number(x) * (1.0, 2.0)):
        for run in (f, lambda x, f=f: nt.vjp(f, x)):
            with pytest.raises(TypeError, match=f"can't multiply sequence by non-int of type 'numpy.{name}'"):
                run(np.ones(2))


OF_NUMBERS = {
    "arange of an integer": lambda x: np.arange((x > 0).sum()),
    "arange of a truth value": lambda x: np.arange(x[0] > 0),
    "arange of a float32": lambda x: np.arange(np.float32(x[0])),
    "arange of whole steps": lambda x: np.arange(x[0], 3.0, 0.5, dtype=int),
    "arange of steps of zero": lambda x: np.arange(0.0 * x[0], 2.0, 0.5, dtype=int),
    "arange": lambda x: np.arange(x[1], x[0], 0.25),
    "full": lambda x: np.full((x > 0).sum(), 1.5),
    "copy": lambda x: x[0].copy(),
    "modf": lambda x: np.modf(x[0]),
    "equal to None": lambda x: np.array(x[0]) == None,  # noqa: E711
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_functions_of_numpys_numbers(name):
    f, x = OF_NUMBERS[name], np.array([2.5, 0.25, -1.0])
    for point in (x, x + 0.5):
        assert repr(nt.vjp(f, point)[0]) == repr(f(point))


class Labelled(np.ndarray):
    """A class as patsy's ``DesignMatrix``, which adds attributes to an array."""

    def __new__(cls, array, names=()):
        made = np.asarray(array).view(cls)
        made.names = names
        return made

    def __repr__(self):
        return f"Labelled({self.names})"


class Rounding(Labelled):
    def __matmul__(self, other):
        return np.round(np.asarray(self) @ other)


def test_classes_that_only_add_to_arrays_compute_as_arrays():
    """As captured arrays, which may change, and as arguments; others are refused."""
    x, design = np.array([0.5, 1.5]), Labelled([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ("a", "b"))
    f = lambda x, m: np.sum((m @ x) ** 2) + np.sum(np.where(m > 2, m * x, x))  # noqa: E731
    captured = nt.grad(lambda x: f(x, design))
    for k in range(3):
        wanted = nt.grad(f)(x, np.array(design))
        np.testing.assert_array_equal(captured(x), wanted)
        np.testing.assert_array_equal(nt.grad(f)(x, design), wanted)
        np.testing.assert_array_equal(nt.grad(f)(x, nt.Constant(design)), wanted)
        design[0, k % 2] += 1.0
    assert type(nt.grad(f, argnums=1)(x, design)) is np.ndarray
    other = design.view(Rounding)
    with pytest.raises(nt.UnsupportedOperationError, match="a Rounding meets a traced value"):
        nt.grad(lambda x: np.sum(x * other))(design[0])
    with pytest.raises(nt.SpecError, match="Rounding is not supported"):
        nt.grad(f)(x, other)
