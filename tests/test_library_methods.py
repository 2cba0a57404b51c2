"""Functions and methods of libraries that are kept under another name, or differentiated themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import numbatape as nt
from numbatape.testing import check_derivatives

X = np.linspace(0.2, 0.9, 4)
logpdf = scipy.stats.norm.logpdf
frozen = scipy.stats.norm(0.0, 2.0).logpdf
BY_NAME = {"normal": scipy.stats.norm.logpdf}
FORMS = {
    "global": (lambda x: logpdf(x), 1.0),
    "method of a frozen distribution": (lambda x: frozen(x), 2.0),
    "dictionary": (lambda x: BY_NAME["normal"](x), 1.0),
    "default": (lambda x, density=scipy.stats.norm.logpdf: density(x), 1.0),
    "itself": (scipy.stats.norm.logpdf, 1.0),
    "frozen itself": (frozen, 2.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_methods_of_distributions(form):
    function, scale = FORMS[form]
    np.testing.assert_allclose(nt.jacobian(function)(X), np.diag(-X / scale**2), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("function", [scipy.special.logsumexp, scipy.special.softmax])
def test_a_function_of_scipy_is_checked_by_itself(function):
    check_derivatives(function, X)
