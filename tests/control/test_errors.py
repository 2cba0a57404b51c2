"""What a loop refuses, by name: inside of a trace, and outside where plain Python can tell."""

import contextlib
import math

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.3, -0.7, 1.2])


def carry(first, step):
    return lambda x: np.sum(nt.scan(lambda c, v: (step(c, v), None), first, x)[0])


REFUSED_EVERYWHERE = {
    "shape": (carry(np.ones(3), np.append), nt.ShapeError, r"nt.scan: carry has shape \(3,\).*shape \(4,\)"),
    "structure": (
        lambda x: nt.scan(lambda c, v: ({"a": v, "c": v}, None), {"a": 0.0, "b": 1.0}, x)[0]["a"],
        nt.StructureError,
        r"the carry has the structure {'a': \*, 'b': \*}, and the body returns {'a': \*, 'c': \*}",
    ),
    "dtype": (
        lambda x: nt.scan(lambda c, v: ([c[0], c[1] > v], None), [0.0, np.ones(2)], x)[0][0] + x[0],
        nt.DtypeError,
        r"carry\[1\] has dtype float64, and the body returns it with dtype bool",
    ),
    "structure of a tuple": (
        lambda x: nt.scan(lambda c, v: ((c[0] * v,), None), (1.0, x), x)[0][0],
        nt.StructureError,
        r"the carry has the structure \(\*, \*\), and the body returns \(\*,\)$",
    ),
    "None": (
        lambda x: nt.scan(lambda c, v: ({"a": c["a"] * v, "b": None}, None), {"a": 1.0, "b": 2.0}, x)[0]["a"],
        nt.StructureError,
        r"carry\['b'\] is a number or an array, and the body returns None for it",
    ),
    "complex": (
        lambda x: np.sum(nt.scan(lambda c, v: (c * v * 1j, None), x, x)[0].real),
        nt.DtypeError,
        "nt.scan: .*complex.*must keep its dtype",
    ),
    "carry of fori_loop": (
        lambda x: np.sum(nt.fori_loop(0, 2, lambda i, c: {"a": np.append(c["a"], i)}, {"a": x})["a"]),
        nt.ShapeError,
        r"nt.fori_loop: carry\['a'\] has shape \(3,\).*shape \(4,\)",
    ),
    "no condition": (
        lambda x: np.sum(nt.while_loop(lambda c: None, lambda c: c + 1.0, x)),
        nt.SpecError,
        "nt.while_loop: the condition is None",
    ),
    "no predicate": (
        lambda x: np.sum(nt.cond(None, np.sin, np.cos, x)),
        nt.SpecError,
        "nt.cond: the predicate is None",
    ),
    "text as a predicate": (
        lambda x: np.sum(nt.cond("no", np.sin, np.cos, x)),
        nt.SpecError,
        "nt.cond: the predicate is 'no', not a number",
    ),
    "no pair": (
        lambda x: nt.scan(lambda c, v: c * v, 1.0, x)[0],
        nt.OutputError,
        r"a pair \(carry, output\)",
    ),
    "negative": (
        lambda x: nt.scan(lambda c, _: (c * x[0], None), 1.0, length=-2)[0],
        nt.SpecError,
        r"the length is negative \(-2\)",
    ),
    "no length": (lambda x: nt.scan(lambda c, _: (c * x[0], None), 1.0)[0], nt.SpecError, "length="),
    "rows of text": (
        lambda x: nt.scan(lambda c, v: (c * x[0], None), 1.0, (x, np.array(["a", "b", "c"])))[0],
        nt.DtypeError,
        r"nt.scan: xs\[1\] is an array of dtype <U1, not a number",
    ),
    "text as a carry": (
        lambda x: nt.scan(lambda c, v: ((c[0] * v, c[1]), None), (1.0, "a"), x)[0][0],
        nt.DtypeError,
        r"nt.scan: carry\[1\] is 'a', not a number",
    ),
    "complex in place of real": (
        lambda x: nt.fori_loop(0, 2, lambda i, c: {"a": c["a"] * 1j}, {"a": x})["a"][0],
        nt.DtypeError,
        r"nt.fori_loop: carry\['a'\] has dtype float64, and the body returns it with dtype complex128",
    ),
    "structure without a counter": (
        lambda x: nt.fori_loop(0, 2, lambda i, c: (c, c), x)[0],
        nt.StructureError,
        r"nt.fori_loop: the carry has the structure \*, and the body returns \(\*, \*\)",
    ),
    "length": (
        lambda x: nt.scan(lambda c, v: (c * v, None), 1.0, x, length=5)[0],
        nt.SpecError,
        "length= says 5, xs has 3",
    ),
    "segments": (
        lambda x: nt.scan(lambda c, v: (c * v, None), 1.0, x, checkpoint=0)[0] + x[0],
        nt.SpecError,
        "checkpoint=0 is no number of segments",
    ),
    "kind of segments": (
        lambda x: nt.scan(lambda c, v: (c * v, None), 1.0, x, checkpoint="log")[0],
        nt.SpecError,
        'checkpoint is "sqrt" or a number',
    ),
    "lengths": (
        lambda x: nt.scan(lambda c, v: (c * v[0], None), 1.0, (x, x[1:]))[0],
        nt.SpecError,
        r"lengths differ: xs\[0\] has 3, xs\[1\] has 2",
    ),
    "a number": (lambda x: nt.map(lambda v: v, x[0]), nt.ShapeError, "xs is a number"),
    "position": (lambda x: nt.fori_loop(0, 5, lambda i, c: c + x[i], 0.0), IndexError, "out of bounds"),
    "factor": (
        lambda x: np.sum(nt.map(lambda v: np.linalg.cholesky(np.eye(2) * v), x)),
        np.linalg.LinAlgError,
        "positive definite",
    ),
}


