"""Calls that go on in the workspace of another path where a guard stops them: bits, and what ends it."""

from __future__ import annotations

import ctypes
import gc
import itertools
import weakref

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine.continued import _apart
from numbatape.engine.continued_kernels import HEAD, ROW
from numbatape.jit import address
from numbatape.steady_calls import steady

rng = np.random.default_rng(5)
X, Y = rng.normal(size=(400, 4)), rng.normal(size=400)
NARROW = X.astype(np.float32)
SPREAD = X[:4] @ X[:4].T + 4 * np.eye(4)


def fit(b):
    """A product of matrices before the test, some of whose results nothing needs behind it."""
    residual = Y - X @ b
    loss = np.sum(residual * residual)
    return loss if b[0] > 0 else loss + np.sum(b * b)


def narrow(b):
    z = np.tanh(NARROW @ b)
    return np.sum(z) if b[0] > 0 else np.sum(z * z) * b[1]


def many_tests(b):
    total = np.sum(np.tanh(X @ b))
    for value in b:
        total = total + value * value if value > 0 else total - np.sin(value)
    return total


def nested(b):
    if b[0] > 0:
        z = np.exp(X[:9, 0] * b[1])
        return np.sum(z) if b[1] > 0 else np.max(z) + b[0]
    return np.sum(b) if b[2] > 0 else np.sum(np.cumsum(b) * np.sort(b))


def integers(b):
    k = int(np.clip(np.sum(np.abs(b)), 0, 3))
    return np.sum(b**k) + np.sum(np.tanh(X @ b)) * k


def factors(b):
    """What a factorisation keeps for the way back, and a write in between."""
    spread = SPREAD + np.outer(b, b)
    lower = np.linalg.cholesky(spread)
    lower[0, 1] = b[1]
    log = np.sum(np.log(np.diag(lower))) + np.sum(np.linalg.solve(spread, b))
    return log * b[0] if b[0] > 0 else log + lower[2, 1] + lower[0, 1]


def appended(b):
    """Further results of which one has numbers that no sweep writes: nothing else may be copied there."""
    z = np.tanh(X @ b)
    if b[0] > 0:
        return np.sum(z), np.append(z[:3], 7.0)
    return np.sum(z * z), z[:4] * 2


def first_of_all(b):
    return np.sum(b * b) if b[0] > 0 else np.prod(b)


def on_sums(b):
    """Guards that hang on work, so that calls go on behind it."""
    z = np.tanh(X @ b)
    total = np.sum(z)
    for k in range(3):
        z = z * 0.5 if z[k] > 0 else np.sin(z)
        total = total + np.sum(z) if np.sum(z) > 0 else total * b[k]
    return total


def rows(b):
    """A result whose Jacobian is put together of columns, in either order in memory."""
    z = np.tanh(X[:6] @ b)
    z = z * b[0] if b[0] > 0 else np.cumsum(z)
    return np.sort(z) if z[1] > z[2] else z * z


def late(b):
    """One path needs an array behind the test whose cells others have by then on the other path."""
    z = X @ b
    parts = [0.5 * z]
    for _ in range(11):
        parts.append(np.sin(parts[-1]))
    total = sum(one @ other for one, other in zip(parts, parts[::-1], strict=True))
    return total if b[0] > 0 else total + np.sum(z * z)


def third(b):
    """The third path reads what the second one, by which calls come to it, does not."""
    z = X @ b
    if z[0] > 0:
        return np.sum(np.sin(z))
    total = np.sum(np.cos(Y * b[1]))
    if np.sum(b[:2] * Y[:2]) * total > 0:
        return total * b[0]
    return total + np.sum(z * z) if b[2] * total > 0 else total * 2


PROGRAMS = third, fit, narrow, many_tests, nested, integers, factors, appended, first_of_all, on_sums
DIRECTION = np.cos(np.arange(4.0))
# Forward sweeps, in whose workspaces values take the cells of others that nothing needs any more.
FORWARD = {
    "hessian": (nt.hessian, (many_tests, nested, factors)),
    "jvp": (
        lambda f: lambda b: nt.jvp(f, (b,), (DIRECTION.astype(b.dtype),)),
        (narrow, integers, late),
    ),
    "columns": (lambda f: nt.jacobian(f, mode="forward"), (rows,)),
    "rows": (lambda f: nt.jacobian(f, mode="reverse"), (rows,)),
}


def points_of(program):
    signs = np.array([*itertools.product([-1.0, 1.0], repeat=4)])
    points = signs * rng.uniform(0.2, 1.2, size=signs.shape)
    return points.astype(np.float32) if program is narrow else points


