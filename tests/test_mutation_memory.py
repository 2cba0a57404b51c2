"""Writes in place: arguments, errors, and what writes cost."""

import operator
import weakref

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES

# NumPy 2.5 warns of assigned shapes and dtypes, and programs have them all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")

W = np.cos(np.arange(1.0, 7.0))
X = np.linspace(0.4, 1.7, 6)

# ---- memory of the caller


def test_output_argument():
    def products(y, x):
        for k in range(len(y)):
            y[k] = x[k] * x[k + 1]

    y = np.full(2, 7.0)
    cache = nt.prepare_pullback_cache(products, nt.Cache(y), X[:3])
    for arguments in ((y, X[:3]), (X[:3],)):
        value, (nothing, gradient) = nt.value_and_pullback(cache, np.array([1.0, 2.0]), *arguments)
        np.testing.assert_allclose(value, X[:2] * X[1:3])
        np.testing.assert_allclose(gradient, [X[1], X[0] + 2 * X[2], 2 * X[1]])
        assert nothing is None and (y == 7.0).all()
    assert nt.value_and_pullback(cache, np.ones(3), np.zeros(3), X[:4])[0].shape == (3,)


def test_scratch_argument():
    def f(x, buffer):
        buffer[:] = x[:2]
        buffer *= x[2]
        return np.sum(buffer)

    cache = nt.prepare_gradient_cache(f, X, nt.Cache(np.zeros(2)))
    expected = nt.grad(lambda x: np.sum(x[:2] * x[2]))(X)
    for _ in range(3):
        np.testing.assert_allclose(nt.value_and_gradient(cache, X)[1][0], expected)
    np.testing.assert_allclose(nt.grad(f)(X, nt.Cache(np.zeros(2))), expected)


MEAN, ROOM = np.array([1.0, 2.0, 3.0]), np.zeros(3)


def minus_mean(x):
    x -= MEAN
    return np.sum(x**2)


def by_room(x):
    ROOM[:] = 2.0 * x
    return ROOM @ x


@pytest.mark.parametrize(("f", "array"), [(minus_mean, MEAN), (by_room, ROOM)])
def test_no_argument_is_a_captured_array_where_one_of_them_is_written_to(f, array):
    points = [X[:3] + k for k in range(3)]
    cache = nt.prepare_gradient_cache(f, points[0])
    for x in points + points:
        assert (
            nt.value_and_gradient(cache, x)[0]
            == nt.value_and_grad(f)(x)[0]
            == pytest.approx(f(x.copy()), 1e-14)
        )
        ROOM[:] = 0.0
        for call in (
            lambda x: nt.value_and_gradient(cache, x),
            nt.grad(f),
        ):  # steady ones, from the second on
            for its in (array, array[::-1][::-1]):
                with pytest.raises(nt.UnsupportedOperationError, match="that the function captures"):
                    call(its)
    assert cache.traces == 1
    np.testing.assert_allclose(nt.jvp(f, (points[0],), (array,))[1], nt.grad(f)(points[0]) @ array)


def test_the_same_array_twice():
    def f(a, b):
        a[0] = 3.0 * b[1]
        a *= 2.0
        return np.sum(W * a * b)

    cache = nt.prepare_gradient_cache(f, X, X)
    for _ in range(2):
        y = X.copy()
        value, (da, db) = nt.value_and_gradient(cache, X, X)
        np.testing.assert_allclose(value, f(y, y))
        b = X * 1.0
        b[0] = 3.0 * X[1]
        expected = 8.0 * W * b
        expected[1] += 3.0 * expected[0]
        expected[0] = 0.0
        np.testing.assert_allclose(da + db, expected)
        np.testing.assert_allclose(nt.value_and_gradient(cache, X, X.copy())[0], f(X.copy(), X))
    with pytest.raises(nt.UnsupportedOperationError, match="overlaps another one"):
        nt.grad(f, (0, 1))(X[:4], X[1:5])


def flips(x, y):
    y[np.abs(y) > 0.0] = x[::-1]


def copies_some(x, y):
    np.copyto(y, x[::-1], where=W > 0.0)


def puts_most(x, y):
    np.put(y, [0, 4, 2], x[1::2])


def splits(x, y):
    np.modf(7.0 * x, out=(x, y))


def shifts(x, y):
    np.divmod(x[:-1], 0.3, out=(y[1:], x[:-1]))


