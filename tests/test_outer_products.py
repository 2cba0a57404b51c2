"""Sums of outer and Kronecker products are taken of the factors; the product is never written."""

import numpy as np
import pytest

import numbatape as nt

RNG = np.random.default_rng(4)
X, Y = RNG.uniform(0.5, 1.5, size=(4, 6)), RNG.uniform(-2.0, -1.0, size=(3, 5))
SUMS = {
    "kron": lambda x, y: np.sum(np.kron(x, y)),
    "kron of vectors": lambda x, y: np.kron(x[0], y[1]).sum(),
    "kron with a vector": lambda x, y: np.sum(np.kron(x, y[:, 0])),
    "kron of parts": lambda x, y: np.sum(np.kron(x[1:, :-2], y[::2, ::-1])),
    "kron of transposes": lambda x, y: np.sum(np.kron(x.T, y[:, 1:].T)),
    "outer": lambda x, y: np.sum(np.outer(x, y)),
    "outer of columns": lambda x, y: np.sum(np.outer(x[:, 2], y[:, 1])),
    "broadcast": lambda x, y: np.sum(x[:, None] * y[0, :, None]),
    "one factor active": lambda x, y: np.sum(np.kron(x, np.cos(Y))),
    "of itself": lambda x, y: np.sum(np.outer(x, x)) + np.sum(y),
}
NOT_OUTER = {
    "one entry": lambda x, y: np.sum(np.kron(x[:1, :1], y)),
    "one axis": lambda x, y: np.sum(np.sum(np.outer(x[0], y[0]), 1) ** 2),
    "shared axis": lambda x, y: np.sum(x[:3, None, :5] * y[:, :, None]),
    "a product in an inner product": lambda x, y: np.dot(x[0] * x[1], x[2]) + np.sum(y),
    "rows of such": lambda x, y: np.sum(np.vecdot(x * y[0, 0], np.sin(x[1])) ** 2),
    "read twice": lambda x, y: (lambda k: np.sum(k) + k[0, 0])(np.kron(x, y)),
}


def products(tape) -> int:
    return sum("mul " in line for line in tape.listing().splitlines())


@pytest.mark.parametrize("name", [*SUMS, *NOT_OUTER])
def test_values_and_derivatives(name):
    f = {**SUMS, **NOT_OUTER}[name]
    fused, plain = (nt.prepare_gradient_cache(f, X, Y, config=nt.Config(passes=p)) for p in ("all", "none"))
    (value, gradients), (expected, others) = (nt.value_and_gradient(cache, X, Y) for cache in (fused, plain))
    np.testing.assert_allclose([value, expected], f(X, Y), rtol=1e-13)
    for mine, its in zip(gradients, others, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13, atol=1e-14)
    assert (products(fused.tape) == 0) == (name in SUMS)
    hessians = [
        nt.value_gradient_and_hessian(nt.prepare_hessian_cache(f, X, Y, config=nt.Config(passes=p)), X, Y)[2]
        for p in ("all", "none")
    ]
    for mine, its in zip(*hessians, strict=True):
        for a, b in zip(mine, its, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    values, batch = nt.batch(f, in_axes=(0, 0))(np.stack([X, 2 * X]), np.stack([Y, -Y]))
    np.testing.assert_allclose(values, [f(X, Y), f(2 * X, -Y)], rtol=1e-13)
    np.testing.assert_allclose(batch[0][0], gradients[0], rtol=1e-13)


@pytest.mark.parametrize(
    "entries", [(0.0, np.inf), (1e200, 1e200), (np.nan, 0.0), (np.inf, 1.0), (1e308, 2.0)]
)
def test_what_is_not_finite_is_as_in_the_sum_of_the_products(entries):
    x, y = X.copy(), Y.copy()
    x[1, 1], y[2, 2] = entries
    f = SUMS["kron"]
    with np.errstate(all="ignore"):
        fused, plain = (
            nt.value_and_gradient(nt.prepare_gradient_cache(f, X, Y, config=nt.Config(passes=p)), x, y)
            for p in ("all", "none")
        )
        np.testing.assert_allclose(fused[0], f(x, y), rtol=1e-13)
    for mine, its in zip(fused[1], plain[1], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13)
