"""What a function may do besides computing: nothing of it makes a silently wrong answer."""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import logging
import os
import random
import secrets
import time
import uuid
import warnings

import numpy as np
import pytest
import scipy.stats as st

import numbatape as nt
from numbatape.errors import LeakError, UnsupportedOperationError

X = np.array([1.0, 2.0, 3.0])


def follows(f, *points, gradient=True):
    """Check a cache's values and gradients against the function at points, back and forth, twice."""
    cache = nt.prepare_gradient_cache(f, points[0])
    for x in (*points, *points[::-1], *points):
        given = x.copy()
        value, (grad,) = nt.value_and_gradient(cache, given)
        np.testing.assert_array_equal(given, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        if gradient:
            steps = 1e-6 * np.eye(x.size)
            want = [(f(x + h) - f(x - h)) / 2e-6 for h in steps]
            np.testing.assert_allclose(grad, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(nt.value_and_grad(f)(x)[0], f(x), rtol=1e-13)
    return cache


# ---- exceptions


def test_an_exception_passes_as_it_is_and_leaves_everything_usable():
    error = RuntimeError("mine")

    def f(x):
        x[0] *= 2.0
        if x[1] > 5.0:
            raise error
        return np.sum(x**2)

    cache = nt.prepare_gradient_cache(f, X)
    bad = X * 10.0
    for _ in range(2):
        before = bad.copy()
        with pytest.raises(RuntimeError) as caught:
            nt.value_and_gradient(cache, bad)
        assert caught.value is error
        np.testing.assert_array_equal(bad, before)
        assert nt.value_and_gradient(cache, X.copy())[0] == f(X.copy())


def _factored(name):
    def f(x):
        matrix = np.array([[x[0], 1.0], [1.0, x[1]]])
        try:
            if name == "cholesky":
                return np.sum(np.linalg.cholesky(matrix) ** 3)
            if name == "inv":
                return np.sum(np.linalg.inv(matrix) ** 3)
            return np.sum(np.linalg.solve(matrix, x[:2]) ** 3)
        except np.linalg.LinAlgError:
            return np.sum(x**2)

    return f


@pytest.mark.parametrize("first", ["good", "bad"])
@pytest.mark.parametrize("name", ["cholesky", "inv", "solve"])
def test_a_failing_factorisation_takes_the_users_path_and_back(name, first):
    good = [np.array([2.0, 3.0, 1.0]), np.array([5.0, 4.0, 1.0])]
    bad = [np.array([0.5, 0.25, 1.0]) if name == "cholesky" else np.ones(3), np.array([0.5, 2.0, 4.0])]
    if name == "cholesky":
        bad[1] = np.array([0.5, 0.75, 4.0])
    points = [*good, *bad] if first == "good" else [*bad, *good]
    follows(_factored(name), *points, gradient=name == "cholesky")


def test_an_error_state_that_raises():
    def f(x):
        with np.errstate(all="raise"):
            try:
                return np.sum(np.log(x))
            except FloatingPointError:
                return np.sum(x**2)

    follows(f, X, np.array([0.0, 2.0, 3.0]), gradient=False)


def test_an_exception_that_carries_a_traced_value():
    def f(x):
        try:
            if x[0] > 0.0:
                raise ValueError(x[0] * 2.0)
        except ValueError as error:
            return error.args[0] * np.sum(x)
        return x[1]

    follows(f, X, -X)


# ---- the flow of control


def weights(x):
    for k in range(3):
        if x[k] < 0.0:
            return
        yield np.exp(x[k]) * k


def power(x, n):
    return 1.0 if n == 0 else x * power(x, n - 1)


def bisect(x, low, high):
    middle = (low + high) / 2.0
    if high - low < 0.5:
        return middle * x
    return bisect(x, middle, high) if middle < x else bisect(x, low, middle)


@contextlib.contextmanager
def scaled(x, log):
    log.append("in")
    try:
        yield np.array([x[0], 2.0 * x[1]])
    finally:
        log.append("out")


def _lists(x):
    parts, table = [], {}
    for k, entry in enumerate(x):
        parts.append(entry**2)
        table.setdefault("even" if k % 2 == 0 else "odd", []).append(entry)
    table["all"] = parts[::-1]
    return sum(np.sum(np.array(part)) * (1 + k) for k, part in enumerate(table.values()))


def _early(x):
    for entry in x:
        if entry > 1.5:
            return entry**3
    return np.sum(x)


def _finally(x):
    log = []
    try:
        if x[0] > 1.5:
            return np.sum(x)
        log.append(1)
    finally:
        log.append(2)
    return np.sum(x**2) * len(log)


def _context(x):
    log = []
    with scaled(x, log) as w:
        total = np.sum(w * x[:2])
    return total * len(log)


def _keys(x):
    return {int(x[0]): x[1], 7: x[2] ** 2}.get(2, x[2])


def _match(x):
    match int(x[0]):
        case 1:
            return np.sum(x)
        case _:
            return np.sum(x**2)


FLOWS = {
    "generator": lambda x: sum(weights(x)) * 1.0 + x[0],
    "generator expression": lambda x: sum(w * y for w, y in zip(weights(x), x, strict=False)),
    "recursion": lambda x: power(x[0], 4) + power(x[1], 2),
    "recursion on values": lambda x: bisect(x[0], 0.0, 4.0),
    "lists and dictionaries": _lists,
    "early return": _early,
    "try and finally": _finally,
    "context manager": _context,
    "integer keys": _keys,
    "match": _match,
    "sorted and max": lambda x: sorted(x)[0] * 2.0 + max(x) ** 2 + min(x[1], x[2]),
    "round": lambda x: np.sum(x) * round(float(np.floor(2.0))),
    "any and all": lambda x: np.sum(x) if any(e > 2.5 for e in x) and all(x) else np.sum(x**3),
    "reduce": lambda x: functools.reduce(lambda a, b: a * b, x),
    "unpacking": lambda x: (lambda a, *rest: a * sum(rest))(*x),
    "walrus": lambda x: y * 2.0 if (y := x[0] * x[1]) > 1.0 else y**2,
}


@pytest.mark.parametrize("name", FLOWS)
def test_flow_of_control(name):
    follows(FLOWS[name], X + 0.1, X * 2.1, 0.3 * X[::-1])


# ---- text


TEXTS = {
    "f-string": lambda x: np.sum(x) * len(f"{x[0]:.0f}"),
    "key": lambda x: x[0] * {"1.0": 3.0}.get(f"{x[0]:.1f}", 5.0),
    "str": lambda x: np.sum(x) if str(x[0]) == "1.0" else np.sum(x**2),
    "repr": lambda x: np.sum(x) if repr(x[:1]) == "array([1.])" else np.sum(x**2),
    "format": lambda x: np.sum(x) * float(format(x[0], ".3f")),
    "of a result": lambda x: np.sum(x) * float(f"{np.sum(x**2):.3e}"),
    "percent": lambda x: np.sum(x) * float("%.1f%d" % (x[0], np.sum(x))),  # noqa: UP031
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_the_function_reads(name):
    follows(TEXTS[name], X, 1000.0 * X, gradient=False)


def test_text_that_is_returned():
    def f(x):
        return np.sum(x), f"first {x[0]}"

    for x in (X, 2.0 * X, X):
        assert nt.value_and_grad(f, has_aux=True)(x)[0] == (np.sum(x), f"first {x[0]}")


def test_text_of_constants_holds_for_their_contents():
    def f(x, c):
        return np.sum(x) * len(f"{c[0]:.0f}")

    cache = nt.prepare_gradient_cache(f, X, nt.Constant(np.array([1.0])))
    for c in (1.0, 100.0, 5.0):
        assert nt.value_and_gradient(cache, X, np.array([c]))[0] == f(X, [c])


def test_prints_and_logs_are_no_text_that_matters(capsys, caplog):
    """They show the values of the trace; the tape stays."""

    def f(x):
        print("x", x, np.sum(x))
        logging.getLogger("model").warning("x0 is %s", x[0])
        return np.sum(x**2)

    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, 2.0 * X):
        assert nt.value_and_gradient(cache, x)[0] == np.sum(x**2)
    assert cache.traces == 1
    assert capsys.readouterr().out.startswith("x [1. 2. 3.] 6.0\n")
    assert "x0 is 1.0" in caplog.text


# ---- state


def test_arrays_numbers_and_functions_that_change_later():
    array, scale, power_of = np.ones(3), 2.0, [lambda x: x**2]

    def f(x):
        return np.sum(array * power_of[0](x)) * scale

    cache = nt.prepare_gradient_cache(f, X)
    for change in range(4):
        if change == 1:
            array[1] = 5.0
        elif change == 2:
            scale = 3.0
        elif change == 3:
            power_of[0] = lambda x: x**3
        value, _ = nt.value_and_gradient(cache, X)
        assert value == pytest.approx(f(X))


def _states():
    count = [0]

    def by_list(x):
        count[0] += 1
        return np.sum(x) * count[0]

    def by_default(x, memo=[]):  # noqa: B006  (what is tested)
        memo.append(1)
        return np.sum(x) * len(memo)

    def by_attribute(x):
        by_attribute.calls = getattr(by_attribute, "calls", 0) + 1
        return np.sum(x) * by_attribute.calls

    number = 0

    def by_closure(x):
        nonlocal number
        number += 1
        return np.sum(x) * number

    iterator = iter(range(1, 100))

    def by_iterator(x):
        return np.sum(x) * next(iterator)

    def numbers():
        yield from range(1, 100)

    generator = numbers()

    def by_generator(x):
        return np.sum(x) * next(generator)

    return {f.__name__: f for f in (by_list, by_default, by_attribute, by_closure, by_iterator, by_generator)}


@pytest.mark.parametrize("name", _states())
def test_functions_with_state_run_in_every_call(name):
    cache = nt.prepare_gradient_cache(_states()[name], X)
    first = nt.value_and_gradient(cache, X)[0]
    for k in range(1, 4):
        assert nt.value_and_gradient(cache, X)[0] == first + 6.0 * k


# ---- chance, clocks, files


def _file_read(x):
    with open(__file__) as file:
        return np.sum(x) * len(file.read())


OUTSIDE = {
    "np.random": lambda x: np.sum(x) * np.random.normal(),  # noqa: NPY002
    "default_rng": lambda x: np.sum(x) * np.random.default_rng().normal(),
    "default_rng(None)": lambda x: np.sum(x) * np.random.default_rng(None).normal(),
    "RandomState": lambda x: np.sum(x) * np.random.RandomState().normal(),
    "bit generator": lambda x: np.sum(x) * np.random.Generator(np.random.PCG64()).normal(),
    "rvs": lambda x: np.sum(x) * st.norm.rvs(),
    "rvs of a fresh generator": lambda x: np.sum(x) * st.norm.rvs(random_state=np.random.default_rng()),
    "random": lambda x: np.sum(x) * random.random(),
    "Random": lambda x: np.sum(x) * random.Random().random(),
    "SystemRandom": lambda x: np.sum(x) * random.SystemRandom().random(),
    "urandom": lambda x: np.sum(x) * os.urandom(1)[0],
    "secrets": lambda x: np.sum(x) * secrets.randbelow(9),
    "uuid": lambda x: np.sum(x) * (uuid.uuid4().int % 7),
    "time": lambda x: np.sum(x) * time.time(),
    "perf_counter": lambda x: np.sum(x) * time.perf_counter(),
    "datetime": lambda x: np.sum(x) * datetime.datetime.now().timestamp(),
    "today": lambda x: np.sum(x) * datetime.date.today().day,
    "open": _file_read,
    "loadtxt": lambda x: np.sum(x) * np.loadtxt("numbers.txt").sum(),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_a_tape_would_repeat_raises(name):
    with pytest.raises(
        UnsupportedOperationError, match=r"(random numbers|a clock|a file).* while .* traced.*nt\.Constant"
    ):
        nt.grad(OUTSIDE[name])(X)


def test_generators_held_and_given():
    held, legacy = np.random.default_rng(0), np.random.RandomState(0)
    for f in (lambda x: np.sum(x) * held.normal(), lambda x: np.sum(x) * legacy.normal()):
        with pytest.raises(UnsupportedOperationError, match="draws random numbers"):
            nt.grad(f)(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x) * np.random.default_rng(3).normal(),
        lambda x: np.sum(x) * np.random.RandomState(3).normal(),
        lambda x: np.sum(x) * random.Random(3).random(),
        lambda x: np.sum(x) * st.norm.rvs(random_state=1),
        lambda x: np.sum(x) * datetime.date(2020, 1, 2).day,
        lambda x: np.sum(x) * np.loadtxt(io.StringIO("1 2")).sum(),
        lambda x: np.sum(x) * isinstance(np.random.default_rng(1), np.random.Generator),
    ],
)
def test_what_gives_the_same_every_time_does_not(f):
    follows(f, X, 2.0 * X)


def test_draws_given_as_constants():
    cache = nt.prepare_gradient_cache(lambda x, z: np.sum(x * z), X, nt.Constant(np.ones(3)))
    for seed in range(3):
        z = np.random.default_rng(seed).normal(size=3)
        np.testing.assert_array_equal(nt.value_and_gradient(cache, X, z)[1][0], z)


# ---- what else raises


def test_traced_values_that_would_lose_their_derivative():
    for f, what in (
        (lambda x: {x[0]: 1.0}[x[0]] * x[1], r"hash\(x\)"),
        (lambda x: float(x[0] % 2.0) * x[1], r"float\(x\)"),
    ):
        with pytest.raises(LeakError, match=what):
            nt.grad(f)(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[1] * (2.0 if (0.3).__lt__(x[0]) else 3.0),
        lambda x: x[1] * len(list(filter((0.3).__lt__, x))),
        lambda x: x[1] * (2.0 if float.__eq__(0.5, x[0]) else 3.0),
        lambda x: sum(map((2.0).__mul__, x)),
    ],
)
def test_methods_of_numbers_that_know_no_traced_values(f):
    """They answer ``NotImplemented``, which Python before 3.14 takes for true where it is tested."""
    filters = list(warnings.filters)
    for verb in (nt.grad, nt.hessian):
        with pytest.raises(nt.UnsupportedOperationError, match=r"py:\d+ in .*write the operator"):
            verb(f)(X)
    assert list(warnings.filters) == filters


def test_warnings_settings_of_the_function():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.sum(np.log(x))

    follows(f, X, 2.0 * X)
