"""Branches and loops whose number of steps is data: what runs, what is traced, and what is refused."""

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.3, -0.7, 1.2])


def test_one_tape_serves_all_sides():
    f = lambda x: nt.cond(np.sum(x) > 0, lambda z: np.sum(z**2), lambda z: np.sum(z**3), x)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, X)
    tape = cache.tape
    for x in (X, -X, 2 * X, -2 * X):
        _, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(gradient, 2 * x if np.sum(x) > 0 else 3 * x**2, rtol=1e-14)
        assert cache.tape is tape


def factor_or_squares(x):
    factor = lambda z: np.sum(np.linalg.cholesky(np.eye(2) * z[1]))  # noqa: E731
    return nt.cond(x[1] > 0, factor, lambda z: np.sum(z**2), x)


def test_the_other_side_does_not_run():
    """A side that would fail for the numbers of a call does no harm, as long as it is not chosen."""
    cache = nt.prepare_gradient_cache(factor_or_squares, np.abs(X))
    tape = cache.tape
    _, (gradient,) = nt.value_and_gradient(cache, X)
    np.testing.assert_allclose(gradient, 2 * X, rtol=1e-15)
    assert cache.tape is tape
    hessian = nt.prepare_hessian_cache(factor_or_squares, np.abs(X))
    nt.value_gradient_and_hessian(hessian, np.abs(X))  # traces the gradient
    np.testing.assert_allclose(nt.value_gradient_and_hessian(hessian, X)[2], 2 * np.eye(3), atol=1e-15)


def test_a_side_reads_the_end_of_a_loop_beside_an_inner_derivative():
    """The branches read all that the loop keeps, so that a pass must not shorten it."""

    def end(s, x):
        return nt.scan(lambda a, b: (np.tanh(a * b + s), None), s, x)[0]

    def f(x, s):
        slope = nt.grad(lambda z: np.sum(np.sin(z)) * s)(x)
        return slope, nt.cond(s > 0.1, np.sin, lambda z: z * 0.3, end(s, x))

    for s in (0.4, -0.4):
        slope, chosen = nt.vjp(f, X, s)[0]
        np.testing.assert_allclose(slope, np.cos(X) * s)
        np.testing.assert_allclose(chosen, np.sin(end(s, X)) if s > 0.1 else end(s, X) * 0.3)


def test_a_plain_choice_is_a_plain_call():
    f = lambda x, side: nt.cond(side, np.sin, np.cos, x)  # noqa: E731
    assert nt.cond(True, lambda: 1, lambda: "text") == 1
    assert nt.switch(7, [lambda: 1, lambda: 2]) == 2
    assert [round(float(nt.grad(f)(0.5, nt.Static(s))), 6) for s in (True, False)] == [0.877583, -0.479426]


def decay(a):
    return nt.while_loop(lambda c: c[0] < a, lambda c: (c[0] + 1.0, c[1] * np.cos(a) ** 2), (0.0, 1.0))[1]


def test_another_number_of_steps_needs_a_trace_only_where_there_is_no_room():
    cache = nt.prepare_gradient_cache(decay, 3.2)
    tape, tapes = cache.tape, set()
    for a in (3.2, 9.3, 0.4, 30.0, 2.5, 100.2, 40.1, 100.4):
        value, (slope,) = nt.value_and_gradient(cache, a)
        steps = np.ceil(a)
        np.testing.assert_allclose(value, np.cos(a) ** (2 * steps), rtol=1e-11)
        np.testing.assert_allclose(slope, -2 * steps * np.tan(a) * np.cos(a) ** (2 * steps), rtol=1e-9)
        tapes.add(cache.tape)
    assert tape in tapes
    assert len(tapes) == 2


def test_max_steps_is_checked_in_each_call():
    f = lambda x: nt.while_loop(lambda s: s < 3.0, lambda s: s + x[0], 0.0, max_steps=20)  # noqa: E731
    with pytest.raises(nt.StepsError, match="max_steps=20"):
        f(0.1 * X)
    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(2):
        with pytest.raises(nt.StepsError, match="max_steps=20"):
            nt.value_and_gradient(cache, 0.1 * X)
        _, (gradient,) = nt.value_and_gradient(cache, X)
        np.testing.assert_allclose(gradient, [11.0, 0.0, 0.0])


