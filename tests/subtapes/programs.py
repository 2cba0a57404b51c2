"""Functions that call sub-tapes; ``make`` is `numbatape.function`, or leaves the functions as they are."""

import functools

import numpy as np

import numbatape as nt
from tests.control.python_loops import Python

W = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0], [1.0, 1.0, 1.0]])


def plain(f=None, **_):
    """Do what `numbatape.function` does outside of any trace: nothing."""
    return plain if f is None else f


def chained(make):
    g = make(lambda x: np.sin(x) * x)
    return lambda x: np.sum(g(g(g(x))))


def captured_traced_value(make):
    def f(x):
        scale = 2.0 * x[0]
        shift = {"by": [x[1], 3.0]}

        @make
        def g(y):
            return scale * np.sin(y) + shift["by"][0]

        return np.sum(g(g(x)))

    return f


def captured_array(make):
    g = make(lambda x: np.tanh(W @ x))
    return lambda x: np.sum(g(g(x)))


def static_arguments(make):
    @make(static_argnums=1, static_argnames="power")
    def g(x, steps, power=1):
        for _ in range(steps):
            x = 1.5 * np.sin(x) ** power
        return x

    return lambda x: np.sum(g(x, 2) * g(x, 3, power=2)) + np.sum(g(x, steps=2))


def keywords(make):
    @make
    def g(x, *, scale=2.0, mode="times"):
        return x * scale if mode == "times" else x / scale

    return lambda x: np.sum(g(x) * g(x, scale=x[0], mode="over"))


def trees(make):
    @make
    def g(p):
        return {"a": p["u"] * p["v"][0], "b": (p["u"] + 1.0, 3, None, "text")}

    def f(x):
        found = g({"u": x, "v": [x[1], 2.0]})
        return np.sum(found["a"] * found["b"][0]) * found["b"][1]

    return f


def nested(make):
    h = make(lambda x: np.exp(-(x**2)))
    g = make(lambda x: h(x) * x + h(2.0 * x))
    return lambda x: np.sum(g(g(x)))


def in_a_scan(make):
    g = make(lambda c, v: (np.tanh(c * v) + 1.0, c + v))

    def f(x):
        last, rows = nt.scan(g, 0.3, x)
        return 2.0 * last * np.sum(rows)

    return f


def in_a_scan_with_branches(make):
    loops = Python if make is plain else nt  # without a sub-tape no body can branch
    g = make(lambda c, v: c * v if v > 0.5 else np.sin(c) + v)
    return lambda x: loops.scan(lambda c, v: (g(c, v), None), 0.7, x)[0]


def in_a_while_loop(make):
    g = make(lambda y, a: 0.5 * (y + a / y))
    return lambda x: nt.while_loop(lambda y: np.abs(y * y - x[1]) > 1e-13, lambda y: g(y, x[1]), x[2])


def in_a_branch(make):
    g = make(lambda y: np.sum(np.sin(y)))
    return lambda x: nt.cond(x[0] > 0.5, lambda y: g(y), lambda y: g(2.0 * y), x)


def with_a_scan(make):
    g = make(lambda x: nt.scan(lambda c, v: (c * np.sin(v) + v, c), 1.0, x))

    def f(x):
        last, rows = g(x)
        return last * np.sum(rows) + np.sum(g(rows)[1])

    return f


def with_carries_of_the_past(make):
    """Behind the loop, one column of the carries before each step is read."""

    @make
    def g(x):
        def step(c, row):
            return np.stack([np.sin(c[0] * row), np.tanh(c[0] + c[1])]), np.exp(c[1])

        last, rows = nt.scan(step, x[:2], np.array([0.4, -1.0, 0.7, 0.2, 1.1, 0.5]), reverse=True)
        return np.sum(rows[1:]) * x[2] + np.sum(last)

    return lambda x: g(x) * g(x[::-1])


def writes_to_its_own_array(make):
    @make
    def g(x):
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] ** 2
        return out

    return lambda x: np.sum(g(g(x)) * x)