def asks(x, y):
    y *= 2.0 if np.shares_memory(x[1:], y) else 3.0


@pytest.mark.parametrize("write", [flips, copies_some, puts_most, splits, shifts, asks])
def test_writes_overlap_with_another_argument_that_is_the_same_array(write):
    def f(x, y):
        write(x, y)
        return x + 2.0 * y

    def plain(x):
        y = x.copy()
        return f(y, y)

    value, slope = nt.jvp(f, (X, X), (W, W))
    np.testing.assert_array_equal(value, plain(X))
    step = 1e-6 * W
    np.testing.assert_allclose(slope, (plain(X + step) - plain(X - step)) / 2e-6, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(nt.jvp(f, (X, X.copy()), (W, W))[0], f(X.copy(), X.copy()))


def test_only_what_is_written_becomes_the_other_argument_s():
    def f(x, y):
        np.copyto(x, 3.0, where=np.arange(6) < 2)
        y[np.argmin(x[2:])] = 1.0
        return x @ W + 2.0 * y @ W

    dx, dy = nt.grad(f, (0, 1))(X, X)
    np.testing.assert_allclose(dx, [0, 0, *W[2:]])
    np.testing.assert_allclose(dy, 2.0 * dx)


@pytest.mark.parametrize("unit", [1.0, 1j])
def test_the_shape_of_an_argument_that_is_passed_twice_is_not_set(unit):
    def f(x, y):
        y.shape = (2, 3)
        return np.sum(np.abs(x[:2]) ** 2) + np.sum(np.abs(y[1]) ** 2)

    x = X * unit
    np.testing.assert_allclose(nt.jvp(f, (x, x.copy()), (x, x))[1], 2 * f(x, x.copy()))
    with pytest.raises(nt.UnsupportedOperationError, match="passed twice"):
        nt.jvp(f, (x, x), (x, x))


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_with_traced_entries_beside_an_array_of_the_function(kind):
    def f(x):
        y = np.full(6, 2.0)
        y[1:3] += kind([x[0], 5.0])
        y[[4, 5]] *= kind([x[2], x[1]])
        return np.sum(W * y) + np.sum(kind([x[3], 1.0]) / np.ones((2, 2)))

    np.testing.assert_allclose(nt.grad(f)(X), [W[1], 2 * W[5], 2 * W[4], 2.0, 0.0, 0.0])


def test_a_direction_in_the_memory_of_an_argument_that_is_written_to():
    def f(x):
        x[0] = x[0] * x[1]
        return np.sum(x**2)

    def expected(x, v):
        gradient = np.array([2 * x[0] * x[1] ** 2, 2 * x[0] ** 2 * x[1] + 2 * x[1], 2 * x[2]])
        mixed = 4 * x[0] * x[1]
        hessian = np.array([[2 * x[1] ** 2, mixed, 0], [mixed, 2 * x[0] ** 2 + 2, 0], [0, 0, 2]])
        return gradient @ v, hessian @ v

    both = np.array([2.0, 1.5, 3.0, 0.5])
    cache = nt.prepare_hvp_cache(f, both[:3])
    for x, v in [(both[:3], both[:3]), (both[:3], both[1:])] * 2:
        slope, product = expected(x, v)
        np.testing.assert_allclose(nt.jvp(f, (x,), (v,))[1], slope)
        np.testing.assert_allclose(nt.hvp(f)(x, v), product)
        np.testing.assert_allclose(nt.value_and_hvp(cache, v, x)[2], product)


# ---- errors

captured = np.zeros(3)
in_a_list = [captured] * 200
alive = np.zeros(3)
out_of_reach = weakref.WeakValueDictionary({0: alive})  # what an object of a library holds is not reached


def write(x):
    captured[0] = x[0]
    return x[1]


def write_slice(x):
    captured[1:] = x[:2]
    return x[1]


def add_in_place(x):
    mine = captured.copy()
    mine += x[:3]
    return np.sum(mine)


def add_at_captured(x):
    np.add.at(captured, [0], x[0])
    return x[1]


def copy_to_captured(x):
    np.copyto(captured, x[:3])
    return x[1]


def into_out(x):
    np.exp(x[:3], out=captured)
    return x[1]


def write_in_a_list(x):
    in_a_list[150][1] = x[1]
    return captured[1]


def test_results_do_not_lead_to_captured_memory():
    def f(x):
        same = np.atleast_1d(x, captured)[1]
        same[0] = x[0]
        return np.sum(same)

    np.testing.assert_array_equal(nt.grad(f)(X), np.eye(len(X))[0])
    assert (captured == 0.0).all()


def test_results_follow_the_plain_arrays_that_they_are_views_of():
    def f(x):
        plain = np.zeros(3)
        same = np.atleast_1d(x, plain)[1]
        plain[0] = 2.0
        first = np.sum(same) * x[0]
        same[1] = x[1]
        return first + np.sum(plain)

    assert f(X) == nt.value_and_grad(f)(X)[0]
    assert nt.grad(f)(X).tolist() == [2, 1, 0, 0, 0, 0]


def test_a_boolean_is_no_position():
    def f(x):
        x[True] = x[0] * 2.0
        return np.sum(x)

    assert nt.grad(f)(X).tolist() == [12, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "f", [write, write_slice, add_in_place, add_at_captured, copy_to_captured, into_out, write_in_a_list]
)
def test_captured_arrays_are_scratch(f):
    expected = f(X)
    captured[:] = 0.0
    value, gradient = nt.value_and_grad(f)(X)
    assert value == expected
    np.testing.assert_array_equal(
        gradient, [1, 1, 1, 0, 0, 0][: len(X)] if f is add_in_place else np.eye(6)[1]
    )
    assert (captured == 0.0).all()


def write_out_of_reach(x):
    out_of_reach[0][0] = x[0]
    return x[1]


def add_out_of_reach(x):
    np.add.at(out_of_reach[0], [0], x[0])
    return x[1]


def copy_out_of_reach(x):
    np.copyto(out_of_reach[0], x[:3])
    return x[1]


@pytest.mark.parametrize("f", [write_out_of_reach, add_out_of_reach, copy_out_of_reach])
def test_arrays_out_of_reach(f):
    with pytest.raises(
        nt.UnsupportedOperationError, match=r"cannot reach.*np\.stack.*numbatape\.numpy"
    ) as caught:
        nt.grad(f)(X)
    line = f.__code__.co_firstlineno
    assert f"test_mutation_memory.py:{line + 1} in {f.__name__}" in str(caught.value)
    assert (out_of_reach[0] == 0.0).all()


def make_read_only(x):
    x = x * 1.0
    x.setflags(write=False)
    return x


ERRORS = {
    "integers += floats": lambda x: np.add(np.zeros(6, int), x, out=np.zeros(6, int)),
    "shape": lambda x: operator.setitem(x, slice(0, 2), x[:3]),
    "grow": lambda x: np.add(x, 1.0, out=x[:2]),
    "index": lambda x: operator.setitem(x, 9, x[0]),
    "too many indices": lambda x: operator.setitem(x, (0, 0), x[0]),
    "broadcast view": lambda x: operator.setitem(np.broadcast_to(x[0], (3,)), 0, x[1]),
    "diagonal": lambda x: operator.setitem(np.diagonal(x[:4].reshape(2, 2)), 0, x[1]),
    "read-only": lambda x: operator.setitem(make_read_only(x), 0, 1.0),
    "mask": lambda x: operator.setitem(x, x > 1.0, x[:5]),
    "scalar": lambda x: operator.setitem(x[0], 0, 1.0),
    "item of a sequence": lambda x: operator.setitem(x, 0, x[:2]),
    "delete": lambda x: operator.delitem(x, 0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name):
    f = ERRORS[name]
    with pytest.raises((ValueError, IndexError, TypeError)) as plain:
        f(X.copy())
    with pytest.raises(type(plain.value)) as traced:
        nt.grad(lambda x: (f(x), np.sum(x))[1])(X)
    assert str(plain.value)[:30] == str(traced.value)[:30]


def test_read_only_argument():
    x = X.copy()
    x.setflags(write=False)

    def f(x):
        x[0] = 1.0
        return np.sum(x)

    with pytest.raises(ValueError, match="read-only"):
        nt.grad(f)(x)


def test_positions_are_checked_as_the_tape_runs():
    def f(x, k):
        x[k] = 0.0
        return np.sum(x)

    g = nt.grad(f)
    assert g(X, np.array([1, -1])).tolist() == [1, 0, 1, 1, 1, 0]
    assert g(X, np.array([0, 2])).tolist() == [0, 1, 0, 1, 1, 1]
    with pytest.raises(IndexError):
        g(X, np.array([0, 6]))


# ---- what it costs


def test_loop_writes_are_no_instructions():
    def f(x):
        out = np.empty(100)
        for k in range(100):
            out[k] = np.sin(x[k])
        return np.sum(out)

    passes = set(PASSES) - {"reroll"}
    assert len(nt.prepare_gradient_cache(f, np.ones(100), config=nt.Config(passes=tuple(passes))).tape) == 101
    assert len(nt.prepare_gradient_cache(f, np.ones(100)).tape) == 2


def test_a_loop_over_one_entry_does_not_copy_the_array():
    def f(x):
        for _ in range(50):
            x[1] = x[1] * 0.5 + x[0]
        return np.sum(x)

    assert len(nt.prepare_gradient_cache(f, np.ones(1000)).tape) < 110


# ---- attributes and lists


def test_attributes_that_are_assigned_to():
    def shape(x):
        y = x * 1.0
        y.shape = (2, 3)
        y.T.shape = 6

    with pytest.raises(AttributeError, match="Incompatible shape for in-place modification"):
        nt.grad(lambda x: (shape(x), np.sum(x))[1])(X)
    with pytest.raises(ValueError, match="maximum number of dimension"):
        nt.grad(lambda x: (operator.setitem(x, slice(0, 2), [[[x[0], x[1]]]]), np.sum(x))[1])(X)
    with pytest.raises(AttributeError, match="itemset"):
        nt.grad(lambda x: x.itemset(0, 1.0))(X)


def test_lists_of_traced_numbers_are_operands():
    def f(x):
        y = x * list(x)
        y += [1.0, *x[1:]]
        y[:2] *= (x[0], 2.0)
        return np.sum(y)

    expected = 2 * X + 1.0
    expected[0] = 3 * X[0] ** 2 + 1.0
    expected[1] = 4 * X[1] + 2.0
    np.testing.assert_allclose(nt.grad(f)(X), expected, rtol=1e-14)


def test_attributes_of_plain_arrays():
    def f(x):
        y, z = np.zeros((2, 3)), np.zeros(4)
        y.flat[1] = x[0] ** 2
        z.flat = x[:2]
        z.view(float)[3] = x[5]
        assert list(np.ones(2).flat) == [1.0, 1.0]
        return np.sum(y) + np.sum(z * z)

    expected = [4 * X[0] + 2 * X[0], 2 * X[1], 0, 0, 0, 2 * X[5]]
    np.testing.assert_allclose(nt.value_and_grad(f)(X)[0], f(X), rtol=1e-15)
    np.testing.assert_allclose(nt.grad(f)(X), expected, rtol=1e-14)


MEMORY = {
    "structured": lambda: np.zeros(3, [("a", float)])["a"],
    "masked": lambda: np.ma.zeros(3),
    "matrix": lambda: np.matrix(np.zeros((1, 3)))[0],
}


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_other_kinds_of_memory_are_out_of_reach(name):
    make = MEMORY[name]

    def f(x):
        array = make()
        array[..., 0] = x[0]
        return x[1]

    with pytest.raises(nt.UnsupportedOperationError, match=r"in test_other_.*cannot reach.*numbatape\.numpy"):
        nt.grad(f)(X)


def test_what_was_passed_stays_as_it_was_when_the_function_raises():
    def f(x, z, limit):
        x *= 2.0
        z[0] = x[0]
        z.imag[1:] = 7.0
        if x[0] > limit:
            raise RuntimeError("too much")
        return np.sum(x) + np.sum(np.abs(z))

    x, z = X.copy(), X + 1j
    cache = nt.prepare_gradient_cache(f, x, z, 5.0)
    for call in (
        lambda: nt.value_and_gradient(cache, x, z, 0.0),
        lambda: nt.grad(f)(x, z, 0.0),
        lambda: nt.prepare_gradient_cache(f, x, z, 0.0),
        lambda: nt.jvp(f, (x, z, 0.0), (x, z, 0.0)),
    ):
        with pytest.raises(RuntimeError, match="too much"):
            call()
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(z, X + 1j)
    np.testing.assert_allclose(nt.value_and_gradient(cache, x, z, 5.0)[0], f(x.copy(), z.copy(), 5.0))
