"""Programs that write in place, as they are found in the wild."""

import numpy as np
import pytest

import numbatape as nt

X = np.linspace(0.3, 1.7, 6)
W = np.cos(np.arange(1.0, 7))
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


product = np.vectorize(lambda a, b: a * b if a > 0.8 else b)


@np.vectorize
def writer(a):
    out = np.zeros(2)
    out[0] = a
    out[1] = a * a
    return out.sum()


@case
def ndenumerate(x):
    y = (x * 1.0).reshape(2, 3)
    out = np.zeros_like(y)
    for k, v in np.ndenumerate(y):
        out[k] = v * v
    return np.sum(out.ravel() * W)


@case
def permuted_into_itself(x):
    y = x * 1.0
    y[[4, 3, 2, 1, 0, 5]] = y
    m = y.reshape(2, 3)
    m[:, [2, 0, 1]] = m
    v = y.view()
    v[np.arange(6)[::-1]] = y
    return np.sum(y * W)


@case
def rows_without_derivatives(x):
    m = np.cos(np.outer(x, W))
    for row in [*m]:
        if m.max() > -1.0:  # a whole array between two writes
            row[...] = np.sign(row)
    return np.sum(m) + x @ W


@case
def a_number_that_waits_for_its_array(x):
    out = np.zeros(4)
    np.put(out, [0, 2], x @ x)
    slopes = nt.grad(lambda y: np.sum(y**3))(x)
    if np.sum(slopes) > 0.0:  # what computes this number knows where the others are
        out = nt.scan(lambda c, v: (c + v, c * v), 0.1, out)[1]
    if out[2] > 3.0:
        out = 2.0 * out
    return np.sum(out) + slopes @ W


@case
def windows_sorted_in_place(x):
    y = np.sin(3.0 * x)
    np.lib.stride_tricks.sliding_window_view(y, 2, writeable=True).sort()
    return y @ W


@case
def sizes_that_become_equal_later(x):
    m = x[:1].reshape(1, 1)
    for _ in np.argsort(m, axis=0).ravel():
        m = m * np.sum(m @ m.T)
        for _ in np.argsort(m, axis=0).ravel():
            pass
    return np.sum(m) + x @ W


@case
def ndindex_loop(x):
    y = (x * 1.0).reshape(2, 3)
    out = np.zeros((2, 3))
    for k in np.ndindex(y.shape):
        out[k] = y[k] ** 2
    return np.sum(out.ravel() * W)


@case
def vectorized_writer(x):

    def g(a):
        out = np.zeros(2)
        out[0] = a
        out[1] = a * a
        return out.sum()

    return np.sum(np.vectorize(g)(x) * W)


@case
def applied_along_axis(x):

    def g(r):
        r = r * 1.0
        r[1:] += r[:-1]
        return r

    return np.sum(np.apply_along_axis(g, 1, x.reshape(2, 3)).ravel() * W)


@case
def applied_along_columns(x):

    def g(r):
        r = r * 1.0
        r[0] = r[1] ** 2
        return r.sum()

    return np.sum(np.apply_along_axis(g, 0, x.reshape(2, 3)) * W[:3])


@case
def writes_in_branches(x):
    y = x * 1.0
    if y[2] > 0.5:
        y[0] = y[1] * 3
    else:
        y[1:3] = y[0]
    while y[3] > 0.2:
        y[3] *= 0.5
    return np.sum(y * W)


@case
def out_of_reductions(x):
    m = x.reshape(2, 3)
    o = np.empty(3)
    np.add.reduce(m, axis=0, out=o)
    np.maximum(o, m[0], out=o)
    np.dot(m, o, out=(q := np.empty(2)))
    return np.sum(o * W[:3]) + np.sum(q)


@case
def out_of_scans(x):
    y = x * 1.0
    np.cumsum(y, out=y)
    np.cumprod(y, out=y)
    return np.sum(y * W)


@case
def two_outs(x):
    a, b = (np.zeros(6), np.zeros(6))
    np.modf(3 * x, out=(a, b))
    return np.sum(a * W) + np.sum(b)


@case
def mixed_keys(x):
    m = np.outer(x, x)[:, :4]
    m[[0, 2], 1:3] = x[:2]
    m[1:3, [0, 0]] += x[0]
    m[np.ix_([0, 1], [2, 3])] *= x[1]
    m[..., 0] = x
    return np.sum(m * W[:4])


@case
def overlapping_views(x):
    y = x * 1.0
    y[1:] = y[:-1]
    y[:-1] += y[1:]
    y[::2] = y[1::2]
    y[2:5] = y[::-1][2:5]
    np.add(y[1:], y[:-1], out=y[1:])
    return np.sum(y * W)


@case
def out_of_choose(x):
    y = np.zeros(6)
    np.choose(np.arange(6) % 2, [x, x**2], out=y)
    return np.sum(y * W)


@case
def scalars_and_zero_dimensions(x):
    s = x[0]
    s += 1
    t = np.array(x[1])
    t += s
    t *= t
    z = np.zeros(())
    z[...] = x[2]
    z += 1
    z[()] = z * 2
    return t * 1.0 + z + x[0]


@case
def put_modes(x):
    y = x * 1.0
    np.put(y, [7, -8], [x[0], x[1]], mode="wrap")
    np.put(y, [99], x[2], mode="clip")
    y.put([1], [x[3] ** 2])
    return np.sum(y * W)


