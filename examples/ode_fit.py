"""Fit of a differential equation: lynxes and hares.

Data: pelts, in thousands, that the Hudson's Bay Company collected from 1900 to 1920. The equation
is Lotka's and Volterra's; six parameters, the state of 1900 included, are fitted on a logarithmic
scale. The posterior means of Carpenter's case study for Stan (growth 0.55, kill 0.028, death 0.80,
feed 0.024) are the reference.

Shows: `solve_ivp` inside of a differentiated function, `scipy_problem(...,
solver="least_squares")`, and a derivative of the solution with respect to a parameter along time.
"""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import numbatape as nt
from numbatape.integrations import scipy_problem

YEARS = np.arange(21.0)
HARES = "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7"
LYNXES = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
PELTS = np.array([np.fromstring(text, sep=" ") for text in (HARES, LYNXES)])
STAN = {"growth": 0.55, "kill": 0.028, "death": 0.80, "feed": 0.024}


def rates(t, state, p):
    hares, lynxes = state
    return np.array([(p["growth"] - p["kill"] * lynxes) * hares, (p["feed"] * hares - p["death"]) * lynxes])


def populations(logs, times):
    """Return hares and lynxes at some times; all parameters are given by their logarithms."""
    p = {name: np.exp(value) for name, value in logs.items()}
    options = {"t_eval": times, "args": (p,), "rtol": 1e-8, "atol": 1e-8, "method": "LSODA"}
    return solve_ivp(rates, (0.0, times[-1]), p["start"], **options).y


def residuals(logs, times, pelts):
    return np.ravel(np.log(pelts) - np.log(populations(logs, times)))


def main(years=21):
    times, pelts = YEARS[:years], PELTS[:, :years]
    start = {"growth": 0.6, "kill": 0.03, "death": 0.7, "feed": 0.03, "start": pelts[:, 0]}
    start = {name: np.log(value) for name, value in start.items()}
    problem = scipy_problem(residuals, start, args=(times, pelts), solver="least_squares")
    found = least_squares(**problem)

    p = {name: np.exp(value) for name, value in problem.unflatten(found.x).items()}
    noise = np.sqrt(2 * found.cost / (pelts.size - found.x.size))
    errors = problem.unflatten(noise * np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac))))
    for name, reference in STAN.items():
        print(f"{name:6s} {p[name]:.4f} (relative error {errors[name]:.2f}), Stan's mean {reference}")
        assert abs(np.log(p[name] / reference)) < errors[name]
    print(f"1900: {p['start'].round(1)} thousand; relative noise {noise:.2f}")

    # What a higher death rate of lynxes does to both populations, from year to year.
    logs = problem.unflatten(found.x)
    effect = nt.jacobian(populations)(logs, times)["death"]
    step = [populations({**logs, "death": logs["death"] + h}, times) for h in (-1e-4, 1e-4)]
    np.testing.assert_allclose(effect, (step[1] - step[0]) / 2e-4, rtol=1e-3, atol=1e-2)
    print("a death rate 1 % higher changes the hares of 1905 by", round(0.01 * effect[0, 5], 3), "thousand")


if __name__ == "__main__":
    main()
