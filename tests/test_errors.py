"""Each error: its type, its text, and that the cache works after it as before."""

import contextvars
import dataclasses
import re
import typing
from fractions import Fraction

import numpy as np
import pytest

import numbatape as nt

X = np.array([1.0, 2.0, 3.0])
TREE = {"a": np.ones(2), "b": [1.0, np.ones((2, 2))]}


def tree_sum(p):
    return np.sum(p["a"]) * p["b"][0] * np.sum(p["b"][1])


def usable(cache, *args):
    """The cache still gives what a new one gives."""
    value, grads = nt.value_and_gradient(cache, *args)
    again, fresh = nt.vjp(cache._program.function, *args)
    assert value == again
    assert repr(grads) == repr(fresh(1.0))


ONE = r"argument 1 \(`y`\): prepared for "
ZERO = r"argument 0 \(`x`\): prepared for "
COLUMN = np.ones((3, 1))
PREPARED = {
    "arity, fewer": ((X, X), (X,), nt.ArityError, r"prepared for 2 arguments, got 1"),
    "arity, more": ((X, X), (X, X, X), nt.ArityError, r"prepared for 2 arguments, got 3"),
    "dtype": ((X, X), (X, np.float32(X)), nt.DtypeError, ONE + "dtype float64, got float32"),
    "dtype to int": ((X, X), (X, np.arange(3)), nt.DtypeError, ONE + "dtype float64, got int64"),
    "dtype to Python int": ((1.0, X), (1, X), nt.DtypeError, ZERO + "float, got int 1"),
    "dimensions": ((X, X), (X, COLUMN), nt.ShapeError, ONE + r"float64 with 1 dimension, got shape \(3, 1\)"),
    "dimensions of a float": ((1.0, X), (X, X), nt.ShapeError, ZERO + r"a Python float, got shape \(3,\)"),
    "structure": (
        (X, X),
        (X, [X]),
        nt.StructureError,
        "the arguments' structure differs: prepared for .*, got",
    ),
    "None": ((X, X), (X, None), nt.SpecError, ONE + "an array of float64, got NoneType"),
}


@pytest.mark.parametrize("name", PREPARED)
def test_arguments_that_do_not_fit(name):
    prepared, given, error, text = PREPARED[name]
    cache = nt.prepare_gradient_cache(lambda x, y: np.sum(x * y), *prepared)
    nt.value_and_gradient(cache, *prepared)
    for _ in range(2):
        with pytest.raises(error, match=text) as caught:
            nt.value_and_gradient(cache, *given)
        assert isinstance(caught.value, (nt.SpecError, ValueError))
        usable(cache, *prepared)
    pull = nt.prepare_pullback_cache(lambda x, y: np.sum(x * y), *prepared)
    with pytest.raises(error, match=text):
        nt.value_and_pullback(pull, 1.0, *given)


