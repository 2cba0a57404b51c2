"""Arguments and functions that no verb can use: a clear error, and the next call is right."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import numbatape as nt

X = np.array([1.0, 2.0, 3.0])


def total(x):
    return np.sum(x * x)


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array here")


@dataclasses.dataclass
class Two:
    a: float = 1.0
    b: float = 2.0


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
OBJECTS = np.array([1.0, 2.0, None], dtype=object)
ITSELF: list = [1.0]
ITSELF.append(ITSELF)

CACHE = nt.prepare_gradient_cache(total, X)

REFUSED = {
    "points with a mask": (lambda: nt.batch(total)(MASKED), "masked arrays"),
    "points that are objects": (lambda: nt.batch(total)(OBJECTS), "argument 0: dtype object"),
    "no points": (lambda: nt.batch(total)([]), "hold no array"),
    "points that cannot be read": (lambda: nt.batch(total)(Unreadable()), "argument 0 is no array"),
    "rows with a mask": (lambda: nt.vmap(total)(MASKED), "masked arrays"),
    "rows that are objects": (lambda: nt.vmap(total)(OBJECTS), "dtype object"),
    "a tangent with a mask": (lambda: nt.jvp(total, (X,), (MASKED,)), "the tangent of argument 0"),
    "a vector with a mask": (lambda: nt.hvp(total)(X, MASKED), "the vector of argument 0"),
    "a cotangent with a mask": (lambda: nt.vjp(np.sin, X)[1](MASKED), "the cotangent of the result"),
    "an unreadable tangent": (lambda: nt.jvp(total, (X,), (Unreadable(),)), "the tangent of argument 0"),
    "an unreadable cotangent": (lambda: nt.vjp(total, X)[1](Unreadable()), "the cotangent of the result"),
    "a derivative by a ragged list": (lambda: nt.derivative(total)([[1.0], [1.0, 2.0]]), "argument 0 of"),
    "a derivative by two numbers": (
        lambda: nt.derivative(lambda p: p.a * p.b)(Two()),
        "of several",
    ),
    "a vector of complex numbers": (lambda: nt.flatten(X)[1](X * 1j), "needs real numbers"),
    "a vector of text": (lambda: nt.flatten(X)[1](["a", "b", "c"]), "needs real numbers"),
    "a ragged vector": (lambda: nt.flatten(X)[1]([[1.0], [1.0, 2.0]]), "the vector of unflatten"),
    "a tree with a mask": (lambda: nt.flatten({"a": MASKED}), "a: masked arrays"),
    "a list in itself": (lambda: nt.stop_gradient(ITSELF), "contains itself"),
    "64 dimensions": (lambda: nt.grad(total)(np.ones((1,) * 64)), "argument 0 .* has 64 dimensions"),
    "a constant": (lambda: nt.grad(total)(nt.Constant(X)), r"argument 0 .* comes as an nt\.Constant"),
    "scratch": (lambda: nt.grad(total)(nt.Cache(X)), r"argument 0 .* comes as an nt\.Cache"),
    "a bool as argnums": (lambda: nt.grad(total, argnums=True)(X), "argnums=True: must be an int"),
    "a float as argnums": (lambda: nt.hvp(total, argnums=0.0)(X, X), "argnums=0.0: must be an int"),
    "floats as argnums": (lambda: nt.jacobian(total, argnums=(0.0,))(X), "argnums=.*: must be an int"),
    "an array as argnums": (lambda: nt.hessian(total, argnums=np.array([0, 1]))(X), "must be an int"),
    "a static argument that is not there": (lambda: nt.grad(total, static_argnums=3)(X), "static_argnums=3"),
    "a static name that is not there": (
        lambda: nt.grad(total, static_argnames="n")(X),
        "static_argnames='n'",
    ),
    "a static argument in argnums": (lambda: nt.grad(total, static_argnums=0)(X), "argument 0 is static"),
    "a number of repeats": (lambda: CACHE.profile(repeats="a"), "repeats='a'"),
    "switches of forward mode": (
        lambda: nt.value_and_gradient(nt.prepare_derivative_cache(total, X), X, args_to_zero=3),
        "args_to_zero=3",
    ),
    "another tree for a layout": (lambda: CACHE.layout.ravel((X[:2],)), "ravel needs"),
    "masked rows of a scan": (lambda: nt.scan(lambda c, x: (c + x, x), 0.0, MASKED), "masked arrays"),
    "a cotangent of objects": (
        lambda: nt.grad(nt.primitive(np.sum, pullback=lambda g, y, x: (OBJECTS,)))(X),
        "the pullback of the rule sum",
    ),
    "a bound that is text": (lambda: nt.transforms.lower("a"), "must be a number, got 'a'"),
    "names of axes": (lambda: nt.transforms.unconstrained(total, X, dims=3), "dims must be a dictionary"),
    "a Hessian of a ragged list": (
        lambda: nt.hessian(lambda x: [[x[0]], None])(X),
        "got list",
    ),
    "a batch of empty lists": (lambda: nt.batch(lambda x: [])(np.ones((2, 3))), "got list"),
    "a sparse Jacobian of complex numbers": (lambda: nt.sparse_jacobian(lambda x: x * 1j)(X), "got complex"),
    "a sparse cache of complex numbers": (
        lambda: nt.value_and_sparse_jacobian(
            nt.prepare_sparse_jacobian_cache(lambda x: x * 1j, X, pattern=np.eye(3)), X
        ),
        "got complex",
    ),
    "a pattern of complex numbers": (lambda: nt.sparsity(lambda x: (x, 1j), X), "got complex"),
    "a sparse Jacobian of complex numbers in a trace": (
        lambda: nt.jacobian(lambda x: np.sum(nt.sparse_jacobian(lambda x: x * 1j)(x).data))(X),
        "got complex",
    ),
    "a start that is text": (lambda: nt.root(np.sin, "a"), "x0 must hold numbers, got str"),
    "a start that is missing": (lambda: nt.fixed_point(np.cos, None), "x0 must hold numbers, got NoneType"),
    "no steps": (lambda: nt.fixed_point(np.cos, 1.0, max_steps=0), "max_steps=0"),
    "a tolerance of text": (lambda: nt.root(np.sin, 1.0, tol="a"), "tol='a': must be a number"),
    "a tolerance below zero": (lambda: nt.minimize_scalar(np.cosh, 1.0, tol=-1.0), "tol=-1.0"),
    "a system without a matrix": (lambda: nt.linear_solve(None, X), "A must be a function or a matrix"),
    "a start of another size": (
        lambda: nt.linear_solve(lambda x: 2.0 * x, X, x0=X[:2]),
        "x0 has 2 entries for 3",
    ),
    "a switch that is an array": (lambda: nt.value_and_gradient(CACHE, X, args_to_zero=(X,)), "got ndarray"),
    "a log-density of many numbers": (
        lambda: nt.integrations.to_blackjax(np.sin, X),
        r"one real number, got an array of shape \(3,\)",
    ),
    "a log-density that is text": (
        lambda: nt.integrations.to_blackjax(lambda x: "a", X),
        "one real number, got str",
    ),
}

# What is no number that does not fit, but no function, or no choice at all: Python's own classes of errors.
NOT_TAKEN = {
    "nt.root": lambda: nt.root(None, 1.0),
    "nt.fixed_point": lambda: nt.fixed_point("f", 1.0),
    "nt.minimize_scalar": lambda: nt.minimize_scalar(3, 1.0),
    "preconditioner": lambda: nt.linear_solve(lambda x: x, X, preconditioner=3),
    "max_steps": lambda: nt.linear_solve(lambda x: x, X, max_steps="a"),
    "nt.check": lambda: nt.check(3, X),
    "order=3": lambda: nt.check(total, X, order=3),
    "nt.testing.test_rule": lambda: nt.testing.test_rule(None, X),
    "map_batches": lambda: nt.distributed.map_batches(None, np.ones((2, 3))),
    "threads": lambda: nt.distributed.map_batches(nt.batch(total), np.ones((2, 3)), threads="a"),
    "client": lambda: nt.distributed.map_batches(nt.batch(total), np.ones((2, 3)), client=3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_input_is_refused_by_name(name):
    call, message = REFUSED[name]
    with pytest.raises(nt.NumbatapeError, match=message):
        call()
    value, gradient = nt.value_and_grad(total)(X)
    assert value == 14.0
    np.testing.assert_array_equal(gradient, 2.0 * X)


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_is_no_function_or_choice_is_named(name):
    with pytest.raises((TypeError, ValueError), match=rf"{name}.*must be|{name}: .*got"):
        NOT_TAKEN[name]()


def test_stop_iteration_of_a_function_stays_what_it_is():
    def f(x):
        raise StopIteration("mine")

    for verb in (nt.grad, nt.sparse_jacobian, nt.sparse_hessian):
        with pytest.raises(StopIteration, match="mine"):
            verb(f)(X)


def test_sub_tapes_of_ufuncs():
    expected = np.cos(X)
    for inner in (nt.function(np.sin), nt.checkpoint(np.sin)):
        np.testing.assert_allclose(nt.grad(lambda x, inner=inner: np.sum(inner(x)))(X), expected, rtol=1e-15)


def test_a_sub_tape_names_the_function_that_lacks_an_argument():
    def pair(x, y):
        return x * y

    with pytest.raises(TypeError, match="pair: missing a required argument: 'y'"):
        nt.grad(lambda x: np.sum(nt.function(pair)(x)))(X)


def test_a_rule_may_refer_to_a_list_that_contains_itself():
    def value(x):
        return np.sum(x) * len(ITSELF)

    rule = nt.primitive(value, pullback=lambda g, y, x: (g * len(ITSELF) * np.ones_like(x),))
    np.testing.assert_array_equal(nt.grad(lambda x: rule(x))(X), 2.0 * np.ones(3))


def test_copies_of_a_pullback_do_not_give_its_memory_back_twice():
    pullback = nt.vjp(total, X)[1]
    twin, deep = copy.copy(pullback), copy.deepcopy(pullback)
    del pullback, twin, deep
    one, two = nt.vjp(total, X)[1], nt.vjp(total, 2.0 * X)[1]
    np.testing.assert_array_equal(one(1.0)[0], 2.0 * X)
    np.testing.assert_array_equal(two(1.0)[0], 4.0 * X)


def test_what_belongs_to_memory_says_that_it_cannot_be_pickled():
    bound = CACHE.bind(X.copy())
    for thing, message in (
        (nt.vjp(total, X)[1], "call nt.vjp"),
        (bound, "bind a copy"),
        (CACHE.tape, "pickle the cache"),
    ):
        with pytest.raises(TypeError, match=message):
            pickle.dumps(thing)
    with pytest.raises(TypeError, match="bind a copy"):
        copy.deepcopy(bound)  # it would write to the arrays of the other one
    assert copy.deepcopy(CACHE.tape) is CACHE.tape
