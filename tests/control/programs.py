"""Functions of one vector with structured control flow, by numbatape or (as a namespace) in plain Python."""

import numpy as np
import scipy.special as special

import numbatape as nt

TABLE = np.random.default_rng(5).normal(size=(6, 3))
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def recurrence(flow, x):
    def step(level, increment):
        level = x[0] * level + np.sin(increment)
        return level, level

    last, levels = flow.scan(step, 0.5, x)
    return last + np.sum(levels**2)


@program
def in_segments(flow, x):
    long = np.concatenate([x, x**2, x[:3]])

    def step(c, v):
        c = x[0] * c + np.sin(c * v)
        return c, (c * v, c)

    total = 0.0
    for segments, reverse in (("sqrt", False), (2, True), (40, False)):
        options = {} if flow is not nt else {"checkpoint": segments}
        last, (products, levels) = flow.scan(step, 0.5, long, reverse=reverse, **options)
        total = total + last + np.sum(products * np.arange(len(long))) + levels[2]
    return total


@program
def trees(flow, x):
    def step(carry, row):
        a, b = carry["a"], carry["b"]
        return {"a": np.tanh(b * row[0]) @ TABLE[:3] + a, "b": a * row[1]["q"]}, (a.sum(), [a * b])

    carry, (sums, (products,)) = flow.scan(step, {"a": x[:3], "b": np.ones(3)}, (x, {"q": x**2}))
    return np.sum(carry["a"] * carry["b"]) + np.prod(1.0 + sums) + np.sum(products * x[:3])


@program
def backwards(flow, x):
    carry, ys = flow.scan(lambda c, v: (c * 0.5 + v, c * v), 1.0, x, reverse=True)
    return carry * np.sum(ys * np.arange(len(x)))


@program
def no_arrays(flow, x):
    matrix = np.outer(x[:2], x[2:4]) * 0.1

    def step(p, _):
        gain = np.linalg.solve(p + np.eye(2), matrix)
        return matrix @ p @ matrix.T + gain, np.trace(gain)

    p, traces = flow.scan(step, np.eye(2), None, 4)
    return np.sum(p) + np.sum(traces**2)


@program
def counted(flow, x):
    return flow.fori_loop(1, 4, lambda i, c: np.sin(c * x[i]) + i * x[0], 0.3)


@program
def no_steps(flow, x):
    return flow.fori_loop(3, 3, lambda i, c: c * x[i], x[1] ** 2) + flow.fori_loop(
        2, 0, lambda i, c: c * i, x[0]
    )


@program
def one_step(flow, x):
    last, ys = flow.scan(lambda c, v: (c * v, np.exp(v)), x[1], x[:1])
    return last * ys[0]


@program
def nested(flow, x):
    def outer(c, u):
        def inner(d, v):
            d = d * np.cos(u * v) + 0.1 * c
            return d, d * u

        d, ys = flow.scan(inner, c, x)
        return d, np.sum(ys)

    c, sums = flow.scan(outer, 1.0, x)
    return c * np.sum(sums)


@program
def nested_twice(flow, x):
    def middle(i, c):
        return flow.fori_loop(0, 2, lambda j, d: d * x[i] + np.sum(flow.map(lambda v: v * d, x)), c)

    return flow.fori_loop(0, 2, middle, 0.7)


@program
def writes(flow, x):
    def step(c, v):
        out = np.zeros(3)
        out[0] = v * c[1]
        out[1:] = c[:2]
        out *= 1.1
        c[0] += out[2]
        return out, c[0]

    c, ys = flow.scan(step, 2.0 * x[:3], x)
    return np.sum(c**2) + np.prod(1.0 + ys)


@program
def swapped(flow, x):
    (a, b), _ = flow.scan(lambda c, v: ((c[1] * v, c[0]), None), (x[0], x[1]), x)
    (a, b), _ = flow.scan(lambda c, v: ((c[1], c[0]), None), (a, b), x[:3])
    return a - b * x[2]


@program
def captured_arrays(flow, x):
    last, ys = flow.scan(lambda c, k: (c + TABLE[k] @ x[:3], c * TABLE[k, 0]), 0.0, np.arange(4))
    return last * np.sum(ys)


@program
def library_functions(flow, x):
    def step(c, v):
        joint = np.array([c, v, 1.0])
        spectrum = np.abs(np.fft.fft(joint)) ** 2
        return special.logsumexp(joint) + 0.1 * np.linalg.norm(joint), np.sort(spectrum)[1]

    last, ys = flow.scan(step, 0.4, x)
    return last + np.sum(ys)


