"""The functions that are timed, in plain NumPy, and the arguments they are timed at.

Parameters come first, data after them. Functions whose name starts with an underscore, and the
scalar posteriors (`arK`, `garch11`, `hmm_example`), are Python loops over scalars: they show what a
loop costs, and are not how one would write them for speed. Log-densities leave out what depends on
no parameter and include the log-Jacobian of the transforms to unconstrained parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

# --- arrays ----------------------------------------------------------------------------------


def total(x):
    """Sum of the elements."""
    return np.sum(x)


def sum_sin(x):
    """Sum of the sines of the elements."""
    return np.sum(np.sin(x))


def _sum(x):
    """Sum of the elements by a Python loop."""
    y = 0.0
    for i in range(len(x)):
        y = y + x[i]
    return y


def _sum_sin(x):
    """Sum of the sines of the elements by a Python loop."""
    y = 0.0
    for i in range(len(x)):
        y = y + np.sin(x[i])
    return y


def kron_sum(x, y):
    """Sum of a Kronecker product; both factors active."""
    return np.sum(np.kron(x, y))


def kron_view_sum(x, y):
    """Sum of the Kronecker product of a 20 by 20 corner of x and the upper triangle of y."""
    return np.sum(np.kron(x[:20, :20], np.triu(y)))


def naive_map_sin_cos_exp(x):
    """sin(cos(exp(x))) of a matrix, one element after the other into a list, then their sum."""
    y = []
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y.append(np.sin(np.cos(np.exp(x[i, j]))))
    return sum(y)


def map_sin_cos_exp(x):
    """The same with `map` over the flattened matrix."""
    return sum(map(lambda element: np.sin(np.cos(np.exp(element))), x.ravel()))


def broadcast_sin_cos_exp(x):
    """The same with NumPy's elementwise functions."""
    return np.sum(np.sin(np.cos(np.exp(x))))


def simple_mlp(W2, W1, Y, X):
    """Squared error of a two-layer perceptron with a rectifier; weights and data all active."""
    return np.sum((Y - W2 @ np.maximum(W1 @ X, 0.0)) ** 2)


def gp_lml(x, y, s):
    """Log marginal likelihood of a Gaussian process (squared exponential kernel, noise variance s);
    inputs, outputs and noise all active."""
    n = x.shape[0]
    L = np.linalg.cholesky(np.exp(-0.5 * (x[:, None] - x) ** 2) + s * np.eye(n))
    z = solve_triangular(L, y, lower=True)
    return -0.5 * np.sum(z**2) - np.sum(np.log(np.diag(L))) - 0.5 * n * np.log(2 * np.pi)


def turing_broadcast(theta, x):
    """mu, sigma ~ N(1, 2) truncated to (0.1, 10), logit-transformed; x ~ LogNormal(mu, sigma)."""
    p = expit(theta)
    mu, sigma = 0.1 + 9.9 * p[0], 0.1 + 9.9 * p[1]
    log_x = np.log(x)
    prior = -((mu - 1) ** 2 + (sigma - 1) ** 2) / 8 + np.sum(np.log(p * (1 - p)))
    return prior - np.sum(log_x + np.log(sigma) + 0.5 * ((log_x - mu) / sigma) ** 2)


def large_single_block_400(x):
    """x[0] times x[1], 400 times, in a Python loop."""
    y = x[0]
    for _ in range(400):
        y = y * x[1]
    return y


def large_single_block_4000(x):
    """x[0] times x[1], 4000 times, in a Python loop."""
    y = x[0]
    for _ in range(4000):
        y = y * x[1]
    return y


# --- posteriordb -----------------------------------------------------------------------------


def eight_schools_nc(theta, y, sigma):
    """Eight schools, non-centred: theta = 8 school effects, mu, log tau."""
    t, mu, log_tau = theta[:8], theta[8], theta[9]
    tau = np.exp(log_tau)
    likelihood = -0.5 * np.sum(((y - mu - tau * t) / sigma) ** 2)
    prior = -0.5 * np.sum(t**2) - 0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2)
    return likelihood + prior + log_tau


def arK(theta, y):
    """Autoregression with five lags, 195 observations, loops over observations and lags:
    theta = alpha, 5 coefficients, log sigma."""
    alpha, beta, log_sigma = theta[0], theta[1:6], theta[6]
    sigma = np.exp(log_sigma)
    lp = -0.5 * (alpha / 10) ** 2 - np.log1p((sigma / 2.5) ** 2) + log_sigma
    for k in range(5):
        lp = lp - 0.5 * (beta[k] / 10) ** 2
    for t in range(5, len(y)):
        mu = alpha
        for k in range(5):
            mu = mu + beta[k] * y[t - k - 1]
        lp = lp - 0.5 * ((y[t] - mu) / sigma) ** 2 - log_sigma
    return lp


