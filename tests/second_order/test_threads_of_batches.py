"""``Config(threads=...)``: blocks of points on several threads, with the same bits as on one."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches import batch
from numbatape.crew import CREW
from numbatape.trace import pytrees

MATRIX = np.random.default_rng(2).normal(size=(12, 12))


def energy(x):
    for _ in range(8):
        x = np.tanh(MATRIX @ x)
    return np.sum(x**2) * x[0]


VERBS = {
    "gradient": lambda config: nt.batch(energy, config=config),
    "Jacobian": lambda config: nt.batch(lambda x: np.stack([energy(x), x[0]]), config=config),
    "values": lambda config: nt.batch(energy, value_only=True, config=config),
    "map": lambda config: nt.vmap(energy, config=config),
    "Hessian": lambda config: nt.vmap(nt.hessian(energy), config=config),
}


@pytest.mark.parametrize("verb", VERBS)
def test_bits_do_not_depend_on_the_number_of_threads(verb, monkeypatch):
    points = [np.random.default_rng(k).normal(size=(700, 12)) for k in range(2)]
    expected = [VERBS[verb](None)(x) for x in points]
    monkeypatch.setattr(batch, "CELLS_A_THREAD", 64)
    counts = []
    together = CREW.together
    monkeypatch.setattr(CREW, "together", lambda tasks: counts.append(len(tasks)) or together(tasks))
    for threads in (2, 3):
        mapped = VERBS[verb](nt.Config(threads=threads))
        for x, result in [(points[0], expected[0]), (points[1], expected[1]), (points[0], expected[0])]:
            pairs = zip(pytrees.leaves(mapped(x)), pytrees.leaves(result), strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs)
        assert counts[-1] == threads  # the last two calls are steady


def test_an_error_in_another_thread():
    mapped = nt.vmap(np.linalg.cholesky, config=nt.Config(threads=2))
    x = np.stack([np.eye(16)] * 600)
    for _ in range(2):
        assert np.array_equal(mapped(x), x)
    x[-1] *= -1
    with pytest.raises(np.linalg.LinAlgError):
        mapped(x)


def test_captured_values_that_change():
    scale = np.ones(1)
    mapped = nt.vmap(lambda x: scale[0] * energy(x), config=nt.Config(threads=2))
    x = np.random.default_rng(0).normal(size=(700, 12))
    first = mapped(x)
    scale[0] = 2.0
    for _ in range(2):
        assert np.array_equal(mapped(x), 2 * first)


def test_data_that_change():
    mapped = nt.batch(lambda x, a: np.sum((MATRIX @ x) * a), config=nt.Config(threads=2))
    x = np.random.default_rng(0).normal(size=(2000, 12))
    for k in (1.0, 1.0, 3.0):
        a = np.full(12, k)
        assert np.array_equal(mapped(x, a)[0], nt.batch(lambda x, a: np.sum((MATRIX @ x) * a))(x, a)[0])


def test_tasks_that_raise_and_tasks_inside_of_tasks():
    def fails():
        raise KeyError("of a task")

    with pytest.raises(KeyError, match="of a task"):
        CREW.together([lambda: 1, fails])
    nested = CREW.together([lambda: 0, lambda: CREW.together([lambda: 1, lambda: 2])])
    assert nested == [0, [1, 2]]


def test_callers_in_several_threads_get_the_results_of_their_own_tasks():
    def called(k: int) -> bool:
        tasks = [lambda j=j: (k, j) for j in range(3)]
        return all(CREW.together(tasks) == [(k, j) for j in range(3)] for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(called, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_process_has_helpers_of_its_own():
    assert CREW.together([lambda: 1, lambda: 2]) == [1, 2]
    child = os.fork()
    if child == 0:
        os._exit(0 if CREW.together([lambda: 3, lambda: 4]) == [3, 4] else 1)
    assert os.waitpid(child, 0)[1] == 0