def writes_to_an_argument(make):
    @make
    def g(x, out):
        out[0] = x[1] ** 2
        return np.sum(out * x)

    def f(x):
        out = np.ones(3) * x
        return g(x, out) + out[0] * out[1]

    return f


def returns_its_argument(make):
    g = make(lambda x: x)

    def f(x):
        y = x * 1.0
        z = g(y)
        z[0] = 3.0 * x[1]
        return np.sum(y**2)

    return f


def returns_a_view(make):
    g = make(lambda x: x[1:])
    return lambda x: np.sum(g(x) ** 2) * g(g(x))[0]


def branches(make):
    g = make(lambda x: x**3 if np.sum(x) > 2.0 else np.sin(x))
    return lambda x: np.sum(g(x) * g(x - 1.0))


def branches_of_numbers(make):
    g = make(lambda x: x**3 if x > 0.5 else (2.0 * x if x > -0.1 else x * x))
    return lambda x: g(x[0]) * g(x[1]) + g(x[2] - 1.0)


def branches_with_different_results(make):
    g = make(lambda x: (x * 1.0)[:2] if x[0] > 0.5 else {"whole": 2.0 * x})

    def f(x):
        found = [g(x), g(1.0 - x)]
        return sum(np.sum((each["whole"] if isinstance(each, dict) else each) ** 3) for each in found)

    return f


def integers(make):
    g = make(lambda x, k: x[k] * (k + 1))
    return lambda x: g(x, 0) + g(x, 1) * g(x, 2)


def integers_that_steer(make):
    @make
    def g(x, n):
        total = 0.0
        for i in range(n):
            total = total + x[i] ** 2
        return total

    return lambda x: g(x, 2) * g(x, 3)


def maps(make):
    square = make(lambda row: row * row)

    def f(x):
        def total(scale):
            rows = scale * x * np.array([[0.5], [1.0], [1.5]])
            return np.sum(nt.vmap(lambda row: square(row) + square(0.5 * row))(rows), axis=0)

        return np.sum(total(1.0) * total(0.8) * total(0.7) * total(0.6) * total(0.2))

    return f


def sizes(make):
    g = make(lambda x: np.sum(x) / len(x) + np.mean(x**2))
    return lambda x: g(x) * g(x[:2]) * g(x[1:2])


def numbers(make):
    g = make(lambda x, a: a * x + a)
    return lambda x: np.sum(g(x, 2.0) * g(x, x[1]) + g(x, 3.0))


def factors(make):
    g = make(lambda x: np.linalg.cholesky(np.outer(x, x) + np.eye(3)))
    return lambda x: np.sum(g(x) @ x)


def complex_numbers(make):
    g = make(lambda z: z * z + 1j * z)
    return lambda x: np.sum(np.abs(g(x + 1j * x[0])) ** 2)


def inner_derivatives(make):
    g = make(lambda x: np.sum(np.sin(x) ** 2))
    return lambda x: np.sum(nt.grad(g)(x) ** 2) + nt.hessian(g)(x)[0, 0]


def derivatives_inside(make):
    g = make(lambda x: nt.grad(lambda y: np.sum(y**3 * x))(x))
    return lambda x: np.sum(g(g(x)))


def method(make):
    class Model:
        def __init__(self):
            self.w = np.array([1.0, 2.0, 3.0])

        @make
        def energy(self, x):
            return np.sum(self.w * np.sin(x))

    model = Model()
    return lambda x: model.energy(x) * model.energy(2.0 * x)


def recursive(make):
    @make
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    return lambda x: np.sum(power(x, 3))


def single_precision(make):
    g = make(lambda x: np.sin(x) * x)
    return lambda x: np.sum(g(g(x.astype(np.float32))).astype(np.float64) * x)


def constant_result(make):
    g = make(lambda x: np.ones(3) * 2.0)
    return lambda x: np.sum(g(x) * x * x)


PROGRAMS = {
    name: each
    for name, each in list(globals().items())
    if callable(each) and getattr(each, "__code__", None) and each.__code__.co_varnames[:1] == ("make",)
}


@functools.cache
def program(name, make=nt.function):
    """Return a program, always the same object."""
    return PROGRAMS[name](make)
