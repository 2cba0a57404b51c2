"""Writes in place: NumPy's value, and the gradient of the same function without writes."""

import copy
import math

import numpy as np
import pytest

import numbatape as nt
import numbatape.numpy as nnp
from tests.every_case import every

W = np.cos(np.arange(1.0, 7.0))
X = np.linspace(0.4, 1.7, 6)
CASES = {}
DEBUG = nt.Config(debug_mode=True, silence_debug_messages=True)


def case(function):
    """Register a function that returns (with writes, without)."""
    CASES[function.__name__] = function()
    return function


def weighted(*parts):
    return sum(np.sum(np.ravel(part) * W[: np.size(part)]) for part in parts)


def stacked(*entries):
    return np.sum(np.stack(entries) * W[: len(entries)])


@case
def assign_entry():
    def f(x):
        y = np.sin(x)
        y[2] = y[0] * y[1]
        y[-1] = 3.0
        return weighted(y**2)

    def g(x):
        y = np.sin(x)
        return stacked(*(v**2 for v in (y[0], y[1], y[0] * y[1], y[3], y[4], 3.0)))

    return f, g


@case
def assign_into_argument():
    def f(x):
        x[0] = x[1] * 2.0
        x *= x[2]
        return weighted(x)

    def g(x):
        return weighted(np.concatenate([x[1:2] * 2.0, x[1:]]) * x[2])

    return f, g


@case
def view_of_slice_is_scaled():  # JAX: v is an array of its own, silently
    def f(x):
        y = x * 1.0
        v = y[2:4]
        v *= 2
        return weighted(y**2)

    return f, lambda x: weighted((x * np.array([1, 1, 2, 2, 1, 1])) ** 2)


@case
def name_of_the_same_array():  # autograd: b is rebound, silently
    def f(x):
        a = np.sin(x)
        b = a
        b *= 2
        return weighted(a**2)

    return f, lambda x: weighted((2 * np.sin(x)) ** 2)


@case
def augmented_whole():
    def f(x):
        r = x * 2.0
        r += x
        r -= 1.0
        r *= r
        r /= 3.0
        r **= 2
        return weighted(r)

    return f, lambda x: weighted(((3 * x - 1.0) ** 2 / 3.0) ** 2)


@case
def overlapping_views():
    def f(x):
        x[1:] += x[:-1]
        x[:-1] = x[1:]
        x[...] = x[::-1]
        return weighted(x**2)

    def g(x):
        y = np.concatenate([x[:1], x[1:] + x[:-1]])
        y = np.concatenate([y[1:], y[-1:]])
        return weighted(y[::-1] ** 2)

    return f, g


@case
def views_of_views():
    def f(x):
        m = (x * 1.0).reshape(2, 3)
        t = m.T
        t[1] *= 3.0
        t[2, 0] = t[0, 1]
        row = m[1, ::-1]
        row[0] += 1.0
        flat = m.ravel()
        flat[0] = 7.0
        return weighted(m * m, t)

    def g(x):
        b, d, e, h = x[1], x[3], x[4], x[5]
        m = np.stack([7.0, 3 * b, d, d, 3 * e, h + 1.0]).reshape(2, 3)
        return weighted(m * m, m.T)

    return f, g


@case
def swap():
    def f(x):
        x[0], x[5] = x[5], x[0]
        x[1], x[2] = x[2], x[1] ** 2
        return weighted(x)

    return f, lambda x: stacked(x[5], x[2], x[1] ** 2, x[3], x[4], x[0])


@case
def swap_rows_as_views():
    def f(x):
        m = (x * 1.0).reshape(3, 2)
        m[0], m[1] = m[1], m[0]  # both rows become the second: NumPy's own trap
        m[[0, 2]] = m[[2, 0]]
        return weighted(m)

    return f, lambda x: stacked(x[4], x[5], x[2], x[3], x[2], x[3])


@case
def recurrence():
    def f(x):
        for i in range(1, len(x)):
            x[i] = x[i - 1] * 0.5
            x[i] += x[i] ** 2
        return weighted(x)

    def g(x):
        entries = [x[0]]
        for _ in range(len(x) - 1):
            y = entries[-1] * 0.5
            entries.append(y + y**2)
        return stacked(*entries)

    return f, g


