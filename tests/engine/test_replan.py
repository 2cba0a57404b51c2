"""Plans for further sizes are those that `make_plan` makes, word for word."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import make_plan
from numbatape.engine.replan import Replanner

SHAPES = ((5, 3), (1, 3), (2, 2), (7, 1), (40, 4), (0, 2), (3, 5))

FUNCTIONS = {
    "elementwise": lambda x: np.sum(np.exp(x[1:] * 0.5) * x[:-1] - x[0]),
    "products": lambda x: np.sum((x @ x.T) ** 2) + np.einsum("ij,ij->", x, x),
    "sizes as numbers": lambda x: np.mean(x) / len(x) + np.sum(np.arange(x.size)) * x[0, 0],
    "strides": lambda x: np.sum(np.exp(x.T[::-1, ::2]) * 2.0),
    "joined": lambda x: np.sum(np.concatenate([x, x[:1], 2.0 * x]) ** 3),
    "scratch": lambda x: np.sum(np.sort(x, axis=0)[0]) + np.prod(x),
    "scalars": lambda x: (x[0, 0] * x[0, 1] + x[0, 1]) * x[0, 0] - x[0, 0],
    "float32": lambda x: np.sum(x.astype(np.float32) ** 2) * 2.0,
    "branches": lambda x: np.sum(x) if x[0, 0] > 0 else np.sum(x * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plans_are_equal(name):
    cache = nt.prepare_gradient_cache(FUNCTIONS[name], np.ones((4, 3)))
    first = cache._space.plan
    tape, planner = first.tape, Replanner.of(first)
    assert planner is not None
    served = 0
    for dimensions in SHAPES:
        broken = tape.sizes.broken_guard(tape.sizes.evaluate(dimensions)) is not None
        plan = planner.plan(dimensions)
        assert (plan is None) == broken
        if plan is None:
            continue
        served += 1
        expected = make_plan(tape, dimensions)
        for field in ("code", "aux", "bases", "sizes"):
            np.testing.assert_array_equal(getattr(plan, field), getattr(expected, field))
        assert (plan.cells, plan.active, plan.cuts) == (expected.cells, expected.active, expected.cuts)
        assert set(plan.kernels) >= set(expected.kernels)
    assert served


def test_tapes_that_are_swept_forward_use_cells_again_at_all_sizes():
    def f(x):
        for _ in range(20):
            x = np.sin(x) * x
        return np.sum(x)

    cache = nt.prepare_hvp_cache(f, np.ones(40))
    nt.value_and_hvp(cache, np.ones(40), np.ones(40))
    tape = cache._space.plan.tape
    assert tape.forward
    planner = Replanner.of(make_plan(tape, (40, 40)))
    for n in (2, 5, 4000):
        plan, expected = planner.plan((n, n)), make_plan(tape, (n, n))
        np.testing.assert_array_equal(plan.sizes, expected.sizes)
        if n > 1000:  # the first plans of small ones share no cells, because it would gain nothing
            every = sum(plan.size(code) for code in tape.storages["size"].tolist())
            assert plan.cells == expected.cells
            assert sum(plan.cells) < every / 2


def test_long_sweeps_are_cut_as_by_make_plan():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x)), np.ones(4))
    plan = Replanner.of(cache._space.plan).plan((3_000_000,))
    expected = make_plan(plan.tape, (3_000_000,))
    assert plan.cuts is not None and plan.cuts.stops == expected.cuts.stops
    assert plan.cuts.parts.keys() == expected.cuts.parts.keys()
    for number, tables in plan.cuts.parts.items():
        for table, its in zip(tables, expected.cuts.parts[number], strict=True):
            np.testing.assert_array_equal(table, its)


def test_what_cannot_be_addressed_is_refused_as_by_make_plan():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(np.outer(x, x))), np.ones(4))
    with pytest.raises(nt.VerificationError, match="32-bit offsets"):
        Replanner.of(cache._space.plan).plan((100_000,))
