"""The checks of `nt.testing` pass what is right, and find what is wrong."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import numbatape as nt
from numbatape.testing import DerivativeError, check_derivatives
from numbatape.testing import test_rule as check_rule
from numbatape.testing.differences import extrapolated

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
Y = RNG.normal(size=(4, 2))


# ---- what is right passes


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, y: np.sum(np.sin(x) * y), (np.ones(3), 2.0)),
        (np.matmul, (X, Y)),
        (lambda x, y: x * y, (X[0], X[1])),
        (lambda d, c: {"p": d["a"] * c, "q": np.exp(d["b"])}, ({"a": X[0], "b": 2.0}, nt.Constant(X[1]))),
        (lambda x: np.array([x[0] ** 2, 3]), (X[0].astype(np.float32),)),
        (lambda x: np.linalg.inv(x @ x.T) @ x, (X,)),
        (lambda x: x, (1.5,)),
    ],
)
def test_right_derivatives_pass(f, args):
    check_derivatives(f, *args)


def test_a_gradient_of_rounding_errors_passes():
    """At a minimum the terms of a gradient cancel, and both modes have other rounding errors."""
    utilities, chosen = np.random.default_rng(3).normal(size=(200, 3, 2)), np.arange(200) % 3

    def choice(beta):
        values = utilities @ beta
        return np.sum(np.log(np.sum(np.exp(values), axis=1)) - values[np.arange(200), chosen])

    at = np.zeros(2)
    for _ in range(8):
        at = at - np.linalg.solve(nt.hessian(choice)(at), nt.grad(choice)(at))
    assert np.abs(nt.grad(choice)(at)).max() < 1e-12
    nt.check(choice, at)


def test_many_coordinates_are_checked_along_directions_too():
    check_derivatives(lambda x: np.sum(x**3), RNG.normal(size=100), points=0)


def rule(pullback, value=lambda x: x**3, **options):
    return nt.primitive(value, pullback=pullback, **options)


def test_right_rules_pass():
    check_rule(rule(lambda ybar, y, x: (3.0 * ybar * x**2,)), X)
    check_rule(
        nt.primitive(lambda a, b: a @ b, pullback=lambda ybar, y, a, b: (ybar @ b.T, a.T @ ybar)), X, Y
    )
    check_rule(
        nt.primitive(
            lambda x, axis: np.sum(x, axis),
            pullback=lambda ybar, y, x, axis: (np.broadcast_to(np.expand_dims(ybar, axis), x.shape), None),
        ),
        X,
        0,
    )


def test_right_rules_with_memory_pass():
    def value(a, b, workspace):
        return np.matmul(a, b, out=workspace.c)

    def pullback(ybar, y, a, b, workspace):
        return ybar @ b.T, a.T @ ybar

    def pushforward(tangents, y, a, b, workspace):
        return tangents[0] @ b + a @ tangents[1]

    def workspace(a, b):
        return {"c": ((a.shape[0], b.shape[1]), np.result_type(a.dtype, b.dtype))}

    check_rule(nt.primitive(value, pullback=pullback, workspace=workspace), X, Y)
    check_rule(nt.primitive(value, pullback=pullback, pushforward=pushforward, workspace=workspace), X, Y)


def test_right_jitted_rules_pass():
    value = numba.njit(lambda x: np.sum(x**2))
    pullback = numba.njit(lambda ybar, y, x: (ybar * 2 * x,))
    check_rule(nt.primitive(value, pullback=pullback), X[0], float32=False)


# ---- what is wrong does not


WRONG = {
    "sign": (lambda ybar, y, x: (-3.0 * ybar * x**2,), "the gradient at argument 0"),
    "factor": (lambda ybar, y, x: (3.0001 * ybar * x**2,), "the gradient at argument 0"),
    "one coordinate": (
        lambda ybar, y, x: (3.0 * ybar * x**2 * np.where(np.arange(4) == 2, 0.5, 1.0),),
        r"the gradient at argument 0\[\d, 2\]: \S+ computed, \S+ by extrapolated differences",
    ),
    "nothing": (lambda ybar, y, x: (None,), "the gradient at argument 0"),
    "writes to its argument": (
        lambda ybar, y, x: (np.multiply(x, 3.0 * x * ybar, out=x),),
        "writes to its arguments",
    ),
    "writes to ybar": (
        lambda ybar, y, x: (np.multiply(ybar, 3.0 * x**2, out=ybar),),
        "writes to its arguments",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_pullbacks(name):
    pullback, message = WRONG[name]
    with pytest.raises(DerivativeError, match=message):
        check_rule(rule(pullback), X)


def test_the_worst_coordinate_is_named():
    factors = np.array([1.0, 1.01, 5.0, 1.1])
    wrong = rule(lambda ybar, y, x: (3.0 * ybar * x**2 * factors,))
    with pytest.raises(DerivativeError, match=r"the gradient at argument 0\[2\]: "):
        check_rule(wrong, np.ones(4), order=1)


def test_against_a_reference():
    check_rule(mul_rule, X, Y, reference=np.matmul)
    with pytest.raises(
        DerivativeError, match=r"the gradient at entry \[\d+\]: \S+ here, \S+ of the reference"
    ):
        check_rule(
            rule(lambda ybar, y, x: (3.0 * ybar * x**2,)),
            X,
            reference=lambda x: x**3 + x - nt.stop_gradient(x),
        )
    with pytest.raises(DerivativeError, match="the value"):
        check_derivatives(lambda x: np.sum(x), X, reference=lambda x: np.sum(x) + 1e-4)
    with pytest.raises(DerivativeError, match="shapes"):
        check_derivatives(lambda x: x, X, reference=lambda x: np.sum(x))


def test_allocations():
    def value(x, workspace):
        return np.power(x, 3.0, out=workspace.y)

    def pullback(ybar, y, x, workspace):
        np.multiply(x, x, out=workspace.dx)
        np.multiply(workspace.dx, ybar, out=workspace.dx)
        return (np.multiply(workspace.dx, 3.0, out=workspace.dx),)

    def sizes(x):
        return {"y": (x.shape, x.dtype), "dx": (x.shape, x.dtype)}

    x = RNG.normal(size=500)
    check_rule(nt.primitive(value, pullback=pullback, workspace=sizes), x, order=1, points=0, max_bytes=2000)
    with pytest.raises(DerivativeError, match=r"a steady call allocates \d+ bytes, more than 2000"):
        check_rule(rule(lambda ybar, y, x: (3.0 * ybar * x**2,)), x, order=1, points=0, max_bytes=2000)


mul_rule = nt.primitive(lambda a, b: a @ b, pullback=lambda ybar, y, a, b: (ybar @ b.T, a.T @ ybar))


def test_transposed():
    wrong = nt.primitive(lambda a, b: a @ b, pullback=lambda ybar, y, a, b: (ybar @ b, a.T @ ybar))
    square = X[:, :3], X[:, 1:]
    with pytest.raises(DerivativeError, match=r"the gradient at argument 0\[0, 2\]"):
        check_rule(wrong, *square)


@pytest.mark.parametrize("x", [np.zeros(3), np.ones(3)])
def test_a_missing_term_that_vanishes_at_the_point(x):
    """The derivative of x**2 (x - 1)**2 / 2 + x, without its first part: right at 0 and 1."""
    wrong = rule(lambda ybar, y, x: (ybar * 1.0,), lambda x: x**2 * (x - 1.0) ** 2 / 2.0 + x)
    with pytest.raises(DerivativeError, match="the gradient at argument 0"):
        check_rule(wrong, x, order=1)
    check_rule(wrong, x, order=1, points=0)  # what the point alone shows


def test_a_wrong_second_derivative():
    """Right to first order: what is wrong shows in the Hessian."""
    frozen = nt.zero_derivative(lambda x: 3.0 * x**2)
    wrong = rule(lambda ybar, y, x: (ybar * frozen(x),))
    check_rule(wrong, X, order=1)
    with pytest.raises(DerivativeError, match=r"a Hessian-vector product at argument 0"):
        check_rule(wrong, X)


def test_a_wrong_pushforward():
    wrong = rule(
        lambda ybar, y, x: (3.0 * ybar * x**2,), pushforward=lambda tangents, y, x: 3.1 * tangents[0] * x**2
    )
    with pytest.raises(DerivativeError, match=r"by the pushforward, \S+ by the pullback"):
        check_rule(wrong, X)


@pytest.mark.parametrize("where", ["value", "pullback"])
def test_stateful_rules(where):
    count = {"value": 0, "pullback": 0}

    def factor(name):
        count[name] += name == where
        return 1.0 + 1e-3 * count[name]

    wrong = nt.primitive(
        lambda x: x**3 * factor("value"),
        pullback=lambda ybar, y, x: (3.0 * ybar * x**2 * factor("pullback"),),
        workspace=lambda x: {},
    )
    with pytest.raises(DerivativeError, match=f"the {where} of the rule .* in a second call"):
        check_rule(wrong, X)
    with pytest.raises(DerivativeError, match=r"call 2 of the gradient|the plain function"):
        check_derivatives(wrong, X, order=1, forward=False)


def test_a_pullback_that_destroys_its_memory():
    """It gives the right gradient once a forward sweep."""

    def value(x, workspace):
        workspace.x[...] = x
        return x**3

    def pullback(ybar, y, x, workspace):
        result = 3.0 * ybar * workspace.x**2
        workspace.x[...] = 0.0
        return (result,)

    wrong = nt.primitive(value, pullback=pullback, workspace=lambda x: {"x": (x.shape, x.dtype)})
    with pytest.raises(DerivativeError, match=r"the pullback of the rule .* in a second call"):
        check_rule(wrong, X)


@pytest.mark.parametrize("where", ["value", "pullback"])
def test_memory_that_grows(where):
    """A rule's value may keep no more than its pullback; only the derivative is held to that elsewhere."""
    kept = []

    def keeping(name, x):
        if name == where:
            kept.append(x.copy())
        return x

    wrong = nt.primitive(
        lambda x: keeping("value", x) ** 3,
        pullback=lambda ybar, y, x: (3.0 * ybar * keeping("pullback", x) ** 2,),
        workspace=lambda x: {},
    )
    x, message = RNG.normal(size=40), r"20 calls like the ones before kept \d+ bytes more"
    with pytest.raises(DerivativeError, match=message):
        check_rule(wrong, x)
    if where == "value":
        check_derivatives(wrong, x, order=1, forward=False, points=0)
    else:
        with pytest.raises(DerivativeError, match=message):
            check_derivatives(wrong, x, order=1, forward=False, points=0)


