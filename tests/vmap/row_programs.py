"""Functions of one row, an array of three numbers, that `nt.vmap` is tested with."""

import math

import numpy as np
import scipy.linalg

import numbatape as nt

W = np.array([[0.9, 0.3, -0.2], [0.1, 1.2, 0.4], [-0.5, 0.2, 1.1]])


def energy(x):
    return np.sum(np.exp(x) * x) + x[0] * x[1]


def written(x):
    out = np.zeros(3)
    out[1] = x[0] ** 2
    out[2:] = x[1]
    x[0] = 3.0
    return out * x


def python_loop(x):
    total = 0.0
    for i in range(3):
        total = total * x[i] + 1.0
    return total


def branches(x):
    if x[0] > 0:
        if x[1] > 0:
            return x * 2
        return np.exp(x)
    return np.sin(x)


def caught(x):
    try:
        if np.sum(x) > 0:
            raise ValueError
        return x
    except ValueError:
        return x * x


def _value(x, y):
    return np.array([x[0] * y, np.sin(x[1]), x[2] ** 2])


def _pullback(ct, z, x, y):
    slope = np.cos(x[1]) if np.sum(x) > -100 else 0.0  # a branch on which all rows agree
    return np.stack([ct[0] * y, ct[1] * slope, ct[2] * 2 * x[2]]), ct[0] * x[0]


_rule = nt.primitive(_value, pullback=_pullback)

PROGRAMS = {
    "elementwise": energy,
    "shared": lambda x: W @ x,
    "rank": lambda x: np.outer(x, x),
    "cholesky": lambda x: np.linalg.cholesky(np.outer(x, x) + 3 * np.eye(3)),
    "solve": lambda x: np.linalg.solve(W, x),
    "matrix rule": lambda x: scipy.linalg.sqrtm(np.outer(x, x) + 3 * np.eye(3)),
    "user's rule": lambda x: _rule(x, x[0] * 2),
    "gradient": nt.grad(energy),
    "hessian": nt.hessian(energy),
    "sort": np.sort,
    "position": lambda x: x[np.argmax(x)] * 2,
    "constant": lambda x: np.ones(2),
    "write": written,
    "loop": python_loop,
    "container": lambda x: (x * 2, {"a": x[0]}),
    "integer": lambda x: np.argmax(x),
    "complex": lambda x: np.abs(np.exp(1j * x) * (1 + 2j)),
    "float32": lambda x: np.float32(2) * x.astype(np.float32),
    "branches": branches,
    "gradient of branches": nt.grad(lambda x: np.sum(branches(x))),
    "mask": lambda x: np.sum(x[x > 0]),
    "caught": caught,
    "text": lambda x: x * len(f"{x[0]:.6f}"),
    "python integer": lambda x: np.sin(x) * math.floor(x[0]),
    "truth of a number": lambda x: np.sin(x) if np.floor(x[0]) else x + 2,
    "scan": lambda x: nt.scan(lambda c, y: (c + y * x[0], c * y), 0.5, x),
    "cond": lambda x: nt.cond(x[0] > 0, lambda z: z * 2, lambda z: z**3, x),
    "while": lambda x: nt.while_loop(lambda c: c < 10, lambda c: c * 1.5 + 1, np.exp(x[0])),
    "vmap": lambda x: nt.vmap(lambda a: np.sin(a * x), out_axes=1)(x),
    "vmap of gradient": lambda x: nt.vmap(nt.grad(lambda a: np.sum(np.sin(a * x))))(x),
    "batch": lambda x: nt.batch(lambda a: np.sum(a**3))(np.stack([x, x * 2]))[1],
    "vmap in scan": lambda x: nt.scan(
        lambda c, y: (np.sum(nt.vmap(lambda z: np.sin(c * z + y))(x)), c), 1.0, x
    )[1],
    "scan in vmap in scan": lambda x: nt.scan(
        lambda c, y: (
            np.sum(nt.vmap(lambda z: nt.scan(lambda d, w: (d * z + w * c, None), y, x)[0])(x)),
            c,
        ),
        1.0,
        x,
    )[1],
}
