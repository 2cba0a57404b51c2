"""Captured arrays take part in a trace: methods, tables, scratch that is written to; they stay the same."""

import functools

import numpy as np
import pytest

import numbatape as nt
from numbatape.trace import aliasing
from tests.every_case import every

X = np.array([1.2, 0.4, 2.6])
MATRIX = np.arange(9.0).reshape(3, 3) + 1.0
TABLE = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
LIST = TABLE.tolist()
VECTOR = np.array([0.5, 1.0, 2.0])
scratch = np.array([7.0, 8.0, 9.0])
rows = np.full((2, 3), 3.0)
complexes = np.ones(3, complex)
held = {"buffer": np.zeros(3), "several": [np.zeros(3)]}
bound = MATRIX.dot

READS = {
    "dot": lambda x: MATRIX.dot(x).sum(),
    "dot of a vector": lambda x: VECTOR.dot(x),
    "dot of a transpose": lambda x: MATRIX.T.dot(x) @ x,
    "dot of a row": lambda x: MATRIX[[0, 1], [1, 2]].dot(x[:2]),
    "bound": lambda x: bound(x).sum(),
    "partial": lambda x: functools.partial(MATRIX.dot)(x).sum(),
    "map": lambda x: sum(map(VECTOR.dot, [x, 2.0 * x])),
    "matmul": lambda x: MATRIX.__matmul__(x) @ (MATRIX @ x),
    "take": lambda x: TABLE.take(np.argsort(x)) @ x,
    "np.take": lambda x: np.take(TABLE, np.argsort(x)) @ x,
    "table": lambda x: np.sum(TABLE[np.floor(x).astype(int)] * x),
    "array of a table": lambda x: np.sum(np.array(TABLE)[np.floor(x).astype(int)] * x),
    "array of a list": lambda x: np.sum(np.array(LIST)[np.floor(x).astype(int)] * x),
    "list": lambda x: LIST[int(x[0])] * x[1],
    "list by argmax": lambda x: LIST[np.argmax(x)] * x[1],
    "slice of a list": lambda x: sum(LIST[np.argmin(x) : np.argmax(x) + 2]) * x[0],
    "entry": lambda x: TABLE[np.argmax(x)] * x[0],
    "row": lambda x: MATRIX[np.argsort(x)][0] @ x,
    "column": lambda x: MATRIX[:, np.floor(x).astype(int)].sum() * x[0],
    "mask": lambda x: TABLE[:3][x > 1.0].sum() * x[0],
    "rows by mask": lambda x: MATRIX[x > 1.0].sum() * x[0],
    "compress": lambda x: VECTOR.compress(x > 1.0).sum() * x[0],
    "searchsorted": lambda x: VECTOR.searchsorted(x).sum() * x[0],
    "choose": lambda x: np.array([0, 1, 1]).choose([x, x * x]).sum(),
    "clip from below": lambda x: VECTOR.clip(min=x).sum(),
    "clip": lambda x: VECTOR.clip(x, x + 0.25).sum(),
    "sum": lambda x: VECTOR.sum(initial=x[0]) * x[1],
    "max": lambda x: VECTOR.max(initial=x[2]) * x[1],
    **{
        f"{name}(where=)": lambda x, name=name: getattr(VECTOR, name)(where=x > 1.0) * x[0]
        for name in ("sum", "mean", "prod", "any", "all", "std", "var")
    },
    "sum over an axis(where=)": lambda x: MATRIX.sum(axis=1, where=x > 1.0) @ x,
    "max(where=)": lambda x: VECTOR.max(where=x > 1.0, initial=x[1]) * x[0],
    "add.reduce(where=)": lambda x: np.add.reduce(VECTOR, where=x > 1.0) * x[0],
    "own sum(where=)": lambda x: (VECTOR * 1.0).sum(where=x > 1.0) * x[0],
    "repeat": lambda x: np.sum(VECTOR.repeat(np.where(x > 1.0, 2, 1)) ** 2) * x[0],
    "np.repeat": lambda x: np.sum(np.repeat(MATRIX, np.argsort(x), axis=0) ** 2) * x[0],
    "repeat of a list of counts": lambda x: np.sum(np.repeat(x, [1, np.argmax(x), 2]) ** 2),
    "nan_to_num": lambda x: np.sum(np.nan_to_num(np.where(VECTOR > 1.0, np.nan, VECTOR), nan=x[0]) * x),
    "operator": lambda x: VECTOR.__add__(x).sum() * VECTOR.__rsub__(x).sum(),
    "cumsum": lambda x: VECTOR.cumsum().dot(x),
    "integers": lambda x: np.sum(np.array([3, 1, 2])[np.argsort(x)] * x),
}