@pytest.fixture
def at_once(monkeypatch):
    """Paths are joined when a call has stopped for the second time."""

    class Always:
        def __contains__(self, times):
            return times > (0, 1)

    monkeypatch.setattr(steady, "JOINING", Always())


def bits(result):
    if isinstance(result, tuple):
        return tuple(map(bits, result))
    return np.asarray(result).dtype, np.asarray(result).tobytes()


def gradient_of(program):
    return nt.value_and_grad(program, has_aux=program.__name__ == "appended")


def entries_of(cache):
    (table,) = cache._front._tables.values()
    (entries,) = table._entries.values()
    return entries


def rows_of(entry):
    """Return the rows by which calls go on, as dictionaries."""
    words = entry.space.continued._words
    rows = words[len(HEAD) :].reshape(-1, len(ROW))[: words[HEAD.index("ROWS")]]
    return [dict(zip(ROW, row.tolist(), strict=True)) for row in rows]


@pytest.mark.filterwarnings("ignore::numbatape.RetracingWarning")
@pytest.mark.parametrize(
    ("verb", "program"),
    [
        *((gradient_of, program) for program in PROGRAMS),
        *((verb, program) for verb, programs in FORWARD.values() for program in programs),
    ],
    ids=[
        *(program.__name__ for program in PROGRAMS),
        *(f"{name}-{program.__name__}" for name, (_, programs) in FORWARD.items() for program in programs),
    ],
)
def test_bits_depend_on_no_path_before(verb, program, at_once, monkeypatch):
    points = points_of(program)
    alone = []
    for x in points:
        own = verb(type(program)(program.__code__, program.__globals__))
        alone.append([bits(own(x)) for _ in range(3)][-1])
    missed = []
    again = steady.SteadyCalls.again
    monkeypatch.setattr(steady.SteadyCalls, "again", lambda *a: missed.append(1) or again(*a))
    both = verb(program)
    for x in points:
        both(x)
    for turn in range(40):
        before = len(missed)
        for k in rng.permutation(len(points)):
            assert bits(both(points[k])) == alone[k], (turn, k)
    # All but a few calls have gone on: those are left to Python by and by.
    assert len(missed) - before <= len(points) / 4 or program is appended


def test_what_both_paths_have_in_common_is_computed_once(at_once):
    """The call goes on at the guard, and copies no more than the other path reads from before."""
    table = rng.normal(size=(1000, 20))
    table[0] = 1.0

    def f(b):
        residual = 1.0 - table @ b
        loss = np.sum(residual * residual)
        return loss if residual[0] < 0 else loss + np.sum(b * b)

    cache = nt.prepare_gradient_cache(f, np.ones(20))
    for k in range(20):
        cache.call(np.full(20, (-1.0) ** k))
    entry = next(entry for entry in entries_of(cache) if entry.space.continued is not None)
    (row,) = rows_of(entry)
    assert row["STOP"] == row["MEETS"] == row["START"] == 4  # the guard, which stands behind all of the fit
    copied = np.ctypeslib.as_array((ctypes.c_int64 * (3 * row["ENTER_COUNT"])).from_address(row["ENTER"]))
    assert copied[2::3].sum() < 8 * 1100  # the residual, and not the product
    outcomes = [guard["outcomes"] for guard in cache.guards()]
    assert {True: 11, False: 10} in outcomes  # with the call of its preparation


def test_calls_go_on_behind_beginnings_of_which_not_all_was_copied(at_once, monkeypatch):
    """Each of eight paths, although products that nothing reads behind the first guard are not copied."""
    missed = []
    again = steady.SteadyCalls.again
    monkeypatch.setattr(steady.SteadyCalls, "again", lambda *own: missed.append(1) or again(*own))

    def f(x):
        s = np.sum(np.exp(x) * 0.5)
        for k in range(3):
            z = np.sin(x * (k + 1.0)) * 3.0
            s = s + np.sum(np.cos(z)) if np.sum(z) > 0 else s * 1.5
        return s

    points = rng.normal(size=(60, 700))
    gradient = nt.grad(f)
    alone = [bits(nt.grad(type(f)(f.__code__, f.__globals__))(x)) for x in points]
    for _ in range(12):
        before = len(missed)
        for x, its in zip(points, alone, strict=True):
            assert bits(gradient(x)) == its
    assert len(missed) - before <= 4


