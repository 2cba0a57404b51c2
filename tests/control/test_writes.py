"""Bodies that write in place: a trace and plain arrays give the same numbers, and what was given stays."""

import numpy as np
import pytest

import numbatape as nt

X, ROWS = np.array([0.3, 0.5, -0.2]), np.array([1.0, 2.0, 3.0])


def added(carry, row):
    carry[0] += row
    return carry, carry


def kept(carry, row):
    y = carry
    carry = carry + row
    y[0] = 9.0
    return carry, y


def overwritten(carry, row):
    row[0] = carry
    return carry + np.sum(row), row


def counted(k, carry):
    carry[0] += k
    return carry


def doubled(carry):
    carry[0] *= 2.0
    return carry


def marked(row):
    row[0] = 1.0
    return np.sum(row)


def of_dictionary(carry, row):
    carry["a"][0] += row
    carry["b"] = carry["b"] + 1.0
    return carry, carry["a"]


LOOPS = {
    "scan adds": lambda a: nt.scan(added, a, ROWS),
    "scan keeps what is written to": lambda a: nt.scan(kept, a, ROWS),
    "scan writes to rows": lambda a: nt.scan(overwritten, 0.0, np.stack([a, a])),
    "scan of a dictionary": lambda a: nt.scan(of_dictionary, {"a": a, "b": a[0]}, ROWS),
    "scan without a step": lambda a: nt.scan(added, a, np.zeros(0))[0],
    "fori_loop": lambda a: nt.fori_loop(0, 3, counted, a),
    "while_loop": lambda a: nt.while_loop(lambda c: c[0] < 3.0, doubled, a),
    "map writes to rows": lambda a: nt.map(marked, np.stack([a, a])),
    "cond": lambda a: nt.cond(a[0] > 0, lambda: a, lambda: 2.0 * a),
    "switch": lambda a: nt.switch(1, [lambda: 2.0 * a, lambda: a]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_carries_rows_and_results_are_apart_from_what_was_given(name):
    def f(x):
        a = x * 1.0
        parts = nt.flatten(LOOPS[name](a))[0]
        result = LOOPS[name](a)
        if isinstance(result, np.ndarray):
            result[...] = 7.0
        return np.sum(a) + np.sum(np.sin(parts))

    plain = f(X)
    value, gradient = nt.value_and_grad(f)(X)
    np.testing.assert_allclose(value, plain, rtol=1e-14)
    np.testing.assert_allclose(gradient @ ROWS, nt.jvp(f, (X,), (ROWS,))[1], rtol=1e-12)