def test_dtypes():
    wrong = rule(lambda ybar, y, x: (3.0 * ybar * x**2,), lambda x: x.astype(float) ** 3)
    check_rule(wrong, X)  # a rule may promote; its gradient is float32 nevertheless


def test_differences_agree_with_one_another_or_not_at_all():
    """Among several step sizes one may agree with a wrong derivative: all are needed."""
    wanted, error = extrapolated(np.sin, 0.02)
    assert abs(wanted - 1.0) < 1e-12
    assert error < 1e-11
    _, error = extrapolated(lambda h: np.float64(np.abs(h)) + h, 0.02)
    assert error == 0.0  # at the kink of abs, central differences agree on the convention
    _, error = extrapolated(lambda h: np.float64(h > 1e-5), 0.02)
    assert error > 1e-3
    # A ripple that large steps do not see: they agree with the wrong rule, small ones do not.
    ripple = rule(lambda ybar, y, x: (ybar * 1.0,), lambda x: x + 1e-3 * np.sin(1e3 * x))
    with pytest.raises(DerivativeError, match="by extrapolated differences"):
        check_rule(ripple, np.ones(2), order=1, points=0)
    steps = rule(lambda ybar, y, x: (ybar * 1.0,), lambda x: np.floor(x * 1e3) / 1e3)
    with pytest.raises(DerivativeError, match=r"by extrapolated differences|do not settle"):
        check_rule(steps, np.array([1.0002]), order=1, points=0)


