"""Evaluate a log-density and its gradient over a matrix of points, on threads."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from numbatape.errors import OutputError
from numbatape.logdensity.exits import running_model
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model

SLICE = 512  # At most this many draws are between two looks at the stop flag and two reports of progress.
SLICE_SECONDS = 0.1
TRIED = 32  # draws whose time says how long others take; of a single one, most may be the call's own
WORTH_A_THREAD = 0.02  # seconds of work, of which a thread would take a part
MOSTLY_PYTHON = 50e-6  # a draw that is evaluated alone in less time: threads would wait for each other
SLOW = 1e-3  # seconds of a draw, beside which those of a call do not count
Block = tuple[int, int]


def gradient_cache(model: Model, theta: Matrix) -> tuple[Any, list[Any]]:
    """Trace the model's log-density at `theta`; return its cache, and the arguments after theta."""
    import numbatape as nt

    constants = [nt.Constant(value, frozen=True) for value in model.arguments]
    with running_model(f"{model.label}: tracing"), np.errstate(all="ignore"):
        config = nt.Config(reuse_buffers=True)
        return nt.prepare_gradient_cache(model.logp, theta, *constants, config=config), constants


class Worker:
    """Evaluates draws with buffers of its own; each thread has a worker.

    Draws that `nt.batch` refuses are evaluated one by one, by a cache that is made for the first of them.

    Attributes
    ----------
    alone
        How many draws were evaluated one by one, by the error that `nt.batch` raised for them.
    """

    def __init__(self, model: Model, theta: Matrix, cache: Any = None) -> None:
        import numbatape as nt

        self.model = model
        self.theta = theta.copy()  # binding evaluates the model, so it needs a point at which the model works
        self.batched = nt.batch(model.logp)
        self.constants = [nt.Constant(value, frozen=True) for value in model.arguments]
        self.slice = SLICE
        self.alone: Counter[str] = Counter()
        self._cache = cache
        self._bound: tuple[Callable[[], float], Matrix, Matrix] | None = None

    def clone(self) -> Worker:
        """Return a worker for another thread."""
        cache = None if self._cache is None else self._cache.clone()
        made = Worker(self.model, self.theta, cache)
        made.slice = self.slice
        return made

    def is_worth_threads(self, rows: list[int], thetas: Matrix, table: Matrix) -> bool:
        """Fill the first of the given rows; return whether the work of all is worth a thread."""
        seconds = self._seconds(rows[:1], thetas, table)
        if seconds < SLOW and len(rows) > 1:
            seconds = self._seconds(rows[:TRIED], thetas, table) / len(rows[:TRIED])
        self.slice = max(1, min(SLICE, int(SLICE_SECONDS / max(seconds, 1e-9))))
        mostly_python = bool(self.alone) and seconds < MOSTLY_PYTHON
        self.alone.clear()  # these rows are filled again
        return not mostly_python and seconds * len(rows) > WORTH_A_THREAD

    def _seconds(self, rows: list[int], thetas: Matrix, table: Matrix) -> float:
        """Return the time of the second of two calls: the first one traces, and loads kernels."""
        self.fill(rows, thetas, table)
        started = time.perf_counter()
        self.fill(rows, thetas, table)
        return time.perf_counter() - started

    def fill(self, rows: list[int], thetas: Matrix, table: Matrix) -> None:
        """Write (logp, grad) of the given rows of `thetas` into `table`."""
        if not rows:
            return
        try:
            with np.errstate(all="ignore"):
                values, gradients = self.batched(thetas[rows], *self.constants)
            if values.shape != (len(rows),) or values.dtype.kind == "c":
                raise OutputError("the log-density is not a number")
        except (Exception, SystemExit) as error:
            # If the model raised it, evaluating draws one by one finds the draw.
            self._one_by_one(rows, thetas, table)
            why = str(error).partition("\n")[0]
            self.alone[f"{type(error).__name__}: {why}"] += len(rows)
            return
        table[rows, 0] = values
        if table.shape[1] > 1:
            table[rows, 1:] = gradients

    def _one_by_one(self, rows: Iterable[int], thetas: Matrix, table: Matrix) -> None:
        if self._bound is None:
            self._bound = self._bind()
        run, theta, gradient = self._bound
        row = -1
        with running_model(lambda: f"{self.model.label} at draw {row}"), np.errstate(all="ignore"):
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

    def _bind(self) -> tuple[Callable[[], float], Matrix, Matrix]:
        """Return what evaluates one draw, the array that it reads, and the one that gets the gradient."""
        if self._cache is None:
            self._cache, _ = gradient_cache(self.model, self.theta)
        theta, gradient = self.theta.copy(), np.empty(self.theta.size)
        with running_model(f"{self.model.label}: first evaluation"), np.errstate(all="ignore"):
            run = self._cache.bind(theta, out=(gradient, *(None for _ in self.constants)))
        return run, theta, gradient


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
