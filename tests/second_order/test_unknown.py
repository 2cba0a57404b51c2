"""Derivatives that nothing has raise where they are asked for, and nowhere else."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st

import numbatape as nt

THIRD = {
    "gammainc": lambda a: sc.gammainc(a, 1.5),
    "gammaincc": lambda a: sc.gammaincc(a, 1.5),
    "gammaincinv": lambda a: sc.gammaincinv(a, 0.3),
    "chdtr": lambda a: sc.chdtr(a, 1.5),
    "gamma.cdf": lambda a: st.gamma.cdf(1.5, a),
    "betainc, a": lambda a: sc.betainc(a, 1.5, 0.3),
    "betainc, b": lambda a: sc.betainc(1.5, a, 0.3),
    "betaincinv": lambda a: sc.betaincinv(a, 1.5, 0.3),
    "fdtr": lambda a: sc.fdtr(a, 1.5, 0.3),
    "stdtr": lambda a: sc.stdtr(a, 0.3),
    "stdtrit": lambda a: sc.stdtrit(a, 0.3),
}
VERBS = {
    "derivatives": lambda f: nt.derivative(nt.derivative(nt.derivative(f)))(2.0),
    "gradient of a Hessian": lambda f: nt.grad(lambda x: np.sum(nt.hessian(f)(x)))(2.0),
    "Jacobian of a Hessian": lambda f: nt.jacobian(nt.hessian(f))(2.0),
    "gradients": lambda f: nt.grad(nt.grad(nt.grad(f)))(2.0),
    "prepared Hessian of a gradient": lambda f: nt.value_gradient_and_hessian(
        nt.prepare_hessian_cache(nt.grad(f), 2.0), 2.0
    ),
}


@pytest.mark.parametrize("name", THIRD)
def test_third_derivatives_for_parameters_raise(name):
    function = THIRD[name]
    assert np.isfinite(nt.hessian(function)(2.0))
    with pytest.raises(nt.UnsupportedOperationError, match=r"test_unknown\.py:\d+.*third.*nt\.Constant"):
        nt.derivative(nt.derivative(nt.derivative(function)))(2.0)


@pytest.mark.parametrize("verb", VERBS)
def test_every_nesting_raises(verb):
    with pytest.raises(nt.UnsupportedOperationError, match=r"gammainc.*no formula"):
        VERBS[verb](THIRD["gammainc"])


@pytest.mark.parametrize(
    "function, exact, point",
    [
        (sc.gammainc, lambda a, x: mp.gammainc(a, 0, x, regularized=True), (2.0, 1.5)),
        (
            lambda a, x: sc.betainc(a, 1.3, x),
            lambda a, x: mp.betainc(a, 1.3, 0, x, regularized=True),
            (2.0, 0.4),
        ),
        (
            lambda b, x: sc.betainc(1.3, b, x),
            lambda b, x: mp.betainc(1.3, b, 0, x, regularized=True),
            (2.0, 0.4),
        ),
    ],
)
def test_third_derivatives_are_there_where_one_is_for_the_end(function, exact, point):
    def twice(x):
        return nt.derivative(nt.derivative(lambda a: function(a, x)))(point[0])

    want = float(mp.diff(exact, point, (2, 1)))
    for verb in (nt.grad, nt.derivative):
        np.testing.assert_allclose(verb(twice)(point[1]), want, rtol=1e-9)


@pytest.mark.parametrize("x", [0.4, 0.9, 1.3])
def test_kolmogorov_has_derivatives_of_every_order(x):
    def exact(t):
        return 2 * sum((-1) ** (k - 1) * mp.exp(-2 * k * k * t * t) for k in range(1, 40))

    function = sc.kolmogorov
    with mp.workdps(30):
        for order in range(1, 6):
            function = nt.derivative(function)
            np.testing.assert_allclose(function(x), float(mp.diff(exact, x, order)), rtol=1e-9)


@pytest.mark.parametrize("x", [-0.3, -2.6, 0.7])
def test_gammaln_has_derivatives_of_every_order(x):
    function = sc.digamma
    for order in range(1, 6):
        function = nt.derivative(function)
        np.testing.assert_allclose(function(x), float(mp.psi(order, x)), rtol=1e-10)