def test_what_cannot_be_checked():
    with pytest.raises(TypeError, match="nothing to differentiate"):
        check_derivatives(lambda x: x * 1.0, 3)
    with pytest.raises(TypeError, match="returns no float"):
        check_derivatives(lambda x: 3, 1.0)


# ---- complex numbers, constants in front, nothing at all

Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda z: np.fft.fft(z) * np.conj(z), (Z,)),
        (lambda d, x: {"p": np.exp(d["z"]) * x, "q": np.abs(d["z"])}, ({"z": Z[0]}, X[0])),
        (lambda z: z**2, (1.0 + 2.0j,)),
        (np.fft.rfft, (X[0],)),
        (np.einsum, (nt.Static("ij,jk->ik"), X, Y)),
        (lambda c, x: c * np.sin(x), (nt.Constant(X[0]), X[1])),
        (np.sin, (np.zeros((0, 3)),)),
    ],
)
def test_complex_and_constant_and_empty_arguments(f, args):
    check_derivatives(f, *args, points=1)


def test_a_wrong_derivative_of_a_complex_function_is_found():
    wrong = rule(lambda ybar, y, x: (2.0 * ybar * x**2,))
    with pytest.raises(DerivativeError, match=r"argument 0\[0\], (real|imaginary) part"):
        check_derivatives(lambda z: wrong(z.real) + 1j * wrong(z.imag), Z[0, :1])