WRONG_KINDS = {
    r"nt.scan: f must be a function, got None": lambda x: nt.scan(None, 1.0, x),
    r"nt.scan: length must be an integer, got 1.5": lambda x: nt.scan(
        lambda c, v: (c, v), 1.0, None, length=1.5
    ),
    r"nt.map: f must be a function, got 3": lambda x: nt.map(3, x),
    r"nt.fori_loop: body_fun must be a function, got 'a'": lambda x: nt.fori_loop(0, 3, "a", x),
    r"nt.fori_loop: upper must be an integer, got None": lambda x: nt.fori_loop(0, None, lambda i, c: c, x),
    r"nt.while_loop: cond_fun must be a function, got True": lambda x: nt.while_loop(True, lambda c: c, x),
    r"nt.while_loop: max_steps must be an integer, got 'a'": lambda x: nt.while_loop(
        lambda c: False, lambda c: c, x, max_steps="a"
    ),
    r"nt.cond: false_fun must be a function, got None": lambda x: nt.cond(x[0] > 0, np.sin, None, x),
    r"nt.switch: branches must be a sequence of functions, got None": lambda x: nt.switch(0, None, x),
    r"nt.switch: branches\[1\] must be a function, got 2": lambda x: nt.switch(0, [np.sin, 2], x),
    r"nt.primitive: workspace must be callable, got 3": lambda x: nt.primitive(
        np.sin, pullback=lambda ct, z, x: ct * np.cos(x), workspace=3
    ),
}


@pytest.mark.parametrize("message", WRONG_KINDS)
@pytest.mark.parametrize("verb", [lambda f: f, nt.grad], ids=["plain", "grad"])
def test_arguments_of_another_kind_are_named(message, verb):
    with pytest.raises(TypeError, match=message):
        verb(WRONG_KINDS[message])(X)


@pytest.mark.parametrize("name", REFUSED_EVERYWHERE)
@pytest.mark.parametrize("verb", [lambda f: f, nt.grad, nt.hessian], ids=["plain", "grad", "hessian"])
def test_refused(name, verb):
    function, kind, message = REFUSED_EVERYWHERE[name]
    with pytest.raises(kind, match=message):
        verb(function)(X)


def branches(x):
    return nt.scan(lambda c, v: (c * v if v > 0 else c, None), 1.0, x)[0]


def writes_outside(x):
    out = np.zeros(3)

    def step(i, c):
        out[i] = c
        return c + x[i]

    return nt.fori_loop(0, 3, step, 1.0) + np.sum(out)


