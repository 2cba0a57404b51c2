"""What a traced value says that would lose its derivative: one message a cause, with the way out."""

from __future__ import annotations

import ctypes
import json
import logging
import math
import statistics
import weakref
import zlib
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial
import scipy.special

import numbatape as nt

X = np.array([0.5, 1.5])
LIBC = ctypes.CDLL(None)
LIBC.fabs.restype, LIBC.fabs.argtypes = ctypes.c_double, [ctypes.c_double]
IMPLICIT = r"implicit differentiation, a rule of six lines \(docs/rules.md, 'Implicit functions'\)"
RULE = r"give its derivative by nt.primitive \(docs/rules.md\)"


def helper(x):
    return np.sum(np.array([x[0], math.exp(x[1])]))


HELD = weakref.WeakValueDictionary({0: helper})  # what an object of a library holds is not reached

SOLVERS = {
    "fmin_l_bfgs_b": lambda x: scipy.optimize.fmin_l_bfgs_b(
        lambda t: np.sum((t - x) ** 2), np.ones(2), approx_grad=True
    )[0][0],
    "milp": lambda x: scipy.optimize.milp(x).x[0],
    "brute": lambda x: scipy.optimize.brute(lambda t: np.sum((t - x) ** 2), [(0.0, 2.0)] * 2, Ns=3)[0],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_name_implicit_differentiation(name, capfd):
    with pytest.raises(nt.LeakError, match=rf"^scipy.optimize.{name} at .*test_leaks.py:\d+ in .*{IMPLICIT}"):
        nt.grad(SOLVERS[name])(X)


def test_what_a_solver_meets_otherwise_says_so_too():
    with pytest.raises(nt.UnsupportedOperationError) as caught:
        nt.grad(lambda x: scipy.optimize.diagbroyden(lambda t: np.spacing(np.cos(t) * x[0]), 0.0))(X)
    assert "implicit differentiation" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


KNOTS = np.r_[np.zeros(4), np.ones(4)]
PATCHES = scipy.interpolate.CloughTocher2DInterpolator(
    np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), KNOTS[2:6]
)
CAUSES = {
    "a library's function in Python": (
        lambda x: statistics.NormalDist(x[0]).mean,
        rf"^statistics.NormalDist at .* a function of a library that numbatape does not know.*{RULE}",
    ),
    "a library's class": (
        lambda x: scipy.spatial.SphericalVoronoi(x).vertices,
        rf"^scipy.spatial.SphericalVoronoi at .* a function of a library.*{RULE}",
    ),
    "a sum whose terms depend on a captured value": (
        lambda x: scipy.integrate.nsum(lambda k: x[0] / k**2, 1, np.inf).sum,
        r"^scipy.integrate.nsum at .* is not supported: .*use np.sum .*scipy.integrate.quad",
    ),
    "close to a known one": (
        lambda x: scipy.signal.remez(5, [0.0, 0.1, 0.2, 0.5], x)[0],
        r"^scipy.signal.remez at .*supported and close: scipy.signal.",
    ),
    "a library's function in C": (
        lambda x: scipy.linalg.lapack.dpotrf(np.outer(x, x))[0],
        rf"^scipy.linalg.lapack.dpotrf at .* computes with plain numbers.*{RULE}",
    ),
    "a function of a library in C": (
        lambda x: LIBC.fabs(x[0]) * x[0],
        rf"^LIBC.fabs at .* computes with plain numbers.*\(float\(x\)\).*; {RULE}",
    ),
    "called as an object": (
        lambda x: np.ma.exp(x[0]),
        r"^np.ma.exp at .* a function of a library",
    ),
    "a function with another one in its place": (
        lambda x: scipy.interpolate.insert(0.5, (KNOTS, np.resize(x, 8), 3))[0],
        r"^scipy.interpolate.insert at .* in <lambda> is not supported: .*splev of the spline",
    ),
    "a class whose base is private": (
        lambda x: scipy.interpolate.BPoly(x[:, None], [0.0, 1.0])(0.5).sum(),
        r"^scipy.interpolate.BPoly at .* is not supported: .*use scipy.interpolate.PPoly",
    ),
    "an object of such a class": (
        lambda x: PATCHES(x[0], 0.5),
        r"^scipy.interpolate.CloughTocher2DInterpolator at .* is not supported: .*RBFInterpolator",
    ),
    "differences in place of derivatives": (
        lambda x: scipy.optimize.approx_fprime(x, lambda y: np.sum(y**2)).sum(),
        r"^scipy.optimize.approx_fprime at .* is not supported: .*nt.grad",
    ),
    "out of reach": (
        lambda x: HELD[0](x),
        r"^math.exp at .*test_leaks.py:\d+ in helper .* helper runs as it is: the trace does not reach "
        r"it through HELD\[0\] at .*test_leaks.py:\d+ in <lambda>. `import numbatape.numpy as np`",
    ),
    "out of reach through a library": (
        lambda x: x[0] * sorted(HELD, key=HELD[0])[0] if HELD[0](x) else 0.0,
        r"reach it through HELD\[0\]",
    ),
    "float": (
        lambda x: float(x[0]) * 2.0,
        r"^float\(x\) at .* would drop the derivative .*x.reshape\(\(\)\).* float\(nt.stop_gradient\(x\)\)$",
    ),
    "indices": (
        lambda x: x[0] * np.ma.asarray(np.argsort(x)).sum(),
        r"^numpy.ma.*asarray at .* no derivative is lost, but the tape would keep these numbers.*int\(k\)",
    ),
    "distances of a mask": (
        lambda x: np.sum(x * scipy.ndimage.distance_transform_edt(x)),
        r"^scipy.ndimage.distance_transform_edt at .* no derivative is lost",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_one_message_a_cause(cause):
    f, message = CAUSES[cause]
    with pytest.raises(nt.LeakError, match=message):
        nt.grad(f)(X)


@pytest.mark.parametrize("of_traced", [True, False])
def test_methods_that_are_not_bound_say_what_to_call(of_traced):
    """The array that the function makes is none of NumPy's own class, either."""

    def f(x):
        made = np.zeros(2)
        made[0] = x[0]
        return np.ndarray.dot(x if of_traced else np.ones(2), made)

    place = r"test_leaks.py:\d+ in .*f is not supported; call the array's own method, x.dot"
    with pytest.raises(
        nt.UnsupportedOperationError, match=rf"^np.ndarray.dot of a traced array at .*{place}"
    ):
        nt.grad(f)(X)


def swallowing(x):
    try:
        scale = float(x[0])
    except Exception:  # with plain numbers nothing is raised
        scale = 2.0
    return scale * np.sum(x)


def test_a_leak_that_is_caught_is_raised_all_the_same():
    with pytest.raises(nt.LeakError, match="float"):
        nt.grad(swallowing)(X)


def otherwise(x):
    try:
        x.view(np.int64)
    except TypeError:
        return 2.0 * np.sum(x)
    return np.sum(x)


def otherwise_in_a_body(x):
    last = np.zeros(1)

    def step(i, value):
        last[0] = value
        return value * x[i]

    try:
        return nt.fori_loop(0, 2, step, x[0]) + last[0]
    except TypeError:
        return x[0]


def by_name(x):
    try:
        x.view(np.int64)
    except nt.UnsupportedOperationError:
        return 3.0 * np.sum(x)
    return np.sum(x)


def test_what_is_not_supported_raises_also_where_it_is_caught():
    """The function would take a path that it does not take with arrays, unless it names the error."""
    for f in (otherwise, lambda x: np.sum(nt.map(otherwise, x[:, None] * x))):
        with pytest.raises(nt.UnsupportedOperationError, match="view to another dtype"):
            nt.grad(f)(X)
    with pytest.raises(nt.LeakError, match="to an array from outside"):
        nt.grad(otherwise_in_a_body)(X)
    np.testing.assert_array_equal(nt.grad(by_name)(X), np.full(len(X), 3.0))


def test_logs_may_have_numbers(caplog):
    log = logging.getLogger("numbatape.test")

    def f(x):
        log.info("%.2f and %s", x[0], x[1])
        return np.sum(x**2)

    with caplog.at_level(logging.INFO):
        np.testing.assert_array_equal(nt.grad(f)(X), 2.0 * X)
    assert caplog.messages[0].startswith("0.50 and")


class Ends(NamedTuple):
    first: float
    last: float


def test_json_has_the_numbers_of_each_call():
    texts = []

    def f(x):
        tree = OrderedDict(x=x.tolist(), n=len(x), ends=Ends(x[0], x[1]))
        texts.append(json.dumps(tree))
        return np.sum(x**2)

    gradient = nt.grad(f)
    for x in (np.array([1.0, 2.0]), np.array([3.0, 4.0])):
        np.testing.assert_array_equal(gradient(x), 2.0 * x)
        assert json.loads(texts[-1]) == {"x": x.tolist(), "n": 2, "ends": x.tolist()}


def test_compiled_code_that_takes_plain_arrays_only():
    def f(x):
        return zlib.crc32(x) * x[0]

    place = rf"test_compiled_code_that_takes_plain_arrays_only.<locals>.f calls at {__file__}:\d+"
    message = rf"^compiled code that .*{place} takes plain arrays"
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(f)(np.ones(2))


@pytest.mark.parametrize("f", [lambda x: x(2), lambda x: "a" + x, lambda x: x < "a"])
def test_errors_of_python_itself_stay_as_they_are(f):
    with pytest.raises(TypeError, match=r"^('TracedArray' object is not callable|can only concat|'<' not)"):
        nt.grad(f)(np.ones(2))


def test_compiled_code_of_fused_types_is_named():
    """Cython does not say what has no signature; the error does, and where it was called."""

    def smooth(x):
        raise TypeError("No matching signature found")

    with pytest.raises(
        nt.UnsupportedOperationError, match=r"smooth calls at .*test_leaks.py:\d+ takes plain arrays only"
    ):
        nt.grad(lambda x: smooth(x)[0])(np.ones(3))
