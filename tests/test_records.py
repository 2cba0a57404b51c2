"""Objects of other packages as arguments: records, mappings, quantities with units, arrays of JAX."""

import argparse
import collections
import pickle
import types

import numpy as np
import pytest

import numbatape as nt
from numbatape import transforms
from numbatape.errors import SpecError, StructureError


def scaled(p):
    return p.scale * np.sum(p.x**2)


class Attributes(dict):
    """A dictionary with attributes, in the way of a Bunch."""

    __getattr__ = dict.__getitem__


class Named(collections.UserDict):
    label = "usual"


def check(p, parts=vars):
    gradient = nt.grad(scaled)(p)
    assert type(gradient) is type(p)
    assert parts(gradient)["scale"] == 5.0
    np.testing.assert_array_equal(parts(gradient)["x"], [4.0, 8.0])
    prepared = nt.prepare_gradient_cache(scaled, p)
    np.testing.assert_array_equal(parts(nt.value_and_gradient(prepared, p)[1][0])["x"], [4.0, 8.0])


@pytest.mark.parametrize("kind", [types.SimpleNamespace, argparse.Namespace])
def test_namespaces(kind):
    check(kind(scale=2.0, x=np.array([1.0, 2.0])))


@pytest.mark.parametrize("decorate", ["define", "frozen"])
def test_classes_of_attrs_are_made_without_converters_and_validators(decorate):
    attrs = pytest.importorskip("attrs")
    number = attrs.field(validator=attrs.validators.instance_of(float), converter=float)
    cls = getattr(attrs, decorate)(
        types.new_class(
            "P",
            (),
            {},
            lambda body: body.update(__annotations__={"scale": float, "x": np.ndarray}, scale=number),
        )
    )
    fields = lambda p: attrs.asdict(p)  # noqa: E731
    check(cls(2.0, np.array([1.0, 2.0])), fields)
    start = cls(2.0, np.array([1.0, 2.0]))
    density = transforms.unconstrained(scaled, start, {"scale": transforms.positive})
    assert density.names == ("scale", "x[0]", "x[1]")
    assert type(density.constrain(density.start)) is cls


def test_a_field_that_attrs_computes_is_refused():
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Computed:
        x: float
        square: float = attrs.field(init=False)

        def __attrs_post_init__(self):
            self.square = self.x**2

    with pytest.raises(StructureError, match=r"Computed has fields .* \(square\)"):
        nt.grad(lambda p: p.square)(Computed(3.0))


def test_models_and_dataclasses_of_pydantic_are_not_validated():
    pydantic = pytest.importorskip("pydantic")
    free = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model = pydantic.create_model(
        "Model", scale=(pydantic.PositiveFloat, ...), x=(np.ndarray, ...), __config__=free
    )
    check(model(scale=2.0, x=np.array([1.0, 2.0])), dict)

    @pydantic.dataclasses.dataclass(config=free)
    class Fields:
        scale: float
        x: np.ndarray

    check(Fields(2.0, np.array([1.0, 2.0])))


@pytest.mark.parametrize("kind", [types.MappingProxyType, collections.ChainMap, Named, Attributes])
def test_mappings(kind):
    p = kind({"scale": 2.0, "x": np.array([1.0, 2.0])})
    gradient = nt.grad(lambda p: p["scale"] * np.sum(p["x"] ** 2))(p)
    assert type(gradient) is kind and gradient["scale"] == 5.0
    np.testing.assert_array_equal(gradient["x"], [4.0, 8.0])


def test_a_mapping_with_attributes_of_its_own_is_refused():
    p = Named({"x": 1.0})
    p.label = "other"
    with pytest.raises(StructureError, match=r"Named has attributes beside its items \(label\)"):
        nt.grad(lambda p: p["x"] if p.label == "usual" else 2.0 * p["x"])(p)


def test_a_mapping_that_its_items_do_not_make_is_no_container():
    class Parameters(dict):
        def __init__(self, table=None):
            super().__init__()

    p = Parameters()
    p["x"] = 1.0
    with pytest.raises(SpecError, match="Parameters is not a number"):
        nt.grad(lambda p: p["x"])(p)


class Model:
    """A model that keeps a derivative of its own method."""

    def __init__(self, scale):
        self.scale = scale
        self.slope = nt.grad(self.loss)

    def loss(self, x):
        return self.scale * np.sum(x**2)


