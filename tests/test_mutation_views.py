"""What NumPy makes a view is one, and what it copies is apart."""

import copy

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import numbatape as nt

# NumPy 2.5 warns of assigned shapes and dtypes, and programs have them all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")

X = np.linspace(0.3, 1.7, 6)
W = np.cos(np.arange(1.0, 7))
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def sliding_windows(x):
    y = x * 1.0
    v = sliding_window_view(y, 3)
    y[2] = y[0] * y[1]
    return np.sum(v * W[:3])


@case
def sliding_windows_written_to(x):
    y = x * 1.0
    v = sliding_window_view(y, 2, writeable=True)
    v[0, 1] = 5.0 * x[0]
    return np.sum(v * y[:2])


@case
def overlapping_windows_written_to(x):
    y = x * 1.0
    w = sliding_window_view(y, 2, writeable=True)
    w[:, 1] = w[:, 0] * x[5]
    w *= 2.0
    return np.sum(y * W)


@case
def windows_of_a_filled_array(x):
    y = np.zeros(6)
    for i in range(5):
        y[i] = x[i] ** 2
    w = sliding_window_view(y, 3)
    s = np.sum(w * x[:3])
    y[5] = x[0]
    return s + np.sum(w**2) + np.sum(y)


@case
def broadcast_of_a_filled_array(x):
    y = np.zeros(6)
    for i in range(5):
        y[i] = x[i] ** 2
    w = np.broadcast_to(y, (3, 6))
    s = np.sum(w * x)
    y[5] = x[0]
    return s + np.sum(w**2) + np.sum(y)


@case
def diagonals(x):
    m = np.outer(x[:3], x[3:])
    d = m.diagonal()
    np.fill_diagonal(m, x[0])
    return np.sum(d * W[:3]) + np.sum(m)


@case
def diagonals_of_einsum(x):
    m = np.outer(x[:3], x[3:])
    d = np.einsum("ii->i", m)
    d *= 2
    return np.sum(m * W[:3])


@case
def transposes_of_einsum(x):
    m = np.outer(x[:3], x[3:])
    d = np.einsum("ij->ji", m)
    d[0] = x[1]
    return np.sum(m * W[:3])


@case
def splits(x):
    y = x * 1.0
    a, b = np.split(y, 2)
    a += b
    c = np.array_split(y, 4)[1]
    c *= 3
    return np.sum(y * W)


@case
def hsplits(x):
    y = (x * 1.0).reshape(2, 3)
    a = np.hsplit(y, 3)[1]
    a[:] = x[0]
    b = np.vsplit(y, 2)[0]
    b *= 2
    return np.sum(y.ravel() * W)


@case
def squeezes(x):
    y = (x * 1.0)[None]
    s = np.squeeze(y)
    s[0] = x[3] ** 2
    np.atleast_3d(y)[0, 1] = 4 * x[2]
    return np.sum(y * W)


@case
def rotations(x):
    y = (x * 1.0).reshape(2, 3)
    np.rot90(y)[0, 0] = x[1] ** 2
    np.fliplr(y)[0] *= 2
    np.flipud(y)[0] += x[0]
    np.flip(y)[0, 0] = x[5] ** 3
    return np.sum(y.ravel() * W)


@case
def copies(x):
    y = x * 1.0
    np.roll(y, 1)[0] = 100.0
    np.tile(y, 2)[0] = 3.0
    np.repeat(y, 1)[0] = 3
    np.append(y, 1)[0] = 3
    np.delete(y, 1)[0] = 3
    y.flatten()[0] = 3
    y[[0, 1]][0] = 3
    y[y > 0][0] = 3
    np.concatenate([y])[0] = 3
    np.sort(y)[0] = 4
    return np.sum(y * W)


@case
def ravels(x):
    y = (x * 1.0).reshape(2, 3)
    y.ravel("F")[0] = 100
    y.T.ravel()[0] = 100
    y.T.ravel("F")[1] = x[0] ** 2
    y.ravel("K")[2] = x[0]
    return np.sum(y.ravel() * W)


@case
def reshapes(x):
    y = (x * 1.0).reshape(2, 3)
    y.T.reshape(-1)[0] = 100
    y.T.reshape(6, order="F")[1] = x[0]
    y.reshape(3, 2, order="F")[0, 0] = 50
    return np.sum(y.ravel() * W)


@case
def new_axes(x):
    y = x * 1.0
    y[None, :, None][0, 1, 0] = x[0] * x[1]
    y[..., 2] = x[3]
    y[()][3] = x[2]
    return np.sum(y * W)


@case
def shape_assigned(x):
    y = x * 1.0
    y.shape = (2, 3)
    y[1, 1] = x[0] ** 2
    return np.sum(y.ravel() * W)


