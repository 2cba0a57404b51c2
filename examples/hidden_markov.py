"""Hidden Markov model: quiet and busy years of the earth's crust.

Data: the number of major earthquakes in each year from 1900 to 2006. A chain of hidden states moves
between rates of a Poisson distribution. Zucchini and MacDonald ("Hidden Markov Models for Time
Series") have the maximum likelihood: -log L = 391.9189, 342.3183 and 329.4603 with one, two and
three states.

Shows: the forward algorithm by `nt.scan`, constrained parameters by `nt.transforms`, and a use of
gradients beside fitting: the probability of a state given all data is the derivative of log L with
respect to the logarithm of what this state says of its year. So nobody has to write the backward
algorithm.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.stats import poisson

import numbatape as nt
from numbatape import transforms

COUNTS = np.fromstring(
    "13 14 8 10 16 26 32 27 18 32 36 24 22 23 22 18 25 21 21 14 8 11 14 23 18 17 19 20 22 19 13 26 13 "
    "14 22 24 21 22 26 21 23 24 27 41 31 27 35 26 28 36 39 21 17 22 17 19 15 34 10 15 22 18 15 20 15 "
    "22 19 16 30 27 29 23 20 16 21 21 25 16 18 15 18 14 10 15 8 15 6 11 8 7 18 16 13 12 13 20 15 16 "
    "12 18 15 16 13 15 16 11 11",
    sep=" ",
)
REFERENCE = {1: 391.9189, 2: 342.3183, 3: 329.4603}


def stationary(P):
    """Return the distribution of states that the transition matrix leaves as it is."""
    n = len(P)
    return np.linalg.solve((np.eye(n) - P + 1.0).T, np.ones(n))


def log_likelihood(p, evidence):
    """Return log L; ``evidence[t, k]`` is the log-probability of year t's count in state k."""

    def year(belief, seen):
        joint = (belief @ p["transition"]) * np.exp(seen)
        total = np.sum(joint)
        return joint / total, np.log(total)

    # What is stationary is stationary one step later, so the first year needs no case of its own.
    _, terms = nt.scan(year, stationary(p["transition"]), evidence)
    return np.sum(terms)


def evidence(p, counts):
    return poisson.logpmf(counts[:, None], p["rates"])


def fit(states, counts):
    """Return the maximum likelihood estimates, and -log L."""
    start = {
        "rates": np.quantile(counts, (np.arange(states) + 0.5) / states),
        "transition": np.full((states, states), 0.1 / states) + 0.9 * np.eye(states),
    }
    constraints = {"rates": transforms.positive_ordered, "transition": transforms.simplex}
    model = transforms.unconstrained(lambda p: 0.0, start, constraints)  # its way to and from real numbers

    def misfit(vector):
        p = model.constrain(vector)
        return -log_likelihood(p, evidence(p, counts))

    found = minimize(nt.value_and_grad(misfit), model.start, jac=True, method="BFGS", options={"gtol": 1e-4})
    return model.constrain(found.x), found.fun


def main():
    for states, reference in REFERENCE.items():
        if states == 1:  # no chain: a Poisson distribution
            print(f"1 state:  -log L {-np.sum(poisson.logpmf(COUNTS, COUNTS.mean())):.4f}")
            continue
        p, found = fit(states, COUNTS)
        print(f"{states} states: -log L {found:.4f} (book: {reference}), rates {p['rates'].round(2)}")
        np.testing.assert_allclose(found, reference, atol=2e-4)

    chances = nt.grad(log_likelihood, argnums=1)(p, evidence(p, COUNTS))
    np.testing.assert_allclose(np.sum(chances, axis=1), 1.0, rtol=1e-9)
    busy = 1900 + np.flatnonzero(np.argmax(chances, axis=1) == 2)
    print(f"years most likely in the busiest state: {busy[0]}-{busy[-1]}, {len(busy)} of them")


if __name__ == "__main__":
    main()