@pytest.mark.parametrize("take", [lambda m: m, lambda m: m.slope.__wrapped__.__self__])
def test_an_object_with_a_derivative_of_its_method_can_be_pickled(take):
    again = take(pickle.loads(pickle.dumps(Model(3.0))))
    np.testing.assert_array_equal(again.slope(np.ones(2)), [6.0, 6.0])
    again.scale = 1.0
    np.testing.assert_array_equal(again.slope(np.ones(2)), [2.0, 2.0])


def test_a_derivative_of_a_method_can_be_pickled_by_itself():
    slope = pickle.loads(pickle.dumps(Model(3.0).slope))
    np.testing.assert_array_equal(slope(np.ones(2)), [6.0, 6.0])


@pytest.mark.parametrize("x", [2.0, np.array([2.0, 3.0])])
def test_quantities_with_units_compute_with_traced_values(x):
    pint = pytest.importorskip("pint")
    unit = pint.UnitRegistry()
    length = np.ones(np.shape(x)) * unit.km

    def f(x):
        speed = (x * unit.m + length) / (4.0 * unit.s)
        return np.sum((np.sqrt(speed * speed) * x * unit.s).m_as("m"))

    gradient = nt.grad(f)(x)
    np.testing.assert_allclose(gradient, (2.0 * x + 1000.0) / 4.0, rtol=1e-14)
    length *= 2.0
    np.testing.assert_allclose(nt.grad(f)(x), (2.0 * x + 2000.0) / 4.0, rtol=1e-14)


class Quantity:
    """A number with a unit: equal ones do not have equal numbers."""

    def __init__(self, number, scale):
        self.number, self.scale = number, scale

    def __eq__(self, other):
        return self.number * self.scale == other.number * other.scale

    def __hash__(self):
        return hash(self.number * self.scale)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.number, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [x.number if type(x) is Quantity else x for x in inputs]
        return Quantity(getattr(ufunc, method)(*plain, **kwargs), self.scale)


def test_objects_with_ufuncs_of_their_own():
    three = Quantity(3.0, 1000.0)
    for x in (2.0, np.float64(2.0), np.full(2, 2.0)):
        assert np.all(nt.grad(lambda x: np.sum((x * three).number))(x) == 3.0)
        assert np.all(nt.grad(lambda x: np.sum(np.add(x, three).number))(x) == 1.0)
    # 3 km and 3000 m are equal, so they cannot select a tape.
    with pytest.raises(SpecError, match="Quantity has units or labels"):
        nt.grad(lambda x, q: (x * q).number)(2.0, three)


def test_arrays_of_jax_are_arguments():
    jnp = pytest.importorskip("jax.numpy")
    slope = nt.grad(lambda p, t: np.sum(p["a"] * t) ** 2)
    point = {"a": np.array([1.0, 2.0], np.float32)}
    expected = slope(point, np.arange(2, dtype=np.float32))["a"]
    for _ in range(2):
        found = slope({"a": jnp.array(point["a"])}, jnp.arange(2, dtype=jnp.float32))["a"]
        assert type(found) is np.ndarray and found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "name, field", [("linregress", "intercept_stderr"), ("ttest_ind", "df"), ("pearsonr", "correlation")]
)
def test_results_of_scipy_with_further_fields_are_containers(name, field):
    """They are tuples with attributes beside their entries, some of which are other names of an entry."""
    from scipy import stats

    # None of x is their mean, where the slope is zero but for rounding.
    x, y = np.array([1.0, 2.0, 3.0, 5.0, 4.5]), np.array([1.1, 4.2, 8.7, 25.4, 16.0])
    test = getattr(stats, name)
    f = lambda y: test(x, y)  # noqa: E731
    rows = nt.jacobian(f)
    for values in (y, y, 2.0 * y + x):
        value, slope = nt.jvp(f, (values,), (x**2,))
        plain, slopes = f(values), rows(values)
        assert type(value) is type(slope) is type(slopes) is type(plain)
        np.testing.assert_allclose(value, plain, 1e-12)
        for one in (*plain._fields, field):
            wanted = nt.grad(lambda y, one=one: getattr(test(x, y), one) * 1.0)(values)
            np.testing.assert_allclose(getattr(slopes, one), wanted, 1e-12)
            np.testing.assert_allclose(getattr(slope, one), wanted @ x**2, 1e-9, 1e-12)
            np.testing.assert_allclose(getattr(value, one), getattr(plain, one), 1e-12)