class Model:
    def __init__(self):
        self.buffer = np.zeros(3)

    def assigned(self, x):
        self.buffer[...] = x**2
        return self.buffer @ VECTOR

    def in_place(self, x):
        self.buffer[:] = 0.0
        self.buffer += x
        self.buffer *= x
        return self.buffer.sum()


model = Model()


def whole(x):
    scratch[:] = x**2
    return np.sum(scratch * x)


def parts(x):
    scratch[0] = x[0] * x[1]
    scratch[1:] = x[1:]
    return scratch @ VECTOR


def kept_in_part(x):
    scratch[0] = x[0] ** 2  # the others keep what stands there
    return np.sum(scratch * scratch)


def out(x):
    np.multiply(x, x, out=scratch)
    return np.sum(scratch * VECTOR)


def out_of_product(x):
    np.dot(MATRIX, x, out=scratch)
    MATRIX.dot(scratch * x, out=scratch)
    return scratch.sum()


def loop(x):
    for k in range(3):
        scratch[k] = x[k] * VECTOR[k]
    return scratch.prod()


def in_a_dictionary(x):
    held["buffer"][:] = x * 2.0
    return np.sum(held["buffer"] ** 2)


def in_a_list(x):
    held["several"][0][:] = x * 2.0
    return np.sum(held["several"][0] ** 2)


def read_elsewhere():
    return np.sum(scratch**2)


def by_a_helper(x):
    scratch[:] = x
    return read_elsewhere()


def repeated_positions(x):
    scratch.fill(0.0)
    np.add.at(scratch, [0, 0, 1], x)
    return np.sum(scratch**2)


def copied_to(x):
    np.copyto(scratch, x)
    return scratch.dot(VECTOR * x)


def by_a_view(x):
    rows[1] = x
    first = rows[0]
    first[:] = x * x
    return rows.sum() * x[0]


def of_complex(x):
    complexes[:] = x + 1j * x * x
    return np.sum(np.abs(complexes) ** 2)


WRITES = (
    *(whole, parts, kept_in_part, out, out_of_product, loop, in_a_dictionary, in_a_list, by_a_helper),
    *(repeated_positions, copied_to, by_a_view, of_complex, model.assigned, model.in_place),
)
BUFFERS = (scratch, rows, complexes, held["buffer"], held["several"][0], model.buffer)


@pytest.fixture
def unchanged():
    before = [buffer.tobytes() for buffer in BUFFERS]
    yield
    assert [buffer.tobytes() for buffer in BUFFERS] == before
    assert model.buffer is BUFFERS[-1]


def plainly(f):
    """Return a function that leaves captured arrays as they were, as numbatape does."""

    def call(x):
        before = [buffer.copy() for buffer in BUFFERS]
        try:
            return f(x)
        finally:
            for buffer, its in zip(BUFFERS, before, strict=True):
                buffer[...] = its
            model.buffer = BUFFERS[-1]

    return call


def differences(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2.0 * h) for e in np.eye(len(x))])


