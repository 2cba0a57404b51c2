"""numbatape: fresh results, reused buffers, bound buffers."""

from __future__ import annotations

from functools import partial

import numpy as np

import numbatape as nt


def _cache(workload, **config):
    arguments = *workload.active, *map(nt.Constant, workload.data)
    return nt.prepare_gradient_cache(
        workload.function, *arguments, config=nt.Config(**config) if config else None
    )


def _read(count, result):
    value, gradients = result
    return value, gradients[:count]


def prepare(workload, **config):
    """A prepared call."""
    call = partial(nt.value_and_gradient, _cache(workload, **config), *workload.active)
    return call, partial(_read, len(workload.active))


def prepare_bound(workload):
    """Inputs and gradients in the caller's buffers, checked once."""
    inputs = [np.asarray(x) for x in workload.active]
    gradients = tuple(np.empty_like(x) for x in inputs)
    out = (*gradients, *[None] * len(workload.data))
    return _cache(workload).bind(*inputs, out=out), lambda value: (value, gradients)


ENGINES = {
    "numbatape": prepare,
    "numbatape reuse": partial(prepare, reuse_buffers=True),
    "numbatape bound": prepare_bound,
}