@case
def into_zeros():
    def f(x):
        n = len(x)
        out = np.zeros(n)
        for i in range(n):
            out[i] = x[i] ** 2
        return weighted(out)

    return f, lambda x: weighted(x**2)


@case
def partly_into_zeros():
    def f(x):
        out = np.ones((2, 3))
        out[0, :2] = x[:2]
        out[1] += x[3:]
        out[1, 1] = out[0, 0]
        return weighted(out, out[:, 1])

    def g(x):
        out = np.stack([x[0], x[1], 1.0, 1.0 + x[3], x[0], 1.0 + x[5]]).reshape(2, 3)
        return weighted(out, out[:, 1])

    return f, g


@case
def accumulate_into_array():
    def f(x):
        acc = np.zeros(3)
        for k in range(2):
            acc += x[3 * k : 3 * k + 3] ** (k + 1)
        return weighted(acc)

    return f, lambda x: weighted(x[:3] + x[3:] ** 2)


@case
def columns():
    def f(x):
        m = np.empty((3, 4))
        for k in range(4):
            m[:, k] = x[:3] * k + x[k]
        m[1:, 1:3] = x[4] * m[:2, :2]
        return weighted(m[:2, :3], m[2, :3])

    def g(x):
        m = np.stack([x[:3] * k + x[k] for k in range(4)], 1)
        block = x[4] * m[:2, :2]
        m = np.concatenate([m[:1], np.concatenate([m[1:, :1], block, m[1:, 3:]], 1)])
        return weighted(m[:2, :3], m[2, :3])

    return f, g


@case
def cholesky_by_hand():
    def f(x):
        A = np.eye(3) * 3.0 + np.outer(x[:3], x[:3])
        L = np.zeros((3, 3))
        for i in range(3):
            for j in range(i + 1):
                s = A[i, j] - L[i, :j] @ L[j, :j]
                L[i, j] = math.sqrt(s) if i == j else s / L[j, j]
        return weighted(L[1:], L[:, 0])

    def g(x):
        L = np.linalg.cholesky(np.eye(3) * 3.0 + np.outer(x[:3], x[:3]))
        return weighted(L[1:], L[:, 0])

    return f, g


@case
def constant_masks_and_positions():
    def f(x):
        x[np.array([True, False, False, True, False, False])] = x[:2] ** 2
        x[[1, 1, 2]] = x[3:]  # the last write stays
        x[np.array([-1, 0])] += 2.0
        return weighted(x)

    return f, lambda x: stacked(x[0] ** 2 + 2.0, x[4], x[5], x[1] ** 2, x[4], x[5] + 2.0)


@case
def traced_masks():
    def f(x):
        y = np.sin(x)
        y[y > 0.8] = x[0]
        y[x < 1.0] *= x[1]
        m = y.reshape(2, 3)
        m[m[:, 0] < 10.0] += 1.0
        return weighted(y)

    def g(x):
        y = np.where(np.sin(x) > 0.8, x[0], np.sin(x))
        return weighted(np.where(x < 1.0, y * x[1], y) + 1.0)

    return f, g


@case
def traced_positions():
    def f(x):
        k = np.argmax(np.sin(3 * x))
        x[k] = x[0] * 2.0
        order = np.argsort(np.cos(5 * x))
        x[order[:2]] += np.array([1.0, 2.0]) * x[1]
        return weighted(x)

    def g(x):
        at = np.arange(6)
        y = np.where(at == np.argmax(np.sin(3 * x)), x[0] * 2.0, x)
        order = np.argsort(np.cos(5 * y))
        return weighted(y + (at == order[0]) * y[1] + (at == order[1]) * 2.0 * y[1])

    return f, g


@case
def add_at():
    def f(x):
        total = np.zeros(3)
        np.add.at(total, [0, 1, 0, 2, 2, 0], x**2)
        np.subtract.at(x, np.array([0, 0, -1]), total)
        np.multiply.at(x, [1, 1], x[2])
        np.add.at(x, np.argsort(total), 1.0)
        return weighted(total, x)

    def g(x):
        s = x**2
        total = np.stack([s[0] + s[2] + s[5], s[1], s[3] + s[4]])
        y = np.concatenate([x[:1] - total[0] - total[1], x[1:2] * x[2] ** 2, x[2:5], x[5:] - total[2]])
        return weighted(total, y + np.array([1.0, 1, 1, 0, 0, 0]))

    return f, g


