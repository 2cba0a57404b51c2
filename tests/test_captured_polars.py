"""Arithmetic of captured Series of polars with traced values gives what polars gives."""

import numpy as np
import pytest

import numbatape as nt

pl = pytest.importorskip("polars")

DATA = pl.DataFrame(
    {"x": [2.0, 1.0, 4.0, 3.0], "y": [1, 2, 3, 5], "g": list("abba"), "m": [1.0, None, 2.0, 3.0]}
)
X, Y = DATA["x"], DATA["y"]
B = np.array([0.5, 0.7])

CASES = {
    "operators": lambda b: ((b[0] - X) ** 2 / Y + X * b[1] - 1 / (X * b[0])).sum(),
    "reflected": lambda b: (2.0 ** (X * b[0]) + b[1] ** X - (-(X * b[0])) % 3.0).mean(),
    "two Series": lambda b: ((Y - b[0] * X) * (X + b[1])).std() + (X * b[0] - Y).var(),
    "functions": lambda b: np.exp(X * b[0]).max() + (X * b[1]).sqrt().log().sum() + (X * b[0]).abs().median(),
    "products": lambda b: (X * b[0]).dot(Y) + np.dot(X, Y * b[1]) + np.sum(np.where(X > 2, X * b[0], b[1])),
    "entries": lambda b: (
        (X * b[0])[1] + sum(v**2 for v in Y * b[1]) + (X * b[0]).head(2).sum() * len(X * b[1])
    ),
    "last entries": lambda b: sum((X * b[0]).tail(n).sum() * b[1] for n in (0, 1, 3, 9, -1)),
    "masks": lambda b: (X * b[0]).filter(X > 1.5).sum() + ((X * b[0] > 1.2) * (b[1] * X)).sum(),
    "running": lambda b: (X * b[0]).cum_sum().mean() + (X * b[1]).clip(1.0, 2.0).sum(),
    "groups": lambda b: sum((part["x"] * b[0] - b[1]).pow(2).sum() for _, part in DATA.group_by("g")),
    "arrays": lambda b: np.linalg.norm((X * b[0]).to_numpy()) + np.concatenate([X * b[1], B]).sum(),
}


@pytest.mark.parametrize("name", CASES)
def test_arithmetic_with_traced_values_is_that_of_polars(name):
    f = CASES[name]
    value, gradient = nt.value_and_grad(f)(B)
    np.testing.assert_allclose(value, f(B), rtol=1e-13)
    differences = [(f(B + step) - f(B - step)) / 2e-6 for step in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


ERRORS = {
    "missing": (lambda b: (DATA["m"] * b[0]).sum(), "1 missing"),
    "text": (lambda b: (b[0] * DATA["g"]).sum(), "only numbers"),
    "a method": (lambda b: (X * b[0]).rolling_mean(2).sum(), r"rolling_mean of polars at .*to_numpy"),
    "a frame": (lambda b: (b[0] * DATA).sum(), "to_numpy"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_not_known_raises(name):
    f, message = ERRORS[name]
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(f)(B)
