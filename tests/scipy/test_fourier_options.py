"""``scipy.fft``: options of transforms that NumPy has otherwise, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

import numbatape as nt

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 4))
COMPLEX = REAL + 1j * RNG.standard_normal((3, 4))
CASES = {
    **{
        f"{name} {options}": (name, COMPLEX if name[0] == "h" else REAL, options)
        for name in ("hfft2", "hfftn", "ihfft2", "ihfftn")
        for options in ({}, {"norm": "ortho", "axes": (1, 0)}, {"norm": "forward", "s": (4, 5)})
    },
    "irfftn of a size that stays": ("irfftn", COMPLEX, {"s": (3, -1)}),
    "fftn of sizes without axes": ("fftn", REAL, {"s": (5, 3)}),
    "fftn along no axes": ("fftn", REAL, {"axes": ()}),
    "a plan of None": ("fft", REAL, {"plan": None}),
    "dctn along one axis": ("dctn", REAL, {"axes": 0, "s": 2}),
    "dct of complex numbers": ("dct", COMPLEX, {"norm": "ortho", "orthogonalize": False}),
    "idst of complex numbers": ("idst", COMPLEX, {"orthogonalize": True}),
    "fht": ("fht", REAL, {"dln": 0.2, "mu": 0.5, "bias": 0.1}),
    "ifht": ("ifht", REAL, {"dln": 0.2, "mu": 0.5, "offset": -0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_transforms(case):
    name, x, options = CASES[case]
    f = lambda x: getattr(scipy.fft, name)(x, **options)  # noqa: E731
    tangent = x[::-1] * (2.0 if np.isrealobj(x) else 2.0 - 1.0j)
    value, slope = nt.jvp(f, (x,), (tangent,))
    assert value.dtype == f(x).dtype
    np.testing.assert_allclose(value, f(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, f(tangent), rtol=1e-12, atol=1e-12)
    weights = np.arange(1.0, 1.0 + value.size).reshape(value.shape) * (
        1.0 + (0.5j if value.dtype == complex else 0)
    )
    (pulled,) = nt.vjp(f, x)[1](weights)
    assert np.vdot(pulled, tangent).real == pytest.approx(np.vdot(weights, slope).real, rel=1e-11)


def test_a_hankel_transform_of_traced_parameters_is_refused():
    with pytest.raises(nt.UnsupportedOperationError, match=r"scipy.fft.fht\(..., traced parameters\)"):
        nt.grad(lambda mu: np.sum(scipy.fft.fht(REAL, 0.2, mu)))(0.5)


@pytest.mark.parametrize("name", ["rfftn", "irfftn", "fftn"])
def test_an_axis_that_comes_twice(name):
    f = lambda x: getattr(np.fft, name)(x, axes=(0, 0))  # noqa: E731
    value, slope = nt.jvp(f, (REAL,), (REAL[::-1],))
    np.testing.assert_allclose(value, f(REAL), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, f(REAL[::-1]), rtol=1e-12, atol=1e-12)