NESTED = {
    "dtype": (
        {"a": np.ones(2), "b": [1.0, np.ones((2, 2), np.float32)]},
        nt.DtypeError,
        r"leaf \.b\[1\]: prepared for dtype",
    ),
    "dimensions": (
        {"a": np.ones(2), "b": [1.0, np.ones(2)]},
        nt.ShapeError,
        r"leaf \.b\[1\]: prepared for float64 with 2 dimensions",
    ),
    "key": ({"a": np.ones(2), "c": [1.0, np.ones((2, 2))]}, nt.StructureError, r"'b'.*'c'"),
    "length": ({"a": np.ones(2), "b": [1.0]}, nt.StructureError, "structure differs"),
    "kind": ({"a": np.ones(2), "b": (1.0, np.ones((2, 2)))}, nt.StructureError, "structure differs"),
    "int": (
        {"a": np.ones(2), "b": [1, np.ones((2, 2))]},
        nt.DtypeError,
        r"leaf \.b\[0\]: prepared for float, got int 1",
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_leaves_are_named_by_path(name):
    given, error, text = NESTED[name]
    cache = nt.prepare_gradient_cache(tree_sum, TREE)
    with pytest.raises(error, match=text):
        nt.value_and_gradient(cache, given)
    usable(cache, TREE)


def test_nested_sizes_under_fixed_sizes():
    cache = nt.prepare_gradient_cache(tree_sum, TREE, config=nt.Config(fixed_sizes=True))
    with pytest.raises(
        nt.ShapeError, match=r"leaf \.a: prepared for shape \(2,\) with fixed_sizes=True, got \(3,\)"
    ):
        nt.value_and_gradient(cache, {**TREE, "a": np.ones(3)})
    usable(cache, TREE)


def test_dictionaries_in_another_order_are_the_same():
    cache = nt.prepare_gradient_cache(tree_sum, TREE)
    other = {"b": TREE["b"], "a": TREE["a"]}
    assert nt.value_and_gradient(cache, other)[0] == tree_sum(TREE)


# ---- what a function may return


class Pair(typing.NamedTuple):
    a: object
    b: object


OUTPUTS = {
    "vector": (lambda x: x, r"array of shape \(3,\); perhaps you meant jacobian \(or a pullback: nt\.vjp\)"),
    "matrix": (lambda x: np.outer(x, x), r"array of shape \(3, 3\); perhaps you meant jacobian"),
    "one entry": (lambda x: x[:1], r"array of shape \(1,\); np\.squeeze\(result\) is the number in it"),
    "one entry, a matrix": (
        lambda x: x[:1, None] ** 2,
        r"shape \(1, 1\); np\.squeeze\(result\) is the number",
    ),
    "constant vector": (lambda x: np.ones(2), r"array of shape \(2,\); perhaps you meant jacobian"),
    "tuple": (lambda x: (np.sum(x), x), r"got tuple; has_aux=True if it returns \(value, aux\)"),
    "list": (lambda x: [np.sum(x)], "got list"),
    "dict": (lambda x: {"a": np.sum(x)}, "got dict"),
    "None": (lambda x: None, "got None; perhaps a return is missing"),
    "text": (lambda x: "a", "got str"),
    "bool": (lambda x: np.sum(x) > 0, "needs a real scalar, the function returned bool"),
    "Python bool": (lambda x: True, "got bool"),
    "integer": (lambda x: np.argmax(x), "needs a real scalar, the function returned int64"),
    "complex": (lambda x: 1j, "got complex"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_results_that_are_no_scalar(name):
    f, text = OUTPUTS[name]
    for call in (nt.grad(f), nt.value_and_grad(f), lambda x: nt.prepare_gradient_cache(f, x)):
        with pytest.raises(nt.OutputError, match=text):
            call(X)


def test_a_gradient_inside_of_a_function_says_it_too():
    with pytest.raises(nt.OutputError, match="got None; perhaps a return is missing"):
        nt.grad(lambda x: np.sum(nt.grad(lambda y: None)(x)))(X)
    with pytest.raises(nt.OutputError, match=r"shape \(1,\); np\.squeeze\(result\) is the number in it"):
        nt.grad(lambda x: np.sum(nt.grad(lambda y: y[:1])(x)))(X)


def test_a_branch_that_returns_no_scalar():
    f = lambda x: np.sum(x) if x[0] > 0 else x  # noqa: E731
    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(2):
        with pytest.raises(nt.OutputError, match="jacobian"):
            nt.value_and_gradient(cache, -X)
        usable(cache, X)


def test_has_aux_needs_a_pair():
    with pytest.raises(
        nt.OutputError, match=r"has_aux=True needs a function that returns \(value, aux\), got float64"
    ):
        nt.grad(lambda x: np.sum(x), has_aux=True)(X)
    with pytest.raises(nt.OutputError, match="perhaps you meant jacobian"):
        nt.grad(lambda x: (x, 1), has_aux=True)(X)


# ---- what can be differentiated


INPUTS = {
    "int": (
        3,
        nt.DtypeError,
        r"argument 0 \(`x`\) is int: only float64 and float32 .*; pass a float \(float\(x\)\)",
    ),
    "bool": (True, nt.DtypeError, r"is bool: only float64"),
    "int array": (np.arange(3), nt.DtypeError, r"is int64: only float64 .*x\.astype\(float\)"),
    "NumPy int": (np.int32(3), nt.DtypeError, r"is int32"),
    "text": ("abc", nt.DtypeError, r"is str"),
    "None": (None, nt.DtypeError, r"is NoneType, which has no numbers .* lists, tuples, dictionaries"),
    "object": (object(), nt.DtypeError, r"is object, which has no numbers"),
    "range": (range(3), nt.DtypeError, r"is range, which has no numbers"),
    "fraction": (Fraction(1, 3), nt.DtypeError, r"is Fraction: .*; pass a float \(float\(x\)\)"),
    "empty dict": ({}, nt.DtypeError, "empty"),
    "clongdouble": (np.ones(2, np.clongdouble), nt.DtypeError, "is not supported; use float64 or float32"),
    "longdouble": (np.ones(2, np.longdouble), nt.DtypeError, "is not supported; use float64 or float32"),
    "objects": (np.array([1.0, None]), nt.DtypeError, "dtype object is not supported"),
    "strings": (np.array(["a"]), nt.DtypeError, "dtype <U1 is not supported"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), nt.DtypeError, "is not supported"),
    "masked": (
        np.ma.masked_array(X, [True, False, False]),
        nt.SpecError,
        "masked arrays are not supported; pass data and mask",
    ),
    "matrix": (np.ones((2, 2)).view(np.matrix), nt.SpecError, "matrix is not supported; pass a plain array"),
    "set": ({1.0}, nt.SpecError, "set is not a number, an array or a container"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_arguments_that_cannot_be_differentiated(name):
    argument, error, text = INPUTS[name]
    with pytest.raises(error, match=text):
        nt.grad(lambda x: np.sum(x) * 1.0)(argument)
    with pytest.raises(nt.SpecError):
        nt.prepare_gradient_cache(lambda x: np.sum(x) * 1.0, argument)
    with pytest.raises(nt.SpecError):
        nt.vjp(lambda x: np.sum(x) * 1.0, argument)


def test_nothing_to_differentiate():
    for prepare in (nt.prepare_gradient_cache, nt.prepare_pullback_cache, nt.vjp):
        with pytest.raises(
            nt.DtypeError, match=r"nothing to differentiate.*argument 0 \(`k`\) \(int 3\).*as floats"
        ):
            prepare(lambda k: k * 1.0, 3)
        with pytest.raises(nt.DtypeError, match="got no arguments"):
            prepare(lambda: 1.0)
    with pytest.raises(nt.DtypeError, match="nothing to differentiate"):
        nt.prepare_gradient_cache(lambda x: np.sum(x), nt.Constant(X))


def test_argnums_out_of_range():
    for argnums in (1, -2, (0, 5)):
        with pytest.raises(nt.SpecError, match=r"names argument .*, but the call has 1 positional argument;"):
            nt.grad(lambda x: np.sum(x), argnums)(X)


def test_static_must_be_hashable():
    with pytest.raises(
        nt.SpecError, match=r"argument 1 \(`s`\): list is not a number.*nt\.Static\(hashable\)"
    ):
        nt.prepare_gradient_cache(lambda x, s: np.sum(x), X, nt.Static([1]))


def test_derivative_needs_a_scalar():
    with pytest.raises(
        nt.SpecError, match=r"derivative needs a function of one scalar, got shape \(3,\).*grad or jacobian"
    ):
        nt.derivative(lambda x: x)(X)


def test_prepared_caches_take_plain_arrays():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x**2), X)
    with pytest.raises(nt.SpecError, match=r"is a traced value: .* call nt.grad, nt.jvp"):
        nt.grad(lambda x: nt.value_and_gradient(cache, x)[0])(X)


# ---- cotangents


def test_cotangents_that_do_not_fit():
    cache = nt.prepare_pullback_cache(lambda x: {"p": x * 2, "s": np.sum(x)}, X)
    good = {"p": X, "s": 1.0}
    for bad, error, text in (
        ({"p": X}, nt.StructureError, "the cotangent has not the result's structure"),
        (X, nt.StructureError, "the cotangent has not the result's structure"),
        ({"p": X[:2], "s": 1.0}, nt.SpecError, r"the cotangent of \['p'\] needs shape \(3,\), got \(2,\)"),
        ({"p": X, "s": None}, nt.SpecError, r"the cotangent of \['s'\] needs shape \(\), got None"),
        ({"p": X * 1j, "s": 1.0}, nt.SpecError, "must be real"),
    ):
        with pytest.raises(error, match=text):
            nt.value_and_pullback(cache, bad, X)
        np.testing.assert_array_equal(nt.value_and_pullback(cache, good, X)[1][0], 2 * X + 1)


def test_caches_of_the_wrong_kind():
    gradient, pullback = nt.prepare_gradient_cache(np.sum, X), nt.prepare_pullback_cache(np.sum, X)
    with pytest.raises(
        TypeError, match=r"value_and_gradient needs a cache of prepare_gradient_cache, got PullbackCache"
    ):
        nt.value_and_gradient(pullback, X)
    with pytest.raises(TypeError, match="got function"):
        nt.value_and_gradient(lambda x: x, X)
    with pytest.raises(
        TypeError, match=r"value_and_pullback needs a cache of prepare_pullback_cache, got GradientCache"
    ):
        nt.value_and_pullback(gradient, 1.0, X)
    with pytest.raises(TypeError, match=r"config must be nt\.Config"):
        nt.prepare_gradient_cache(np.sum, X, config={"debug_mode": True})
    with pytest.raises(TypeError, match="is not callable"):
        nt.prepare_gradient_cache(3.0, X)


# ---- while the tape runs


def test_a_failed_factorisation_names_the_line():
    def f(m):
        return np.sum(np.linalg.cholesky(m))

    good = np.array([[2.0, 0.5], [0.5, 1.0]])
    cache = nt.prepare_gradient_cache(f, good)
    line = f"test_errors.py:{f.__code__.co_firstlineno + 1} in "
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite") as caught:
            nt.value_and_gradient(cache, -good)
        usable(cache, good)
    # replayed, the tape says where; traced anew, NumPy itself raises in the user's line
    assert line in str(caught.value) or caught.traceback[-1].path
    for f, text in (
        (np.linalg.inv, "Singular matrix"),
        (lambda m: np.linalg.solve(m, np.ones(2)), "Singular matrix"),
    ):
        cache = nt.prepare_gradient_cache(lambda m, f=f: np.sum(f(m)), good)
        with pytest.raises(np.linalg.LinAlgError, match=text):
            nt.value_and_gradient(cache, np.ones((2, 2)))
        nt.value_and_gradient(cache, good)


def test_an_index_out_of_range_names_the_line():
    def f(x, i):
        return np.sum(x[i] ** 2)

    cache = nt.prepare_gradient_cache(f, X, nt.Constant(np.array([0, 1])))
    for _ in range(2):
        with pytest.raises(
            IndexError, match=rf"out of bounds.*test_errors.py:{f.__code__.co_firstlineno + 1} in "
        ):
            nt.value_and_gradient(cache, X, np.array([0, 3]))
        np.testing.assert_array_equal(nt.value_and_gradient(cache, X)[1][0], [2.0, 4.0, 0.0])
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X, np.array([-1, -1]))[1][0], [0.0, 0.0, 12.0])
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, X, np.array([-4, 0]))


