"""Products read data where callers have them: results follow what the arrays contain."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import segments
from numbatape.engine.strips.strip_rows import LEAST, STRIP
from numbatape.steady_calls.entry import Entry

RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(64, 40))
X = RNG.normal(size=40)


def transposed(x, m):
    return np.sum(np.tanh(m.T @ np.sin(m @ x)) * x)


def part(x, m):
    return np.sum((m[3:50, 5:] @ x[5:]) ** 2) + np.sum(np.exp(-(x[:20] @ m[:20, ::2])))


def stack(x, m):
    return np.sum(np.cos(m.reshape(4, 16, 40) @ x)) + np.sum(np.sin(m.reshape(8, 8, 40) @ x.reshape(40, 1)))


def matrices(x, m):
    return np.sum(np.tanh(m @ np.outer(x, x[:7])) @ np.ones(7) * x[0])


def branch(x, m):
    return np.sum((m @ x) ** 2) if x[0] > 0.0 else np.sum(m @ x)


PRODUCTS = {
    "vector": lambda x, m: np.sum(np.log1p((m @ x) ** 2)),
    "from the left": lambda x, m: np.sum(np.sin(np.outer(x, x)[:9] @ m.T)),
    **{f.__name__: f for f in (transposed, part, stack, matrices, branch)},
}
OTHERS = {
    "other instructions": lambda x, m: np.sum(m @ x) + np.sum(np.exp(x * m)),
    "computed once": lambda x, m: np.sum((np.exp(-np.abs(m)) @ x) ** 2),
    "both": lambda x, m: np.sum((np.sqrt(np.abs(m)) @ x) * (m @ x)),
    "a test": lambda x, m: np.sum((m @ x) ** 2) if m[0, 0] > 0.0 else np.sum(m @ x),
    "a test of a product": lambda x, m: np.sum(m @ x) if (m @ np.ones(40))[0] > 0.0 else np.sum((m @ x) ** 3),
    "entries": lambda x, m: np.sum(m @ x) * m[1, 2] + x[np.argmax(m[0])],
    "an output": lambda x, m: (np.sum(m @ x), m),
}
EVERY = PRODUCTS | OTHERS


def changed(m, k):
    """Return data for the k-th call: in the same memory, elsewhere, in other orders."""
    m[...] = DATA * (1.0 + k) * (-1.0) ** (k // 2)
    m[k, 0] = np.nan if k == 3 else k
    strided = np.zeros((64, 80))[:, ::2]
    strided[...] = m
    return (m, m, m + 0.5, np.asfortranarray(m), strided, m, m.copy())[k % 7]


@pytest.mark.parametrize("name", EVERY)
def test_results_follow_the_data(name):
    f, m = EVERY[name], DATA.copy()
    aux = name == "an output"
    verb = nt.value_and_grad(f, has_aux=aux)
    cache = nt.prepare_gradient_cache(f, X, nt.Constant(m)) if not aux else None
    for k in range(14):
        x, data = X + 0.1 * k - 0.3 * (k % 3), changed(m, k)
        expected = nt.value_and_grad(lambda x, m: f(x, m), has_aux=aux)(x, data.copy())
        for _ in range(2):
            found = verb(x, data)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-11)
            if aux:
                np.testing.assert_array_equal(found[0][1], data)
            else:
                np.testing.assert_allclose(found[0], expected[0], rtol=1e-11)
                np.testing.assert_allclose(nt.value_and_gradient(cache, x, data)[1][0], found[1], rtol=1e-11)


@pytest.mark.parametrize("name", PRODUCTS)
def test_nothing_is_compared_or_copied_for_products(name, monkeypatch):
    f, m = PRODUCTS[name], DATA.copy()
    verb = nt.grad(f)
    verb(X, m), verb(X, m)
    expected = nt.grad(lambda x, m: f(x, m))(X, 2.0 * m)
    monkeypatch.setattr(Entry, "serve", None)
    m *= 2.0
    np.testing.assert_allclose(verb(X, m), expected, rtol=1e-11)
    np.testing.assert_allclose(verb(X, m.copy()), expected, rtol=1e-11)


TALL = RNG.normal(size=(LEAST + STRIP + 3, 4))
OF_TALL = {
    "vector": lambda x, m: np.sum(np.log1p((m @ x[:4] - x[4:]) ** 2)),
    "from the left": lambda x, m: np.sum(np.log1p((x[:4] @ m.T - x[4:]) ** 2)),
    "twice": lambda x, m: np.sum(np.exp(-((m @ x[:4]) ** 2)) * np.sin(m @ x[1:5])) * x[9],
    "sums": lambda x, m: np.sum(np.cos(x[4:] @ m) * x[:4]) + np.sum(np.sin(x[4:])),
    "a part": lambda x, m: np.sum(np.tanh(m[3:, 1:] @ x[:3]) ** 2) + np.sum((m @ x[:4]) ** 2),
}


def of_tall(m):
    return lambda x: np.sum(np.exp(m @ x[:4] - 2.0) * x[4:]) + np.sum((np.sin(x[4:]) @ m) ** 2)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", OF_TALL)
def test_strips_read_data_where_they_are(name, pieces, monkeypatch):
    """Blocks are cut into pieces, and copy the argument strip by strip, in the same frame."""
    if pieces > 1:
        monkeypatch.setattr(segments, "MOST", 12 * len(TALL) // pieces)
    m, x = TALL.copy(), 0.3 * RNG.normal(size=4 + len(TALL))
    verb, captured = nt.grad(lambda x, m: OF_TALL[name](x, m)), nt.grad(of_tall(m))
    np.testing.assert_array_equal(verb(x, m), verb(x, m))
    np.testing.assert_array_equal(captured(x), captured(x))
    if pieces == 1:
        monkeypatch.setattr(Entry, "serve", None)
    m *= 2.0
    for found in (verb(x + 0.1, m), verb(x + 0.1, m.copy())):
        np.testing.assert_array_equal(found, nt.grad(lambda x, m: OF_TALL[name](x, m))(x + 0.1, m.copy()))
    np.testing.assert_array_equal(captured(x + 0.1), nt.grad(of_tall(m.copy()))(x + 0.1))


def test_gradients_that_are_the_data_of_the_next_call():
    """Under ``reuse_buffers`` they lie where the sweep writes the next gradient."""

    def f(w, m):
        return np.sum(np.tanh(w @ m.T) ** 2)

    w = DATA[:48]
    cache = nt.prepare_gradient_cache(f, w, nt.Constant(w), config=nt.Config(reuse_buffers=True))
    data = w
    for _ in range(4):
        expected = nt.grad(lambda w, m: f(w, m))(w, data.copy())
        (data,) = nt.value_and_gradient(cache, w, data)[1][:1]
        np.testing.assert_allclose(data, expected, rtol=1e-11)


# ---- captured arrays: what each maker returns refers to the array that it is given


def one_product(m):
    return lambda x: np.sum((m @ x - 1.0) ** 2)


def products(m):
    def f(x):
        z = np.tanh(m @ np.exp(x / 2.0))
        return np.sum(z @ m * x) if x[0] > -5.0 else x[0]

    return f


def of_a_helper_alone(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x)) * x[0]

    return lambda x: np.sum(x * x) * (1.0 + helper(2.0 * x))


def helped(x, a, scale=1.0):
    return scale * np.sum(2.0 + np.cos(a @ x)) / a.shape[0] * x[0]


def given(m):
    return lambda x: np.sum(x) + helped(x, m)


def handed_on(m):
    def between(a, factor, z):
        return helped(z, a, factor) + factor

    return lambda x: np.sum(x) + between(m, 3.0, np.sin(x))


def by_functions(m):
    return lambda x: np.sum(2.0 + np.cos(np.dot(m, x))) + np.sum(np.matmul(x[:40], m[:40]) * x)


def by_dot(m):
    return lambda x: np.sum(2.0 + np.cos(np.dot(m, x))) * np.sum(np.matmul(m, 2.0 * x) ** 2)


CAPTURED = {f.__name__: f for f in (one_product, products, of_a_helper_alone, given, handed_on, by_dot)}


# And what must be compared, because code does something else with the array, or may do it with plain numbers.
ONES = np.ones(40)


def helper_twice(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    return lambda x: helper(x) * helper(ONES)


def helper_in_a_loop(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    def f(x):
        total = x[0]
        for z in (ONES, x):
            total = total * helper(z)
        return total

    return f


def helper_by_another_name(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    def f(x):
        again = helper
        return again(x) * again(ONES)

    return f


def helper_mapped(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    return lambda x: np.prod(np.stack([*map(helper, (x, 2.0 * x))])) + max(map(float, (m @ ONES)[:2])) * x[0]


def helper_of_two(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    def other():
        return helper(ONES)

    return lambda x: helper(x) * other()


def helper_wrapped(m):
    def twice(function):
        return lambda x: function(x) * function(ONES)

    def helper(x):
        return np.sum(2.0 + np.cos(m @ x))

    helper = twice(helper)
    return lambda x: helper(x)


def given_twice(m):
    return lambda x: helped(x, m) * helped(ONES, m)


def given_two_places(m):
    def helper(x, a, b):
        return np.sum(2.0 + np.cos(a @ x)) * np.sum(b @ ONES)

    return lambda x: helper(x, m, m)


def given_and_read(m):
    def helper(x, a):
        return np.sum(2.0 + np.cos(a @ x)) * a[1, 1]

    return lambda x: helper(x, m)


def given_by_keyword(m):
    def helper(x, b, a):
        return np.sum(2.0 + np.cos(a @ x)) * np.sum(b @ ONES)

    return lambda x: helper(x, a=DATA, b=m)


def given_among_others(m):
    def helper(x, a, b):
        return np.sum(2.0 + np.cos(a @ x)) * np.sum(b @ ONES)

    return lambda x: helper(x, DATA, m)


def given_and_named(m):
    def helper(x, a):
        b = a
        return np.sum(2.0 + np.cos(a @ x)) * np.sum(b @ ONES)

    return lambda x: helper(x, m)


def dot_of_plain(m):
    return lambda x: np.sum(2.0 + np.cos(np.dot(m, x))) * np.sum(np.dot(m, ONES))


def dot_of_both(m):
    def dot(a, z):
        return np.dot(a, z) * np.sum(a @ ONES)

    return lambda x: np.sum(dot(m, x))


def dot_or_norm(m):
    return lambda x: np.sum(2.0 + np.cos(m @ x)) * np.linalg.norm(m)


def given_plain_in_a_loop(m):
    def helper(x, a):
        return x[0] * sum(float(np.sum(2.0 + np.cos(a @ z))) for z in (ONES, 2.0 * ONES)) + np.sum(a @ x)

    return lambda x: helper(x, m)


def plain_factor(m):
    c = np.linspace(0.0, 1.0, 40)
    return lambda x: np.sum(m @ x) * np.sum(m @ c)


def plain_in_one_turn(m):
    def f(x):
        total = 0.0
        for z in (np.ones(40), x):
            total = total + np.sum((m @ z) ** 2)
        return total

    return f


def by_another_name(m):
    def f(x, again=m):
        return np.sum(m @ x) * np.log(np.sum(again * again))

    return f


def of_a_list(m):
    held = [m]
    return lambda x: np.sum((m @ x) ** 2) * held[0][0, 1]


def of_a_helper(m):
    def helper(x):
        return np.sum(2.0 + np.cos(m @ x)) * m[1, 1]

    return lambda x: np.sum((m @ x) ** 2) + helper(x)


def of_a_view(m):
    row = m[1]
    return lambda x: np.sum((m @ x) ** 2) * np.exp(row[2])


def inside(m):
    def f(x):
        return np.sum((m @ x) ** 2) + sum(float(part[0]) for part in m) * x[1]

    return f


def again(m):
    def f(x, depth=2):
        z = x if depth else np.ones(40)
        value = np.sum((m @ z) ** 2)
        return value + (f(x, depth - 1) if depth else 0.0)

    return f


def steering(m):
    def f(x):
        if m[0, 0] > 0.0:
            return np.sum(m @ x)
        return np.sum((m @ x) ** 2)

    return f


def object_of_the_users(m):
    class Held:
        def __init__(self):
            self.data = m

        def norm(self):
            return np.sum(self.data**2)

    held = Held()
    return lambda x: np.sum((m @ x) ** 2) * held.norm()


HELPERS = (
    helper_twice,
    helper_in_a_loop,
    helper_by_another_name,
    helper_mapped,
    helper_wrapped,
    helper_of_two,
)
GIVEN = (
    *(given_twice, given_two_places, given_and_read, given_by_keyword, given_among_others, given_and_named),
    *(given_plain_in_a_loop, dot_of_plain, dot_of_both, dot_or_norm, by_functions),
)
PLAIN_TOO = (
    *HELPERS,
    *GIVEN,
    plain_factor,
    plain_in_one_turn,
    by_another_name,
    of_a_list,
    of_a_helper,
    of_a_view,
    inside,
)
ALL_CAPTURED = CAPTURED | {f.__name__: f for f in (*PLAIN_TOO, again, steering, object_of_the_users)}


@pytest.mark.parametrize("name", ALL_CAPTURED)
def test_results_follow_captured_data(name):
    m = DATA.copy()
    f = ALL_CAPTURED[name](m)
    verb, cache = nt.value_and_grad(f), nt.prepare_gradient_cache(f, X)
    for k in range(8):
        m[...] = DATA * (1.0 + k) * (-1.0) ** (k // 2)
        m[k, 1] = np.nan if k == 3 else k
        x = X + 0.1 * k
        expected = nt.value_and_grad(ALL_CAPTURED[name](m.copy()))(x)
        np.testing.assert_allclose(expected[0], f(x), rtol=1e-12)
        for _ in range(2):
            found, prepared = verb(x), nt.value_and_gradient(cache, x)
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-11)
            np.testing.assert_allclose(prepared[1][0], expected[1], rtol=1e-11)


@pytest.mark.parametrize("name", CAPTURED)
def test_nothing_is_compared_or_traced_for_captured_factors(name, monkeypatch):
    nt.clear_caches()  # functions of the same code would share traces
    m = DATA.copy()
    verb = nt.grad(CAPTURED[name](m))
    verb(X), verb(X)
    m *= 2.0
    expected = nt.grad(CAPTURED[name](m.copy()))(X)
    monkeypatch.setattr(Entry, "serve", None)
    np.testing.assert_allclose(verb(X), expected, rtol=1e-11)


def test_other_memory_of_a_captured_factor_is_noticed():
    m = DATA.copy()
    f = one_product(m)
    verb, hessian = nt.grad(f), nt.hessian(f)
    verb(X), verb(X)

    def check(x):
        np.testing.assert_allclose(verb(x), 2.0 * m.T @ (m @ x - 1.0), rtol=1e-11)
        np.testing.assert_allclose(hessian(x), 2.0 * m.T @ m, rtol=1e-10, atol=1e-10)

    m *= 3.0
    check(X)
    m.shape = 40, 64
    check(np.ones(64))
    check(np.arange(64.0))
    m.resize((16, 40), refcheck=False)
    m[...] = DATA[:16]
    check(X)
    check(X)


def test_constants_of_a_preparation_are_read_where_they_were(monkeypatch):
    m = DATA.copy()
    cache = nt.prepare_gradient_cache(PRODUCTS["vector"], X, nt.Constant(m))
    nt.value_and_gradient(cache, X)
    nt.value_and_gradient(cache, X)
    m *= 2.0
    expected = nt.grad(lambda x, m: PRODUCTS["vector"](x, m))(X, m.copy())
    monkeypatch.setattr(Entry, "serve", None)
    np.testing.assert_allclose(nt.value_and_gradient(cache, X)[1][0], expected, rtol=1e-11)


def test_rows_of_which_a_pass_has_made_one_matrix():
    """The stack holds for the contents of all rows; one of them stays an array of its own beside it."""
    count, n = 30, 2100
    rows = {f"m{k}": RNG.normal(size=(1, n)) for k in range(count)}
    sums = " + ".join(f"np.sum(np.tanh(m{k} @ x))" for k in range(count))
    text = f"def made({', '.join(rows)}):\n    return lambda x: {sums} + np.sum((x[:1] @ m1) ** 2)"
    scope: dict = {"np": np}
    exec(compile(text, __file__, "exec"), scope)
    verb, x = nt.value_and_grad(scope["made"](**rows)), 0.1 * RNG.normal(size=n)
    for scale in (1.0, 2.0, -1.0):
        rows["m1"] *= scale
        expected = nt.value_and_grad(scope["made"](**{name: row.copy() for name, row in rows.items()}))(x)
        for _ in range(2):
            value, slope = verb(x)
            np.testing.assert_allclose(value, expected[0], rtol=1e-12)
            np.testing.assert_allclose(slope, expected[1], rtol=1e-10)
