"""Random programs that write into whatever can share memory, on sizes 0 and 1 and masks that change."""

import warnings

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from tests.test_mutation_fuzz import Choices, any_key

SHAPES = ((4,), (2, 3), (3, 1), (1,), (), (0,), (1, 3), (0, 2), (2, 2, 2), (2, 0), (1, 1, 2), (3, 3))


def views(a):
    """Return functions of an array: views of it, copies of it, or what NumPy raises for its shape."""
    n = len(a.shape)
    return (
        lambda: a.T,
        lambda: a[::-1],
        lambda: a[...],
        lambda: a[None],
        lambda: a[0],
        lambda: a[1:],
        lambda: a[:, 0],
        lambda: a[..., ::2],
        lambda: a[np.array(0)],
        lambda: a[..., np.array(0)],
        lambda: a[True],
        lambda: a[False],
        lambda: a[[0, 0]],
        lambda: a.reshape(-1),
        lambda: a.reshape(-1, 1),
        lambda: np.ravel(a, "F"),
        lambda: a.flat[:],
        lambda: a.flat[1:],
        lambda: a.flat[[0]],
        lambda: np.squeeze(a),
        lambda: np.split(a, [1])[0],
        lambda: np.diagonal(a),
        lambda: sliding_window_view(a, 1, axis=0, writeable=True),
        lambda: as_strided(a),
        lambda: as_strided(a[1:], a[1:].shape, a.strides),
        lambda: as_strided(a[:1], (2, *a[:1].shape), (0, *a.strides)),
        lambda: np.require(a, None, "C"),
        lambda: a[...].base,
        lambda: np.nditer(a, flags=("zerosize_ok", "refs_ok")).operands[0],
        lambda: np.broadcast_to(a, (2, *a.shape)),
        lambda: np.broadcast_arrays(a, np.zeros((1,) * n))[0],
        lambda: a.view(),
        lambda: np.asarray(a),
        lambda: np.array(a, copy=None),
        lambda: np.expand_dims(a, 0),
        lambda: np.moveaxis(a, 0, -1),
        lambda: np.rot90(a),
        lambda: np.flip(a),
        lambda: np.add.reduce(a, axis=0, keepdims=True),
        lambda: np.multiply.reduce(a[:1], axis=0),
        lambda: np.subtract.reduce(a[:1], axis=0),
        lambda: np.cumsum(a),
        lambda: np.copy(a),
        lambda: np.sin(a),
        lambda: a * a,
        lambda: a[a > 0.2],
        lambda: a.flat[np.ravel(a > 0.1)],
    )


def values(choose, arrays, shape, number):
    """Return something to write to a shape: a number, an array of the program, or one that NumPy repeats."""
    b = arrays[choose(len(arrays))]
    kind = choose(5)
    if kind < 2 and np.shape(b) == shape:
        return b if kind else b[::-1]
    if kind == 2:
        return np.sin(b.reshape(-1)[:1])
    if kind == 3 and b.size:
        entry = b.reshape(-1)[0]
        return np.sin(entry) * entry
    return number * (choose(5) - 2)


