"""Chains of nutpie: each is a run of its own, whose draws depend on its number and the seed alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import numbatape as nt
from numbatape.caches.c_function import CGradient, CValue
from numbatape.integrations.compiled_model import Failures, compiled_model
from numbatape.integrations.nutpie_model import jitter
from numbatape.logdensity.evaluate import gradient_cache
from numbatape.logdensity.exits import ModelError, short_traceback
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.models import Model
from numbatape.logdensity.optional import optional

INTERVAL = 0.02  # seconds to wait for one chain, before the next is looked at
THETA = "theta"
# These are nutpie's statistics under ArviZ's names; what it keeps for itself is left out.
RENAMED = {"logp": "lp", "depth": "tree_depth", "mean_tree_accept": "acceptance_rate"}
LEFT_OUT = ("tuning", "unconstrained_draw", "unconstrained_gradient", "chain")


@dataclass(frozen=True)
class Settings:
    """What determines a chain's draws, besides the model.

    Attributes
    ----------
    starts
        Starting points; chain k takes row k, and from the first again where there are fewer.
    radius
        Of the uniform jitter around them.
    """

    draws: int
    tune: int
    seed: int
    target_accept: float
    starts: Matrix
    radius: float


class Sampler:
    """Starts chains of one model, whose log-density is one C function for all of them.

    Attributes
    ----------
    failures
        What the model raised while chains ran.
    """

    def __init__(self, model: Model, settings: Settings, advance: Callable[[int], None]) -> None:
        self._nutpie = optional("nutpie", "sampling")
        self.model, self.settings, self._advance = model, settings, advance
        self.failures = Failures()
        start = settings.starts[0]
        self._density = CGradient(*gradient_cache(model, start), self.failures.of_density)
        self._draw = CValue(nt.prepare_pullback_cache(np.copy, start), (), self.failures.of_draw)
        self._told = 0

    def start(self, chain: int) -> Any:
        """Start a chain in the background; return nutpie's handle of it."""
        settings = self.settings
        size = settings.starts.shape[1]
        start = settings.starts[chain % len(settings.starts)]
        model = compiled_model(
            size,
            lambda data, failures: (self._density, self._draw),
            {THETA: (size,)},
            initial=lambda seed: start + jitter(seed, size, settings.radius),
        )
        return self._nutpie.sample(
            model,
            draws=settings.draws,
            tune=settings.tune,
            chains=1,
            cores=1,
            seed=seed_of(settings.seed, chain),
            target_accept=settings.target_accept,
            store_gradient=True,
            progress_bar=False,
            save_warmup=False,
            blocking=False,
        )

    def tell(self) -> None:
        """Tell how many draws there were since this was called before."""
        draws = self._draw.served
        self._advance(draws - self._told)
        self._told = draws


def seed_of(seed: int, chain: int) -> int:
    """Return the seed of a chain; it does not depend on how many chains there are."""
    return int(np.random.SeedSequence([seed, chain]).generate_state(1, np.uint64)[0])


def run_chains(
    sampler: Sampler, chains: Iterable[int], cores: int, finished: Callable[[int, Arrays], None]
) -> None:
    """Draw chains, as many at a time as there are cores; `finished(chain, arrays)` is called for each."""
    waiting, running = list(chains), {}
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                chain = waiting.pop(0)
                running[chain] = sampler.start(chain)
            for chain, handle in list(running.items()):
                trace = _trace_of(sampler, handle)
                sampler.tell()
                if trace is not None:
                    del running[chain]
                    finished(chain, arrays_of_chain(trace))
    finally:
        for handle in running.values():
            handle.cancel()


def _trace_of(sampler: Sampler, handle: Any) -> Any | None:
    """Return what a chain has drawn; None if it has not finished within a short time."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ's, of what nutpie does
            trace = handle.wait(timeout=INTERVAL)
    except TimeoutError:
        trace = None
    except Exception as error:  # nutpie raises what ended the chain
        _raise_failure(sampler)
        why = str(error).partition("Stack backtrace")[0].strip()
        raise ModelError(f"{sampler.model.label}: nutpie: {why}") from error
    _raise_failure(sampler)
    return trace


def _raise_failure(sampler: Sampler) -> None:
    error = sampler.failures.first
    if error is not None:
        raise ModelError(f"{sampler.model.label}: sampling failed\n{short_traceback(error)}") from error


def arrays_of_chain(trace: Any) -> Arrays:
    """Return theta, its gradient and the statistics of one chain, with the draws along their first axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats = {name: variable.values[0] for name, variable in trace.sample_stats.data_vars.items()}
        found = {THETA: trace.posterior[THETA].values[0]}
    found |= {RENAMED.get(name, name): array for name, array in stats.items() if name not in LEFT_OUT}
    return {name: np.ascontiguousarray(array) for name, array in found.items() if array.dtype != object}
