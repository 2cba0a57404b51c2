"""What fails for some inputs decides what a function does, whether or not anybody reads its result.

Each step is one that may fail; nothing reads what it returns. Where it fails the function's ``except`` runs,
or what NumPy raises comes out, in whatever way the tape is run.
"""

import inspect
import itertools
import math
import re
import warnings

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt
from numbatape.engine.checked import CheckedWorkspace
from numbatape.engine.reference import Reference
from numbatape.ops import OPS, ArrayOp, status
from tests.every_case import every

GOOD = np.array([2.0, 0.5, 1.0])
BAD = {
    "indefinite": np.array([-2.0, 0.5, 1.0]),
    "singular": np.array([0.25, 0.5, 1.0]),
    "outside": np.array([5.0, 0.5, 1.0]),
}


def matrix(x):
    return np.array([[x[0], x[1]], [x[1], 1.0]])


def place(x):
    return np.floor(x[:1]).astype(int)


def assign(x):
    y = np.zeros(3)
    y[place(x)[0]] = 1.0


def assign_many(x):
    y = np.zeros(3) + x
    y[place(x)] = 1.0


def add_at(x):
    y = np.zeros(3)
    np.add.at(y, place(x), 1.0)


def positive(x):
    if x[0] < 0:
        raise ValueError("negative")
    return 2.0 * x


RULE = nt.primitive(positive, pullback=lambda ybar, y, x: (2.0 * ybar,))
STEPS = {
    "cholesky": (lambda x: np.linalg.cholesky(matrix(x)), "indefinite", np.linalg.LinAlgError),
    "inv": (lambda x: np.linalg.inv(matrix(x)), "singular", np.linalg.LinAlgError),
    "solve": (lambda x: np.linalg.solve(matrix(x), np.ones(2)), "singular", np.linalg.LinAlgError),
    "cho_factor": (lambda x: scipy.linalg.cho_factor(matrix(x)), "indefinite", np.linalg.LinAlgError),
    "x[k]": (lambda x: x[place(x)[0]], "outside", IndexError),
    "take": (lambda x: np.take(x, place(x)), "outside", IndexError),
    "rows": (lambda x: np.outer(x, x)[place(x)], "outside", IndexError),
    "y[k] = 1": (assign, "outside", IndexError),
    "y[[k]] = 1": (assign_many, "outside", IndexError),
    "add.at": (add_at, "outside", IndexError),
    "rule": (RULE, "indefinite", ValueError),
}
CASES = [pytest.param(*case, id=name) for name, case in STEPS.items()]


def caught(step, error):
    def f(x):
        try:
            step(x)
        except error:
            return -1e3 + 3.0 * x[0] * x[1]
        return -np.sum(x**3)

    return f


def let_go(step):
    def f(x):
        step(x)
        return -np.sum(x**3)

    return f


def gradient(x, failed):
    return np.array([3.0 * x[1], 3.0 * x[0], 0.0]) if failed else -3.0 * x**2