def test_paths_of_sizes_that_take_turns_are_joined_too(at_once, monkeypatch):
    """One builtin serves all paths of its sizes, whichever sizes came before, and is asked first."""
    searched = []
    search = steady.SteadyCalls.served_by_builtin
    monkeypatch.setattr(
        steady.SteadyCalls, "served_by_builtin", lambda *own: searched.append(1) or search(*own)
    )

    def f(x):
        s = np.sum(np.exp(x))
        return s if x[0] > 0 else s * s if x[1] > 0 else np.log(s)

    for verb in (nt.grad, nt.hessian):
        derivative = verb(f)
        signs = np.array([1.0, 1.0]), np.array([-1.0, 1.0]), np.array([-1.0, -1.0])
        calls = [np.append(sign, np.full(n, 0.1)) for n in (1, 2, 3) for sign in signs]
        expected = [bits(verb(type(f)(f.__code__, f.__globals__))(x)) for x in calls]
        for turn in range(30):
            before = len(searched)
            for k in (0, 3, 6, 1, 4, 7, 2, 5, 8, 1, 6, 5):
                assert bits(derivative(calls[k])) == expected[k], (turn, k)
        assert len(searched) - before <= 2


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_names_and_arrays_of_the_other_path_are_compared(sign, at_once):
    weights, scale, shown = rng.normal(size=(5, 4)), 2.0, rng.normal(size=4)

    def f(b):
        z = np.tanh(X @ b)
        return np.sum(z) if sign * b[0] > 0 else np.sum(weights @ b) * scale * np.sum(z)

    def slope(b):
        z = np.tanh(X @ b)
        if sign * b[0] > 0:
            return X.T @ (1 - z * z)
        return scale * (weights.sum(0) * np.sum(z) + np.sum(weights @ b) * (X.T @ (1 - z * z)))

    gradient = nt.grad(f)
    for k in range(60):
        if k == 20:
            weights[2] = 9.0
        if k == 30:
            scale = 3.0
        if k == 40:
            weights = weights + 1.0
        for x in (shown, -shown):
            np.testing.assert_allclose(gradient(x), slope(x), rtol=1e-12)


def test_constants_of_both_paths_are_those_of_the_call(at_once):
    def f(b, data):
        s = np.sum(np.exp(b * data))
        return s if b[0] > 0 else s * s

    gradient, shown = nt.grad(f), np.linspace(0.1, 0.4, 4)
    data = [rng.normal(size=4) for _ in range(3)]
    for k in range(90):
        its = data[k // 15 % 3] if k < 45 else data[k % 3]
        for x in (shown, -shown):
            e = np.exp(x * its)
            expected = its * e * (1.0 if x[0] > 0 else 2 * e.sum())
            np.testing.assert_allclose(gradient(x, its), expected, rtol=1e-12)


def test_errors_behind_the_guard_are_those_of_numpy(at_once):
    def f(b):
        s = np.sum(np.exp(b))
        return s if b[0] > 0 else s * np.linalg.cholesky(np.eye(2) * b[1])[0, 0]

    gradient = nt.grad(f)
    for _ in range(12):
        np.testing.assert_allclose(gradient(np.array([1.0, 2.0])), np.exp([1.0, 2.0]))
        np.testing.assert_allclose(gradient(np.array([-1.0, 4.0]))[0], 2 * np.exp(-1.0))
        with pytest.raises(np.linalg.LinAlgError):
            gradient(np.array([-1.0, -4.0]))


def test_joined_paths_are_freed_at_once_and_part_with_their_workspaces(at_once):
    def f(b):
        return np.sum(b * b) if np.sum(b) > 0 else np.prod(b)

    cache = nt.prepare_gradient_cache(f, np.ones(4))
    shown = np.array([0.5, 1.0, 2.0, 3.0])
    expected = {sign: cache.call(sign * shown)[1][0].tobytes() for sign in (1.0, -1.0)}
    for k in range(12):
        cache.call((-1.0) ** k * shown)
    entry, other = sorted(entries_of(cache), key=lambda entry: entry.space.continued is None)
    assert [row["OPEN"] > 0 for row in rows_of(entry)] == [True]
    other.retire()
    assert [row["OPEN"] for row in rows_of(entry)] == [0]
    for k in range(12):
        sign = (-1.0) ** k
        assert cache.call(sign * shown)[1][0].tobytes() == expected[sign]
    spaces = [weakref.ref(space) for space in cache._evaluator._workspaces.values()]
    gc.disable()
    try:
        del cache, entry, other
        assert all(space() is None for space in spaces)
    finally:
        gc.enable()


def test_results_change_places_at_once():
    """Adjoints of two workspaces may have the same memory: none is overwritten before it was read."""
    cells = np.arange(6.0)
    first = address(cells)
    rows, between = _apart([(first, first + 16, 32), (first + 32, first, 16)])
    for row in rows:
        ctypes.memmove(*row)
    assert cells.tolist() == [2.0, 3.0, 4.0, 5.0, 0.0, 1.0] and between.nbytes == 48
    rows, _ = _apart([(first, first + 16, 16), (first + 32, first + 16, 16)])
    assert len(rows) == 2