def arK_vec(theta, y, lags):
    """The same with a matrix of lagged data and one matrix-vector product."""
    alpha, beta, log_sigma = theta[0], theta[1:6], theta[6]
    sigma = np.exp(log_sigma)
    prior = -0.5 * (alpha**2 + np.sum(beta**2)) / 100 - np.log1p((sigma / 2.5) ** 2) + log_sigma
    residual = (y - alpha - lags @ beta) / sigma
    return prior - 0.5 * np.sum(residual**2) - len(y) * log_sigma


def garch11(theta, y, sigma1):
    """GARCH(1,1) volatility, 200 observations, by a Python loop:
    theta = mu, log alpha0, logit alpha1, logit(beta1 / (1 - alpha1))."""
    mu, log_alpha0 = theta[0], theta[1]
    alpha0 = np.exp(log_alpha0)
    alpha1 = 1 / (1 + np.exp(-theta[2]))
    p = 1 / (1 + np.exp(-theta[3]))
    beta1 = p * (1 - alpha1)
    jacobian = log_alpha0 + np.log(alpha1) + 2 * np.log(1 - alpha1) + np.log(p) + np.log(1 - p)
    s = sigma1
    lp = jacobian - 0.5 * ((y[0] - mu) / s) ** 2
    for t in range(1, len(y)):
        s = np.sqrt(alpha0 + alpha1 * (y[t - 1] - mu) ** 2 + beta1 * s**2)
        lp = lp - np.log(s) - 0.5 * ((y[t] - mu) / s) ** 2
    return lp


def hmm_example(theta, y):
    """Hidden Markov model with two states, 100 observations, forward algorithm in log space by a
    Python loop: theta = two logits of moving to state 0, log mu0, log(mu1 - mu0)."""
    p = 1 / (1 + np.exp(-theta[0]))
    q = 1 / (1 + np.exp(-theta[1]))
    mu0 = np.exp(theta[2])
    mu1 = mu0 + np.exp(theta[3])
    to00, to01, to10, to11 = np.log(p), np.log(1 - p), np.log(q), np.log(1 - q)
    a, b = -0.5 * (y[0] - mu0) ** 2, -0.5 * (y[0] - mu1) ** 2
    for t in range(1, len(y)):
        a, b = (
            np.logaddexp(a + to00, b + to10) - 0.5 * (y[t] - mu0) ** 2,
            np.logaddexp(a + to01, b + to11) - 0.5 * (y[t] - mu1) ** 2,
        )
    prior = -0.5 * (mu0 - 3) ** 2 - 0.5 * (mu1 - 10) ** 2
    jacobian = to00 + to01 + to10 + to11 + theta[2] + theta[3]
    return np.logaddexp(a, b) + prior + jacobian


def GLM_Poisson(theta, year, C):
    """Poisson regression on a cubic of 40 years: theta = logits of four bounded coefficients."""
    p = expit(theta)
    alpha, beta1, beta2, beta3 = -20 + 40 * p[0], -10 + 20 * p[1], -10 + 20 * p[2], -10 + 20 * p[3]
    log_rate = alpha + beta1 * year + beta2 * year**2 + beta3 * year**3
    return np.sum(C * log_rate - np.exp(log_rate)) + np.sum(np.log(p * (1 - p)))


def gp_pois_regr(theta, x, k):
    """Gaussian process with Poisson counts at 11 points: theta = log rho, log alpha, 11 normals."""
    log_rho, log_alpha, normals = theta[0], theta[1], theta[2:]
    rho, alpha = np.exp(log_rho), np.exp(log_alpha)
    kernel = alpha**2 * np.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)
    f = np.linalg.cholesky(kernel + 1e-10 * np.eye(11)) @ normals
    prior = 24 * log_rho - 4 * rho - 0.125 * alpha**2 - 0.5 * np.sum(normals**2)
    return np.sum(k * f - np.exp(f)) + prior + log_rho + log_alpha


def irt_2pl(theta, y):
    """Item response, 20 items by 100 persons: theta = log sigma_theta, 100 abilities, log sigma_a,
    20 log discriminations, mu_b, log sigma_b, 20 difficulties."""
    log_st, ability, log_sa, log_a = theta[0], theta[1:101], theta[101], theta[102:122]
    mu_b, log_sb, b = theta[122], theta[123], theta[124:144]
    st, sa, sb = np.exp(log_st), np.exp(log_sa), np.exp(log_sb)
    eta = np.exp(log_a)[:, None] * (ability - b[:, None])
    lp = np.sum(y * eta - np.log1p(np.exp(eta)))
    lp = lp - 0.5 * np.sum((ability / st) ** 2) - 100 * log_st
    lp = lp - 0.5 * np.sum((log_a / sa) ** 2) - 20 * log_sa
    lp = lp - 0.5 * np.sum(((b - mu_b) / sb) ** 2) - 20 * log_sb - 0.5 * (mu_b / 5) ** 2
    lp = lp - np.log1p((st / 2) ** 2) - np.log1p((sa / 2) ** 2) - np.log1p((sb / 2) ** 2)
    return lp + log_st + log_sa + log_sb


