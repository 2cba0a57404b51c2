"""Arithmetic of captured objects of xarray with traced values gives what xarray gives."""

import numpy as np
import pandas as pd
import pytest

import numbatape as nt
from numbatape.testing import check_derivatives

xr = pytest.importorskip("xarray")

DATA = xr.DataArray(
    np.cos(np.arange(12.0).reshape(4, 3)), {"t": np.arange(4.0), "k": list("abc")}, ("t", "k"), "u"
)
GAPS = DATA.where(DATA > -0.9)
V = xr.DataArray([1.0, 2.0, 4.0, 0.5], {"t": np.arange(4.0)}, ("t",))
BOTH = xr.Dataset({"u": DATA, "v": V})
B = np.array([0.3, -0.2, 0.5])

CASES = {
    "numbers": lambda b: ((DATA * b[0] - b[1]) ** 2).sum() + (b[2] / (DATA + 2)).mean(),
    "vectors": lambda b: np.sum((DATA * b) ** 2) + (b - DATA).std(),
    "ufuncs": lambda b: np.exp(DATA * b[0]).mean() + np.maximum(b[1], DATA).sum(),
    "dimensions": lambda b: ((DATA * b[0]).mean("t") * (DATA * b[1]).std(dim="t")).sum(),
    "arrays": lambda b: (DATA * b[0]).sum("t").values @ b + (DATA * b[1]).to_numpy()[1, 2],
    "selection": lambda b: (
        (DATA * b).sel(k="a").sum() + (DATA * b[0]).isel(t=slice(1, 3)).sum() + DATA[0, 0] * b[1]
    ),
    "alignment": lambda b: ((b[0] * V) * (DATA * b[1])).sum() + (V[1:] * b[2] + V[:3]).sum(),
    "made": lambda b: (
        (DATA * xr.DataArray(b, dims="k")).sum() + xr.DataArray(b, {"k": list("abc")}, "k").sel(k="b")
    ),
    "where": lambda b: xr.where(DATA > 0, DATA * b[0], b[1]).sum() + (DATA * b[2]).where(DATA > 0, 0.0).sum(),
    "gaps": lambda b: (GAPS * b[0]).sum() + (GAPS * b[1]).mean("t").sum() + (GAPS * b[2]).fillna(1.0).std(),
    "a Dataset": lambda b: ((BOTH.u - b[0] * BOTH["v"]) ** 2).mean() + (BOTH * b[1]).u.sum(),
    "products": lambda b: xr.dot(DATA * b[0], V, dim="t").sum() + (DATA @ (V * b[1])).sum(),
    "grouped": lambda b: ((DATA * b).groupby("k").mean() ** 2).sum() + (V * b[0]).cumsum("t")[-1],
    "shifts": lambda b: ((V * b[0]).diff("t") ** 2).sum() + (V * b[1]).shift(t=1).sum(),
    "np.clip": lambda b: np.sum(np.clip(DATA * b[0], -0.2, 0.23)) + np.sum(np.round(DATA * b[1], 1)),
    "an item": lambda b: (DATA * b[0]).sum().item() ** 2 + (DATA * b[1]).max().item(),
}


@pytest.mark.parametrize("name", CASES)
def test_arithmetic_with_traced_values_is_that_of_xarray(name):
    f = CASES[name]
    for b in (B, 1.1 * B):
        value, _ = nt.value_and_grad(f)(b)
        np.testing.assert_allclose(float(value), float(f(b)), rtol=1e-13)
    check_derivatives(lambda b: np.sum(f(b)), B, order=1)


# Functions of a number, and of arrays with dimensions t and k, and t alone.
OF_ARGUMENTS = {
    "by names": lambda b, u, v: (b * u * v).sum() + (b * v * u.T).mean("k").std(),
    "an outer product": lambda b, u, v: (b * v * v.rename(t="s")).sum() + (u @ v).sum() * b,
    "selection": lambda b, u, v: b * u.sel(k="a").isel(t=1) * v[2] + u.where(u > 0.5, b).sum(),
    "shifts": lambda b, u, v: b * (v.diff("t") ** 2).sum() + u.weighted(v).mean("t").sum(),
    "arrays": lambda b, u, v: b * (v.values @ u.to_numpy()).sum() * u.sizes["t"] + np.sum(np.exp(-u.data)),
    "kinds": lambda b, u, v: b * u.sum() if isinstance(u, xr.DataArray) and "k" in u.dims else b,
    "steps": lambda b, u, v: sum((b * row * row.t).sum() for row in u) + b * len(v) * v.max(),
}