@case
def out_arguments():
    def f(x):
        out = np.empty(6)
        np.exp(x, out=out)
        np.add(out, x, out)
        np.multiply(out, 2.0, out=out, where=np.arange(6) < 3)
        total = np.zeros(2)
        np.sum(out.reshape(2, 3), axis=1, out=total)
        np.clip(x, 0.6, 1.5, out=x)
        np.cumsum(x, out=out[:])
        np.add.reduce(x[:2], out=total[0, ...])
        return weighted(out, x, total)

    def g(x):
        y = (np.exp(x) + x) * np.array([2.0, 2, 2, 1, 1, 1])
        x = np.clip(x, 0.6, 1.5)
        return weighted(np.cumsum(x), x, np.stack([x[0] + x[1], np.sum(y[3:])]))

    return f, g


@case
def functions_in_place():
    def f(x):
        m = np.zeros((2, 2))
        np.copyto(m, x[:2])
        np.fill_diagonal(m, x[2])
        y = x * 1.0
        np.put(y, [0, -1], x[1:3])
        np.place(y, np.arange(6) % 3 == 1, [x[5]])
        np.putmask(y, np.arange(6) == 2, x**2)
        np.copyto(y, 0.5, where=np.arange(6) == 3)
        np.put_along_axis(m, np.array([[1], [0]]), 2.0 * x[:1], 1)
        z = np.sort(x)[::-1] * np.array([1.0, -1, 1, -1, 1, -1])
        z.sort()
        w = x[:2] * 1.0
        w.fill(x[4])
        return weighted(m, y, z, w)

    def g(x):
        m = np.stack([x[2], 2 * x[0], 2 * x[0], x[2]])
        y = np.stack([x[1], x[5], x[2] ** 2, 0.5, x[5], x[2]])
        z = np.sort(np.sort(x)[::-1] * np.array([1.0, -1, 1, -1, 1, -1]))
        return weighted(m, y, z, np.stack([x[4], x[4]]))

    return f, g


@case
def copies_are_apart():
    def f(x):
        kept = [x.copy(), np.copy(x), np.array(x), x.flatten(), +x, copy.copy(x), copy.deepcopy(x)]
        kept += [x.astype(float), np.conjugate(x), nt.stop_gradient(x), x[[0, 1, 2, 3, 4, 5]]]
        x[:] = 0.0
        return weighted(*kept)

    return f, lambda x: 10.0 * weighted(x) + weighted(nt.stop_gradient(x))


@case
def same_memory_is_shared():
    def f(x):
        names = [np.asarray(x), x.reshape(2, 3), np.ravel(x), x.view(), np.real(x), x.squeeze(), x[None]]
        x[0] = x[1] * 2.0
        np.atleast_2d(x)[0, 2] = 0.0
        return weighted(*names)

    return f, lambda x: 7.0 * stacked(2 * x[1], x[1], 0.0, x[3], x[4], x[5])


@case
def conversions_of_dtype():
    def f(x):
        single = np.zeros(6, np.float32)
        single[:] = x
        counts = np.zeros(2, int)
        counts[0] = np.sum(x > 0.8)
        counts[1] += 2
        flags = np.zeros(6, bool)
        flags[2:] = x[2:] > 0.0
        return weighted(single.astype(float)) * counts[0] + np.sum(np.where(flags, x, 0.0)) * counts[1]

    def g(x):
        return weighted(x.astype(np.float32).astype(float)) * np.sum(x > 0.8) + np.sum(x[2:]) * 2

    return f, g


@case
def plain_arrays_stay_plain():
    def f(x):
        grid = np.arange(6)
        scale = np.full(6, 2.0)
        scale[1] = 3.0
        scale[grid > 3] += 1.0
        half = np.linspace(0, 1, 6)[1:] * 0.5
        assert isinstance(grid, np.ndarray) and float(scale[1]) == 3.0
        assert [int(k) for k in grid] == list(range(6)) and len(scale) == 6 and scale.sum() == 15.0
        assert math.sqrt(scale[4]) == math.sqrt(3.0) and np.linalg.det(np.eye(2)) == 1.0
        out = np.zeros_like(x)
        for k in grid[::-1]:
            out[k] = x[k] * scale[k]
        return weighted(out[grid], half * x[1:])

    def g(x):
        return weighted(x * np.array([2.0, 3, 2, 2, 3, 3]), np.linspace(0, 1, 6)[1:] * 0.5 * x[1:])

    return f, g


