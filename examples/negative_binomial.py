"""Negative binomial regression: counts that vary more than a Poisson distribution allows.

The first fit is a textbook's: red mites on 150 apple leaves, a mean and a dispersion (Bliss and
Fisher 1953, who found k = 1.0246). The second has covariates and an exposure, simulated, so that
the truth is known.

Shows: parameters as a dictionary, `scipy_problem(..., hess="product")` for methods that need
products with the Hessian only, standard errors by `nt.flatten` and `nt.hessian`.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

import numbatape as nt
from numbatape.integrations import scipy_problem

MITES = np.repeat(np.arange(8.0), [70, 38, 17, 10, 9, 3, 2, 1])  # 70 leaves without a mite, 38 with one, ...


def misfit(p, X, log_exposure, counts):
    """Return the negative log-likelihood; the variance is ``mu + mu**2 / k``."""
    k = np.exp(p["log_k"])
    log_mu = X @ p["beta"] + log_exposure
    log_total = np.logaddexp(p["log_k"], log_mu)  # log(k + mu)
    terms = gammaln(counts + k) - gammaln(k) - gammaln(counts + 1.0)
    terms = terms + k * (p["log_k"] - log_total) + counts * (log_mu - log_total)
    return -np.sum(terms)


def fit(X, log_exposure, counts):
    """Return the estimates, and their standard errors, as dictionaries."""
    data = X, log_exposure, counts
    start = {"beta": np.zeros(X.shape[1]), "log_k": 0.0}
    problem = scipy_problem(misfit, start, args=data, hess="product")
    found = minimize(**problem, method="trust-krylov", tol=1e-6)

    hessian = nt.hessian(lambda vector: misfit(problem.unflatten(vector), *data))(found.x)
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    return problem.unflatten(found.x), problem.unflatten(errors)


def simulate(rng, n, beta, k):
    """Return covariates, exposures and counts of ``n`` subjects."""
    X = np.column_stack([np.ones(n), rng.normal(size=(n, len(beta) - 1))])
    log_exposure = np.log(rng.uniform(0.5, 4.0, size=n))
    rate = np.exp(X @ beta + log_exposure) * rng.gamma(k, 1.0 / k, size=n)
    return X, log_exposure, rng.poisson(rate).astype(float)


def main(n=5000):
    mites, errors = fit(np.ones((len(MITES), 1)), np.zeros(len(MITES)), MITES)
    k = np.exp(mites["log_k"])
    print(f"mites: mean {np.exp(mites['beta'][0]):.4f}, k {k:.4f} (standard error {k * errors['log_k']:.2f})")
    np.testing.assert_allclose(k, 1.0246, atol=1e-4)
    np.testing.assert_allclose(np.exp(mites["beta"][0]), np.mean(MITES), rtol=1e-5)

    beta, k = np.array([0.3, 0.8, -0.5, 0.0, 0.2]), 2.5
    found, errors = fit(*simulate(np.random.default_rng(1), n, beta, k))
    truth = {"beta": beta, "log_k": np.log(k)}
    for name in truth:
        z = (found[name] - truth[name]) / errors[name]
        print(f"{name}: {np.round(found[name], 3)}, in standard errors from the truth: {np.round(z, 1)}")
        assert np.all(np.abs(z) < 4.0)


if __name__ == "__main__":
    main()
