"""Kalman filter: the level of the Nile.

Data: the volume that flowed through the Nile at Aswan in each year from 1871 to 1970. The level is
a random walk, the volume is seen with noise. Durbin and Koopman ("Time Series Analysis by State
Space Methods") have the variances of maximum likelihood: 15099 of the noise and 1469.1 of the
level. The filter is that of any linear Gaussian model.

Shows: matrices as carries of `nt.scan`, the same filter as a Python loop with the same gradient,
`nt.hessian`.
"""

import numpy as np
from scipy.optimize import minimize

import numbatape as nt
from numbatape.integrations import scipy_problem

NILE = np.fromstring(
    "1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140 1100 "
    "1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831 726 456 "
    "824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865 845 944 984 897 "
    "822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050 918 986 797 923 975 "
    "815 1020 906 901 1170 912 746 919 718 714 740",
    sep=" ",
)


def step(model, state, y):
    """Return mean and covariance of the state after an observation, and its log-likelihood."""
    A, H, Q, R = model
    mean, P = A @ state[0], A @ state[1] @ A.T + Q
    S = H @ P @ H.T + R
    residual = y - H @ mean
    gain = np.linalg.solve(S, H @ P).T
    fit = residual @ np.linalg.solve(S, residual) + np.log(np.linalg.det(2 * np.pi * S))
    return (mean + gain @ residual, P - gain @ H @ P), -0.5 * fit


def local_level(p, y):
    """Return the model's matrices, and what the first observation says if nothing was known before."""
    one = np.ones((1, 1))
    noise = np.exp(p["log_noise"]) * one
    return (one, one, np.exp(p["log_level"]) * one, noise), (y[0], noise)


def misfit(p, y):
    """Return the negative log-likelihood of all observations but the first."""
    model, start = local_level(p, y)
    _, terms = nt.scan(lambda state, seen: step(model, state, seen), start, y[1:])
    return -np.sum(terms)


def misfit_in_python(p, y):
    """The same, by Python's own loop. It is recorded step by step: fine for hundreds of steps."""
    model, state = local_level(p, y)
    total = 0.0
    for seen in y[1:]:
        state, term = step(model, state, seen)
        total = total - term
    return total


def main():
    y = NILE[:, None]
    start = {"log_noise": np.log(10_000.0), "log_level": np.log(1_000.0)}
    problem = scipy_problem(misfit, start, args=(y,), hess="dense")
    found = minimize(**problem, method="trust-exact", tol=1e-8)
    p = problem.unflatten(found.x)
    errors = problem.unflatten(np.sqrt(np.diag(np.linalg.inv(problem["hess"](found.x, y)))))
    for name, reference in ("log_noise", 15099.0), ("log_level", 1469.1):
        print(f"variance {np.exp(p[name]):8.1f} (book: {reference}), relative error {errors[name]:.2f}")
        np.testing.assert_allclose(np.exp(p[name]), reference, rtol=1e-4)

    scanned, looped = nt.grad(misfit)(start, y), nt.grad(misfit_in_python)(start, y)
    print("gradient at the start:", {name: float(np.round(value, 6)) for name, value in scanned.items()})
    for name in start:
        np.testing.assert_allclose(scanned[name], looped[name], rtol=1e-10)


if __name__ == "__main__":
    main()