@case
def helpers_and_numbatape_numpy():
    class Model:
        def inner(self, x):
            out = nnp.zeros(3)
            out[1] = nnp.sum(x)
            return out

    model = Model()

    def fill(target, x):
        target[0] = x[0]
        return target

    def f(x):
        buffer = np.zeros(3)
        assert fill(buffer, x) is buffer
        return weighted(buffer, model.inner(x))

    return f, lambda x: W[0] * x[0] + W[1] * np.sum(x)


@case
def methods_and_callable_objects():
    class Base:
        def filled(self, x):
            out = np.zeros(3)
            out[: len(x)] = x
            return out

    class Model(Base):
        def __init__(self):
            self.scale, self.calls = 2.0, []

        def filled(self, x):
            return super().filled(x) * self.scale

        def __call__(self, x):
            out = np.zeros(3)
            out[1] = x[1]
            return weighted(out + self.filled(x[:2]))

    model = Model()
    return model, lambda x: stacked(2 * x[0], 3 * x[1]) + 0.0 * helper(model, x)


def helper(model, x):
    return model(x) + np.sum(model.filled(x[:2]))


@case
def control_of_surprises():
    def entries(x):
        for k in range(3):
            yield x[k] * k

    def f(x):
        store, out = {}, np.zeros(4)
        try:
            out[7] = x[0]
        except IndexError:
            out[0] = x[1]
        for k, entry in enumerate(entries(x)):
            store[k] = entry
            out[k] += entry
            if k == 1:
                break
        try:
            return weighted(out) + store[1]
        finally:
            out[:] = 0.0

    return f, lambda x: W[0] * x[1] + W[1] * x[1] + x[1]


@case
def positions_in_integer_arrays():
    def f(x):
        picked = np.empty(3, int)
        k = np.argmax(x)
        first = x[k]
        picked[0] = k
        picked[1] = np.argmin(x)
        picked[2] = picked[1]
        return first * weighted(x[picked])

    return f, lambda x: np.max(x) * stacked(np.max(x), np.min(x), np.min(x))


@case
def read_only_views_follow():
    def f(x):
        m = np.array(x).reshape(2, 3)[:, :2]
        diagonal, wide = np.diagonal(m), np.broadcast_to(m[0], (2, 2))
        m[0] *= x[5]
        m[1, 1] = 2.0
        return weighted(diagonal, wide)

    return f, lambda x: stacked(x[0] * x[5], 2.0) + weighted(np.stack([x[:2], x[:2]]) * x[5])


