"""The axes of `nt.vmap`: any axis of any argument and result, and errors where they do not fit."""

from typing import NamedTuple

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import optree
import pytest
from hypothesis import given, settings

import numbatape as nt

traced = pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside of a trace"])


def mapped(inside, f, in_axes=0, out_axes=0):
    """Return ``nt.vmap(f)``, whose arrays are traced values if ``inside``."""
    if not inside:
        return nt.vmap(f, in_axes, out_axes)

    def call(*args, **kwargs):
        def recorded(zero):
            def of_trace(leaf):
                return leaf + zero if isinstance(leaf, np.ndarray) else leaf

            given = optree.tree_map(of_trace, (args, kwargs), none_is_leaf=True)
            return nt.vmap(f, in_axes, out_axes)(*given[0], **given[1])

        return nt.jvp(recorded, (0.0,), (1.0,))[0]

    return call


def as_jacobian(f, *args):
    """Return the value of a function whose argument is traced: its arrays are those of the trace."""
    return nt.value_and_jacobian(f)(*args)[0]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_axes(data):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    out = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(arrays.arrays(float, shape, elements=st.floats(-2, 2)))
    y = data.draw(arrays.arrays(float, shape[axis], elements=st.floats(-2, 2)))

    def f(row, number):
        return np.sin(row) * number

    rows = [f(x.take(k, axis), y[k]) for k in range(shape[axis])]
    wanted = np.stack(rows, axis=out)
    g = nt.vmap(f, in_axes=(axis, 0), out_axes=out)
    np.testing.assert_allclose(g(x, y), wanted, 1e-14)
    np.testing.assert_allclose(as_jacobian(g, x, y), wanted, 1e-14)


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


CASES = {
    "prefix of a dictionary": ({"a": 1, "b": None}, lambda t: t["a"] * t["b"], ({"a": 1, "b": None},)),
    "one axis for a container": (Pair(0, 0), lambda p: p.left + np.sum(p.right), (0,)),
    "containers in a tuple": (((0, None), [1]), lambda p: p[0][0] * p[0][1] + p[1][0], (((0, None), [1]),)),
}


