"""Random programs of writes and views: NumPy's values, derivatives of NumPy running on dual numbers."""

import numpy as np
import pytest

import numbatape as nt
from tests.duals import dual, duals

SHAPES = [(4,), (3, 3), (2, 3), (2, 2, 2)]
PROGRAMS = 60


class Choices:
    """A stream of choices that is the same in each run (draws raise while tracing)."""

    def __init__(self, seed):
        self.state = seed * 2654435761 % 2**32 + 1

    def __call__(self, n):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 9) % n

    def of(self, *options):
        return options[self(len(options))]


def basic_key(choose, shape):
    return tuple(
        choose.of(slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(0, 2), -1, 0)
        for n in shape[: choose(len(shape)) + 1]
    )


def any_key(choose, shape):
    kind = choose(5)
    if kind == 0:
        return [choose(shape[0]) for _ in range(choose(3) + 1)]
    if kind == 1:
        return np.arange(int(np.prod(shape))).reshape(shape) % (choose(3) + 2) == 0
    if kind == 2 and len(shape) > 1:
        return slice(None), np.array([choose(shape[1]) for _ in range(2)])
    return basic_key(choose, shape)


def view_of(choose, a):
    """Return another name for the memory of ``a``, or a copy where NumPy copies."""
    n = len(a.shape)
    views = [
        lambda: a.T,
        lambda: a[::-1],
        lambda: a.reshape(-1),
        lambda: np.ravel(a),
        lambda: np.swapaxes(a, 0, n - 1),
        lambda: np.moveaxis(a, 0, -1),
        lambda: a[None],
        lambda: np.expand_dims(a, 1)[:, 0],
        lambda: np.atleast_2d(a)[0:1],
        lambda: np.squeeze(a),
        lambda: np.flip(a, 0),
        lambda: np.split(a, [1])[1],
        lambda: a[...],
        lambda: a.view(),
        lambda: np.transpose(a),
        lambda: a.ravel(order="F"),
        lambda: np.rot90(a) if n > 1 else a,
    ]
    return views[choose(len(views))]()


def source(choose, arrays, shape, number):
    """Return something that can be written to ``shape``."""
    b = arrays[choose(len(arrays))]
    kind = choose(6)
    if b.shape == shape and kind < 4:
        return (b, b[::-1], b * 0.5, np.sin(b))[kind]
    if kind == 4:
        return number * (choose(5) - 2)
    entry = b[tuple(0 for _ in b.shape)] if b.size else number
    return np.sin(entry) * entry if kind else entry * 0.7


def write(choose, a, arrays, number):
    shape = a.shape
    kind = choose(21)
    key = any_key(choose, shape)
    target = np.empty(shape)[key].shape
    its = source(choose, arrays, target, number)
    if kind < 4:
        a[key] = its
    elif kind == 4:
        a[key] += its
    elif kind == 5:
        a[key] *= its
    elif kind == 6:
        a -= source(choose, arrays, shape, number)
    elif kind == 7:
        part = a[basic_key(choose, shape)]
        part *= 0.5
    elif kind == 8:
        np.add.at(a, key, its)
    elif kind == 9 and shape[0] > 1:
        a[1:] += a[:-1]
    elif kind == 10 and shape[0] > 1:
        a[0], a[-1] = a[-1], a[0] * 1.0
    elif kind == 11:
        np.multiply(a, source(choose, arrays, shape, number), out=a)
    elif kind == 12:
        mask = np.arange(a.size).reshape(shape) % 2 == 0
        np.copyto(a, source(choose, arrays, shape, number), where=mask)
    elif kind == 13:
        a.fill(source(choose, arrays, (), number))
    elif kind == 14:
        for k in range(1, shape[0]):
            a[k] = a[k - 1] * 0.5 + a[k]
    elif kind == 15:
        np.putmask(a, np.arange(a.size).reshape(shape) % 3 == 1, source(choose, arrays, shape, number))
    elif kind == 16:
        np.place(a, np.arange(a.size).reshape(shape) % 3 == 0, [number, number * 2])
    elif kind == 17 and len(shape) == 2:
        np.fill_diagonal(a, source(choose, arrays, (), number))
    elif kind == 18:
        places = np.zeros((1, *shape[1:]), int)
        np.put_along_axis(a, places, source(choose, arrays, places.shape, number), 0)
    elif kind == 19 and shape[0] > 1:
        np.subtract(a[1:], a[:-1], out=a[1:])
    else:
        np.put(a, [0, -1], [number, its if np.shape(its) == () else number])


def program(seed, x, zeros, number):
    choose = Choices(seed)
    arrays = [x, zeros(SHAPES[choose(len(SHAPES))]), np.sin(x)]
    for _ in range(choose(8) + 3):
        kind = choose(4)
        a = arrays[choose(len(arrays))]
        if not a.size or len(a.shape) == 0:
            continue
        if kind == 0:
            arrays.append(view_of(choose, a))
        elif kind == 1:
            arrays.append(choose.of(np.sin, np.conj, np.copy, lambda b: b * b, lambda b: b[[0, -1]])(a))
        else:
            write(choose, a, arrays, number)
    return arrays


def weighted(arrays):
    total = 0.0
    for k, a in enumerate(arrays):
        flat = a.reshape(-1)
        for j in range(flat.shape[0]):
            total = total + np.sin(flat[j] * 0.3) * (0.3 + k + 0.1 * j)
    return total


def oracle(seed, x, direction, number):
    def zeros(shape):
        return duals(np.zeros(shape, x.dtype), np.zeros(shape, x.dtype))

    arrays = program(seed, duals(x, direction), zeros, dual(number))
    result = dual(weighted(arrays))
    return (
        result.value,
        result.dot,
        [np.vectorize(lambda e: dual(e).dot, otypes=[x.dtype])(a) for a in arrays],
    )


def check(seed, dtype, number):
    """Hold one program against NumPy and dual numbers; False if it leaves the range of floats."""
    rng, shape = np.random.default_rng(seed), SHAPES[seed % len(SHAPES)]

    def draw():
        return 0.5 * rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is complex else 0.0)

    def arrays(x):
        return program(seed, x, lambda size: np.zeros(size, dtype), number)

    def f(x):
        return np.real(weighted(arrays(x)))

    cache = None
    for x, direction in ((draw(), draw()), (draw(), draw())):
        try:
            expected, slope, slopes = oracle(seed, x, direction, number)
        except OverflowError:
            return False
        cache = cache or nt.prepare_gradient_cache(f, x)
        kept = x.copy()
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_array_equal(x, kept)
        np.testing.assert_allclose(value, np.real(expected), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-11, atol=1e-12)
        along = np.sum(np.real(np.conj(gradient) * direction))
        np.testing.assert_allclose(along, np.real(slope), rtol=1e-10, atol=1e-11)
    if seed % 5 == 0:
        pushed = nt.jvp(f, (x,), (direction,))[1]
        np.testing.assert_allclose(pushed, np.real(slope), rtol=1e-10, atol=1e-11)
        for mine, reference in zip(nt.jvp(arrays, (x,), (direction,))[1], slopes, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-10, atol=1e-11)
    return True


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("first", range(0, PROGRAMS, 15))
def test_programs(kind, first):
    dtype, number = (complex, 0.5 - 0.3j) if kind == "complex" else (float, 0.7)
    done = 0
    for seed in range(first, first + 15):
        try:
            done += check(seed, dtype, number)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert done > 10
