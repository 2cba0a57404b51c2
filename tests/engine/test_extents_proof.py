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
BY_GUARDS = {  # the matrix is tall, which a guard says
    "qr": lambda x: np.sum(np.linalg.qr(np.vander(x, 3))[1] ** 2),
    "svd": lambda x: np.linalg.norm(np.outer(x, x[: len(x) // 2]) + np.eye(len(x), len(x) // 2), 2),
    "svd, three columns": lambda x: np.sum(np.polyfit(x, x**2, 2) ** 2),
}


def without_guards(tape):
    """Return the sizes of a tape without what the trace relied on."""
    return SimpleNamespace(rows=tape.sizes.rows, guards=())


@pytest.mark.parametrize("name", PROVED)
def test_sizes_of_a_trace_follow_for_all(name):
    tape = nt.prepare_gradient_cache(PROVED[name], np.arange(1.0, 8.0)).tape
    assert extents_hold_for_all_sizes(tape, {})
    assert any(row["aux"] != NONE for row in tape.code)


@pytest.mark.parametrize("name", BY_GUARDS)
def test_guards_order_sizes(name):
    cache = nt.prepare_gradient_cache(BY_GUARDS[name], np.arange(1.0, 8.0))
    tape = cache.tape
    assert extents_hold_for_all_sizes(tape, {})
    unguarded = SimpleNamespace(
        code=tape.code, values=tape.values, layouts=tape.layouts, sizes=without_guards(tape)
    )
    assert not extents_hold_for_all_sizes(unguarded, {})
    for n in (9, 12, 5, 11):
        x = np.linspace(0.5, 2.0, n) ** 2
        fresh = nt.value_and_grad(lambda x: BY_GUARDS[name](x))(x)
        value, (slope,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, fresh[0], rtol=1e-12)
        np.testing.assert_allclose(slope, fresh[1], rtol=1e-9, atol=1e-12)
    assert cache.traces == 1


def test_scratch_of_one_size_is_not_enough_for_all_sizes():
    tape = nt.prepare_gradient_cache(PROVED["scratch"], np.arange(1.0, 8.0)).tape
    layouts = (*tape.layouts, Layout((1000,), (1,)))
    values = tape.values.copy()
    values["layout"][[row["aux"] for row in tape.code if row["aux"] != NONE]] = len(layouts) - 1
    changed = SimpleNamespace(code=tape.code, values=values, layouts=layouts, sizes=tape.sizes)
    assert not extents_hold_for_all_sizes(changed, {})


@pytest.mark.parametrize(
    ("part", "by_guards"),
    [
        (lambda y: y, False),
        (lambda y: y[1:], False),
        (lambda y: y[len(y) // 2 :], False),
        (lambda y: y[: len(y) // 2], True),
        (lambda y: y[:2], True),
    ],
)
def test_results_that_are_parts_of_arrays(part, by_guards):
    tape = nt.prepare_pullback_cache(lambda x: part(np.sin(x)), np.arange(1.0, 8.0)).tape
    assert ends_stay_inside(tape, {})
    fields = {name: getattr(tape, name) for name in ("values", "layouts", "inputs", "outputs", "sizes")}
    unguarded = SimpleNamespace(storages=tape.storages, **fields | {"sizes": without_guards(tape)})
    assert ends_stay_inside(unguarded, {}) == (not by_guards)
    storages = tape.storages.copy()
    storages["size"] = np.where(storages["size"] < 0, 1, storages["size"])
    assert not ends_stay_inside(SimpleNamespace(storages=storages, **fields), {})