def test_a_value_kept_from_another_call():
    """Where nobody looks for kept values: in lists and objects they become numbers, test_kept_values.py."""
    kept = contextvars.ContextVar("kept")

    def f(x):
        kept.set(x)
        return np.sum(x)

    nt.grad(f)(X)
    with pytest.raises(nt.LeakError, match="outlived the call that it was traced in"):
        kept.get() + 1
    with pytest.raises(nt.LeakError, match=r"values of two traces meet|outlived"):
        nt.grad(lambda x: np.sum(x * kept.get()))(X)
    with pytest.raises(nt.LeakError, match="another trace"):
        nt.grad(lambda x: kept.get())(X)


# ---- configuration


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"chunk_size": 0}, r"Config\(chunk_size=0\): chunk_size must be a positive integer or None"),
        ({"max_variants": 0}, r"max_variants must be a positive integer$"),
        ({"max_variants": None}, r"max_variants must be a positive integer$"),
        ({"max_bytes": -1}, "max_bytes must be a positive integer or None"),
        (
            {"second_order_mode": "both"},
            "second_order_mode must be 'reverse_over_forward' or 'forward_over_reverse'",
        ),
        ({"values": "exact"}, "values must be 'fast' or 'numpy'"),
        ({"passes": "some"}, "passes must be 'all', 'none' or a tuple of names"),
    ],
)
def test_config_is_validated(options, text):
    with pytest.raises(ValueError, match=text):
        nt.Config(**options)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(nt.Config)])
