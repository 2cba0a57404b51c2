"""Writes to arrays, one small program a rule of NumPy's: who shares memory, which entry is written last.

Each runs at three points of one prepared cache, so that what one point decides must not hold for the others.
Values are plain NumPy's, slopes its differences.
"""

import ctypes

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import numbatape as nt
from tests.every_case import every

W = np.array([1.0, 10.0, 100.0, 1000.0])
G = np.array([0.5, 1.5, -2.5, 3.5])
POINTS = np.array([[1.3, 2.7, -3.1, 4.2], [0.4, -1.6, 2.2, 0.9], [3.6, 0.7, 0.2, -0.3]])


def weighed(y):
    return np.sum(y * np.resize(W, np.shape(y)))


def check(f):
    cache = nt.prepare_gradient_cache(f, POINTS[0])
    for x in POINTS:
        value, (gradient,) = nt.value_and_gradient(cache, x)
        expected = f(x.copy())
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        h = 1e-4
        steps = h * np.eye(4)
        slopes = np.array([f(x + s) - f(x - s) for s in steps]) / (2 * h)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)


def written(make, write):
    """Return a function that makes an array of its argument, writes to it, and weighs what is there then."""

    def f(x):
        y = make(x)
        write(y, x)
        return weighed(y)

    return f


def double(x):
    return x * 2.0


def square(x):
    return np.outer(x, x)


def column(x):
    return np.reshape(x * 2.0, (4, 1))


def plain(x):
    return np.array([4.0, 3.0, 2.0, 1.0])


def nothing(x):
    return np.zeros((0, 2))


def overlapping(x):
    return as_strided(x * 2.0, (2, 4), (0, 8))


def number(x):
    return np.array(x[0])


# ---- views that look like copies, copies that look like views

VIEWS = {
    "sliding_window_view": lambda a: sliding_window_view(a, 2),
    "as_strided": lambda a: as_strided(a, (2, 2), (8, 16)),
    "require": lambda a: np.require(a, None, "C"),
    "asarray_chkfinite": np.asarray_chkfinite,
    "base of a slice": lambda a: a[:].base,
    "from_dlpack": np.from_dlpack,
    "ctypeslib.as_array": np.ctypeslib.as_array,
    "nditer.operands": lambda a: np.nditer(a).operands[0],
    "ma.filled": np.ma.filled,
    "broadcast_arrays": lambda a: np.broadcast_arrays(a, 1.0)[0],
    "[:, None]": lambda a: a[:, None],
}
COPIES = {
    "array(0)": lambda a: a.reshape(2, 2)[np.array(0)],
    "True": lambda a: a[True],
    "flat[:]": lambda a: a.flat[:],
    "flat[1:]": lambda a: a.flat[1:],
    **{
        f"{u.__name__}.reduce": lambda a, u=u: u.reduce(a[None], axis=0)
        for u in (np.power, np.fmax, np.divide, np.subtract, np.arctan2, np.copysign)
    },
    "hypot.reduce of no axis": lambda a: np.hypot.reduce(a, axis=()),
}


@every("name", [*VIEWS, *COPIES])
@pytest.mark.parametrize("make", [double, plain])
def test_views_and_copies(make, name):
    form = (VIEWS | COPIES)[name]

    def f(x):
        a = make(x)
        v = form(a)
        a[::2] = x[:2]
        return weighed(a) + 3.0 * weighed(v)

    a = plain(None)
    assert np.shares_memory(form(a), a) == (name in VIEWS)
    check(f)


# ---- a row at a traced position: the position is where it stands as soon as its memory is written to


def row_is_written(x):
    m = square(x)
    row = m[np.argmin(x)]
    row[:] = 0.0
    return weighed(m)


def memory_of_row_is_written(x):
    m = square(x)
    row = m[np.argmin(x)]
    m[0] = 3.0 * x
    return np.sum(row * x)


def row_after_a_write(x):
    m = square(x)
    m[0, 0] = 3.0
    row = m[np.argmin(x)]
    m[0] = 3.0 * x
    row += x
    return weighed(m) + np.sum(row * x)


