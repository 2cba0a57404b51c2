"""Work that ``--dask`` sends to the workers of a cluster: blocks of draws, and chains."""

from __future__ import annotations

import contextlib
import queue
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from numbatape.distributed import connect, run_pieces
from numbatape.logdensity.chains import Sampler, Settings, run_chains
from numbatape.logdensity.evaluate import Worker
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.model_parameters import Arrays, Parameters
from numbatape.logdensity.models import MODULE_PREFIX, Model
from numbatape.logdensity.optional import optional

WAIT = 20.0  # seconds for the scheduler to answer


class Blocks:
    """Evaluates blocks of draws; each thread of a worker takes a worker's cache for itself."""

    def __init__(self, model: Model, theta: Matrix, width: int) -> None:
        self.model, self.theta, self.width = sendable(model), theta, width
        self._idle: queue.SimpleQueue[Worker] | None = None

    def __call__(self, thetas: Matrix) -> tuple[Matrix, Counter[str]]:
        """Return (logp, grad) of a block, and how many draws were evaluated one by one, by the reason."""
        if self._idle is None:
            self._idle = queue.SimpleQueue()
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = Worker(self.model, self.theta)
        try:
            thetas = np.array(thetas)  # what Dask hands over may be read-only
            table = np.full((len(thetas), self.width), np.nan)
            worker.alone.clear()
            worker.fill(np.flatnonzero(finite_rows(thetas)).tolist(), thetas, table)
            return table, Counter(worker.alone)
        finally:
            self._idle.put(worker)


class Chains:
    """Draws one chain; what the model prints and raises comes back as on one machine."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = sendable(model), settings

    def __call__(self, chain: int) -> Arrays:
        """Return the draws of a chain."""
        found: dict[int, Arrays] = {}
        sampler = Sampler(self.model, self.settings, lambda count: None)
        run_chains(sampler, [chain], 1, found.__setitem__)
        return found[chain]


def sendable(model: Model) -> Model:
    """Return what workers need of a model: its log-density and data."""
    return replace(model, parameters=Parameters(model.names), unconstrain=None)


@contextlib.contextmanager
def client_of(address: str, model: Model) -> Iterator[Any]:
    """Yield a client of the cluster, to which the model's modules are sent by value."""
    optional("distributed", "--dask", "'dask[distributed]'")
    cloudpickle = optional("cloudpickle", "--dask")
    try:
        client = connect(address, timeout=WAIT)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise InputError(f"--dask {address}: no scheduler answers there ({error})") from error
    modules = _modules_of(model)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield client
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
        client.close()


def _modules_of(model: Model) -> list[ModuleType]:
    """Return the model's module, and those that it has imported from its own folder."""
    folder = model.path.resolve().parent
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith(MODULE_PREFIX):
            found.append(module)
        elif file and "." not in name and name not in ("__main__", "numbatape"):
            path = Path(file)
            home = path.parent.parent if path.name == "__init__.py" else path.parent
            if home == folder:
                found.append(module)
    return found


def evaluate_on_cluster(
    address: str, model: Model, theta: Matrix, thetas: Matrix, width: int, blocks: list[tuple[int, int]]
) -> Iterator[tuple[int, int, Matrix, Counter[str]]]:
    """Yield the rows of each block as it is finished: their range, (logp, grad), one by one."""
    pieces = _Pieces(thetas, blocks)
    with client_of(address, model) as client:
        for k, (rows, alone) in run_pieces(Blocks(model, theta, width), pieces, client):
            yield *blocks[k], rows, alone


class _Pieces(list):
    """Blocks of draws, cut when they are asked for."""

    def __init__(self, thetas: Matrix, blocks: list[tuple[int, int]]) -> None:
        super().__init__(blocks)
        self._thetas = thetas

    def __getitem__(self, k: Any) -> Any:
        start, stop = super().__getitem__(k)
        return self._thetas[start:stop]


def draw_on_cluster(
    address: str, model: Model, settings: Settings, chains: list[int]
) -> Iterator[tuple[int, Arrays]]:
    """Yield each chain as it is finished, with its number."""
    with client_of(address, model) as client:
        for k, arrays in run_pieces(Chains(model, settings), chains, client):
            yield chains[k], arrays