@case
def shape_of_zeros_assigned(x):
    y = np.zeros(6)
    y.shape = (2, 3)
    y[1, 1] = x[0] ** 2
    y.shape = 6
    return np.sum(y * W)


@case
def shape_assigned_after_writes(x):
    y = x * 1.0
    y[0] = x[1] * x[2]
    v = y[:3]
    y.shape = (3, 2)
    y[1, 0] = x[3] ** 2
    return np.sum(v) + np.sum(y.ravel() * W)


@case
def flat_entries(x):
    y = (x * 1.0).reshape(2, 3)
    y.flat[4] = x[0] ** 2
    y.T.flat[1]
    return np.sum(y.ravel() * W)


@case
def astype_without_copy(x):
    y = x * 1.0
    z = y.astype(float, copy=False)
    z[0] = x[1] ** 2
    return np.sum(y * W)


@case
def asarray(x):
    y = x * 1.0
    z = np.asarray(y)
    z[0] = x[1] ** 2
    w = np.array(y, copy=False)
    w[1] = x[0] ** 2
    np.ascontiguousarray(y)[2] = x[0]
    np.asanyarray(y)[3] = x[2]
    return np.sum(y * W)


@case
def orders_of_memory(x):
    y = (x * 1.0).reshape(2, 3)
    z = np.ascontiguousarray(y.T)
    z[0] = 100.0
    w = np.asfortranarray(y)
    w[0] = 7
    u = np.ascontiguousarray(y)
    u[1, 1] = x[0] ** 2
    return np.sum(y.ravel() * W)


@case
def grids(x):
    a, b = np.meshgrid(x[:2], x[2:5])
    a[0, 0] = x[5] ** 2
    b *= a
    return np.sum(a) + np.sum(b)


@case
def results_of_reductions(x):
    m = x.reshape(2, 3) * 1.0
    s = m.sum(axis=0, keepdims=True)
    s[0] = 3.0
    u = m.max(axis=0)
    u[0] = 9.0
    q = m.mean(0)
    q += x[0]
    t = m.cumsum()
    t[0] = 3
    return np.sum(m) * q[1] + t[5]


@case
def unpacked_rows(x):
    y = x.reshape(2, 3) * 1.0
    a, b = y
    a *= b
    (c, *_), _ = y
    return np.sum(y.ravel() * W) + c


@case
def loops_over_rows(x):
    m = np.outer(x, x)
    for row in m:
        row /= np.sum(row)
    for row in m[:2]:
        row[:] = row[::-1]
    return np.sum(m * W)


@case
def leading_ones(x):
    y = x * 1.0
    y[:] = (x * x)[None]
    y[:2] = np.array([[x[0], x[1] * x[2]]])
    return np.sum(y * W)


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name):
    """Values, both modes, differences, two calls, arguments kept: all that `check_derivatives` looks at."""
    nt.testing.check_derivatives(CASES[name], X.copy())


def reversed_and_turned(x):
    n = len(x)
    one, other, table, square = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    back, ahead, turned, across = one[::-1], other[::-1], table.T, square.T
    one[:] = x
    other[0] = x[0]
    ahead[0] += 2.0
    table[0] = x
    square[:] = np.outer(x, x + 1.0)
    by = np.arange(n)
    return np.sum(back * by) + np.sum(other * x) + np.sum(turned[:, 0] * by) + np.sum(across[:, 0] * by)


@pytest.mark.parametrize("first", [1, 4])
def test_all_entries_of_zeros_have_one_address_but_views_of_them_differ(first):
    cache = nt.prepare_gradient_cache(reversed_and_turned, np.ones(first))
    for n in (1, 4, 2, 6):
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, x)[0], reversed_and_turned(x), rtol=1e-12, atol=1e-13
        )


TABLE = np.arange(1.0, 13.0).reshape(3, 4) / 7.0


@pytest.mark.parametrize(
    "view",
    [
        lambda table: np.split(table, np.array([1]))[1],
        lambda table: np.reshape(table, np.array([4, 3])),
        lambda table: np.transpose(table, np.array([1, 0])),
        lambda table: np.atleast_2d(table, np.zeros(3))[0],
    ],
    ids=["split", "reshape", "transpose", "atleast_2d"],
)
def test_writes_to_views_that_are_made_beside_other_arrays_reach_the_array(view):
    def f(x):
        table = TABLE.copy()  # of NumPy's own class, while nothing traced has been written
        view(table)[0] -= x
        return np.sum(np.sin(table))

    gradient = nt.value_and_grad(f)
    for x in (0.3, 0.7):
        value, slope = gradient(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        assert slope == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-8)
        assert slope != 0.0


