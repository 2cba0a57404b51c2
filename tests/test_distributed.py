"""`map_batches` on threads; on a cluster of Dask: tests/integrations/programs/dask_cluster.py."""

import threading

import numpy as np
import pytest

import numbatape as nt
from numbatape.distributed import map_batches, run_pieces


def rows(block):
    return {"sum": block["a"] + block["b"].sum(axis=1), "both": np.stack([block["a"], block["a"]], axis=1)}


@pytest.mark.parametrize("block", [1, 7, 20, 64])
@pytest.mark.parametrize("count", [0, 1, 20, 41])
def test_results_are_in_the_order_of_the_draws(block, count, rng):
    draws = {"a": rng.normal(size=count), "b": rng.normal(size=(count, 3))}
    found, expected = map_batches(rows, draws, block=block), rows(draws)
    np.testing.assert_array_equal(found["sum"], expected["sum"])
    np.testing.assert_array_equal(found["both"], expected["both"])


def test_the_bits_do_not_depend_on_blocks_or_threads(rng):
    def logp(theta):
        return -0.5 * np.sum(theta**2) + np.sum(np.sin(theta)) if theta[0] > 0 else np.sum(np.exp(theta))

    draws = rng.normal(size=(300, 4))
    values, gradients = nt.batch(logp)(draws)
    for block, threads in ((300, 1), (32, 3), (7, 2)):
        found, slopes = map_batches(nt.batch(logp), draws, block=block, threads=threads)
        np.testing.assert_array_equal(found, values)
        np.testing.assert_array_equal(slopes, gradients)


def test_blocks_run_on_several_threads():
    together = threading.Barrier(2, timeout=60)

    def waiting(block):
        together.wait()  # only another thread lets this one go on
        return block

    np.testing.assert_array_equal(map_batches(waiting, np.arange(4.0), block=1, threads=2), np.arange(4.0))


def test_what_is_raised_stops_the_others():
    called = []

    def raising(piece):
        called.append(piece)
        raise ValueError("no such place")

    with pytest.raises(ValueError, match="no such place"):
        list(run_pieces(raising, range(1000), threads=1))
    assert len(called) < 1000


@pytest.mark.parametrize(
    "f, draws, error, message",
    [
        (np.sum, np.ones(4), nt.OutputError, r"a block of 2 draws gave arrays of shapes \(\)"),
        (lambda x: x[:1], np.ones(4), nt.OutputError, "needs 2 rows"),
        (lambda x: x if x[0] else [x], np.arange(4.0), nt.OutputError, "the same structure"),
        (np.sin, 1.0, nt.SpecError, "draws need one row each"),
        (np.sin, [np.ones(2), np.ones(3)], nt.SpecError, r"got \(2,\), \(3,\)"),
    ],
)
def test_what_does_not_fit_is_named(f, draws, error, message):
    with pytest.raises(error, match=message):
        map_batches(f, draws, block=2, threads=1)
    with pytest.raises(ValueError, match="block=0"):
        map_batches(np.sin, np.ones(3), block=0)


def test_without_dask_its_name_and_the_command_are_given(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"the package distributed.*pip install 'dask\[distributed\]'"
    ):
        map_batches(np.sin, np.ones(3), "tcp://127.0.0.1:1")
