"""Loops that are re-rolled while they are recorded: what they compute does not tell."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.tape import builder
from numbatape.tape.rerolling import windows
from tests.loop_programs import LoopProgram

TURNS = 1500
X = np.linspace(0.2, 0.9, 9)


@pytest.fixture
def made(monkeypatch):
    """Let windows be short, and tell how many became of each recording; None where all were given up."""
    found, settled, unroll = [], windows.Windows.settled, builder.TapeBuilder.unroll
    monkeypatch.setattr(builder, "WINDOW", 1000)

    def counted(self, outputs):
        result = settled(self, outputs)
        found.append(len(self._windows) if result else None)
        return result

    def given_up(self):
        if self._windows is not None:
            found.append(None)
        unroll(self)

    monkeypatch.setattr(windows.Windows, "settled", counted)
    monkeypatch.setattr(builder.TapeBuilder, "unroll", given_up)
    return found


def without_windows(function, *args, values="fast"):
    """Return value and gradient by a recording that is re-rolled when it is complete."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "WINDOW", 1 << 30)
        cache = nt.prepare_gradient_cache(function, *args, config=nt.Config(values=values))
    return nt.value_and_gradient(cache, *args)


def terms(x):
    """Numbers that differ from turn to turn, a gather, and two numbers that turns add to."""
    total, other = 0.0, 1.0
    for k in range(TURNS):
        z = (x[k % 7] * 0.3 + 0.001 * k) * x[8]
        total = total + np.sin(z) * x[4] - z * z * 0.5 + z
        other -= 1e-3 * z
    return total * other


def recurrence(x):
    state, total = x[0], 0.0
    for k in range(TURNS):
        state = 0.1 * x[1] + 0.5 * x[2] * state + 0.001 * (k % 5)
        total += np.log(state) * x[3] + x[4] / state
    return total + state


def two_loops(x):
    a, b = 0.0, x[0]
    for k in range(TURNS):
        a += np.exp(-x[k % 5]) * x[2] + 0.1 * k * x[3]
    for k in range(TURNS):
        b += np.cos(x[k % 4] * 0.3) * a - 0.01 * k
    return a * b


@pytest.mark.parametrize("function", [terms, recurrence, two_loops])
def test_windows_stand_for_a_loop(function, made):
    cache = nt.prepare_gradient_cache(function, X)
    assert made[0] is not None and made[0] > 1
    assert len(cache.tape) < 300
    for point in (X, X[::-1].copy()):
        value, (slope,) = nt.value_and_gradient(cache, point)
        wanted, (other,) = without_windows(function, point)
        np.testing.assert_allclose([value, function(point)], wanted, rtol=1e-12)
        np.testing.assert_allclose(slope, other, rtol=1e-11)


def every_partial_sum(x):
    total, seen = 0.0, []
    for k in range(TURNS):
        total += np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2]
        seen.append(total)
    return total + seen[TURNS // 2] * seen[-5]


def a_test_of_the_sum(x):
    total = 0.0
    for _ in range(5 * TURNS):
        total += x[0] * 1.0
    return total if total == np.add.accumulate(np.full(5 * TURNS, x[0]))[-1] else 0.0 * x[0]


def a_step_of_the_sum(x):
    total = 0.0
    for k in range(TURNS):
        total += np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2]
    return total * np.floor(total)


def written_cells(x):
    out = np.zeros(TURNS)
    for k in range(TURNS):
        out[k] = np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2]
    return np.sum(out[::2] * out[1::2])


def an_array_of_results(x):
    found = [np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2] for k in range(TURNS)]
    return np.sum(np.array(found)[::-1] * np.arange(TURNS))


def a_scan_behind_the_loop(x):
    total = 0.0
    for k in range(TURNS):
        total += np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2]
    return nt.scan(lambda c, y: (0.5 * c + y * total, c), x[0], x)[0]


def a_gradient_behind_the_loop(x):
    total = 0.0
    for k in range(TURNS):
        total += np.sin(x[k % 9]) * x[1] + 0.1 * k * x[2]
    return np.sum(nt.grad(lambda y: np.sum(y**3) * total)(x))


def a_loop_that_stays_scalar(x):
    a, b = x[0], x[1]
    for _ in range(TURNS):
        c = a * b
        a, b = a + 0.01 * (x[2] - c * x[3]), b + 0.01 * (c * x[4] - b * x[2])
    return a * b


@pytest.mark.parametrize(
    "function",
    [
        *(every_partial_sum, a_test_of_the_sum, a_step_of_the_sum, written_cells, an_array_of_results),
        *(a_scan_behind_the_loop, a_gradient_behind_the_loop, a_loop_that_stays_scalar),
    ],
)
def test_windows_are_given_up_where_something_needs_what_they_replace(function, made):
    cache = nt.prepare_gradient_cache(function, X)
    assert made and made[-1] is None
    value, (slope,) = nt.value_and_gradient(cache, X)
    wanted, (other,) = without_windows(function, X)
    assert value == wanted
    np.testing.assert_array_equal(slope, other)
    np.testing.assert_allclose(value, function(X), rtol=1e-12)


def test_the_bits_of_numpy_stay(made):
    cache = nt.prepare_gradient_cache(terms, X, config=nt.Config(values="numpy"))
    assert nt.value_and_gradient(cache, X)[0] == terms(X)


@pytest.mark.parametrize("seed", range(300, 308))
def test_a_random_loop(seed, monkeypatch):
    """Every few instructions are a window, whether that is worth it or not."""
    program = LoopProgram(seed)
    f, (x, y, index) = program.function(), program.arguments()
    wanted, (other,) = without_windows(lambda x: f(x, y, index), x)
    monkeypatch.setattr(builder, "WINDOW", 100)
    monkeypatch.setattr(builder, "LOOKS", 7)
    monkeypatch.setattr("numbatape.trace.number_calls.LOOKS", 7)
    monkeypatch.setattr(windows, "SMALL", 1)
    cache = nt.prepare_gradient_cache(lambda x: f(x, y, index), x)
    value, (slope,) = nt.value_and_gradient(cache, x)
    np.testing.assert_allclose(value, wanted, rtol=1e-11)
    np.testing.assert_allclose(slope, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


@pytest.mark.parametrize("shape", [(2, 0), (4, 1), (9, 50)])
def test_packed_columns_are_what_they_were(shape):
    columns = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, shape, np.int32)
    assert (windows.Packed(columns).columns() == columns).all()