@pytest.mark.usefixtures("unchanged")
@every("f", [*READS.values(), *WRITES])
def test_captured_arrays_take_part(f):
    cache, numpy = nt.prepare_gradient_cache(f, X), plainly(f)
    for x in (X, X + 0.01, X[::-1].copy(), X):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, numpy(x), rtol=1e-14)
        np.testing.assert_allclose(gradient, differences(numpy, x), rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "f", [READS["matmul"], READS["table"], whole, out_of_product, by_a_view, model.in_place]
)
def test_captured_arrays_in_nested_verbs(f):
    gradient = nt.grad(f)
    hessian = np.array([differences(lambda x, k=k: gradient(x)[k], X) for k in range(3)])
    np.testing.assert_allclose(nt.hessian(f)(X), hessian, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(nt.grad(lambda x: nt.grad(f)(x) @ VECTOR)(X), hessian @ VECTOR, atol=1e-6)
    points = np.stack([X, X[::-1], X + 0.01])
    np.testing.assert_allclose(nt.batch(f)(points)[1], [gradient(x) for x in points], rtol=1e-13)


def test_captured_arrays_are_watched():
    table, weights = TABLE.copy(), np.ones(3)

    def f(x):
        weights[1:] = x[1:]
        return np.sum(table[np.floor(x).astype(int)] * x * weights)

    g = nt.grad(f)
    first = g(X)
    table[1] = 10.0
    weights[0] = 2.0
    assert first[0] == 1.0 and g(X)[0] == 20.0
    np.testing.assert_array_equal(weights, [2.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_long_captured_arrays_are_compared_with_the_cells_of_their_literals(dtype):
    """So are integers; those of another dtype than the cells are compared with a copy."""
    table = np.arange(5000).astype(dtype)

    def f(x):
        return np.sum((table * x[0] + x[-1]) ** 2)

    cache = nt.prepare_gradient_cache(f, X)
    for k, number in enumerate((-1.0, 7.0, -0.0, 0.0, 4999.0)):
        table[-k] = number
        for size in (3, 3, 7, 3):  # general, steady, of another length, and steady again
            x = np.linspace(0.5, 2.0, size)
            value, (gradient,) = nt.value_and_gradient(cache, x)
            assert value == pytest.approx(f(x), rel=1e-13)
            assert gradient[0] == pytest.approx(np.sum(2.0 * table * (table * x[0] + x[-1])), rel=1e-12)
    space = cache._space
    ((_, known),) = [pair for pair in space.watched[0] if pair[0] is table]
    assert any(np.may_share_memory(known, cells) for cells in space.v) == (dtype != np.float32)


def test_long_captured_integers_that_are_one_number_of_float64_are_told_apart():
    table = np.arange(3001)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(table * x), 1.0)
    for number in (5, 2**53, 4, -(2**53)):
        table[-3] = number
        for _ in range(2):
            np.testing.assert_allclose(nt.value_and_gradient(cache, 0.0)[1], np.sum(table * 1.0), rtol=1e-15)
    table[-3] -= 1
    with pytest.raises(nt.UnsupportedOperationError, match=r"beyond 2\*\*53"):
        nt.value_and_gradient(cache, 0.0)


def test_what_is_written_without_traced_values_stays():
    calls, several = np.zeros(1), [np.zeros(3), np.zeros(3)]

    def f(x):
        calls[0] += 1.0
        several.append(len(several))
        return MATRIX.dot(x) @ x * calls[0]

    cache = nt.prepare_gradient_cache(f, X)
    calls[0], several[2:] = 0.0, []
    for k in range(1, 4):
        assert nt.value_and_gradient(cache, X)[0] == MATRIX.dot(X) @ X * k
    assert calls[0] == 3.0 and several[2:] == [2, 3, 4]


def lent(shape, strides, offset=0):
    """Return an array of memory that a library lends: with gaps, repeats, or backwards."""
    array = np.ndarray(shape, np.float64, bytearray(8 * 40), offset, strides)
    array[...] = np.arange(1.0, array.size + 1).reshape(shape)
    return array


MEMORY = {
    "every other number": lent((4,), (16,)),
    "backwards": lent((4,), (-8,), 64),
    "one row again and again": lent((3, 4), (0, 8)),
    "rows apart": lent((3, 4), (40, 8)),
    "backwards with gaps": lent((3, 4), (-40, 16), 160),
    "axes in another order": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2).copy("K"),
    "a row of axes in another order": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2).copy("K")[1],
}


