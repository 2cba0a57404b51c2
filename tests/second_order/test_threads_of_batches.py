"""``Config(threads=...)``: blocks of points on several threads, with the same bits as on one."""

import ctypes
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches import batch
from numbatape.caches.block_work import Block, BlockWork
from numbatape.engine import crew
from numbatape.engine.strided_copies import copies
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


@pytest.fixture
def jobs(monkeypatch):
    """The jobs that were made, in order."""
    found = []
    made = crew.Job.__init__

    def init(job, *args):
        made(job, *args)
        found.append(job)

    monkeypatch.setattr(crew.Job, "__init__", init)
    monkeypatch.setattr(batch, "CELLS_A_THREAD", 64)
    return found


@pytest.fixture
def general(monkeypatch):
    """The numbers of points of the calls that were not steady."""
    found = []
    run = batch.Batch.run

    def noted(self, flat_at, points, *args, **more):
        found.append(len(points[0]))
        return run(self, flat_at, points, *args, **more)

    monkeypatch.setattr(batch.Batch, "run", noted)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_bits_do_not_depend_on_the_number_of_threads(verb, monkeypatch, jobs, general):
    points = [np.random.default_rng(k).normal(size=(700, 12)) for k in range(2)]
    expected = [VERBS[verb](None)(x) for x in points]
    for threads in (2, 3):
        mapped = VERBS[verb](nt.Config(threads=threads))
        general.clear()
        if threads == 3:  # several times in a call, Python looks for signals
            monkeypatch.setattr(BlockWork, "_step", lambda work: 2)
        for x, result in [(points[0], expected[0]), (points[1], expected[1]), (points[0], expected[0])]:
            pairs = zip(pytrees.leaves(mapped(x)), pytrees.leaves(result), strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs)
        assert general == [700] and jobs[-1].workers == threads


def strided(x):
    return np.repeat(x, 3, axis=1)[:, ::3]


def misaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    view = memory[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
def test_arguments_of_all_kinds(dtype, jobs, general):
    """Numbers that change their kind on the way are copied by Python, and the others without it."""
    x = (4 * np.random.default_rng(0).normal(size=(333, 4))).astype(dtype)
    scale = np.float64(1.5)
    mapped, on_one = (
        nt.vmap(lambda x, a: (x * x * a, np.sum(x)), in_axes=(0, None), config=nt.Config(threads=threads))
        for threads in (2, 1)
    )
    for k, change in enumerate([np.copy, np.asfortranarray, strided, misaligned, np.copy]):
        squares, sums = mapped(change(x), scale * k)
        one = on_one(x, scale * k)
        assert squares.dtype == one[0].dtype and np.array_equal(squares, one[0])
        assert np.array_equal(sums, one[1])
        np.testing.assert_allclose(squares, x * x * scale * k, rtol=1e-6)
    assert general == [333] * 2 and 2 in [job.workers for job in jobs]  # all other calls are steady


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


def block(done) -> tuple[crew.Block, object]:
    """Return a block that calls a function, and what has to live as long."""
    function = crew.PYTHON(done)
    made = crew.Block(0, ctypes.cast(function, ctypes.c_void_p).value, crew.DONE)
    return made, function


def test_a_copy_of_any_strides():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shape = tuple(rng.integers(1, 20, rng.integers(1, 4)).tolist())
        dtype = rng.choice([np.float64, np.float32])
        order = rng.permutation(len(shape))
        source = rng.normal(size=[2 * shape[k] for k in order]).astype(dtype)
        source = source[(slice(None, None, 2),) * len(shape)].transpose(np.argsort(order))
        target = np.zeros(shape, dtype, order=rng.choice(["C", "F"]))
        ends = (1, 0, source.strides), (0, target.ctypes.data, target.strides)
        records = copies(shape, target.itemsize, *ends)
        done, function = block(lambda *_: crew.DONE)
        assert crew.Job([[done._replace(before=records)]], 1, 1, function).serve([source.ctypes.data])
        assert np.array_equal(source, target)
    assert copies((3, 0), 8, (0, 0, (0, 8)), (0, 0, (0, 8))) == []


def test_a_block_that_raises(monkeypatch, jobs):
    mapped = nt.vmap(lambda x: x * x, config=nt.Config(threads=2))
    x = np.arange(4000).reshape(1000, 4)
    for _ in range(2):
        assert np.array_equal(mapped(x), x * x)
    done = Block.done

    def fails(self, given, arrays):
        if self.chosen.start:
            raise KeyError("of a block")
        return done(self, given, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(Block, "done", fails)
        with pytest.raises(KeyError, match="of a block"):
            mapped(x)
    assert np.array_equal(mapped(x), x * x)


def test_callers_in_several_threads_do_their_own_blocks():
    """They share the helpers; a helper that is busy, or that comes too late, is not waited for."""

    def called(k: int) -> bool:
        counts = np.zeros(7, np.int64)

        def done(number, _):
            counts[number] += 1
            time.sleep(1e-4 * (k % 3))
            return crew.DONE

        first, function = block(done)
        lists = [[first._replace(frame=j) for j in range(len(counts))] for _ in range(3)]
        job = crew.Job(lists, 0, 4, function)
        return all(job.serve([]) and (counts == turn).all() for turn in range(1, 30))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(called, range(8)))
    assert crew.CREW.count >= 2


def test_callers_in_several_threads_share_a_batch(jobs):
    """Sizes, branches and memory orders differ between the callers."""

    def branching(x):
        return np.sum(np.exp(-(x**2))) if x[0] > 0.5 else np.sum(np.tanh(x)) * x[0]

    batched = nt.batch(branching, config=nt.Config(threads=3))
    verb = nt.value_and_grad(branching)

    def called(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        for turn in range(12):
            x = rng.normal(size=(int(rng.choice([7, 64, 100, 333])), int(rng.integers(1, 4))))
            if turn % 3:
                x[:, 0] = seed % 2  # all points take one path
            values, gradients = batched(np.asfortranarray(x) if turn % 2 else x)
            for k in rng.integers(len(x), size=3):
                value, gradient = verb(x[k])
                if not np.allclose(values[k], value, 1e-13, 1e-14):
                    return False
                if not np.allclose(gradients[k], gradient, 1e-13, 1e-14):
                    return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(called, range(4)))
    assert max(job.workers for job in jobs) == 3


def test_blocks_that_have_blocks_of_their_own():
    inner, function = block(lambda *_: crew.DONE)
    job = crew.Job([[inner] * 3] * 2, 0, 3, function)

    def other(*_):
        return crew.DONE if crew.Job([[inner] * 2] * 3, 0, 2).serve([]) and job.serve([]) else 0

    outer, its = block(other)
    assert crew.Job([[outer]] * 2, 0, 1, its).serve([])
    failing, its = block(lambda *_: 0)
    assert not crew.Job([[inner, failing, inner]] * 2, 0, 3, its).serve([])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_process_has_helpers_of_its_own():
    mapped = nt.vmap(energy, config=nt.Config(threads=2))
    x = np.random.default_rng(0).normal(size=(4000, 12))
    expected = [mapped(x) for _ in range(3)][-1]
    child = os.fork()
    if child == 0:
        before = crew.CREW.count
        same = [np.array_equal(mapped(x), expected) for _ in range(3)]
        os._exit(0 if before == 0 and crew.CREW.count == 1 and all(same) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_ends_while_helpers_wait():
    text = """
import numpy as np, numbatape as nt, threading
mapped = nt.vmap(lambda x: np.sum(np.exp(x)), config=nt.Config(threads=2))
x = np.zeros((100_000, 4))
for _ in range(4):
    mapped(x)
assert "numbatape" in [thread.name for thread in threading.enumerate()]
print("ended")
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