def test_each_field_refuses_other_types(field):
    default = getattr(nt.Config(), field)
    for value in (
        1,
        0,
        1.0,
        -3,
        "no",
        "all ",
        None,
        True,
        np.bool_(True),
        np.int64(3),
        [],
        b"fast",
        np.ones(2),
    ):
        good = type(value) is type(default) and value in (True, 1, "all")
        if field in ("chunk_size", "max_bytes"):
            good = value is None or (type(value) is int and value > 0)
        if good:
            nt.Config(**{field: value})
            continue
        for kind in (nt.ConfigError, ValueError, TypeError):
            with pytest.raises(kind, match=rf"(?s)Config\({field}=.*{field} must be") as caught:
                nt.Config(**{field: value})
            assert len(str(caught.value).splitlines()) <= 20
            assert len(str(caught.value)) < 3000


STRUCTURES = {
    "key": (
        {"a": [1.0, X], "c": X},
        r"argument 0 \(`p`\): .*prepared for a dict with 'a', 'b', got a dict with 'a', 'c'",
    ),
    "length": ({"a": [1.0], "b": X}, r"leaf \.a: .*prepared for a list of 2, got a list of 1"),
    "kind": ({"a": (1.0, X), "b": X}, r"leaf \.a: .*prepared for a list of 2, got a tuple of 2"),
    "leaf": ({"a": [1.0, X], "b": [X]}, r"leaf \.b: .*prepared for an array or a number, got a list of 1"),
    "node": ({"a": [1.0, {"k": X}], "b": X}, r"leaf \.a\[1\]: .*got a dict with 'k'"),
    "role": (nt.Static(3), r"argument 0 \(`p`\): .*got an array or a number"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_place_where_structures_part_is_named(name):
    cache = nt.prepare_gradient_cache(
        lambda p, c: np.sum(p["b"]) * c["k"], {"a": [1.0, X], "b": X}, nt.Constant({"k": 2.0})
    )
    given, text = STRUCTURES[name]
    with pytest.raises(nt.StructureError, match=text):
        nt.value_and_gradient(cache, given)
    with pytest.raises(
        nt.StructureError, match=r"argument 1 \(`c`\): .*a dict with 'k', got a dict with 'k', 'm'"
    ):
        nt.value_and_gradient(cache, {"a": [1.0, X], "b": X}, nt.Constant({"k": 2.0, "m": 1.0}))


def test_config_has_no_other_fields():
    with pytest.raises(nt.ConfigError, match=r"no field 'debug'; the fields are debug_mode, .*, threads"):
        nt.Config(debug=True)
    with pytest.raises(TypeError):
        nt.Config(True)
    assert nt.Config() == nt.Config(values="fast")


def test_hierarchy():
    assert issubclass(nt.SpecError, (nt.NumbatapeError, ValueError))
    for error in (nt.ArityError, nt.StructureError, nt.DtypeError, nt.ShapeError, nt.OutputError):
        assert issubclass(error, nt.SpecError)
    assert issubclass(nt.OutputError, TypeError)
    assert issubclass(nt.UnsupportedOperationError, TypeError)
    assert issubclass(nt.LeakError, nt.UnsupportedOperationError)


def weighted(x, y, kind="sum", *, power=1):
    return getattr(np, kind)(x**power * y)


CALLS = {
    "argnums-float": (
        lambda: nt.grad(tree_sum, argnums=1.0)(X),
        nt.SpecError,
        r"argnums=1.0: must be an int",
    ),
    "argnums-None": (lambda: nt.jacobian(np.sin, argnums=None)(X), nt.SpecError, "argnums=None: must be"),
    "no-function": (lambda: nt.grad(3), TypeError, "3 is not callable; verbs take functions"),
    "no-function-jvp": (lambda: nt.jvp("f", (X,), (X,)), TypeError, "'f' is not callable"),
    "aux-scalar": (lambda: nt.grad(np.sum, has_aux=True)(X), nt.OutputError, r"\(value, aux\), got float64"),
    "aux-three": (
        lambda: nt.grad(lambda x: (np.sum(x), 1, 2), has_aux=True)(X),
        nt.OutputError,
        r"\(value, aux\), got a tuple of 3",
    ),
    "args_to_zero": (
        lambda: nt.value_and_gradient(nt.prepare_gradient_cache(np.sum, X), X, args_to_zero=True),
        nt.SpecError,
        "args_to_zero=True: must be a tuple",
    ),
    "kwargs": (
        lambda: nt.prepare_gradient_cache(np.sum, X, kwargs=[1]),
        TypeError,
        "must be a dictionary, got list",
    ),
    "memoryview": (lambda: nt.grad(np.sum)(memoryview(X)), nt.SpecError, "memoryview is not a number"),
    "in_axes": (lambda: nt.batch(np.sum, in_axes="a")(np.eye(2)), nt.SpecError, "in_axes='a': must be"),
    "in_axes bool": (
        lambda: nt.batch(np.sum, in_axes=True)(np.eye(2)),
        nt.SpecError,
        "in_axes=True: must be",
    ),
    "axis-missing": (lambda: nt.batch(np.sum, in_axes=2)(np.eye(2)), nt.SpecError, "names an axis"),
    "axis-negative": (lambda: nt.batch(np.sum, in_axes=-3)(np.eye(2)), nt.SpecError, "names an axis"),
    "pattern": (
        lambda: nt.sparse_jacobian(np.sin, pattern="a")(X),
        nt.PatternError,
        "a pattern must be a matrix of numbers",
    ),
    "pattern-stack": (
        lambda: nt.sparse_jacobian(np.sin, pattern=np.ones((1, 3, 3)))(X),
        nt.PatternError,
        r"of shape \(1, 3, 3\)",
    ),
    "static-and-chosen": (
        lambda: nt.grad(weighted, static_argnums=0)(X, X),
        nt.SpecError,
        "argument 0 is static, and argnums names it",
    ),
    "static-list": (
        lambda: nt.grad(weighted, static_argnums=1)(X, [1.0]),
        nt.SpecError,
        "unhashable|cannot be hashed",
    ),
    "static-float": (
        lambda: nt.grad(weighted, static_argnums=1.5),
        nt.SpecError,
        "static_argnums=1.5|must be",
    ),
    "resize": (
        lambda: nt.prepare_gradient_cache(np.sum, X).resize(np.eye(2)),
        nt.ShapeError,
        "1 dimension, got shape",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_fit_a_call(name):
    call, error, text = CALLS[name]
    with pytest.raises(error, match=text):
        call()


def test_resize_prepares_other_sizes():
    cache = nt.prepare_gradient_cache(lambda x, y: np.sum(x * y**2), np.ones(2), nt.Constant(np.ones(2)))
    cache.resize(np.ones(3), np.ones(3))
    assert cache.traces == 1
    _, (gradient, _) = nt.value_and_gradient(cache, np.ones(3), np.arange(3.0))
    np.testing.assert_array_equal(gradient, [0.0, 1.0, 4.0])


@pytest.mark.parametrize(
    "names", [{"static_argnums": 2}, {"static_argnames": "kind"}, {"static_argnums": (-1,)}]
)
def test_static_arguments(names):
    for kind in ("sum", "mean", "sum"):
        expected = X if kind == "sum" else X / 3.0
        np.testing.assert_allclose(nt.grad(weighted, **names)(X, X, kind), expected)
        value, _ = nt.value_and_grad(weighted, **names)(X, X, kind)
        assert value == weighted(X, X, kind)
        np.testing.assert_allclose(nt.jacobian(weighted, **names)(X, X, kind), expected)
        np.testing.assert_array_equal(nt.hessian(weighted, **names)(X, X, kind), np.zeros((3, 3)))
        np.testing.assert_array_equal(nt.hvp(weighted, **names)(X, X, kind, X), np.zeros(3))
    by_name = nt.grad(weighted, static_argnames=("kind", "power"))
    np.testing.assert_allclose(by_name(X, X, kind="sum", power=2), 2.0 * X * X)
    nested = nt.grad(lambda x: np.sum(nt.grad(weighted, **names)(x, x, "sum")))(X)
    np.testing.assert_allclose(nested, np.ones(3))


# ---- what is printed


def test_caches_tapes_and_errors_print_at_most_twenty_lines():
    tree = {f"parameter {k}": np.ones((2, 2)) for k in range(200)}
    cache = nt.prepare_gradient_cache(lambda p: sum(np.sum(np.exp(x)) for x in p.values()), tree)
    for text in (repr(cache), str(cache), repr(cache.tape), str(cache.tape)):
        assert len(text.splitlines()) <= 20
        assert len(text) < 3000
    assert len(cache.tape.listing().splitlines()) > len(cache.tape) >= 200
    assert str(cache.tape).splitlines()[:10] == cache.tape.listing().splitlines()[:10]
    with pytest.raises(nt.StructureError) as caught:
        nt.value_and_gradient(cache, {f"other {k}": np.ones((2, 2)) for k in range(200)})
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("verb", [nt.grad, nt.value_and_grad, nt.jacobian, nt.hessian])
def test_derivatives_for_no_argument_are_refused_by_name(verb):
    with pytest.raises(nt.SpecError, match=r"argnums=\(\) names no argument"):
        verb(lambda x: np.sum(x * x), argnums=())(np.ones(3))


@pytest.mark.parametrize("options", [{"dtypes": "f64"}, {"dtypes": ("f16",)}, {"values": ("slow",)}])
def test_what_warmup_does_not_know_is_named_with_what_it_does(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}=.* must be a sequence of names out of "):
        nt.warmup(**options)


RAGGED = [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize(
    "what, call",
    [
        ("argument 0 (`y`)", lambda x: nt.prepare_pullback_cache(written, nt.Cache(RAGGED), x)),
        ("argument 0 (`x`)", lambda x: nt.jvp(np.sin, (x,), (RAGGED,))),
        ("argument 0 (`x`)", lambda x: nt.hvp(summed)(x, RAGGED)),
        ("the cotangent of the result", lambda x: nt.vjp(np.sin, x)[1](RAGGED)),
    ],
)
def test_lists_of_different_lengths_are_named(what, call):
    with pytest.raises(nt.SpecError, match=f"{re.escape(what)} is no array: .*inhomogeneous"):
        call(np.ones(3))


def written(y, x):
    y[:] = x**2


def summed(x):
    return np.sum(x**2)


def test_a_ufunc_made_of_a_python_function_is_refused_with_what_works():
    squared = np.frompyfunc(lambda x: x**2, 1, 1)
    with pytest.raises(nt.UnsupportedOperationError, match=r"np\.vectorize\(f\)"):
        nt.grad(lambda x: np.sum(squared(x)))(np.ones(2))


def test_containers_that_contain_themselves():
    ring: list = [np.ones(2)]
    ring.append(ring)
    with pytest.raises(nt.StructureError, match="contains itself"):
        nt.grad(lambda tree: np.sum(tree[0]))(ring)


def test_arrays_of_objects_with_traced_entries():
    with pytest.raises(nt.UnsupportedOperationError, match=r"np.array\(..., dtype=object\)"):
        nt.grad(lambda x: np.array([x[:1], x], dtype=object)[0][0])(np.ones(2))


@pytest.mark.parametrize(
    "f", [lambda x: np.ma.masked_where(x < 0, x).sum(), lambda x: np.ma.array(x, mask=[0, 1]).mean()]
)
def test_masked_arrays_of_traced_values(f):
    with pytest.raises(nt.NumbatapeError, match="keep data and mask apart"):
        nt.grad(f)(np.ones(2))


def test_a_masked_array_that_is_an_index_is_its_data():
    mask = np.ma.array([True, True, False], mask=[False, True, False])
    places = np.ma.array([0, 2], mask=[True, False])
    x = np.array([1.0, 2.0, 3.0])
    for key in (mask, places, (mask,)):
        np.testing.assert_array_equal(nt.vjp(lambda x, key=key: x[key], x)[0], x[key])


@pytest.mark.parametrize(
    "verb", [nt.vmap, nt.batch, lambda f, config: nt.prepare_gradient_cache(f, 1.0, config=config)]
)
def test_a_configuration_of_another_class(verb):
    with pytest.raises(TypeError, match=r"config must be nt\.Config"):
        verb(np.sin, config="fast")(np.ones(2))


def test_a_system_without_entries():
    with pytest.raises(nt.ShapeError, match=r"linear_solve: there are no entries in b"):
        nt.linear_solve(lambda x: 2.0 * x, np.ones(0))
    for b in (None, "text"):
        with pytest.raises(
            nt.DtypeError, match=rf"linear_solve: b must hold numbers, got {type(b).__name__}"
        ):
            nt.linear_solve(lambda x: 2.0 * x, b)


@pytest.mark.parametrize("position", [np.argmax, np.argsort, np.sort], ids=["argmax", "argsort", "sort"])
def test_positions_that_float32_cannot_hold_are_refused(position):
    """A trace of few entries, which serves other sizes, does not serve these."""
    gradient = nt.grad(lambda x: np.sum(x * position(x)))
    short, long = np.ones(3, np.float32), np.zeros(2**24 + 1, np.float32)
    gradient(short)
    gradient(np.ones(5, np.float32))
    with pytest.raises(nt.UnsupportedOperationError, match=r"x.astype\(np.float64\)"):
        gradient(long)
    gradient(short)


def test_weights_that_sum_to_zero_raise_numpys_error():
    weights = np.array([1.0, 2.0, 3.0])
    gradient = nt.grad(lambda x, w: np.average(x, weights=w), argnums=(0, 1))
    np.testing.assert_allclose(gradient(np.arange(3.0), weights)[0], weights / 6.0)
    for unfit in (np.zeros(3), np.array([1.0, -2.0, 1.0])):
        with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
            gradient(np.arange(3.0), unfit)
    np.testing.assert_allclose(gradient(np.arange(3.0), weights)[0], weights / 6.0)
    columns = nt.grad(lambda x: np.sum(np.average(x, 0, weights=x)))
    with pytest.raises(ZeroDivisionError):
        columns(np.array([[1.0, 0.0], [2.0, 0.0]]))


def test_a_bound_callable_takes_no_arguments():
    bound = nt.prepare_gradient_cache(lambda x: np.sum(x * x), np.ones(3)).bind(np.ones(3))
    with pytest.raises(TypeError, match=r"^numbatape\.\w+\.\w+\(\) takes no arguments \(1 given\)$"):
        bound(1)