def row_of_a_plain_array(x):
    m = np.ones((4, 4))
    row = m[np.argmax(x)]
    row[1:] = x[1:]
    return weighed(m)


def plain_row_is_written_elsewhere(x):
    m = np.ones((4, 4))
    row = m[np.argmax(x)]
    m[0] = 3.0
    total = np.sum(row * x)
    m[1] = x
    return total + np.sum(row * x)


def plain_grid_is_written(x):
    m = np.ones((2, 4, 2))
    rows = m[1, np.argmax(x)]
    again = m[:, np.argmin(x)]
    rows += x[:2]
    again[0] = x[2]
    return weighed(m) + weighed(rows) + weighed(again)


# ---- arrays that code outside of the trace holds


def lent_to_sorted(x):
    order = np.array([3.0, 1.0, 2.0, 0.5])
    places = [int(k) for k in sorted(range(4), key=order.__getitem__)]
    order[places[0]] = x[0]
    return weighed(order)


def lent_and_written_there(x):
    counts = np.zeros(4)
    seen = counts.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    seen[1] = 2.5
    total = weighed(counts * x)
    seen[2] = 4.0
    counts[3] = 1.0
    return total + weighed(counts * x) + seen[3]


def lent_and_given_back(x):
    counts = np.zeros(4)
    seen = counts.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    seen[1] = 2.5
    del seen
    counts[0] = x[0]
    return weighed(counts * x)


@pytest.mark.usefixtures("only_new_objects")
def test_what_was_lent_takes_no_traced_values():
    def f(x):
        counts = np.zeros(4)
        seen = counts.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        counts[0] = x[0]
        return seen[0] * x[1]

    with pytest.raises(nt.LeakError, match="still has a view"):
        nt.grad(f)(POINTS[0])


# ---- outputs


def out(u, *operands, slots):
    def f(x):
        y = x * 1.0
        u(*(operand(y) for operand in operands), out=slots(y))
        return weighed(y)

    return f


def same(y):
    return y


def exponents(x):
    mantissa, exponent = np.frexp(x)
    return weighed(mantissa) + weighed(exponent)


def mantissa_into_itself(x):
    y = x * 1.0
    np.frexp(y, out=(y, np.zeros(4, np.int32)))
    return weighed(y)


OUTPUTS = {
    "modf(x, out=(x, x))": out(np.modf, same, slots=lambda y: (y, y)),
    "modf(x, out=(x, None))": out(np.modf, same, slots=lambda y: (y, None)),
    "modf(x, out=(None, x))": out(np.modf, same, slots=lambda y: (None, y)),
    "modf(x, out=(x, reversed))": out(np.modf, same, slots=lambda y: (y, y[::-1])),
    "modf, outputs overlap": out(np.modf, lambda y: y[1:], slots=lambda y: (y[:-1], y[1:])),
    "modf, outputs overlap otherwise": out(np.modf, lambda y: y[1:], slots=lambda y: (y[1:], y[:-1])),
    "divmod(x, 0.97, out=(x, x))": out(np.divmod, same, lambda y: 0.97, slots=lambda y: (y, y)),
    "divmod(x, 0.97, out=(reversed, x))": out(np.divmod, same, lambda y: 0.97, slots=lambda y: (y[::-1], y)),
    "divmod(9.7, x, out=(x, x))": out(np.divmod, lambda y: 9.7, same, slots=lambda y: (y, y)),
    "frexp": exponents,
    "frexp(x, out=(x, exponents))": mantissa_into_itself,
    "cumsum(y, out=y)": written(column, lambda y, x: np.cumsum(y, 0, out=y)),
    "cumprod(y, 0, out=y)": written(column, lambda y, x: np.cumprod(y, 0, out=y)),
    "add into a wider one": written(lambda x: np.zeros((2, 4)), lambda y, x: np.add(x, 1.0, out=y)),
    "add(where=mask)": written(plain, lambda y, x: np.add(x, 1.0, out=y, where=x > 1.0)),
    "multiply(where=mask) in place, entries twice": written(
        overlapping, lambda y, x: np.multiply(y, 3.0, out=y, where=np.eye(2, 4) > 0.0)
    ),
    "multiply(where=mask), entries twice": written(
        overlapping, lambda y, x: np.multiply(y * 1.0, 3.0, out=y, where=np.eye(2, 4) > 0.0)
    ),
    "multiply in place, entries twice": written(overlapping, lambda y, x: np.multiply(y, 3.0, out=y)),
    "concatenate(out=), parts overwritten": written(
        double, lambda y, x: np.concatenate([y[1:], y[:1]], out=y)
    ),
    "stack(out=), parts overwritten": written(square, lambda y, x: np.stack([y[1], y[0], y[3], y[2]], out=y)),
    "einsum(out=) of a view": written(double, lambda y, x: np.einsum("i->i", y[:2], out=y[::2])),
    "fix(x, out)": written(plain, lambda y, x: np.fix(x, y)),
}

