"""What SciPy warns of stands at the user's line, in traces and in the sweeps that follow."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import numbatape as nt

HILBERT = scipy.linalg.hilbert(13)
SINGULAR = scipy.sparse.csc_array(np.diag([1.0, 0.0]))


def oscillation(t):
    return np.sin(1.0 / (t + 1e-9)) / np.sqrt(t + 1e-12)


def solve(x):
    return np.sum(scipy.linalg.solve(HILBERT * x[0], HILBERT[0]))


def solve_constants(x):
    return np.sum(scipy.linalg.solve(HILBERT, HILBERT[0])) * x[0]


def quad(x):
    return scipy.integrate.quad(lambda t: x[0] * oscillation(t), 0, 1, limit=3)[0]


def quad_constants(x):
    return scipy.integrate.quad(oscillation, 0, 1, limit=3)[0] * x[0]


def odeint(x):
    return np.sum(scipy.integrate.odeint(lambda y, t: x[0] * y**2, 1.0, [0.0, 1.5], mxstep=20))


def spsolve(x):
    return np.sum(scipy.sparse.linalg.spsolve(SINGULAR, x))


CASES = (solve, solve_constants, quad, quad_constants, odeint, spsolve)
IN_SWEEPS = (quad, odeint)


def shown(action, call):
    """Return ``(category, file, line)`` of what is shown under a filter."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        call()
    return [(w.category.__name__, w.filename, w.lineno) for w in seen]


def line_of(f):
    """Return where NumPy's users see the warning: the line of the one statement."""
    return inspect.getsourcefile(f), inspect.getsourcelines(f)[1] + 1


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_at_the_users_line(f):
    x = np.array([1.0, 1.0])
    plain = {category for category, *_ in shown("always", lambda: f(x))}
    calls = [lambda: nt.grad(lambda x: f(x))(x)]
    if f in IN_SWEEPS:
        replayed = nt.grad(f)
        shown("ignore", lambda: replayed(x))
        calls.append(lambda: replayed(1.01 * x))
    for call in calls:
        found = shown("always", call)
        assert {category for category, *_ in found} == plain
        assert {(file, line) for _, file, line in found} == {line_of(f)}


@pytest.mark.parametrize("f", IN_SWEEPS, ids=lambda f: f.__name__)
def test_once_a_line(f):
    def call():
        gradient = nt.grad(f)
        for k in range(3):
            gradient(np.array([1.0 + 0.01 * k]))

    assert (
        len(shown("default", call)) == len(shown("default", lambda: [f(np.ones(1)) for _ in range(3)])) == 1
    )


def test_errors_of_filters_reach_the_caller():
    with pytest.raises(scipy.linalg.LinAlgWarning):  # pytest's filters make errors of warnings
        nt.grad(solve)(np.ones(2))
