"""Hock and Schittkowski's problem 71, and others, solved by Ipopt."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.integrations import to_cyipopt

QUIET = {"print_level": 0, "sb": "yes", "tol": 1e-9}


def solved(problem, **options):
    for name, value in (QUIET | options).items():
        problem.add_option(name, value)
    x, info = problem.solve(problem.x0)
    assert info["status"] == 0, info["status_msg"]
    return x


def objective(x):
    return x[0] * x[3] * np.sum(x[:3]) + x[2]


def constraints(x):
    return np.array([np.prod(x), np.dot(x, x)])


box = {"lb": 1.0, "ub": 5.0, "cl": [25.0, 40.0], "cu": [2e19, 40.0]}
problem = to_cyipopt(objective, np.array([1.0, 5.0, 5.0, 1.0]), constraints, **box)
# Ipopt's own check of first and second derivatives finds nothing to complain about.
x = solved(problem, derivative_test="second-order", derivative_test_print_all="no")
assert np.allclose(x, [1.0, 4.74299963, 3.82114998, 1.37940829])

# Without constraints; a dictionary of arrays.
at_bound = to_cyipopt(
    lambda q: np.sum((q["a"] - 3.0) ** 2) + q["b"] ** 4,
    {"a": np.zeros(3), "b": 1.0},
    lb={"a": np.full(3, -1.0), "b": -9.0},
    ub={"a": np.full(3, 2.0), "b": 9.0},
)
solution = at_bound.unflatten(solved(at_bound))
assert np.allclose(solution["a"], 2.0, atol=1e-6) and abs(solution["b"]) < 0.1

# A long chain: structures are sparse.
n = 200
chain = to_cyipopt(
    lambda x: np.sum((x - np.arange(n)) ** 2), np.zeros(n), lambda x: np.diff(x), cl=-0.5, cu=0.5
)
assert np.all(np.abs(np.diff(solved(chain))) < 0.5 + 1e-6)

with pytest.raises(nt.OutputError, match=r"constraints\(x\) must return one vector .* got a dict"):
    to_cyipopt(lambda x: np.sum(x**2), np.ones(2), lambda x: {"a": x[0]})
with pytest.raises(nt.OutputError, match="constraints must be a vector"):
    to_cyipopt(objective, np.ones(4), lambda x: np.outer(x, x))
with pytest.raises(
    nt.SpecError, match=r"cu: a number or an array of 2, the number of constraints; got \(3,\)"
):
    to_cyipopt(objective, np.ones(4), constraints, cl=[0.0, 0.0], cu=[1.0, 2.0, 3.0])

# Where a factorisation fails, Ipopt takes a shorter step: Newton's first one leads to negative variances.
precision = to_cyipopt(
    lambda x: 4.0 * np.sum(x) - 2.0 * np.sum(np.log(np.diag(np.linalg.cholesky(np.diag(x))))), np.full(2, 9.0)
)
assert np.allclose(solved(precision), 0.25)
