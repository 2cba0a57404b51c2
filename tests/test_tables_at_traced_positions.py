"""Plain arrays that are read at positions, or up to sizes, which are arguments: one trace for all of them."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from tests.every_case import every

TABLE = np.array([0.3, -1.0, 2.0])
LONG = np.linspace(0.0, 2.0, 50)
ROWS = np.outer(LONG, [1.0, -0.5])


class Model:
    def __init__(self):
        self.table = 2.0 * TABLE


MODEL, NAMED = Model(), {"table": TABLE}


def in_a_scan(w, labels):
    return nt.scan(lambda c, k: (0.9 * c + np.sum(TABLE[labels]) * k * w, c), 0.0, LONG[:4])[0]


def caught(w, labels):
    """An exception of the tracer's must not choose the path."""
    try:
        return np.sum(TABLE[labels] * w)
    except Exception:
        return 100.0 * w


AT_LABELS = {
    "captured": lambda w, labels: np.sum(TABLE[labels]) * w,
    "made inside": lambda w, labels: np.sum(np.linspace(0.0, 1.0, 3)[labels]) * w,
    "one hot": lambda w, labels: np.sum((np.eye(3)[labels] * w) ** 3 @ LONG[:3]),
    "two axes": lambda w, labels: np.sum(np.eye(3)[labels, 0] * w),
    "take": lambda w, labels: np.sum(np.take(TABLE, labels) * w),
    "of an object": lambda w, labels: np.sum(MODEL.table[labels]) * w + np.sum(NAMED["table"][labels]),
    "in a loop": in_a_scan,
    "in a branch": lambda w, labels: nt.cond(w > 9.0, lambda: w, lambda: np.sum(TABLE[labels] * w)),
    "in a derivative": lambda w, labels: nt.grad(lambda v: np.sum(TABLE[labels]) * v**3)(w),
    "exceptions": caught,
}


@every("name", AT_LABELS)
def test_labels_are_data(name):
    f, rng = AT_LABELS[name], np.random.default_rng(0)
    cache = nt.prepare_gradient_cache(f, 1.0, nt.Constant(rng.integers(0, 3, 5)))
    for count in (5, 5, 7, 2):
        w, labels = rng.normal(), rng.integers(0, 3, count)
        value, (slope, _) = nt.value_and_gradient(cache, w, labels)
        np.testing.assert_allclose(value, f(w, labels), rtol=1e-13)
        step = 1e-6
        rise = (f(w + step, labels) - f(w - step, labels)) / (2 * step)
        np.testing.assert_allclose(slope, rise, rtol=1e-7, atol=1e-8)
    assert cache.traces == 1
    if name == "exceptions":
        return
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, 1.0, np.array([0, 7]))


def text(w, labels):
    return w * len(str(TABLE[labels].tolist()))


def test_what_needs_the_numbers_relies_on_the_labels():
    cache = nt.prepare_gradient_cache(text, 1.0, nt.Constant(np.array([0, 1])))
    for labels in ([0, 1], [2, 1, 1], [0]):
        labels = np.array(labels)
        assert nt.value_and_gradient(cache, 2.0, labels)[0] == text(2.0, labels)


def buffer(x):
    b = np.zeros(40)
    b[: len(x)] = x
    return np.sum(np.cumsum(b) ** 2)


def rows(x):
    b = np.full((2, 40), -1.0)
    b[0, : len(x)] = x
    b[1, -len(x) :] = x**2
    return np.sum(np.cumsum(b, 1) ** 2)


def mask(x):
    kept, wide = np.zeros(40, bool), np.zeros(40)
    kept[: len(x)] = True
    wide[: len(x)] = x
    return np.sum(np.where(kept, np.sin(wide), 0.1))


def computed(x):
    y = np.exp(LONG) * x[0]
    y[1 : len(x)] = x[1:]
    return np.sum(y**2)


UP_TO_SIZES = {
    "up to": lambda x: np.sum(LONG[: len(x)] * x),
    "around": lambda x: LONG[len(x)] * np.sum(LONG[1 : len(x) + 1] * x**2),
    "rows": lambda x: np.sum((ROWS[: x.shape[0]] * x[:, None]) ** 2),
    "from the end": lambda x: np.sum(LONG[-len(x) :] * x),
    "buffer": buffer,
    "rows of a buffer": rows,
    "mask": mask,
    "computed": computed,
}


@every("name", UP_TO_SIZES)
def test_sizes_select_from_arrays_of_fixed_length(name):
    f = UP_TO_SIZES[name]
    cache = nt.prepare_gradient_cache(f, np.ones(5))
    for n in (9, 3, 20, 2):
        x = np.random.default_rng(n).normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        fresh = nt.value_and_gradient(nt.prepare_gradient_cache(f, x), x)[1][0]
        np.testing.assert_allclose(gradient, fresh, rtol=1e-13)
    assert cache.traces == 1
    if name not in ("up to", "from the end"):  # NumPy's slices end where the array does
        return
    with pytest.raises(ValueError, match="broadcast"):
        nt.value_and_gradient(cache, np.ones(60))


def test_positions_are_looked_up_once_along_each_axis(rng):
    """A bilinear interpolation of an image reads four neighbours, by two positions along each axis."""
    image = rng.normal(size=(7, 9))

    def interpolated(p):
        i, j = np.floor(p).astype(int)
        a, b = p - np.floor(p)
        upper = (1 - a) * image[i, j] + a * image[i + 1, j]
        return np.sum((1 - b) * upper + b * ((1 - a) * image[i, j + 1] + a * image[i + 1, j + 1]))

    cache = nt.prepare_gradient_cache(interpolated, rng.uniform(0.0, 5.0, (2, 4)))
    for p in rng.uniform(0.0, 5.0, (3, 2, 4)):
        value, (gradient,) = nt.value_and_gradient(cache, p)
        assert value == pytest.approx(interpolated(p), rel=1e-13)
        i, j = np.floor(p).astype(int)
        a, b = p - np.floor(p)
        along = image[i + 1, j] - image[i, j], image[i + 1, j + 1] - image[i, j + 1]
        across = image[i, j + 1] - image[i, j], image[i + 1, j + 1] - image[i + 1, j]
        want = [(1 - b) * along[0] + b * along[1], (1 - a) * across[0] + a * across[1]]
        np.testing.assert_allclose(gradient, want, rtol=1e-12, atol=1e-13)
    assert cache.tape.listing().count("take1 ") == 4 + 4  # two positions for each axis, and four gathers