@traced
@pytest.mark.parametrize(("axes", "f", "in_axes"), CASES.values(), ids=CASES)
def test_containers(axes, f, in_axes, inside):
    numbers = iter(np.arange(1.0, 200.0))

    def array(axis):
        shape = {0: (3, 2), 1: (2, 3), None: (2,)}[axis]
        return np.array([next(numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)

    leaves, structure = optree.tree_flatten(axes, none_is_leaf=True)
    given = [array(axis) for axis in leaves]
    rows = [
        f(structure.unflatten([x if a is None else x.take(k, a) for x, a in zip(given, leaves, strict=True)]))
        for k in range(3)
    ]
    found = mapped(inside, f, in_axes)(structure.unflatten(given))
    np.testing.assert_allclose(found, np.stack(rows))


@traced
def test_keywords_are_mapped_over_their_first_axis(inside):
    found = mapped(inside, lambda x, y=0.0: x * y)(np.arange(3.0), y=np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(found, [0.0, 2.0, 8.0])


@traced
def test_containers_of_out_axes(inside):
    def f(x):
        return {"a": x, "b": (np.sum(x), 7.0)}

    x = np.arange(6.0).reshape(3, 2)
    found = mapped(inside, f, out_axes={"a": -1, "b": (0, None)})(x)
    np.testing.assert_array_equal(found["a"], x.T)
    np.testing.assert_array_equal(found["b"][0], x.sum(1))
    assert found["b"][1] == 7.0


@traced
def test_shared_arguments_of_any_kind(inside):
    def f(x, how, scale, nothing):
        assert nothing is None
        return getattr(np, how)(x) * scale

    x = np.array([1.0, 4.0])
    found = mapped(inside, f, in_axes=(0, None, None, 0))(x, "sqrt", 2.0, None)
    np.testing.assert_array_equal(found, [2.0, 4.0])


@traced
@pytest.mark.parametrize("f", [np.sin, lambda x: (x[0], {"a": np.outer(x, x)}), lambda x: 1.0])
def test_no_lanes(inside, f):
    row = f(np.ones(2))
    wanted = optree.tree_map(lambda leaf: (0, *np.shape(leaf)), row)
    found = mapped(inside, f)(np.zeros((0, 2)))
    assert optree.tree_map(np.shape, found) == wanted


def test_no_lanes_of_a_function_that_fails_on_made_up_rows():
    def f(x):
        if np.sum(x) < 1000:
            raise ValueError("too small")
        return x

    with pytest.raises(nt.SpecError, match="no lanes"):
        nt.vmap(f)(np.zeros((0, 2)))


ERRORS = {
    "an axis beyond the rank": (nt.ShapeError, (lambda x: x, 1, 0), (np.zeros(3),), r"argument 0.*\(3,\)"),
    "a negative axis beyond": (nt.ShapeError, (lambda x: x, -2, 0), (np.zeros(3),), "at least 2 dimensions"),
    "a number": (nt.ShapeError, (lambda x: x, 0, 0), (1.0,), "at least 1 dimension"),
    "different lengths": (
        nt.ShapeError,
        (lambda x, y: x, 0, 0),
        (np.zeros(3), np.zeros(4)),
        "argument 0 has 3, argument 1 has 4",
    ),
    "too few axes": (nt.ArityError, (lambda x, y: x, (0,), 0), (np.zeros(3), np.zeros(3)), "1 entries.* 2 "),
    "nothing is mapped": (nt.SpecError, (lambda x: x, None, 0), (np.zeros(3),), "maps no array"),
    "no arguments": (nt.SpecError, (lambda: 1.0, 0, 0), (), "maps no array"),
    "no prefix": (nt.StructureError, (lambda x: x, ({"b": 0},), 0), ({"a": np.zeros(3)},), "argument 0"),
    "a string": (nt.SpecError, (lambda x, s: x, 0, 0), (np.zeros(3), "a"), "argument 1 is a str"),
    "an axis of results beyond the rank": (
        nt.OutputError,
        (lambda x: x, 0, 2),
        (np.zeros((3, 4)),),
        "out_axes=2",
    ),
    "no axis for what differs": (nt.OutputError, (lambda x: x, 0, None), (np.zeros(3),), "out_axes is None"),
    "no prefix of results": (nt.StructureError, (lambda x: x, 0, (0, 1)), (np.zeros(3),), "out_axes"),
}


@traced
@pytest.mark.parametrize(("error", "how", "args", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(error, how, args, message, inside):
    with pytest.raises(error, match=message):
        mapped(inside, *how)(*args)


@pytest.mark.parametrize("axes", [0.5, True, "a", {0: 1}])
def test_axes_that_are_no_integers(axes):
    with pytest.raises(nt.SpecError, match="in_axes"):
        nt.vmap(np.sin, in_axes=axes)
    if not isinstance(axes, dict):
        with pytest.raises(nt.SpecError, match="out_axes"):
            nt.vmap(np.sin, out_axes=axes)


@traced
def test_results_of_different_shapes(inside):
    with pytest.raises(nt.OutputError, match="shape"):
        mapped(inside, lambda x: np.ones(2) * x if x > 0 else np.ones(3) * x)(np.array([1.0, -1.0]))


@traced
def test_results_of_different_structures(inside):
    with pytest.raises(nt.StructureError, match=r"returns \(\*, \*\) for some rows, and \* for others"):
        mapped(inside, lambda x: (x, x) if x > 0 else x)(np.array([1.0, -1.0]))


@traced
def test_results_that_are_no_numbers(inside):
    with pytest.raises(nt.OutputError, match="stacks numbers"):
        mapped(inside, lambda x: "text")(np.zeros(3))
