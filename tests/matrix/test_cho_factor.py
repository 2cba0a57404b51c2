"""`cho_factor` leaves entries of the matrix beside the factor, which `cho_solve` does not read."""

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt

RNG = np.random.default_rng(2)
ROOT, B = RNG.normal(size=(4, 4)), RNG.normal(size=4)


def solved(lower, change):
    def f(root, b):
        factor, side = scipy.linalg.cho_factor(root @ root.T + np.eye(4), lower=lower)
        return b @ scipy.linalg.cho_solve((change(factor), side), b)

    return f


def scaled(c):
    c[...] = 1.5 * c
    return c


def one_entry(c):
    c[2, 2] *= 2.0
    return c


CHANGES = {"none": lambda c: c, "a copy": np.copy, "all": scaled, "one entry": one_entry}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("lower", [True, False])
def test_the_factor_may_change_in_between(lower, change):
    f = solved(lower, CHANGES[change])
    value, gradient = nt.value_and_grad(f, argnums=(0, 1))(ROOT, B)
    np.testing.assert_allclose(value, f(ROOT, B), rtol=1e-13)
    direction, h = (np.cos(ROOT), np.sin(B)), 1e-5
    forth, back = (f(*(x + s * d for x, d in zip((ROOT, B), direction, strict=True))) for s in (h, -h))
    slope = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(slope, (forth - back) / (2 * h), rtol=1e-7)


@pytest.mark.parametrize("lower", [True, False])
def test_nothing_is_computed_for_the_other_triangle(lower):
    tape = nt.prepare_gradient_cache(solved(lower, CHANGES["none"]), ROOT, B).tape
    assert "triu" not in tape.listing() and "tril" not in tape.listing()