# ---- the order of writes, and how many values there are

ORDER = {
    "c[c > 0.5] = reversed": written(double, lambda c, x: c.__setitem__(c > -9.0, c[::-1])),
    "c[mask] = reversed": written(double, lambda c, x: c.__setitem__(np.ones(4, bool), c[::-1])),
    "c[[0, 2]] = c[:2]": written(double, lambda c, x: c.__setitem__([0, 2], c[:2])),
    "c[argsort] = reversed": written(double, lambda c, x: c.__setitem__(np.argsort(-x), c[::-1])),
    "copyto(where=)": written(double, lambda c, x: np.copyto(c, c[::-1], where=c > 1.0)),
    "place(c, c > 1, reversed)": written(double, lambda c, x: np.place(c, c > 1.0, c[::-1])),
    "place(c, c > 3, c)": written(double, lambda c, x: np.place(c, c > 3.0, c)),
    "flat[argsort] = itself": written(double, lambda c, x: c.flat.__setitem__(np.argsort(x), c)),
    "complex[mask] = its first": lambda x: parts_after(
        x, lambda c: c.__setitem__(c.real > 0.5, c[: np.sum(c.real > 0.5)])
    ),
    "place, what was just written": written(double, lambda c, x: np.place(c, np.arange(c.size) > 0, c[:2])),
    "putmask(c, c > 1, reversed)": written(double, lambda c, x: np.putmask(c, c > 1.0, c[::-1])),
    "put(c, places, reversed)": written(double, lambda c, x: np.put(c, [0, 1, 2], c[::-1])),
    "put(c, argsort, reversed)": written(double, lambda c, x: np.put(c, np.argsort(x)[:3], c[::-1])),
    "put_along_axis": written(double, lambda c, x: np.put_along_axis(c, np.arange(4), c[::-1], 0)),
    "add.at of itself": written(double, lambda c, x: np.add.at(c, [0, 1, 2], c[::-1][:3])),
    "multiply.at of itself": written(double, lambda c, x: np.multiply.at(c, [0, 1, 0], c[::-1][-3:])),
    "flat = reversed": written(double, lambda c, x: setattr(c, "flat", c[::-1])),
    "flat[1:] = c[:-1]": written(double, lambda c, x: c.flat.__setitem__(slice(1, None), c[:-1])),
    "flat[c > 1] = reversed": written(double, lambda c, x: c.flat.__setitem__(c > 1.0, c[::-1])),
    "every other = the first ones": lambda x: every_other_is_written(x),
    "a row = a column": lambda x: row_is_column(x),
    "flat = reversed complex": lambda x: parts_after(x, lambda c: setattr(c, "flat", c[::-1])),
    "putmask, reversed complex": lambda x: parts_after(x, lambda c: np.putmask(c, c.real > 1.0, c[::-1])),
    "place, reversed complex": lambda x: parts_after(x, lambda c: np.place(c, c.real > 1.0, c[::-1])),
    "flat = transposed complex": lambda x: parts_after(
        x, lambda c: setattr(c.reshape(2, 2), "flat", c.reshape(2, 2).T)
    ),
    "diagonal = a column": written(square, lambda m, x: np.fill_diagonal(m, m[::-1, 0])),
    "place, two values": written(double, lambda c, x: np.place(c, c > 1.0, x[:2])),
    "place, mask of another shape": written(double, lambda c, x: np.place(c, np.ones((2, 2), bool), x[:3])),
    "putmask, no values": written(double, lambda c, x: np.putmask(c, c > 1.0, x[:0])),
    "flat = no values": written(double, lambda c, x: setattr(c, "flat", x[:0])),
    "flat[0:4] = three": written(double, lambda c, x: c.flat.__setitem__(slice(0, 4), x[:3])),
    "put into a number's array": written(number, lambda c, x: np.put(c, [0, 0], x[1:])),
    "fill of no dimensions": written(number, lambda c, x: c.fill(x[1])),
    "nothing[...] = x[0]": written(nothing, lambda c, x: c.__setitem__(..., x[0])),
    "nothing[:, 0] = x[:0]": written(nothing, lambda c, x: c.__setitem__((slice(None), 0), x[:0])),
    "nothing *= x[0]": written(nothing, lambda c, x: c.__imul__(x[0])),
    "nditer": lambda x: sum(e * w for e, w in zip(np.nditer(x), W, strict=True)),
    "nditer writes": lambda x: entries_doubled(x),
    "nditer makes": lambda x: entries_made(x),
}


