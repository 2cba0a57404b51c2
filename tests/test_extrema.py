"""Gradients of extrema: entries that attain one share its adjoint, in long vectors and in rows."""

import numpy as np
import pytest
from scipy.special import logsumexp

import numbatape as nt
from numbatape.emitter.instructions import row
from numbatape.trace.primitives import array_instruction, value_of


@pytest.mark.parametrize("kind", ["one", "ties", "NaN"])
@pytest.mark.parametrize("shape", [(3000, 3), (2, 9000), (40, 70)])
def test_entries_share_in_one_sweep_and_in_two(kind, shape):
    x = np.random.default_rng(2).normal(size=shape)
    if kind == "ties":
        x[:, 1:] = np.round(x[:, 1:])
    elif kind == "NaN":
        x[::2, -2:] = np.nan

    def f(x):
        return np.sum(np.exp(x) * (x - np.max(x, axis=1, keepdims=True)))

    best = np.max(x, axis=1, keepdims=True)
    chosen = (x == best) | (np.isnan(x) & np.isnan(best))
    shares = -np.sum(np.exp(x), axis=1, keepdims=True) * chosen / np.sum(chosen, axis=1, keepdims=True)
    expected = np.exp(x) * (x - best) + np.exp(x) + np.where(chosen, shares, 0.0)
    for config in (nt.Config(), nt.Config(passes="none")):
        _, (slope,) = nt.value_and_gradient(nt.prepare_gradient_cache(f, x, config=config), x)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan, -np.nan, -0.0, 5e-324])
def test_extrema_of_long_rows_are_numpys(special):
    """Rows of 32 entries and more are compared as integers."""
    x = np.full((3, 50), special)
    x[1, 1:], x[2, :-1] = -np.linspace(1.0, 2.0, 49), np.linspace(0.0, 1e30, 49)
    for cells in (x, x.astype(np.float32)):
        for function in (np.max, np.min):
            cache = nt.prepare_gradient_cache(
                lambda x, function=function: np.sum(function(x, axis=1)), cells[:1]
            )
            for row_of in cells:
                value, _ = nt.value_and_gradient(cache, row_of[None])
                np.testing.assert_array_equal(value, function(row_of))


def test_all_orders():
    def f(x):
        return np.max(x) ** 3 + np.min(x[1:]) ** 2 * x[0]

    x = np.array([1.5, 3.0, -1.0, 3.0, 2.0])
    third = nt.jacobian(nt.hessian(f))(x)
    expected = np.zeros((5, 5, 5))
    ties = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    expected += 6.0 * np.einsum("i,j,k->ijk", ties, ties, ties)
    for places in ((0, 2, 2), (2, 0, 2), (2, 2, 0)):
        expected[places] += 2.0
    np.testing.assert_allclose(third, expected)
    assert (
        nt.sparse_hessian(lambda x: np.sum(np.max(x.reshape(-1, 2), axis=1) ** 2))(np.arange(6.0)).nnz <= 12
    )


def test_a_share_of_no_entry_is_zero():
    """Both sweeps agree where no entry attains the number that is looked for."""
    x = np.array([1.0, 2.0])

    def f(best, total):
        shares = np.where(x == value_of(best), value_of(total), 0.0)
        return np.sum(array_instruction(row("share_ties"), [x, best, total], shares))

    cache = nt.prepare_gradient_cache(f, 2.0, 5.0)
    assert nt.value_and_gradient(cache, 2.0, 5.0) == (5.0, (0.0, 1.0))
    assert nt.value_and_gradient(cache, 3.0, 5.0) == (0.0, (0.0, 0.0))


@pytest.mark.parametrize("size", [3, 20, 60])
@pytest.mark.parametrize("axis", [0, 1])
def test_logsumexp_has_the_bits_of_each_row_alone(size, axis):
    """Rows are SIMD lanes, eight at a time, where they are short or their entries are not contiguous."""
    x = np.random.default_rng(4).normal(size=(19, size))
    x[2], x[4, 1], x[5, 1], x[6, 1], x[17, :2] = -np.inf, np.inf, np.nan, -np.inf, np.inf

    def rows(x):
        return np.sum(logsumexp(x, axis=axis) * weights)

    def of(cells, its):
        nonlocal weights
        weights = its
        cells = np.ascontiguousarray(cells if axis else cells.T)
        value, (slope,) = nt.value_and_gradient(nt.prepare_gradient_cache(rows, cells), cells)
        return value, slope if axis else slope.T

    weights = None
    finite = np.isfinite(logsumexp(x, axis=1))
    value, slope = of(x, np.where(finite, 1.0, 0.0))
    assert np.isnan(value)  # 0 * inf
    alone = [of(its[None], np.ones(1)) for its in x]
    np.testing.assert_array_equal(slope[finite], np.concatenate([each[1] for each in alone])[finite])
    for k, its in enumerate(x):
        if finite[k]:
            assert alone[k][0] == pytest.approx(logsumexp(its), rel=1e-14)
    together = of(x[finite], np.eye(finite.sum())[5])[0]
    assert together == alone[np.flatnonzero(finite)[5]][0]