def second(x, failed):
    if failed:
        return np.array([[0.0, 3.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return np.diag(-6.0 * x)


CONFIGS = [nt.Config(), nt.Config(passes="none"), nt.Config(debug_mode=True, silence_debug_messages=True)]


@pytest.mark.parametrize("config", CONFIGS, ids=["all", "none", "debug"])
@pytest.mark.parametrize("step, kind, error", CASES)
def test_replays_take_the_path_of_the_call(step, kind, error, config):
    f, bad = caught(step, error), BAD[kind]
    for order in ((GOOD, bad, GOOD), (bad, GOOD, bad)):
        cache = nt.prepare_gradient_cache(f, order[0], config=config)
        for x in order:
            value, (grad,) = nt.value_and_gradient(cache, x)
            assert value == pytest.approx(f(x), rel=1e-14)
            np.testing.assert_allclose(grad, gradient(x, x is bad), rtol=1e-14)


@pytest.mark.parametrize("config", CONFIGS, ids=["all", "none", "debug"])
@pytest.mark.parametrize("step, kind, error", CASES)
def test_what_nobody_catches_is_raised(step, kind, error, config):
    cache = nt.prepare_gradient_cache(let_go(step), GOOD, config=config)
    for _ in range(2):
        with pytest.raises(error):
            nt.value_and_gradient(cache, BAD[kind])
        assert nt.value_and_gradient(cache, GOOD)[0] == -np.sum(GOOD**3)


DERIVATIVES = {
    "jvp": lambda f, x: nt.jvp(f, (x,), (np.ones(3),))[1],
    "hvp": lambda f, x: nt.hvp(f)(x, np.ones(3)),
    "jacobian": lambda f, x: nt.jacobian(f)(x),
    "hessian": lambda f, x: nt.hessian(f)(x),
    "sparse_hessian": lambda f, x: nt.sparse_hessian(f)(x).toarray(),
    "grad of grad": lambda f, x: nt.grad(lambda x: np.sum(nt.grad(f)(x)))(x),
    "vjp": lambda f, x: nt.vjp(f, x)[1](1.0)[0],
}
EXPECTED = {
    "jvp": lambda x, failed: np.sum(gradient(x, failed)),
    "jacobian": gradient,
    "vjp": gradient,
    "hvp": lambda x, failed: second(x, failed).sum(1),
    "hessian": second,
    "sparse_hessian": second,
    "grad of grad": lambda x, failed: second(x, failed).sum(1),
}


@pytest.mark.parametrize("verb", DERIVATIVES)
@pytest.mark.parametrize("name", ["cholesky", "solve", "x[k]", "y[[k]] = 1", "rule"])
def test_derivatives_take_the_path_of_the_call(name, verb):
    step, kind, error = STEPS[name]
    f, bad = caught(step, error), BAD[kind]
    for x in (GOOD, bad, GOOD, bad):
        np.testing.assert_allclose(DERIVATIVES[verb](f, x), EXPECTED[verb](x, x is bad), rtol=1e-13)
    g = let_go(step)
    DERIVATIVES[verb](g, GOOD)
    with pytest.raises(error):
        DERIVATIVES[verb](g, bad)


@pytest.mark.parametrize("step, kind, error", CASES)
def test_points_of_a_batch_take_their_own_paths(step, kind, error):
    f, bad = caught(step, error), BAD[kind]
    points = np.stack([GOOD, GOOD * 0.99, bad, *[GOOD * s for s in np.linspace(0.98, 1.0, 9)], bad * 1.0])
    failed = [k in (2, len(points) - 1) for k in range(len(points))]
    for rows in (slice(None), slice(None, None, -1)):
        values, grads = nt.batch(f)(points[rows])
        np.testing.assert_allclose(values, [f(x) for x in points[rows]], rtol=1e-14)
        expected = [gradient(x, lost) for x, lost in zip(points, failed, strict=True)]
        np.testing.assert_allclose(grads, expected[rows], rtol=1e-14)
    with pytest.raises(error):
        nt.batch(let_go(step))(points)


@pytest.mark.parametrize("step, kind, error", CASES)
def test_other_interpreters_see_the_failure(step, kind, error):
    cache = nt.prepare_gradient_cache(let_go(step), GOOD)
    plan = cache._space.plan
    checked = CheckedWorkspace(plan)
    checked.set(plan.tape.inputs[0].value, BAD[kind])
    if error is ValueError:  # the rule's own
        with pytest.raises(error):
            checked.forward()
    else:
        assert checked.forward() in (status.INDEX, status.FACTOR)
    with pytest.raises(error):
        Reference(plan.tape, plan.dimensions).run([BAD[kind]])


def test_a_constant_that_fails():
    def f(x, c):
        try:
            np.linalg.cholesky(c)
        except np.linalg.LinAlgError:
            return x[0]
        return x[1] ** 2

    cache = nt.prepare_gradient_cache(f, GOOD, nt.Constant(np.eye(2)))
    for c, value in ((np.eye(2), 0.25), (-np.eye(2), 2.0), (np.eye(2) * 3, 0.25)):
        assert nt.value_and_gradient(cache, GOOD, nt.Constant(c))[0] == value


def test_the_order_of_failures_and_branches():
    """What fails behind a branch that is not taken did not fail."""

    def f(x):
        if x[2] > 0.0:
            np.linalg.cholesky(matrix(x))
            return x[0]
        return x[1] ** 2

    cache = nt.prepare_gradient_cache(f, GOOD)
    for third, first in itertools.product((1.0, -1.0), (2.0, -2.0)):
        x = np.array([first, 0.5, third])
        if third > 0 > first:
            with pytest.raises(np.linalg.LinAlgError):
                nt.value_and_gradient(cache, x)
        else:
            assert nt.value_and_gradient(cache, x)[0] == (x[0] if third > 0 else 0.25)


def test_a_pullback_that_raises_is_not_lost():
    def pullback(ybar, y, x):
        if x[0] < 0:
            raise ValueError("no derivative here")
        return (ybar * 2.0,)

    rule = nt.primitive(lambda x, workspace: 2.0 * x, pullback=lambda *a, workspace: pullback(*a),
                        workspace=lambda x: {"c": ((1,), float)})  # fmt: skip

    def f(x):
        try:
            nt.grad(lambda x: np.sum(rule(x)))(x)
        except ValueError:
            return x[1]
        return x[2] ** 2

    cache = nt.prepare_gradient_cache(f, GOOD)
    for x, value in ((GOOD, 1.0), (BAD["indefinite"], 0.5), (GOOD, 1.0)):
        assert nt.value_and_gradient(cache, x)[0] == value


@every("op", [op for op in OPS if isinstance(op, ArrayOp)])
def test_ops_say_whether_they_may_fail(op):
    """A kernel that returns, or passes on, anything but DONE belongs to an op that is declared fallible."""
    module = inspect.getmodule(op.forward)
    texts, seen = [inspect.getsource(op.forward)], set()
    while texts:
        text = texts.pop()
        if re.search(r"return (invoke\(|.*\b(INDEX|FACTOR|INTEGER)\b)", text):
            assert op.fallible
            return
        for name in set(re.findall(r"return (\w+)\(", text)) - seen:
            if inspect.isfunction(getattr(module, name, None)):
                seen.add(name)
                texts.append(inspect.getsource(getattr(module, name)))
    assert not op.fallible


# ---- what Python's math raises, and what becomes an exception only if the function asks for it

RAISES = {
    "exp": 800.0, "exp2": 2000.0, "expm1": 800.0, "log": -1.0, "log2": -1.0, "log10": 0.0, "log1p": -1.0,
    "sqrt": -1.0, "sin": np.inf, "cos": -np.inf, "tan": np.inf, "sinh": -800.0, "cosh": 800.0, "asin": 2.0,
    "acos": -2.0, "acosh": 0.5, "atanh": 1.0, "gamma": -1.0, "lgamma": 0.0, "floor": np.inf, "ceil": np.nan,
}  # fmt: skip
MATH = """
def f(x):
    try:
        return math.{0}(x[0]) + 0.0 * x[1]
    except (ValueError, OverflowError):
        return x[1] ** 2
"""


@pytest.mark.parametrize("name", RAISES)
def test_math_raises_on_replay(name):
    names = {"math": math}
    exec(MATH.format(name), names)
    f = names["f"]
    inside = 1.5 if name == "acosh" else 0.25
    cache = nt.prepare_gradient_cache(f, np.array([inside, 3.0]))
    for first in (inside, RAISES[name], np.nan, inside, RAISES[name]):
        x = np.array([first, 3.0])
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[0], f(x), rtol=1e-14)


def collected(x):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        y = np.log(x[0])
        return x[1] if log else y


def as_error(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            np.log(x[0])
        except RuntimeWarning:
            return x[1]
    return x[1] ** 2


def empty_mean(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        try:
            return np.mean(x[x > 5.0])
        except RuntimeWarning:
            return x[1]


def float_errors(x):
    with np.errstate(divide="raise"):
        try:
            1.0 / x[:1]
        except FloatingPointError:
            return x[1]
    return x[0]


@np.errstate(divide="raise")
def decorated(x):
    try:
        return 1.0 / x[:1].sum()
    except FloatingPointError:
        return x[1]


@pytest.mark.parametrize("f", [collected, as_error, empty_mean, float_errors, decorated])
def test_warnings_that_the_function_asks_for(f):
    points = [np.array([first, 2.0]) for first in (1.0, -1.0, 0.0, 6.0, 1.0)]
    expected = [f(x) for x in points]
    cache = nt.prepare_gradient_cache(f, points[0])
    assert [nt.value_and_gradient(cache, x)[0] for x in points] == expected
    np.testing.assert_array_equal(nt.batch(f)(np.stack(points))[0], expected)


def test_ignored_warnings_cost_no_trace():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.log(x[0])

    cache = nt.prepare_gradient_cache(f, np.ones(1))
    for first in (2.0, -1.0, 3.0):
        nt.value_and_gradient(cache, np.array([first]))
    assert cache.traces == 1
