"""Positions and truth values as keys of dictionaries, members of sets and arguments of cached functions."""

import collections
import decimal
import functools
from dataclasses import dataclass

import numpy as np
import pytest

import numbatape as nt

TABLE = {0: 1.0, 1: 2.0, 2: 5.0}
POINTS = np.array([[1.5, 0.5, 0.2], [0.5, 1.5, 3.0], [2.5, 1.5, 0.1], [0.5, 1.5, 3.0]])


@functools.lru_cache
def factorial(n):
    return 1.0 if n < 2 else n * factorial(n - 1)


def looked_up(x):
    k = np.argmax(x)
    return x[k] * TABLE[k]


def stored(x):
    squares = {k: x[k] ** 2 for k in np.argsort(x)}
    return squares[0] + 2.0 * squares[1]


def member(x):
    return x[0] if 0 in {*np.argsort(x)[:2]} else 2.0 * x[1]


def truth(x):
    return {True: 3.0 * x[0], False: 5.0 * x[1]}[x[0] > x[1]]


def cached(x):
    return x[0] * factorial(np.argmax(x) + 3)


@pytest.mark.parametrize("f", [looked_up, stored, member, truth, cached])
def test_each_key_has_a_trace(f):
    run = nt.value_and_grad(f)
    for x in POINTS:
        value, slope = run(x)
        assert value == f(x)
        step = 1e-6 * np.eye(3)
        np.testing.assert_allclose(slope, [(f(x + h) - f(x - h)) / 2e-6 for h in step], atol=1e-6)


@pytest.mark.parametrize("k", [np.int64(2), np.uint8(1), np.bool_(True)])
def test_an_argument_is_a_key(k):
    f = lambda x, k: x * TABLE[k]  # noqa: E731
    assert nt.grad(f)(2.0, k) == TABLE[k]
    assert nt.grad(f)(2.0, type(k)(0)) == 1.0


def test_keys_that_are_kept_are_numbers():
    def made():
        log, seen, counts = {}, set(), collections.Counter()

        def f(x):
            k = np.argmax(x)
            log[k] = 2.0 * x[k]
            seen.add(k)
            counts[k, x[0] > 1.0] += 1
            counts.update(np.argsort(x))
            return x[k] * len(log) + len(seen) * x[0] + len(counts)

        return f, log, seen, counts

    f, *state = made()
    g, *expected = made()
    run = nt.value_and_grad(f)
    for x in POINTS:
        assert run(x)[0] == g(x)
        assert repr(state) == repr(expected)


KEYED = {
    "positions": lambda x: {k: x[k] for k in np.argsort(x)},
    "truth values": lambda x: {k: 1.0 for k in x > 1.0},
    "pairs": lambda x: ({(k, "a"): [x[0]] for k in np.argsort(x)}, 3),
    "a counter": lambda x: [collections.Counter((x > 1.0).tolist())],
    "others": lambda x: collections.OrderedDict(
        {np.argmax(x): collections.defaultdict(list, {np.argmin(x): x})}
    ),
    "entries of lists": lambda x: {k: v / 2 for k, v in enumerate(x.astype(int).tolist())},
    "Python's": lambda x: {k: type(k).__name__ for k in np.floor(x).astype(int).tolist()},
    "Python's truth values": lambda x: [(k is True, k) for k in (x > 1.0).tolist()],
}


@pytest.mark.parametrize("name", KEYED)
def test_results_have_numbers_as_keys(name):
    """A dictionary in a result is taken apart in each call, by its keys."""
    f = KEYED[name]
    aux = nt.grad(lambda x: (np.sum(x), f(x)), has_aux=True)
    sub = nt.function(lambda x: f(x))
    for x in (*POINTS, *POINTS):
        assert repr(aux(x)[1]) == repr(f(x))
        if name in ("positions", "truth values"):
            assert repr(nt.vjp(f, x)[0]) == repr(f(x))
            assert nt.grad(lambda x: sum(sub(x).values()))(x).shape == x.shape


def test_a_number_with_a_derivative_is_no_key():
    with pytest.raises(nt.LeakError, match="no key of a dict"):
        nt.grad(lambda x: {1.0: x}[x])(1.0)


class Length(float):
    """A number of a user's class."""


def test_a_number_of_a_users_class_is_one():
    assert nt.grad(lambda x: x * x)(Length(1.5)) == 3.0
    with pytest.raises(TypeError, match="'float' has no len"):
        nt.grad(lambda x: len(x) * x)(Length(1.5))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_scans_stack_matrices():
    carry, ys = nt.scan(lambda c, a: (c + a, c), np.matrix([[1.0]]), np.array([1.0, 2.0]))
    assert carry[0, 0] == 4.0
    np.testing.assert_array_equal(ys, [[[1.0]], [[2.0]]])
    with pytest.raises(TypeError, match=r"nt\.scan: checkpoint must be an integer, got 1\.5"):
        nt.scan(lambda c, a: (c + a, c), 0.0, np.ones(4), checkpoint=1.5)


@dataclass(frozen=True)
class Order:
    """A static argument, equal to others of another number class."""

    power: float


class Rounded(float):
    """A number that shows itself with one digit."""

    def __repr__(self):
        return f"{float(self):.1f}"


def test_static_numbers_of_a_users_class_are_told_apart_by_value():
    slope = nt.grad(lambda x, value: x * value, static_argnums=1)
    assert [slope(1.0, Rounded(value)) for value in (1.01, 1.02, 1.01)] == [1.01, 1.02, 1.01]


# Equal pairs of static values that a function can tell apart.
LOOSE = [
    (0.0, -0.0),
    ((1.0,), (1,)),
    (((True,), "a"), ((1,), "a")),
    (frozenset({1.0}), frozenset({1})),
    (Order(1.0), Order(1)),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
]


@pytest.mark.parametrize("form", ["verb", "cache", "sub-tape"])
@pytest.mark.parametrize(("first", "second"), LOOSE, ids=repr)
def test_equal_statics_are_told_apart(first, second, form):
    assert first == second

    def f(x, value):
        return x * len(repr(value))

    if form == "verb":
        slope = nt.grad(f, static_argnums=1)
    elif form == "cache":
        cache = nt.prepare_gradient_cache(f, 1.0, nt.Static(first))

        def slope(x, value):
            return nt.value_and_gradient(cache, x, nt.Static(value))[1][0]
    else:
        inner = nt.function(f, static_argnums=1)

        def slope(x, value):
            return nt.grad(lambda x: inner(x, value))(x)

    for value in (first, second, first, second):
        assert slope(1.0, value) == len(repr(value))