@pytest.mark.parametrize("array", MEMORY.values(), ids=MEMORY)
def test_memory_of_any_strides(array):
    """Not NumPy's own memory: a tensor's, a memory map's. Views share it, and what is written is scratch."""

    def reads(x):
        view = array[::-1]
        return np.sum(view.dot(x)) + array[..., np.argmax(x)].sum() * x[0] + array.take(np.argsort(x)) @ x

    def writes(x):
        view = array[..., ::-1]
        array[..., 1:3] = x[:2] ** 2
        return np.sum(array * x) + np.sum(view * x)

    x = np.array([0.3, 0.1, 0.7, 0.5])
    before = array.copy()
    for f in (reads, writes):
        expected = f(x)
        array[...] = before
        value, gradient = nt.value_and_grad(f)(x)
        np.testing.assert_allclose(value, expected, rtol=1e-14)
        np.testing.assert_array_equal(array, before)
        for k, direction in enumerate(np.eye(4) * 1e-6):
            difference = f(x + direction)
            array[...] = before
            difference -= f(x - direction)
            array[...] = before
            np.testing.assert_allclose(gradient[k], difference / 2e-6, rtol=1e-7)


def locked():
    table = np.full((3, 3), 0.5)
    table.flags.writeable = False
    return table


TABLES = {
    "the array": lambda table: table,
    "a transpose": lambda table: table.T,
    "a row": lambda table: table[1],
    "every other column": lambda table: table[:, ::2],
}


@pytest.mark.parametrize("view", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    "make", [lambda: np.full((3, 3), 0.5), locked, lambda: MATRIX], ids=["made", "read-only", "captured"]
)
def test_an_array_that_a_loop_uses_is_one_literal(make, view):
    """A view is another object in each turn, but the same memory."""

    def f(x, turns):
        table, total = make(), 0.0
        for _ in range(turns):
            total = total + np.sum(np.abs(view(table) * x[0]) ** 2)
        return total

    few, many = (nt.prepare_gradient_cache(f, X, nt.Static(turns)) for turns in (1, 7))
    sizes = [sum(literal.data.size for literal in cache.tape.literals) for cache in (few, many)]
    assert sizes[0] == sizes[1]
    value, (gradient, _) = nt.value_and_gradient(many, X, 7)
    assert value == pytest.approx(f(X, 7)) and gradient == pytest.approx([2.0 * value / X[0], 0.0, 0.0])


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("lock", [False, True])
def test_what_is_written_to_an_array_between_uses_counts(lock, dtype):
    """Memory that was read-only may be made writeable; memory that was written to may be locked then."""

    def f(x):
        table = np.array([1.0, 2.0, 3.0], dtype)
        table.flags.writeable = not lock
        total = np.sum(np.abs(table * x) ** 2)
        table.flags.writeable = True
        table[0] = 5.0
        table.flags.writeable = lock
        total = total + np.sum(np.abs(table * x) ** 2)
        table.flags.writeable = True
        table[::2] += 1.0
        table.flags.writeable = False
        return total + np.sum(np.abs(table * x) ** 2) + np.sum(np.abs(table[::-1] * x) ** 2)

    value, gradient = nt.value_and_grad(f)(X)
    assert value == pytest.approx(f(X))
    assert gradient @ X == pytest.approx(2.0 * value)  # the function is homogeneous of degree two


def test_read_only_arrays_are_not_compared(monkeypatch):
    def f(x):
        table = locked()
        return table @ (table @ (table.T @ x)) @ x

    expected = nt.value_and_grad(f)(X)
    monkeypatch.setattr(aliasing, "has_bits", None)
    value, gradient = nt.value_and_grad(lambda x: f(x))(X)
    assert value == expected[0] and np.array_equal(gradient, expected[1])