@pytest.mark.parametrize("name", OF_ARGUMENTS)
def test_arguments_of_xarray_are_computed_with_by_names(name):
    f, step = OF_ARGUMENTS[name], 1e-6 * np.sin(1.0 + DATA)
    gradient = nt.value_and_grad(f, argnums=(0, 1, 2))
    for u in (DATA, 0.8 * DATA):
        value, (slope, of_u, of_v) = gradient(0.7, u, V)
        assert value == pytest.approx(float(f(0.7, u, V)), rel=1e-13)
        assert slope == pytest.approx(nt.grad(lambda b, u=u: f(b, u, V))(0.7), rel=1e-12)
        assert of_u.dims == u.dims and of_v.coords.equals(V.coords)
        moved = [float(f(0.7, u + sign * step, V)) for sign in (1.0, -1.0)]
        assert float((of_u * step).sum()) == pytest.approx((moved[0] - moved[1]) / 2, rel=1e-6, abs=1e-15)


def test_numbers_of_xarray_in_all_verbs():
    """A result like ``array.sum()`` is a number: batches of its gradients were zero, and Hessians raised."""
    f, plain = (lambda b: (DATA * b).sum() ** 2), (lambda b: np.sum(DATA.values * b) ** 2)
    points = np.stack([B, 2.0 * B])
    for verb in (
        nt.hessian,
        lambda f: lambda x: nt.hvp(f)(x, x),
        lambda f: nt.grad(lambda x: nt.grad(f)(x)[0]),
    ):
        np.testing.assert_allclose(verb(f)(B), verb(plain)(B), rtol=1e-13)
    np.testing.assert_allclose(nt.batch(f)(points)[1], nt.batch(plain)(points)[1], rtol=1e-13)
    both = nt.grad(lambda x: np.sum(nt.batch(f)(x)[1]))(points)
    np.testing.assert_allclose(both, nt.grad(lambda x: np.sum(nt.batch(plain)(x)[1]))(points), rtol=1e-13)


def test_arrays_of_xarray_are_watched():
    data = DATA.copy()
    f = nt.value_and_grad(lambda b: (data * b[0]).sum())
    gradient = f(B)[1]
    data[0, 0] = 50.0
    np.testing.assert_allclose([gradient[0], f(B)[1][0]], [DATA.sum(), data.sum()])
    found = nt.jvp(lambda b: data * b, (B,), (np.ones(3),))[1]
    np.testing.assert_allclose(found, data)  # results are arrays


def test_names_and_attributes_are_watched():
    """Of xarray and pandas alike: what a program notes beside the numbers, and reads in the next call."""
    data = xr.DataArray([1.0, 2.0], {"t": [0.0, 1.0]}, "t", name="a")
    both = xr.Dataset({"u": data})
    frame = pd.DataFrame({"u": [1.0, 2.0]}, index=pd.Index([0, 1], name="a"))
    columns = pd.MultiIndex.from_tuples([("a", 1)], names=["u", "v"])

    def noted(b):
        numbers = [owner.attrs.get("n", 1.0) for owner in (data, data.t, both, frame, frame.u)]
        numbers += [data.encoding.get("n", 1.0), 1.0 * frame.flags.allows_duplicate_labels]
        numbers += [float(len(name)) for name in (data.name, frame.index.name, columns.names[0])]
        return np.sum(b * np.array(numbers))

    changes = [lambda owner=owner: owner.attrs.update(n=3.0) for owner in (data, both, frame)]
    changes += [lambda: data.coords["t"].attrs.update(n=4.0), lambda: data.encoding.update(n=5.0)]
    changes += [lambda: setattr(frame.flags, "allows_duplicate_labels", False)]
    changes += [lambda: setattr(data, "name", "other"), lambda: setattr(frame.index, "name", "rows")]
    changes += [lambda: setattr(columns, "names", ["first", "v"])]
    f, b = nt.value_and_grad(noted), np.arange(1.0, 11.0)
    for change in changes:
        before = noted(b)
        assert f(b)[0] == before
        change()
        assert f(b)[0] == noted(b) != before
