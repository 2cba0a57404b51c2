"""``static_argnums`` and ``static_argnames`` on every verb, and keyword arguments of primitives."""

import functools
import inspect

import numpy as np
import pytest

import numbatape as nt
from numbatape.usercode.ownership import parameter_names

X = np.array([0.5, 1.5, 2.5])


def f(x, how, c=1.0):
    assert type(how) in (str, list, tuple)  # it is what was given
    return np.sum(getattr(np, how[0])(x)) * c if type(how) is tuple else np.sum(getattr(np, how)(x)) * c


def elementwise(x, how):
    return getattr(np, how)(x)


VERBS = {
    "grad": lambda f, how, **s: nt.grad(f, **s)(X, how),
    "value_and_grad": lambda f, how, **s: nt.value_and_grad(f, **s)(X, how)[1],
    "jacobian": lambda f, how, **s: nt.jacobian(f, **s)(X, how),
    "hessian": lambda f, how, **s: nt.hessian(f, **s)(X, how),
    "hvp": lambda f, how, **s: nt.hvp(f, **s)(X, how, X),
    "derivative": lambda f, how, **s: nt.derivative(lambda x, how: f(x * X, how), **s)(2.0, how),
    "jvp": lambda f, how, **s: nt.jvp(f, (X, how), (X, None), **s)[1],
    "vjp": lambda f, how, **s: nt.vjp(f, X, how, **s)[1](1.0)[0],
    "sparse_jacobian": lambda f, how, **s: nt.sparse_jacobian(f, **s)(X, how).toarray(),
    "sparse_hessian": lambda f, how, **s: nt.sparse_hessian(f, **s)(X, how).toarray(),
    "sparsity": lambda f, how, **s: nt.sparsity(f, X, how, **s).toarray(),
    "batch": lambda f, how, **s: nt.batch(f, **s)(np.stack([X, X + 1]), how)[1],
}


@pytest.mark.parametrize("verb", VERBS)
def test_static_arguments(verb):
    call = VERBS[verb]
    for statics in ({"static_argnums": 1}, {"static_argnums": (1,)}, {"static_argnames": "how"}):
        for how in ("sin", ("exp",), "square", "sin"):  # a tuple would be taken apart
            expected = call(lambda x, _, how=how: f(x, how), None)
            np.testing.assert_allclose(call(f, how, **statics), expected, rtol=1e-13)
    inside = nt.jvp(lambda t: call(f, "sin", static_argnums=1) * t, (2.0,), (1.0,))
    if verb not in ("sparse_jacobian", "sparse_hessian", "sparsity"):
        np.testing.assert_allclose(inside[1], call(f, "sin", static_argnums=1), rtol=1e-13)


@pytest.mark.parametrize("verb", ["jvp", "vjp"])
def test_static_arguments_of_a_verb_inside_of_a_function(verb):
    def outer(x):
        if verb == "jvp":
            return np.sum(nt.jvp(elementwise, (x, "sin"), (np.ones(3), None), static_argnums=1)[1])
        return np.sum(nt.vjp(elementwise, x, "sin", static_argnums=1)[1](np.ones(3))[0])

    np.testing.assert_allclose(nt.grad(outer)(X), -np.sin(X), rtol=1e-14)


# ---- primitives


def pullback(ybar, y, x, power, scale=1.0):
    return ybar * scale * power * x ** (power - 1), None, None


POWER = nt.primitive(lambda x, power, scale=1.0: scale * x**power, pullback=pullback)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: POWER(x, power=3.0, scale=2.0),
        lambda x: POWER(x, scale=2.0, power=3.0),
        lambda x: POWER(power=3.0, x=x, scale=2.0),
        lambda x: 2.0 * POWER(x, power=3.0),
        lambda x: POWER(x, 3.0, scale=2.0),
    ],
)
def test_keyword_arguments_of_primitives(call):
    np.testing.assert_allclose(call(X), 2.0 * X**3)
    np.testing.assert_allclose(nt.grad(lambda x: np.sum(call(x)))(X), 6.0 * X**2, rtol=1e-14)
    np.testing.assert_allclose(nt.hvp(lambda x: np.sum(call(x)))(X, np.ones(3)), 12.0 * X, rtol=1e-14)


def test_keyword_arguments_and_memory():
    def value(x, c, workspace):
        return np.multiply(x, c, out=workspace.y)

    product = nt.primitive(
        value,
        pullback=lambda ybar, y, x, c, workspace: (ybar * c, None),
        workspace=lambda x, c: {"y": (x.shape, x.dtype)},
    )
    np.testing.assert_allclose(nt.grad(lambda x: np.sum(product(c=2.0, x=x)))(X), [2.0, 2.0, 2.0])


def test_arguments_of_primitives_that_do_not_fit():
    with pytest.raises(TypeError, match="unexpected keyword argument 'how'"):
        POWER(X, 2.0, how=3)
    only = nt.primitive(lambda x, *, c: x * c, pullback=lambda ybar, y, x: (ybar,))
    with pytest.raises(nt.UnsupportedOperationError, match=r"keyword-only arguments \(c\)"):
        only(X, c=2.0)


@pytest.mark.parametrize("verb", [nt.sparse_jacobian, nt.sparse_hessian])
def test_sparse_derivatives_take_arguments_by_name(verb):
    def f(x, scale=1.0, power=2):
        y = scale * x**power
        return y if verb is nt.sparse_jacobian else np.sum(y)

    x = np.array([0.5, 1.5])
    slope = [3.0 * 3.0 * x**2, 3.0 * 6.0 * x][verb is nt.sparse_hessian]
    for derivative in (verb(f), verb(f, static_argnames="power")):
        for given in ((x, 3.0, 3), (x, 3.0)):
            named = {} if len(given) == 3 else {"power": 3}
            np.testing.assert_allclose(derivative(*given, **named).toarray(), np.diag(slope), rtol=1e-14)
        np.testing.assert_allclose(derivative(x, power=3, scale=3.0).toarray(), np.diag(slope), rtol=1e-14)
    with pytest.raises(TypeError, match="keyword-only"):
        verb(lambda x, *, k=2.0: f(x, k))(x, k=3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: nt.grad(f, has_aux=[]), r"has_aux must be True or False, got \[\]"),
        (lambda f: nt.jacobian(f, holomorphic="no"), "holomorphic must be True or False, got 'no'"),
        (lambda f: nt.grad(f, static_argnames=3), "static_argnames=3: must be a string"),
        (lambda f: nt.jacobian(f, mode=np.ones(2)), "mode=array.*: must be one of"),
        (lambda f: nt.sparsity(f, np.ones(2), order=np.ones(2)), "order=array.*: must be 1"),
    ],
)
def test_options_of_another_kind_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(np.sum)


def test_names_of_parameters_are_those_of_the_signature():
    """Plain functions are read off their code; wrapped ones have the parameters of what they wrap."""

    def plain(a, /, b, *rest, c=1, **more):
        return a

    @functools.wraps(plain)
    def wrapping(*args, **kwargs):
        return plain(*args, **kwargs)

    for function in (plain, wrapping, functools.partial(plain, 1), np.dot):
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
        assert [*parameter_names(function)] == names