def radon_vis_nc_mn(theta, county, floor, log_radon):
    """Radon, varying intercepts and slopes of 85 counties, non-centred, 919 houses:
    theta = 3 log scales, 85 raw intercepts, 85 raw slopes, their two means."""
    log_sy, log_sa, log_sb = theta[0], theta[1], theta[2]
    sy, sa, sb = np.exp(log_sy), np.exp(log_sa), np.exp(log_sb)
    alpha_raw, beta_raw, mu_a, mu_b = theta[3:88], theta[88:173], theta[173], theta[174]
    alpha, beta = mu_a + sa * alpha_raw, mu_b + sb * beta_raw
    residual = (log_radon - alpha[county] - floor * beta[county]) / sy
    lp = -0.5 * np.sum(residual**2) - 919 * log_sy
    lp = lp - 0.5 * np.sum(alpha_raw**2) - 0.5 * np.sum(beta_raw**2)
    lp = lp - 0.5 * (sy**2 + sa**2 + sb**2) - 0.005 * (mu_a**2 + mu_b**2)
    return lp + log_sy + log_sa + log_sb


def glm_groups(theta, x, group, counts):
    """Poisson regression on four covariates, with effects of 60 groups: theta = coefficients, effects."""
    eta = x @ theta[:4] + theta[4:][group]
    return np.sum(counts * eta - np.exp(eta))