@case
def nan_to_num_in_place(x):
    y = np.where(x > 1, np.nan, x)
    np.nan_to_num(y, copy=False, nan=2.0)
    return np.sum(y * W)


@case
def lu_with_pivots(x):
    a = np.outer(x[:3], x[3:]) + 3 * np.eye(3)
    n = 3
    for k in range(n):
        p = k + np.argmax(np.abs(a[k:, k]))
        a[[k, p]] = a[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(a * W[:3])


@case
def gram_schmidt(x):
    q = np.vstack([x, x**2, np.ones(6)])
    for i in range(3):
        for j in range(i):
            q[i] -= q[i] @ q[j] * q[j]
        q[i] /= np.sqrt(q[i] @ q[i])
    return np.sum(q * W)


@case
def triangles(x):
    L = np.zeros((3, 3))
    L[np.tril_indices(3)] = x
    L[np.diag_indices(3)] = np.exp(np.diag(L))
    i, j = np.triu_indices(3, 1)
    L[i, j] = L[j, i]
    return np.sum(L * W[:3])


@case
def copyto_where(x):
    y = np.zeros((2, 3))
    np.copyto(y, x[:3], where=np.array([[True], [False]]))
    np.copyto(y[1], x[3:])
    return np.sum(y.ravel() * W)


@case
def ufunc_at_of_many(x):
    y = x * 1.0
    np.multiply.at(y, [0, 0], x[1])
    np.maximum.at(y, [1, 2], x[3])
    np.minimum.at(y, [3], 0.5 * x[0])
    np.divide.at(y, [4, 4], x[2])
    np.power.at(y, [5], 2.0)
    np.negative.at(y, [0])
    np.exp.at(y, [1])
    np.logaddexp.at(y, [2], x[0])
    return np.sum(y * W)


@case
def sorts_along_axes(x):
    m = np.sin(9 * x).reshape(2, 3)
    m.sort(axis=0)
    m[0].sort()
    m[:, ::-1].sort()
    return np.sum(m.ravel() * W)


@case
def vectorized_outside(x):
    return np.sum(product(x, x[0]) * W) + np.sum(writer(x.reshape(2, 3)).ravel() * W)


@case
def vectorized_with_two_results(x):
    a, b = np.vectorize(lambda u, v: (u * v, u + v))(x[:, None], x[:2])
    return np.sum(a) + np.sum(b * b)


@case
def vectorized_with_keywords(x):
    g = np.vectorize(lambda u, p=2: u**p, excluded=["p"])
    return np.sum(g(x, p=3) * W)


@case
def applied_function_writes(x):
    m = x.reshape(2, 3) * 1.0

    def g(r):
        r *= 2.0
        r[0] = r[1] ** 2
        return r.sum()

    s = np.apply_along_axis(g, 0, m)
    return np.sum(s) + np.sum(m.ravel() * W)


@case
def empty_selections(x):
    y = x * 1.0
    y[3:3] = x[:0]
    y[[]] = 5.0
    y[x > 99] = 3.0
    y[np.zeros(6, bool)] = x[0]
    y[5:1] *= 2
    np.add.at(y, [], 1.0)
    return np.sum(y * W)


@case
def filled_arrays(x):
    y = np.full((2, 3), x[0])
    y[0, 1] = x[1] ** 2
    z = np.full_like(y, x[2])
    z[1] = y[0]
    o = np.ones_like(z)
    o -= z
    return np.sum((y * z * o).ravel() * W)


@case
def diagonals_by_index(x):
    m = np.diag(x[:3]) * 1.0
    m[0, 1] = x[4]
    i = np.arange(3)
    m[i, i] += x[3:]
    m[i[:-1], i[1:]] = m[i[1:], i[:-1]] + x[5]
    np.einsum("ii->i", m)[:] *= x[0]
    return np.sum(m * W[:3])


@case
def out_of_outer(x):
    a = np.zeros((6, 6))
    np.add.outer(x, x, out=a)
    a[np.triu_indices(6)] = 0
    return np.sum(a * W)


@case
def rolling_buffer(x):
    buf = np.zeros(3)
    s = 0.0
    for v in x:
        buf[1:] = buf[:-1]
        buf[0] = v
        s += np.prod(buf + 1)
    return s


@case
def array_with_itself(x):
    y = x * 1.0
    y[...] = y
    y[:] = y[:]
    y[:] = y * y
    y += y
    y *= y[::-1]
    y -= y[0]
    y /= y[1] - 3
    return np.sum(y * W)


@case
def convolution_loop(x):
    out = np.zeros(7)
    k = x[:2]
    for i in range(6):
        out[i : i + 2] += x[i] * k
    return np.sum(out**2)


@case
def tridiagonal_solver(x):
    n = 6
    d = x.copy()
    b = np.full(n, 4.0) + x
    for i in range(1, n):
        w = 1.0 / b[i - 1]
        b[i] -= w
        d[i] -= w * d[i - 1]
    o = np.empty(n)
    o[-1] = d[-1] / b[-1]
    for i in range(n - 2, -1, -1):
        o[i] = (d[i] - o[i + 1]) / b[i]
    return np.sum(o * W)


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name):
    """Values, both modes, differences, two calls, arguments kept: all that `check_derivatives` looks at."""
    nt.testing.check_derivatives(CASES[name], X.copy())