@every("name", CASES)
def test_against_the_form_without_writes(name):
    f, g = CASES[name]
    value, gradient = nt.value_and_grad(f), nt.grad(g)
    for x in (X, X, X[::-1] * 0.7 + 0.3, X):
        kept = x.copy()
        result, slope = value(x)
        assert (x == kept).all()
        np.testing.assert_allclose(result, f(x.copy()), rtol=1e-12)
        np.testing.assert_allclose(slope, gradient(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["recurrence", "into_zeros", "augmented_whole", "overlapping_views"])
def test_other_sizes(name):
    f, g = CASES[name]
    for n in (6, 3, 1, 5):
        np.testing.assert_allclose(nt.grad(f)(X[:n]), nt.grad(g)(X[:n]), rtol=1e-12)


def test_whole_writes_keep_sizes_symbolic():
    def f(x):
        r = x * 2.0
        r += x
        r[:] = r[::-1] * x
        return np.sum(r)

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    for n in (3, 5, 9):
        nt.value_and_gradient(cache, np.ones(n))
    assert cache.traces == 1


def test_float32_and_debug_mode():
    f, g = CASES["recurrence"]
    x = X[:4].astype(np.float32)
    cache = nt.prepare_gradient_cache(f, x, config=DEBUG)
    _, (gradient,) = nt.value_and_gradient(cache, x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, nt.grad(g)(x), rtol=1e-4)


def written_and_read(plan):
    """Yield (instruction, cells written, cells read), in the order in which they run."""

    def cells(value):
        family, first = plan.cell(value)
        offsets = [np.zeros((1,) * len(plan.shape(value)), int)]
        for axis, (n, stride) in enumerate(zip(plan.shape(value), plan.strides(value), strict=True)):
            shape = [1] * len(plan.shape(value))
            shape[axis] = n
            offsets.append(np.arange(n).reshape(shape) * stride)
        return {(family, first + int(k)) for k in np.ravel(sum(offsets))}

    code = plan.tape.code
    for k in range(len(code)):
        read = [cells(code[name][k]) for name in "abc" if code[name][k] >= 0]
        yield k, cells(code["out"][k]) if code["out"][k] >= 0 else set(), set().union(*read)


@every("name", CASES)
def test_every_cell_is_written_once_and_before_it_is_read(name):
    cache = nt.prepare_gradient_cache(CASES[name][0], X, config=DEBUG)
    nt.value_and_gradient(cache, X)  # each instruction against NumPy
    plan = cache._space.plan
    done: set = set()
    for slot in plan.tape.inputs:
        first = plan.cell(slot.value)[1]
        done |= {(slot.family, first + k) for k in range(X.size)}
    seen = set(done)
    for k, written, read in written_and_read(plan):
        assert not written & seen, f"instruction {k} writes what was read or written"
        seen |= written | read


@pytest.mark.parametrize("values", [-0.5, [-0.5, 1.5], "traced", "mixed"])
@pytest.mark.parametrize("function", [np.place, np.putmask])
@pytest.mark.parametrize("mask", ["constant", "traced"])
def test_masked_writes_of_numbers_into_float32(function, values, mask):
    """NumPy makes arrays of lists and of Python's numbers in the dtype of the target."""

    def f(x):
        y = x * 2.0
        chosen = x > 0.5 if mask == "traced" else np.array([True, False, True])
        given = {"traced": x[0] * 3.0, "mixed": [x[0], -0.5]}[values] if isinstance(values, str) else values
        function(y, chosen, [given] if function is np.place and values == "traced" else given)
        return np.sum(y * y)

    x = np.array([1.0, 0.25, 2.0], np.float32)
    value, gradient = nt.value_and_grad(f)(x)
    assert value == f(x) and type(value) is np.float32
    np.testing.assert_allclose(gradient, nt.grad(f)(x.astype(float)), rtol=1e-6)


def test_read_only_views_are_not_written_to_even_where_nothing_is_selected():
    def f(x):
        diagonal = np.diag(np.diag(x))
        diagonal[x > 9.0] *= 2.0
        return np.sum(diagonal)

    with pytest.raises(ValueError, match="assignment destination is read-only"):
        f(np.ones(2))
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        nt.grad(f)(np.ones(2))


def loop_over_rows(x):
    m = np.ones((len(x), 2)) * np.arange(len(x))[:, None]
    for row in m:
        row *= 2.0
    return x @ m


def loop_over_entries(x):
    m = np.arange(len(x)) * 1.5
    first, *_ = m
    for k, entry in enumerate(m):
        m[-1 - k] = entry * 2.0 + first
    return x * m


def loop_over_entries_with_a_traced_write(x):
    m = np.arange(len(x)) * 1.5
    for k, entry in enumerate(m):
        m[-1 - k] = entry * x[0]
    return m


@every("f", [loop_over_rows, loop_over_entries, loop_over_entries_with_a_traced_write])
def test_loops_write_to_arrays_that_depend_on_sizes_only(f):
    x = np.array([0.3, 0.5, -0.2, 0.7])
    for given in (x, x[:3]):
        np.testing.assert_allclose(nt.jvp(f, (given,), (given,))[0], f(given), rtol=1e-14)


def test_cotangents_of_constants_written_to_traced_arrays_are_in_their_places():
    def f(x):
        kept, made = x[:-1, 1:], np.array([2.0, 0.25])
        made[0] = 0.125 * x[0, 0]
        kept.T[...] = 0.75
        return x, kept, made

    _, pull = nt.vjp(f, np.ones((3, 3)))
    (given,) = pull((np.zeros((3, 3)), np.full((2, 2), 9.0), np.array([8.0, 5.0])))
    np.testing.assert_array_equal(given, np.diag([1.0, 0.0, 0.0]))
