"""Evaluate a log-density and its gradient over a matrix of points, on threads."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from numbatape.logdensity.exits import running_model
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model

SLICE = 512  # at most this many draws between two looks at the stop flag and two reports of progress
SLICE_SECONDS = 0.1
# Seconds a call must take: shorter ones are mostly Python, which one thread runs as fast as several.
WORTH_A_THREAD = 50e-6
Block = tuple[int, int]


class Worker:
    """A cache with its own buffers; each thread has a worker.

    Attributes
    ----------
    alone
        How many draws were evaluated one by one, by the error that `nt.batch` raised for them.
    """

    def __init__(self, model: Model, cache: Any, theta: Matrix) -> None:
        import numbatape as nt

        self.label = model.label
        self.cache = cache
        self.theta = theta.copy()  # binding evaluates the model, so it needs a point at which the model works
        self.gradient = np.empty(theta.size)
        self.run = cache.bind(self.theta, out=(self.gradient, *(None for _ in model.arguments)))
        self.batched = nt.batch(model.logp)
        self.constants = [nt.Constant(value, frozen=True) for value in model.arguments]
        self.slice = SLICE
        self.alone: Counter[str] = Counter()

    @classmethod
    def prepare(cls, model: Model, theta: Matrix) -> Worker:
        """Trace the model's log-density at `theta`."""
        import numbatape as nt

        constants = [nt.Constant(value, frozen=True) for value in model.arguments]
        with running_model(f"{model.label}: tracing"), np.errstate(all="ignore"):
            cache = nt.prepare_gradient_cache(
                model.logp, theta, *constants, config=nt.Config(reuse_buffers=True)
            )
            return cls(model, cache, theta)

    def clone(self, model: Model) -> Worker:
        """Return a worker for another thread."""
        made = Worker(model, self.cache.clone(), self.theta)
        made.slice = self.slice
        return made

    def seconds_a_call(self, theta: Matrix) -> float:
        """Return the time of the second of two calls, because the first one may load kernels."""
        with running_model(f"{self.label}: first evaluation"), np.errstate(all="ignore"):
            self.theta[:] = theta
            self.run()
            started = time.perf_counter()
            self.run()
        seconds = time.perf_counter() - started
        self.slice = max(1, min(SLICE, int(SLICE_SECONDS / max(seconds, 1e-9))))
        return seconds

    def fill(self, rows: list[int], thetas: Matrix, table: Matrix) -> None:
        """Write (logp, grad) of the given rows of `thetas` into `table`."""
        if not rows:
            return
        try:
            with np.errstate(all="ignore"):
                values, gradients = self.batched(thetas[rows], *self.constants)
        except Exception as error:  # if the model raised it, evaluating draws one by one finds the draw
            self._one_by_one(rows, thetas, table)
            why = str(error).partition("\n")[0]
            self.alone[f"{type(error).__name__}: {why}"] += len(rows)
            return
        table[rows, 0] = values
        if table.shape[1] > 1:
            table[rows, 1:] = gradients

    def _one_by_one(self, rows: Iterable[int], thetas: Matrix, table: Matrix) -> None:
        theta, run, gradient = self.theta, self.run, self.gradient
        row = -1
        with running_model(lambda: f"{self.label} at draw {row}"), np.errstate(all="ignore"):
            if table.shape[1] == 1:
                for row in rows:
                    theta[:] = thetas[row]
                    table[row, 0] = run()
            else:
                values, gradients = table[:, 0], table[:, 1:]
                for row in rows:
                    theta[:] = thetas[row]
                    values[row] = run()
                    gradients[row] = gradient


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def split(ranges: Iterable[Block], chunk: int) -> list[Block]:
    """Cut row ranges into blocks of at most `chunk` rows."""
    return [
        (start, min(start + chunk, stop)) for first, stop in ranges for start in range(first, stop, chunk)
    ]


def evaluate(
    workers: list[Worker],
    blocks: list[Block],
    thetas: Matrix,
    table: Matrix,
    advance: Callable[[int], None],
    finished: Callable[[int, int], None],
) -> None:
    """Fill the blocks' rows of `table` with (logp, grad), each worker on a thread.

    Rows of `thetas` that are not finite are left alone. `advance(count)` is called every few draws,
    `finished(start, stop)` after each block, both from the worker's thread.
    """
    usable = finite_rows(thetas)
    queue = iter(blocks)
    lock = threading.Lock()
    stop = threading.Event()
    failures: list[BaseException] = []

    def next_blocks() -> Iterator[Block]:
        while not stop.is_set():
            with lock:
                block = next(queue, None)
            if block is None:
                return
            yield block

    def work(worker: Worker) -> None:
        for first, last in next_blocks():
            for start in range(first, last, worker.slice):
                if stop.is_set():
                    return
                end = min(start + worker.slice, last)
                rows = np.flatnonzero(usable[start:end]) + start
                worker.fill(rows.tolist(), thetas, table)
                advance(end - start)
            finished(first, last)

    def guarded(worker: Worker) -> None:
        try:
            work(worker)
        except BaseException as error:  # handed to the main thread, which raises it
            failures.append(error)
            stop.set()

    if len(workers) == 1:
        work(workers[0])
        return
    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        # This is done after a signal, too: no thread may outlive the clean-up.
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if failures:
        raise failures[0]