def writes(choose, a, arrays, number):
    """Return functions that write into an array."""
    shape = a.shape
    n = a.size
    its = values(choose, arrays, shape, number)
    other = arrays[choose(len(arrays))]
    key = any_key(choose, shape) if shape and n else ...
    few = other.reshape(-1)[: choose(4)]
    wide = np.arange(n).reshape(shape)

    def assign(k, item):
        a[k] = item

    def add(k, item):
        a[k] += item

    def scale(k, item):
        a[k] *= item

    def flat(item):
        a.flat = item

    def flat_part(k, item):
        a.flat[k] = item

    def add_at(k, item):
        a[...] = a  # NumPy's own ufunc.at writes to read-only arrays
        np.add.at(a, k, item)

    def entries():
        flags = ["zerosize_ok", "refs_ok"]
        with np.nditer(a, flags=flags, op_flags=["readwrite"]) as it:
            for entry in it:
                entry[...] = entry * number

    return (
        lambda: assign(key, its),
        lambda: add(key, its),
        lambda: scale(key, number),
        lambda: assign(..., its),
        lambda: add(..., its),
        lambda: assign(a > 0.1, its),
        lambda: add(a > 0.3, number),
        lambda: assign(a < 0.2, few[:1]),
        lambda: a.fill(number),
        lambda: flat(its),
        lambda: flat(few),
        lambda: flat(a.T),
        lambda: flat_part(slice(0, 4), few),
        lambda: flat_part(slice(1, None), a.reshape(-1)[:-1]),
        lambda: flat_part([0, -1], few),
        lambda: np.put(a, [0, -1, 0], few),
        lambda: np.put(a, [5, 1], few, mode="wrap"),
        lambda: np.put(a, [7, -9], few, mode="clip"),
        lambda: np.place(a, wide % 2 == 0, few),
        lambda: np.place(a, np.ravel(wide % 3 == 0), few),
        lambda: np.place(a, a > 0.2, few),
        lambda: np.putmask(a, wide % 2 == 1, few),
        lambda: np.putmask(a, a > 0.2, few),
        lambda: np.copyto(a, its, where=wide % 2 == 0),
        lambda: np.copyto(a, its, where=a < 0.4),
        lambda: np.fill_diagonal(a, few),
        lambda: np.put_along_axis(a, np.zeros((1, *shape[1:]), int), number, 0),
        lambda: add_at(key, its),
        lambda: add_at([0, 0], its),
        lambda: np.multiply(a, number, out=a),
        lambda: np.add(a, its, out=a),
        lambda: np.add(few, number, out=a),
        lambda: np.subtract(a[1:], a[:-1], out=a[1:]),
        lambda: np.add(a[:-1], a[1:], out=a[1:]),
        lambda: np.multiply(a, number, out=a, where=wide % 2 == 0),
        lambda: np.cumsum(a, out=a),
        lambda: np.cumsum(a, axis=0, out=a),
        lambda: np.add.accumulate(a, axis=-1, out=a),
        lambda: np.sum(other, axis=0, out=a),
        lambda: np.add.reduce(other, axis=-1, out=a),
        lambda: np.take(other, [0, 0], axis=0, out=a),
        entries,
    )


def step(choose, arrays, number):
    """Do one step of a program."""
    a = arrays[choose(len(arrays))]
    if choose(3) == 0:
        found = views(a)
        made = found[choose(len(found))]()
        if not isinstance(made, np.ndarray):
            made = np.array(np.sin(a))  # a number: it can be no target
        arrays.append(made)
    else:
        found = writes(choose, a, arrays, number)
        found[choose(len(found))]()


def start(seed, x, zeros):
    """Return the arrays that a program starts with, and its number of steps."""
    choose = Choices(seed)
    return [x, zeros(SHAPES[choose(len(SHAPES))]), np.array(np.sin(x))], choose(6) + 3


def program(seed, x, zeros, number, skipped=frozenset()):
    """Run a program; ``skipped`` are the steps that NumPy refuses."""
    arrays, count = start(seed, x, zeros)
    for k in range(count):
        turn = Choices(seed * 31 + k)
        if k not in skipped:
            step(turn, arrays, number)
    return arrays


def refused(seed, points, zeros, number):
    """Return the steps that NumPy raises or warns at, at one of the points; None if a part was written."""
    skipped = frozenset()
    for _ in range(6):  # without a step others may be refused
        found = [_refused_at(seed, x.copy(), zeros, number, skipped) for x in points]
        if None in found:
            return None
        more = skipped.union(*found)
        if more == skipped:
            return skipped
        skipped = more
    return None


def _refused_at(seed, x, zeros, number, skipped):
    arrays, count = start(seed, x, zeros)
    found = set()
    for k in range(count):
        if k in skipped:
            continue
        before = [a.copy() for a in arrays]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("error")
                step(Choices(seed * 31 + k), arrays, number)
        except (ValueError, IndexError, TypeError, AttributeError, Warning):
            found.add(k)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, before, strict=False)):
                return None
    return found