@program
def complex_numbers(flow, x):
    turns = np.exp(1j * np.arange(4.0))
    last, ys = flow.scan(lambda c, v: (c * v[1] + v[0] * 1j, c * v[0]), 1.0 + 0.5j, (x, turns))
    last, _ = flow.scan(lambda c, v: (c * c.conj() * v + c, None), last, x[:2])
    return (
        np.abs(last) ** 2 + np.sum((ys * x).real) + flow.cond(x[0] > 0, lambda: last * 1j, lambda: last).imag
    )


@program
def rows(flow, x):
    return np.sum(flow.map(lambda row: np.exp(row @ x[:3]) + row[0], TABLE) ** 2)


@program
def constant_outputs(flow, x):
    last, ys = flow.scan(lambda c, v: (c + v, (x[0], 2.0, np.arange(2.0))), 0.0, x)
    return last + np.sum(ys[0] * ys[1]) + np.sum(ys[2])


@program
def integers(flow, x):
    def step(carry, v):
        count, total = carry
        return (count + 1, total + v * count), count

    (count, total), counts = flow.scan(step, (2, 0.0), x)
    return total * count + np.sum(counts * x)


@program
def single_precision(flow, x):
    narrow = (x * 1.0).astype(np.float32)
    last, ys = flow.scan(lambda c, v: (c * np.float32(0.5) + v, c), narrow[0], narrow)
    return np.sum(ys.astype(float) * x) + last.astype(float)


@program
def derivative_inside(flow, x):
    def step(c, v):
        slope = nt.grad(lambda z: np.sum(np.sin(z * c) * x))(v)
        return slope, c * slope

    c, ys = flow.scan(step, x[0], x)
    return c + np.sum(ys)


@program
def gathered(flow, x):
    order = np.array([2, 0, 1, 1])
    return flow.scan(lambda c, k: (np.sin(c * x[k]) + x[3 - k], None), 1.5, order)[0]


@program
def factors(flow, x):
    def step(c, v):
        lower = np.linalg.cholesky(c @ c.T + np.eye(2) * (1.0 + v**2))
        return lower, np.linalg.det(lower)

    c, ys = flow.scan(step, np.eye(2), x)
    return np.sum(c) + np.sum(ys)


@program
def two_sides(flow, x):
    def low(z):
        return np.sum(z**2) * x[3], z[0]

    return sum(
        flow.cond(p, low, lambda z: (np.sum(np.exp(z)), 2.0 * z[1]), x)[0] for p in (x[0] > 0, x[1] > 0)
    )


@program
def sides_in_steps(flow, x):
    def step(c, v):
        c = flow.cond(c * v > 0.1, lambda c: c * np.sin(v) + x[0], lambda c: c + v * x[1], c)
        return c, c * v

    c, ys = flow.scan(step, 0.5, np.concatenate([x, x]))
    return c * np.sum(ys)


@program
def steps_in_sides(flow, x):
    def many(c):
        return flow.scan(lambda d, v: (d * v + x[0], None), c, x)[0]

    return flow.cond(x[2] > x[0], many, lambda c: c, x[1]) + flow.cond(
        x[2] < x[0], many, lambda c: c * x[3], x[1]
    )


@program
def chosen_by_position(flow, x):
    sides = [
        lambda u: (u[0], [2.0 * u, 1.0]),
        lambda u: (u[1] ** 2, [u * u, 2.0]),
        lambda u: (np.prod(u), [u * x[0], 0.5]),
    ]
    total = 0.0
    for k in (np.argmax(x), np.argmin(x), np.argmax(x) + 5, np.argmax(x) - 9):
        a, (b, c) = flow.switch(k, sides, x)
        total = total + a * c + np.sum(b)
    return total


@program
def arrays_put_together(flow, x):
    out = np.zeros(3)
    out[0], out[1] = x[0], x[1] * x[2]
    inside = flow.cond(x[0] > -9.0, lambda: np.sum(out**2), lambda: np.sum(out))
    return inside + np.sum(out * x[:3])


@program
def newton(flow, x):
    a = 3.0 * x[2]
    root, count = flow.while_loop(
        lambda c: np.abs(c[0] ** 2 - a) > 1e-10, lambda c: (0.5 * (c[0] + a / c[0]), c[1] + 1), (a, 0)
    )
    return root * x[0] + count


@program
def no_turn(flow, x):
    return flow.while_loop(lambda c: c > 1e3, lambda c: c * 2.0, x[1] ** 2)


@program
def while_in_steps(flow, x):
    def step(c, v):
        r = flow.while_loop(lambda s: s < 3.0, lambda s: s * (1.3 + v * v), c, max_steps=50)
        return r / 5.0, r * v

    c, ys = flow.scan(step, x[2], x)
    return c + np.sum(ys**2)


@program
def steps_in_while(flow, x):
    def body(s):
        return flow.scan(lambda c, v: (c * 1.1 + 0.1 * v * v * s, None), s, x)[0]

    return flow.while_loop(lambda s: s < 5.0, body, x[0])
