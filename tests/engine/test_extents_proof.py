"""That array ops get the sizes that they need is shown once for all sizes of the inputs."""

from types import SimpleNamespace

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine.extents_proof import Polynomial, ends_stay_inside, extents_hold_for_all_sizes
from numbatape.tape.instruction import NONE
from numbatape.tape.tape import Layout

N, M = Polynomial({(-1,): 1}), Polynomial({(-2,): 1})


def test_polynomials_are_equal_in_any_order():
    assert (N + 2) * (M + 1) == 2 + M * N + N + 2 * M
    assert N * N + -1 * (N * N) == 0
    assert N != M and N + 1 != N


PROVED = {
    "transforms": lambda x: np.sum(np.abs(np.fft.fft(x, 2 * len(x))) ** 4),
    "scratch": lambda x: np.sum(np.linalg.solve(np.outer(x, x) + np.eye(len(x)), x) * np.sort(x)),
}


@pytest.mark.parametrize("name", PROVED)
def test_sizes_of_a_trace_follow_for_all(name):
    tape = nt.prepare_gradient_cache(PROVED[name], np.arange(1.0, 8.0)).tape
    assert extents_hold_for_all_sizes(tape, {})
    assert any(row["aux"] != NONE for row in tape.code)


def test_scratch_of_one_size_is_not_enough_for_all_sizes():
    tape = nt.prepare_gradient_cache(PROVED["scratch"], np.arange(1.0, 8.0)).tape
    layouts = (*tape.layouts, Layout((1000,), (1,)))
    values = tape.values.copy()
    values["layout"][[row["aux"] for row in tape.code if row["aux"] != NONE]] = len(layouts) - 1
    changed = SimpleNamespace(code=tape.code, values=values, layouts=layouts, sizes=tape.sizes)
    assert not extents_hold_for_all_sizes(changed, {})


@pytest.mark.parametrize(
    ("part", "stays"),
    [
        (lambda y: y, True),
        (lambda y: y[1:], True),
        (lambda y: y[len(y) // 2 :], True),
        (lambda y: y[: len(y) // 2], False),  # it does, but by more than the signs of coefficients
        (lambda y: y[:2], False),
    ],
)
def test_results_that_are_parts_of_arrays(part, stays):
    tape = nt.prepare_pullback_cache(lambda x: part(np.sin(x)), np.arange(1.0, 8.0)).tape
    assert ends_stay_inside(tape, {}) == stays
    storages = tape.storages.copy()
    storages["size"] = np.where(storages["size"] < 0, 3, storages["size"])
    fields = ("values", "layouts", "inputs", "outputs", "sizes")
    smaller = SimpleNamespace(storages=storages, **{name: getattr(tape, name) for name in fields})
    assert not ends_stay_inside(smaller, {})
