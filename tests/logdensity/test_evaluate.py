"""Threads and blocks, with a stand-in for the cache; and the progress bar."""

import io
import sys
import threading

import numpy as np
import pytest

from numbatape.logdensity import evaluate as evaluate_module
from numbatape.logdensity import progress
from numbatape.logdensity.evaluate import Worker, evaluate, split
from numbatape.logdensity.exits import ModelError
from numbatape.logdensity.models import Model


class SquareCache:
    """What `Worker` needs of a gradient cache, for sum(theta**2)."""

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def clone(self):
        return SquareCache(self.fail_at)

    def bind(self, theta, out):
        def run():
            if theta[0] == self.fail_at:
                raise ZeroDivisionError("as asked")
            out[0][:] = 2 * theta
            return np.sum(theta**2)

        return run


def one_by_one(theta):
    raise NotImplementedError("not in lanes")


def workers(count, fail_at=None):
    model = Model("m.py", "m.py:logp", one_by_one, (), None, None, "", "")
    first = Worker(model, np.zeros(2), SquareCache(fail_at))
    return [first] + [first.clone() for _ in range(count - 1)]


def run(count, thetas, chunk, missing=None, **options):
    table = np.full((len(thetas), 3), np.nan)
    counts, blocks = [], []
    evaluate(
        workers(count, **options),
        split(missing or [(0, len(thetas))], chunk),
        thetas,
        table,
        counts.append,
        lambda start, stop: blocks.append((start, stop)),
    )
    return table, sum(counts), sorted(blocks)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_every_row_once(count, chunk):
    thetas = np.random.default_rng(0).normal(size=(200, 2))
    thetas[[3, 150], 0] = np.nan, np.inf
    table, counted, blocks = run(count, thetas, chunk)
    expected = np.column_stack([np.sum(thetas**2, axis=1), 2 * thetas])
    expected[[3, 150]] = np.nan
    np.testing.assert_array_equal(table, expected)
    assert counted == 200
    assert blocks == split([(0, 200)], chunk)


def test_only_what_is_missing():
    table, counted, _ = run(2, np.ones((50, 2)), 4, missing=[(5, 11), (40, 50)])
    assert counted == 16
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(table[:, 0])), [*range(5, 11), *range(40, 50)])


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_that_raises_names_the_draw_and_ends_all_threads(count):
    thetas = np.ones((5000, 2))
    thetas[170] = 13
    before = threading.active_count()
    with pytest.raises(ModelError, match=r"m.py:logp at draw 170 failed\n(.|\n)*ZeroDivisionError: as asked"):
        run(count, thetas, 10, fail_at=13)
    assert threading.active_count() == before


def test_no_gradient_cache_where_draws_are_batched(monkeypatch):
    monkeypatch.setattr(evaluate_module, "gradient_cache", None)  # a call would fail
    model = Model("m.py", "m.py:logp", lambda theta: np.sum(theta**2), (), None, None, "", "")
    thetas = np.arange(40.0).reshape(20, 2)
    table = np.full((20, 3), np.nan)
    worker = Worker(model, thetas[0])
    assert not worker.is_worth_threads(list(range(20)), thetas, table)
    worker.fill(list(range(20)), thetas, table)
    np.testing.assert_array_equal(table, np.column_stack([np.sum(thetas**2, axis=1), 2 * thetas]))
    assert not worker.alone


@pytest.mark.parametrize("millis, slice, worth", [(0.0, 512, False), (4.0, 25, True)])
def test_threads_and_slices_follow_the_time_of_a_draw(monkeypatch, millis, slice, worth):
    monkeypatch.setattr(evaluate_module.time, "perf_counter", iter([0, millis / 1e3] * 2).__next__)
    [worker] = workers(1)
    assert worker.is_worth_threads(list(range(10)), np.ones((10, 2)), np.empty((10, 3))) == worth
    assert worker.slice == slice
    assert not worker.alone  # the draws that were tried are evaluated again


@pytest.mark.parametrize(
    "logp, message",
    [(lambda theta: theta[:1], "one real scalar"), (lambda theta: sys.exit(3), "SystemExit: 3")],
)
def test_a_model_that_no_batch_may_take(logp, message):
    model = Model("m.py", "m.py:logp", logp, (), None, None, "", "")
    with pytest.raises(ModelError, match=f"m.py:logp: tracing failed\n(.|\n)*{message}"):
        Worker(model, np.ones(2)).fill([0], np.ones((1, 2)), np.empty((1, 3)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("has_rich", [True, False])
def test_progress_on_a_terminal(monkeypatch, has_rich):
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Progress(10) as bar:
        for _ in range(10):
            bar.advance(1)
    shown = sys.stderr.getvalue()
    assert ("10/10 draws" if not has_rich else "100%") in shown
    assert "\n" in shown  # what comes next starts on a line of its own


def test_progress_is_silent_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0)
    with progress.Progress(10) as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""