# --- the arguments ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """A function and where it is timed.

    Parameters
    ----------
    name : str
        Row of the tables.
    function : callable
        Plain NumPy function of `active` and then `data`.
    active : tuple of ndarray or float
        Arguments differentiated.
    data : tuple
        Arguments that are not.
    gradient : callable, optional
        Closed form of the gradients, where differences are not accurate enough to check them.
    """

    name: str
    function: Callable
    active: tuple
    data: tuple = ()
    gradient: Callable | None = None

    @property
    def what(self) -> str:
        """What is computed, in a line."""
        return " ".join(self.function.__doc__.split())

    def value(self):
        """Evaluate the function with NumPy."""
        return self.function(*self.active, *self.data)


def block_gradient(n):
    """Gradient of x[0] * x[1]**n, far too small beside its curvature for differences."""
    return lambda x: (np.array([x[1] ** n, n * x[0] * x[1] ** (n - 1)]),)


def simple_mlp_gradient(W2, W1, Y, X):
    """Gradients of `simple_mlp`; its rectifier has too many kinks for differences."""
    Z = W1 @ X
    H = np.maximum(Z, 0.0)
    G = -2 * (Y - W2 @ H)
    GZ = (W2.T @ G) * (Z > 0)
    return G @ H.T, GZ @ X.T, -G, W1.T @ GZ


def load(name: str) -> dict:
    """Read one of the data files; lists of numbers become arrays."""
    path = Path(__file__).parent / "data" / f"{name}.json"
    if not path.exists():  # the example of the same name reads it
        path = Path(__file__).parents[1] / "examples" / path.name
    fields = json.loads(path.read_text())
    return {k: np.array(v) if isinstance(v, list) else v for k, v in fields.items()}


def reference(model: str) -> list[dict]:
    """Return the reference points of a posteriordb model: `theta`, `value`, `gradient`."""
    path = Path(__file__).parent / "data" / "reference.json"
    return json.loads(path.read_text())[model]


def posteriors() -> list[tuple[str, Callable, str | None, tuple]]:
    """Return (name, function, its model in reference.json, data) of each posteriordb workload."""
    schools, ar, garch = load("eight_schools"), load("arK"), load("garch")
    hmm, poisson, gp = load("hmm_example"), load("GLM_Poisson_Data"), load("gp_pois_regr")
    irt, radon = load("irt_2pl"), load("radon_mn")
    real = np.float64
    lags = np.column_stack([ar["y"][4 - k : -1 - k] for k in range(5)])
    return [
        (
            "eight_schools_nc",
            eight_schools_nc,
            "eight_schools_noncentered",
            (schools["y"].astype(real), schools["sigma"].astype(real)),
        ),
        ("arK", arK, "arK", (ar["y"],)),
        ("arK_vec", arK_vec, "arK", (ar["y"][5:], lags)),
        ("garch11", garch11, "garch11", (garch["y"], garch["sigma1"])),
        ("hmm_example", hmm_example, None, (hmm["y"],)),
        ("GLM_Poisson", GLM_Poisson, "GLM_Poisson", (poisson["year"], poisson["C"].astype(real))),
        (
            "gp_pois_regr",
            gp_pois_regr,
            "gp_pois_regr",
            (gp["x"].astype(real), gp["k"].astype(real)),
        ),
        ("irt_2pl", irt_2pl, "irt_2pl", (irt["y"].astype(real),)),
        (
            "radon_vis_nc_mn",
            radon_vis_nc_mn,
            "radon_mn_noncentered",
            (radon["county_idx"] - 1, radon["floor_measure"].astype(real), radon["log_radon"]),
        ),
    ]


def catalogue(shrink: int = 1) -> list[Workload]:
    """Return all workloads, in the order of the tables.

    Parameters
    ----------
    shrink : int
        Divides the lengths of the arrays that have no size of their own; tests use it.
    """
    rng = np.random.default_rng(20240607)

    def normal(*shape):
        return rng.standard_normal([max(2, n // shrink) for n in shape])

    def corner_and_triangle():
        return rng.standard_normal((40, 30)), normal(40, 40)

    def mlp(outputs, hidden, inputs, samples):
        shapes = (outputs, hidden), (hidden, inputs), (outputs, samples), (inputs, samples)
        return tuple(normal(*shape) for shape in shapes)

    def gp(n):
        x = 0.2 * np.arange(max(2, n // shrink))
        covariance = np.exp(-0.5 * (x[:, None] - x) ** 2) + np.eye(len(x))
        return x, np.linalg.cholesky(covariance) @ rng.standard_normal(len(x)), 1.0

    def log_normal(n):
        return (np.exp(1.5 + 0.5 * normal(n)),)

    def groups(n):
        n = max(2, n // shrink)
        data = rng.standard_normal((n, 4)), rng.integers(60, size=n), rng.poisson(1.0, size=n).astype(float)
        return (0.1 * rng.standard_normal(64),), data

    start = np.array([-1.8, -3.0])  # mu about 1.5, sigma about 0.57
    rows = [
        Workload("sum_10", total, (normal(10),)),
        Workload("sum_sin_10", sum_sin, (normal(10),)),
        Workload("sum_1000", total, (normal(1000),)),
        Workload("sum_sin_1000", sum_sin, (normal(1000),)),
        Workload("sum_sin_100000", sum_sin, (normal(100_000),)),
        Workload("_sum_1000", _sum, (normal(1000),)),
        Workload("_sum_sin_1000", _sum_sin, (normal(1000),)),
        Workload("kron_sum", kron_sum, (normal(20, 20), normal(40, 40))),
        Workload("kron_view_sum", kron_view_sum, corner_and_triangle()),
        Workload("naive_map_sin_cos_exp", naive_map_sin_cos_exp, (normal(10, 10),)),
        Workload("map_sin_cos_exp", map_sin_cos_exp, (normal(10, 10),)),
        Workload("broadcast_sin_cos_exp_100", broadcast_sin_cos_exp, (normal(10, 10),)),
        Workload("broadcast_sin_cos_exp_100000", broadcast_sin_cos_exp, (normal(100_000),)),
        Workload("simple_mlp", simple_mlp, mlp(128, 256, 128, 70), (), simple_mlp_gradient),
        Workload("simple_mlp_small", simple_mlp, mlp(4, 8, 4, 5), (), simple_mlp_gradient),
        Workload("gp_lml_16", gp_lml, gp(16)),
        Workload("gp_lml_128", gp_lml, gp(128)),
        Workload("turing_broadcast_1000", turing_broadcast, (start,), log_normal(1000)),
        Workload("turing_broadcast_100000", turing_broadcast, (start,), log_normal(100_000)),
    ]
    for n, block in (400, large_single_block_400), (4000, large_single_block_4000):
        x = np.array([0.9, 0.99])
        rows.append(Workload(f"large_single_block_{n}", block, (x,), (), block_gradient(n)))
    for name, function, model, data in posteriors():
        if model:
            point = reference(model)[0]
            gradient = (np.array(point["gradient"]),)
            closed = lambda *_, gradient=gradient: gradient  # noqa: E731
            rows.append(Workload(name, function, (np.array(point["theta"]),), data, closed))
        else:  # staying probabilities 0.65 and 0.73, means 3 and 9
            theta = np.array([0.6, -1.0, np.log(3.0), np.log(6.0)])
            rows.append(Workload(name, function, (theta,), data))
    rows.append(Workload("glm_groups_12000", glm_groups, *groups(12_000)))
    return rows