REFUSED = {
    "structure": (
        lambda x: nt.cond(x[0] > 0, lambda: (x, 1.0), lambda: x),
        nt.StructureError,
        r"nt.cond: the result of one branch has the structure \*",
    ),
    "shape": (
        lambda x: nt.cond(x[0] > 0, lambda: x[:2], lambda: x),
        nt.ShapeError,
        r"nt.cond: the result has shape \(3,\) in one branch, and \(2,\) in another",
    ),
    "dtype": (
        lambda x: nt.switch(np.argmax(x), [lambda: [x], lambda: [x > 0]])[0],
        nt.DtypeError,
        r"nt.switch: result\[0\] has dtype float64 in one branch, and bool in another",
    ),
    "complex": (
        lambda x: nt.cond(x[0] > 0, lambda: (x, {"a": x}), lambda: (x, {"a": x * 1j}))[0],
        nt.DtypeError,
        r"nt.cond: result\[1\]\['a'\] has dtype (complex128|float64) in one branch",
    ),
    "nothing": (
        lambda x: nt.cond(x[0] > 0, lambda: (x, None), lambda: (x, x))[0],
        nt.StructureError,
        r"nt.cond: result\[1\] is None in one branch",
    ),
    "predicate": (
        lambda x: nt.cond(x > 0, lambda: x, lambda: x),
        nt.SpecError,
        r"shape \(3,\), not one value",
    ),
    "index": (
        lambda x: nt.switch(x[0], [lambda: x, lambda: x]),
        nt.SpecError,
        "dtype float64, not one integer",
    ),
    "none": (lambda x: nt.switch(np.argmax(x), []), nt.SpecError, "no branch to choose from"),
    "condition": (
        lambda x: nt.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, x),
        nt.SpecError,
        r"the condition is an array of shape \(3,\)",
    ),
    "carry": (
        lambda x: nt.while_loop(lambda c: c[0] < 3.0, lambda c: c[:2], x),
        nt.ShapeError,
        "keep its shape",
    ),
    "negative": (
        lambda x: nt.while_loop(lambda c: c < 3.0, lambda c: c + x[0], 0.0, max_steps=-1),
        nt.SpecError,
        "max_steps is negative",
    ),
    "no room": (
        lambda x: nt.map(lambda v: nt.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, v), x),
        nt.SpecError,
        "it needs max_steps=",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        nt.grad(lambda x: np.sum(function(x)))(X)


def test_outside_of_traces_the_chosen_branch_alone_runs(capsys):
    """The other one may print, write to files, take long, or not work for these numbers."""

    def factorial(n):
        return nt.cond(n > 0, lambda: n * factorial(n - 1), lambda: 1)

    for other in (lambda x: print("other"), lambda x: 1.0 / 0):
        assert nt.cond(True, lambda x: x[0], other, X) == X[0]
        assert nt.switch(5, [other, other, lambda x: x[0]], X) == X[0]
    assert capsys.readouterr().out == ""
    assert factorial(5) == 120


def test_what_a_branch_knows_of_sizes_is_computed_again_outside():
    """Numbers that follow from sizes are kept for later; a branch keeps its own to itself."""

    def diagonal(x):
        places = np.arange(len(x))
        return np.sum((x[:, None] * x)[places, places]) + np.sum(np.abs(np.fft.fft(x)) ** 2)

    def f(x):
        return nt.cond(x[0] > 0.0, diagonal, lambda x: 2.0 * diagonal(x), x) + diagonal(3.0 * x)

    gradient = nt.grad(f)
    for x in (np.array([0.5, -1.0, 2.0]), np.array([-0.5, 1.0, 0.3, 0.2])):
        factor = 10.0 if x[0] > 0 else 11.0
        np.testing.assert_allclose(gradient(x), factor * 2.0 * (1 + len(x)) * x, rtol=1e-13)