def every_other_is_written(x):
    c = np.append(x, x) * 2.0
    c[::2] = c[:4]
    return weighed(c)


def row_is_column(x):
    m = np.outer(x, x)
    m[1] = m[:, 2]
    m[:, 2] = m[1]
    return weighed(m)


def parts_after(x, write):
    c = x * 2.0 + 1j * x[::-1] ** 2
    write(c)
    return weighed(c.real) + np.sum(c.imag * W[::-1] ** 2)


def entries_doubled(x):
    y, z = x * 1.0, np.zeros(4)
    with np.nditer([y, z], op_flags=[["readwrite"], ["writeonly"]]) as entries:
        for a, b in entries:
            b[...] = a * 2.0
            a[...] = b * x[0]
    return weighed(y) + np.sum(z)


def entries_made(x):
    entries = np.nditer([x, None])
    for a, b in entries:
        b[...] = a * x[0]
    return weighed(entries.operands[1])


# ---- np.put at positions that are data

PUT = {
    f"put at {name}, {mode}": written(
        make, lambda c, x, k=k, v=v, mode=mode: np.put(c, k(x), v(x), mode=mode)
    )
    for mode in ("raise", "wrap", "clip")
    for name, make, k, v in (
        ("the first two", double, lambda x: np.argsort(x)[:2], lambda x: x[2:] * 3.0),
        ("all, a plain array", plain, np.argsort, lambda x: x[:3] * 3.0),
        ("an entry", square, np.argmax, lambda x: 7.0),
        ("a grid", square, lambda x: np.argsort(x).reshape(2, 2), lambda x: x.reshape(2, 2)),
        ("places that repeat", double, lambda x: np.argsort(x) // 2, lambda x: x * x),
        ("places, no values", double, np.argsort, lambda x: x[:0]),
    )
} | {
    "far away, wrap": written(
        double, lambda c, x: np.put(c, np.floor(3 * x).astype(int), x * x, mode="wrap")
    ),
    "far away, clip": written(
        double, lambda c, x: np.put(c, np.floor(3 * x).astype(int), x * x, mode="clip")
    ),
}

ROWS = (
    row_is_written,
    memory_of_row_is_written,
    row_after_a_write,
    row_of_a_plain_array,
    plain_row_is_written_elsewhere,
    plain_grid_is_written,
)
LENT = (lent_to_sorted, lent_and_written_there, lent_and_given_back)
EXAMPLES = {f.__name__: f for f in ROWS + LENT} | OUTPUTS | ORDER | PUT


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # since NumPy 2.5
@every("name", EXAMPLES)
def test_against_numpy(name):
    check(EXAMPLES[name])


# ---- np.add.at and its kind: entry after entry


def at(u, make, places, operand):
    return written(make, lambda y, x: u.at(y, places(x) if callable(places) else places, operand(x)))


AT = {
    "add.at, stride 0": at(np.add, overlapping, [0, 1], double),
    "add.at, stride 0, traced": at(np.add, overlapping, lambda x: np.argsort(x)[:2] % 2, double),
    "multiply.at, stride 0": at(np.multiply, overlapping, [0, 1], double),
    "subtract.at of columns": at(np.subtract, lambda x: square(x).T, [0, 0, 1], double),
    "add.at traced rows": at(np.add, square, lambda x: np.argsort(x)[:2] // 2, lambda x: x),
    "add.at a traced mask": at(np.add, double, lambda x: x > 1.0, lambda x: x[1]),
    "add.at nothing": at(np.add, lambda x: np.outer(x, x[:0]), ([0], []), lambda x: x[0]),
} | {
    f"{u.__name__}.at {index!r} of no dimensions": at(u, number, index, lambda x: x[1])
    for u in (np.add, np.subtract, np.multiply)
    for index in ((), Ellipsis, None, True, False, np.array(True))
}


@pytest.mark.parametrize("name", AT)
def test_ufunc_at(name):
    check(AT[name])


def test_no_dimensions_take_no_position():
    with pytest.raises(IndexError, match="too many indices"):
        nt.grad(at(np.add, number, [0, 0], lambda x: x[1]))(POINTS[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("u", [np.add, np.subtract])
def test_sums_are_rounded_as_numpys_and_keep_the_sign_of_zero(u, dtype):
    def at_places(x, v):
        fixed, traced = x * 1.0, x * 1.0
        u.at(fixed, [0, 0, 2, 3, 3, 3], v)
        u.at(traced, np.astype(v * 0.0, int) + np.array([0, 0, 2, 3, 3, 3]), v)
        return np.stack([fixed, traced])

    x = np.array([-0.0, -0.0, 0.1, 1e-9], dtype)
    v = np.array([-0.0, -0.0, 1e9, 1.0, -1.0, 1e-3], dtype) * (1 if u is np.add else -1)
    expected = x.copy()
    u.at(expected, [0, 0, 2, 3, 3, 3], v)
    value = nt.jvp(at_places, (x, v), (x, v))[0]
    np.testing.assert_array_equal(value, [expected, expected])
    np.testing.assert_array_equal(np.signbit(value), np.signbit([expected, expected]))


def test_second_derivatives_and_patterns_of_sums():
    def totals(x):
        y = x * 2.0
        np.add.at(y, np.argsort(x)[:3], x[:3] ** 2)
        np.subtract.at(y, [0, 0, 2], x[:3] ** 3)
        return y

    x = POINTS[0]
    order = np.argsort(x)
    expected = np.diag([2.0] * 4)
    for k, (place, own) in enumerate(zip(order, (0, 0, 2), strict=False)):
        expected[place, k] += 2.0 * x[k]
        expected[own, k] -= 3.0 * x[k] ** 2
    np.testing.assert_allclose(nt.jacobian(totals)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(nt.sparse_jacobian(totals)(x).toarray(), expected, rtol=1e-12)
    weights = np.sum(W[order[:3]] * 2.0) - 6.0 * np.sum(x[:3] * W[[0, 0, 2]])
    second = nt.hessian(lambda x: np.sum(W * totals(x)))(x)
    np.testing.assert_allclose(np.sum(second), weights, rtol=1e-12)
    np.testing.assert_allclose(nt.sparse_hessian(lambda x: np.sum(W * totals(x)))(x).toarray(), second)


def test_positions_outside_are_numpys_errors():
    f = written(double, lambda c, x: np.put(c, np.floor(x).astype(int), x))
    cache = nt.prepare_gradient_cache(f, POINTS[0] / 2)
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, POINTS[0])


def test_place_needs_values_where_the_mask_selects():
    f = written(double, lambda c, x: np.place(c, c > 1.0, x[:0]))
    cache = nt.prepare_gradient_cache(f, np.zeros(4))
    np.testing.assert_array_equal(nt.value_and_gradient(cache, -(POINTS[2] ** 2))[1][0], 2.0 * W)
    with pytest.raises(ValueError, match="empty"):
        nt.value_and_gradient(cache, POINTS[0])