def test_references_to_arrays_that_are_gone_do_not_pile_up():
    """They are some hundred bytes an operation, which the garbage collector examines again and again."""
    left = []

    def f(x):
        y = x * 1.0
        views = [y[k:] for k in range(100)]
        for _ in range(900):
            y[1:] * 2.0
        left.append(len(x._trace.memory.arrays))
        y[:] = x * x
        for _ in range(300):
            y[1:] *= 1.0
        left.append(sum(map(len, x._trace.memory.sharing.values())))
        return sum(np.sum(view) for view in views)

    x = np.linspace(0.5, 1.5, 100)
    np.testing.assert_allclose(nt.grad(f)(x), 2.0 * x * np.arange(1, 101), rtol=1e-13)
    assert max(left) < 500


class Holder:
    """An object that is an array for NumPy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array[1:], dtype)


class Described:
    """An object that says where its memory is."""

    def __init__(self, array):
        self.array = array

    __array_interface__ = property(lambda self: self.array.__array_interface__)


def written_through_holder(x):
    table = TABLE.copy()
    np.asarray(Holder(table))[0] = x * x
    return np.sum(np.sin(table))


def held(x):
    row = np.zeros(3)
    holder = Holder(row)
    row[1:] = x, x * x
    return np.sum(np.sin(np.asarray(holder, float))) + np.sum(np.array(holder) * TABLE[0, 1:3])


def held_where_nothing_is_written(x):
    numbers = np.asarray(Holder([0.5, x, x * x]))
    return np.sum(np.sin(numbers)) + np.sum(np.ascontiguousarray(Holder(TABLE[0] * x)) ** 2)


def written_to_a_captured_result(x):
    table = TABLE.copy()
    np.fromfunction(lambda i, j: table, table.shape)[0] = x * x
    return np.sum(np.sin(table))


def written_flat(x):
    table = TABLE.copy()
    table.flat[2] = x * x
    return np.sum(np.sin(table))


def written_or_replaced(x):
    table = TABLE.copy()
    try:
        table[0, 0] = x * x
    except (TypeError, ValueError):  # what a write that the trace cannot reach raises is not the function's
        table = 2.0 * table
    return np.sum(np.sin(table))


@pytest.mark.parametrize(
    "f",
    [
        *(written_through_holder, written_or_replaced, held, held_where_nothing_is_written),
        *(written_to_a_captured_result, written_flat),
    ],
    ids=lambda f: f.__name__,
)
def test_arrays_of_objects_and_of_functions_are_shared_with_them(f):
    gradient = nt.value_and_grad(f)
    for x in (0.3, 0.7):
        value, slope = gradient(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        assert slope == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-8)


@pytest.mark.parametrize(
    "lent", [lambda table: memoryview(table), lambda table: memoryview(table)[1:], Described]
)
def test_memory_that_is_lent_by_its_address_is_not_written_to_apart(lent):
    def f(x):
        table = TABLE.copy()
        np.asarray(lent(table))[0] = x
        return np.sum(table)

    with pytest.raises(nt.NumbatapeError, match=r"memoryview\(x\)|__array_interface__"):
        nt.grad(f)(0.3)


COPIES = {
    "copy": lambda a: a.copy(),
    "copy(F)": lambda a: a.copy("F"),
    "copy(K)": lambda a: a.copy("K"),
    "copy.copy": copy.copy,
    "fftshift": np.fft.fftshift,
    "astype": lambda a: a.astype(complex),
    "astype(A)": lambda a: np.concatenate([a, a])[::2].astype(complex, "A"),
    "astype(C)": lambda a: a.astype(complex, "C"),
    "astype, no copy": lambda a: a.astype(a.dtype, "C", copy=False),
    "zeros_like": lambda a: np.zeros_like(a) + a[0, 0],
    "argsort": lambda a: np.take_along_axis(a, np.argsort(a.real, axis=0), 0),
    "rows": lambda a: a[None][[0]][0],
    "empty_like(C)": lambda a: np.multiply(a, 2.0, out=np.empty_like(a, order="C")),
}


@pytest.mark.parametrize("made", [lambda x: x * 1.0, lambda x: np.ones(6), lambda x: x + 1j])
@pytest.mark.parametrize("name", COPIES)
def test_copies_lie_in_memory_as_numpys(name, made):
    """Ravelling in their own order gives a view, to which one can write, and in another order a copy."""

    def f(x):
        copied = COPIES[name](made(x).reshape(2, 3).T)
        copied.ravel("C")[1] = x[0] * 3.0
        copied.ravel("F")[2] = x[1] * 4.0
        return np.sum(copied.real**2 * np.arange(6.0).reshape(3, 2)) + np.sum(x)

    x, step = np.array([0.5, 1.5, -0.3, 0.2, -1.1, 0.8]), np.array([1.0, -1.0, 0.5, 2.0, 0.3, -0.2])
    value, gradient = nt.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    assert gradient @ step == pytest.approx((f(x + 1e-6 * step) - f(x - 1e-6 * step)) / 2e-6, rel=1e-7)