def adds_outside(x):
    total = np.zeros(1)

    def step(c, v):
        total[...] += x[0]
        return c * v, None

    return nt.scan(step, 1.0, x)[0] + total[0]


def keeps(x):
    kept = {}

    def step(c, v):
        kept["last"] = c
        return c * v, None

    return nt.scan(step, 1.0, x)[0] + kept["last"]


HISTORY = {}


def keeps_forever(x):
    def step(c, v):
        HISTORY["last"] = c * v
        return c * v, None

    return nt.scan(step, 1.0, x)[0]


def keeps_from_an_inner_loop(x):
    def outer(c, v):
        kept = {}

        def inner(d, w):
            kept["last"] = d * w
            return d, None

        nt.scan(inner, c, x)
        return c * v + kept["last"], None

    return nt.scan(outer, 1.0, x)[0]


def selects(x):
    return nt.scan(lambda c, v: (c + np.sum(x[x > v]), None), 1.0, x)[0]


def reads_text(x):
    return nt.scan(lambda c, v: (c * nt.cond(v > -9.0, lambda: float(len(f"{v}")), lambda: c), None), 1.0, x)[
        0
    ]


def positive_root(v):
    try:
        return math.sqrt(v)
    except ValueError:
        return 0.0 * v


def catches(x):
    return np.sum(nt.map(positive_root, x[::-1] - 2.0 * x[2]))


def waits_by_text(x):
    return nt.while_loop(lambda c: c < len(str(c)), lambda c: c + 1.0, x[0], max_steps=50)


def draws(x):
    rng = np.random.default_rng(0)
    return nt.scan(lambda c, v: (c * v + rng.normal(), None), 1.0, x)[0]


REFUSED_IN_TRACES = {
    draws: (nt.UnsupportedOperationError, r"drawn at .*py:\d+.*in a body .* generator that is made outside"),
    reads_text: (nt.UnsupportedOperationError, r"nt.scan: its body makes text of a value at .*py:\d+"),
    catches: (nt.UnsupportedOperationError, r"nt.map: its body catches ValueError \(.*\) at .*py:\d+"),
    waits_by_text: (nt.UnsupportedOperationError, "nt.while_loop: its body makes text"),
    selects: (nt.LeakError, r"how many entries a mask.*selects.*nt.function"),
    branches: (
        nt.UnsupportedOperationError,
        r"needs the truth of a value .*test_errors.py:\d+.*Python's if.*nt.cond.*nt.function",
    ),
    writes_outside: (nt.LeakError, r"writes at .*test_errors.py:\d+.* to an array from outside"),
    adds_outside: (nt.LeakError, "to an array from outside"),
    keeps: (nt.LeakError, "outlived the step"),
    keeps_forever: (nt.LeakError, "outlived the step"),
    keeps_from_an_inner_loop: (nt.LeakError, "from inside of the body of nt.scan"),
}


@pytest.mark.parametrize("function", REFUSED_IN_TRACES)
def test_refused_in_traces(function):
    kind, message = REFUSED_IN_TRACES[function]
    with pytest.raises(kind, match=message):
        nt.grad(function)(X)
    HISTORY.clear()
    assert np.isfinite(function(X))  # plain Python allows all of it
    HISTORY.clear()


def test_a_failed_call_does_no_harm():
    cache = nt.prepare_gradient_cache(
        lambda x: np.sum(nt.map(lambda v: np.linalg.cholesky(v), x)), np.ones((2, 1, 1))
    )
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match=r"test_errors\.py"):
            nt.value_and_gradient(cache, np.array([[[1.0]], [[-1.0]]]))
        _, (gradient,) = nt.value_and_gradient(cache, np.full((2, 1, 1), 4.0))
        np.testing.assert_allclose(gradient, 0.25)


def test_an_error_in_the_body_leaves_the_trace_usable():
    def f(x):
        with contextlib.suppress(ZeroDivisionError):
            nt.scan(lambda c, v: (1 / 0, None), 1.0, x)
        return nt.scan(lambda c, v: (c * v, None), 1.0, x)[0]

    np.testing.assert_allclose(nt.grad(f)(X), [-0.84, 0.36, -0.21])
