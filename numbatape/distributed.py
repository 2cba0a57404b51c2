"""Functions over many draws, on threads or on a cluster of Dask: `map_batches`.

Draws are cut into blocks in the same way wherever they are evaluated, so results have the same bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from .control.argument_checks import check_functions, whole
from .errors import OutputError, SpecError
from .integrations.vector_functions import package
from .trace import pytrees

__all__ = ["map_batches"]

BLOCK = 1024
RETRIES = 3
AHEAD = 4  # pieces for each thread of the cluster that are sent before results come back
KEPT = 8  # functions that a worker keeps, with what they have traced


def map_batches(
    f: Callable[..., Any],
    draws: Any,
    client: Any = None,
    *,
    block: int = BLOCK,
    threads: int | None = None,
    retries: int = RETRIES,
) -> Any:
    """Return a function's results for many draws, computed block by block, in the order of the draws.

    Parameters
    ----------
    f : callable
        Function of a block of draws, ``nt.batch(logp)`` for instance: an array, or a container of arrays,
        with as many rows as the block.
    draws : array or pytree of arrays
        One row for each draw.
    client : distributed.Client or str, optional
        A client of a Dask cluster, or the address of its scheduler. What a worker that dies had in hand goes
        to another one. Left out, the blocks run on threads of this process.
    block : int
        Rows in a block.
    threads : int, optional
        How many threads, without a client; as many as CPUs if left out.
    retries : int
        How often Dask tries a block again that has raised.

    Returns
    -------
    array or pytree of arrays
        What ``f`` returns for a block, for all draws.

    Raises
    ------
    ModuleNotFoundError
        If a client is given by address, and Dask is not installed.
    SpecError
        If the draws have different numbers of rows.
    OutputError
        If ``f`` returns another number of rows than its block has.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> from numbatape.distributed import map_batches
    >>> def logp(theta):
    ...     return -0.5 * np.sum(theta**2)
    >>> values, gradients = map_batches(nt.batch(logp), np.ones((5000, 2)))
    >>> values.shape, gradients.shape
    ((5000,), (5000, 2))
    """
    leaves, structure = pytrees.flatten(draws)
    leaves = [np.asarray(leaf) for leaf in leaves]
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or () in rows:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves)
        raise SpecError(f"draws need one row each, and the same number of rows in all arrays; got {shapes}")
    check_functions("map_batches", f=f)
    for parameter, number in {"block": block, "threads": 1 if threads is None else threads}.items():
        if whole("map_batches", parameter, number) < 1:
            raise ValueError(f"{parameter}={number}: must be 1 or more")
    if not (client is None or isinstance(client, str) or hasattr(client, "submit")):
        raise TypeError(f"client must be a client of Dask or the address of a scheduler, got {client!r}")
    ((count,),) = rows
    starts = range(0, count, block) if count else [0]
    pieces = _Blocks(leaves, structure, starts, block)
    found: list[Any] = [None] * len(starts)
    shape_of_result = None
    for k, result in run_pieces(f, pieces, client, threads=threads, retries=retries):
        parts, made = pytrees.flatten(result)
        parts = [np.asarray(part) for part in parts]
        wanted = min(block, count - starts[k])
        if any(part.shape[:1] != (wanted,) for part in parts) or made != (shape_of_result or made):
            shapes = ", ".join(str(part.shape) for part in parts)
            raise OutputError(
                f"a block of {wanted} draws gave arrays of shapes {shapes}; each needs {wanted} rows, "
                "and all blocks the same structure"
            )
        found[k], shape_of_result = parts, made
    assert shape_of_result is not None
    together = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return pytrees.unflatten(shape_of_result, together)


class _Blocks(Sequence):
    """The blocks of draws, cut when they are asked for."""

    def __init__(self, leaves: list[np.ndarray], structure, starts: Sequence[int], block: int):
        self._leaves, self._structure, self._starts, self._block = leaves, structure, starts, block

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, k):
        rows = slice(self._starts[k], self._starts[k] + self._block)
        return pytrees.unflatten(self._structure, [leaf[rows] for leaf in self._leaves])


def run_pieces(
    work: Callable, pieces: Sequence, client=None, *, threads: int | None = None, retries: int = RETRIES
) -> Iterator[tuple[int, Any]]:
    """Yield (number of a piece, ``work(piece)``) in the order in which they are finished.

    Parameters
    ----------
    work
        Called by several threads at once. For Dask it is pickled by cloudpickle, once.
    pieces
        What it is called with.
    client, threads, retries
        As for `map_batches`.
    """
    if client is None:
        yield from _on_threads(work, pieces, threads or os.cpu_count() or 1)
        return
    with _connected(client) as connected:
        yield from _on_dask(work, pieces, connected, retries)


def _on_threads(work: Callable, pieces: Sequence, threads: int) -> Iterator[tuple[int, Any]]:
    waiting = iter(range(len(pieces)))
    with ThreadPoolExecutor(min(threads, len(pieces))) as pool:
        running = {}
        try:
            while True:
                for k in waiting:
                    running[pool.submit(work, pieces[k])] = k
                    if len(running) >= AHEAD * threads:
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _connected(client):
    """Yield a client of Dask; one that is made here, from an address, is closed."""
    if not isinstance(client, str):
        yield client
        return
    made = connect(client)
    try:
        yield made
    finally:
        made.close()


def connect(address: str, **options):
    """Return a client of the scheduler at an address, which the caller closes.

    What a scheduler tells all clients at that moment, that a worker has died for example, may arrive together
    with its greeting. `Client` asserts that this comes alone (distributed 2026.8), so it is made again.
    """
    distributed = package("distributed", "a client of Dask", "'dask[distributed]'")
    for _ in range(RETRIES):
        with contextlib.suppress(AssertionError):
            return distributed.Client(address, set_as_default=False, **options)
    return distributed.Client(address, set_as_default=False, **options)


def _on_dask(work: Callable, pieces: Sequence, client, retries: int) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of pieces with their results, as workers finish them."""
    distributed = package("distributed", "a client of Dask", "'dask[distributed]'")
    raw = package("cloudpickle", "a client of Dask").dumps(work)
    name = f"{getattr(work, '__name__', type(work).__name__)}-{uuid.uuid4().hex[:12]}"
    # The function is the result of a task, which runs again if all workers that have it are lost. Dask sends
    # tasks to where their arguments are. So all workers get the function at once; and the names say that the
    # pieces belong together and need nothing else, so that further ones wait for a worker that is idle.
    function = client.submit(_Pickled, raw, key=(f"function of {name}", 0))
    _spread(client, function)
    running: dict[Any, int] = {}
    arriving = distributed.as_completed(loop=client.loop)  # otherwise it asks for a default client
    waiting = iter(range(len(pieces)))

    def send() -> bool:
        k = next(waiting, None)
        if k is None:
            return False
        future = client.submit(_call, function, pieces[k], key=(name, k), retries=retries)
        running[future] = k
        arriving.add(future)
        return True

    try:
        while len(running) < AHEAD * max(1, sum(client.nthreads().values())) and send():
            pass
        for future in arriving:
            k, result = running.pop(future), future.result()
            future.release()
            send()
            yield k, result
    finally:
        client.cancel([function, *running])


def _spread(client, future) -> None:
    """Copy a result to all workers.

    A worker that dies while results are copied makes the scheduler's `replicate` fail. Copies only save time,
    so a cluster where this goes on gets none: a worker that needs the result asks for it.
    """
    for _ in range(1 + RETRIES):
        with contextlib.suppress(AssertionError, ValueError):
            client.replicate([future])
            return


class _Pickled:
    """A pickled function, named by its content."""

    def __init__(self, raw: bytes):
        self.raw = raw
        self.digest = hashlib.sha256(raw).hexdigest()


_loaded: dict[str, Callable] = {}
_lock = threading.Lock()


def _call(function: _Pickled, piece):
    """Call a function on a worker, which keeps it: what it has traced serves all pieces."""
    with _lock:
        work = _loaded.get(function.digest)
        if work is None:
            if len(_loaded) >= KEPT:
                _loaded.pop(next(iter(_loaded)))
            work = _loaded[function.digest] = pickle.loads(function.raw)
    return work(piece)
