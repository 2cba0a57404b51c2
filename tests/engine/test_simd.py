"""Loops over SIMD lanes: the bits of the same loops one iteration at a time, for all lengths and strides."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from numbatape.jit import compiler
from numbatape.jit.lowering import OutsideOfKernelLanguage, lower
from tests.engine.test_lowering import linked
from tests.every_case import every
from tests.kernel_bits import EDGES, assert_same_bits
from tests.numba_kernels import compiler as numba_compiler

TEXT = """# cells: {cells}
SHIFT = 6755399441055744.0


def far(x, y):
    if x > 1.5:
        return math.atan2(x, y)
    return y if x != x else x - y


def whole(x):
    bits = bits_of(x + SHIFT)
    odd = bits & 1 != 0
    half = bits >> 1
    half, bits = bits, half
    z = 1.0 if odd and not x > 3.0 or x == -2.0 else 0.5 * x
    z += min(x, 2.0, z) - max(1, x)
    return z + (half ^ 3 << 2) - float_of(bits_of(z) | 1)


def mixed(x, y):
    a = math.fabs(x)
    b = math.copysign(math.sqrt(a), y) + (math.floor(y) if math.fabs(y) < 99.0 else y)
    z = far(x, y) if 0.25 < a <= 2.0 < 3.0 else -b
    z = z * y if x == math.inf else z
    return whole(z) + (math.sin(x) if x > 2.0 else b) + (z == z)


def inner(v, g, o, so, a, sa, b, sb, n):
    total = 0.25
    for i in simd(n):
        x = v[a + i * sa]
        y = v[b + i * sb]
        z = mixed(x, y)
        low = math.inf
        for k in range(n % 3):
            for _ in range(1, 2 + k):
                low = min(low, v[a + k + i * sa] * z)
            z += low
            near = x if k == 0 else low
            z += near
        v[o + i * so] = z
        term = g[b + i] * z if z != 0.0 else 0.0
        if sa == 0:
            total += term
        else:
            g[a + i * sa] += term
    g[o] += total


def run(w, pc):
    inner(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], pc)
    return 0
"""


@functools.cache
def forms(cells):
    text = TEXT.format(cells=cells)
    return [linked(text, module.compile_source) for module in (compiler, numba_compiler)]


@every("cells", ["f64", "f32"])
@every("n", [0, 1, 7, 8, 9, 31])
@pytest.mark.parametrize("strides", [(1, 1, 1), (1, 0, 1), (1, 1, 0), (2, -3, 1), (-1, 2, 3)])
def test_eight_iterations_at_once_have_the_bits_of_one_at_a_time(cells, n, strides):
    rng, results = np.random.default_rng(n), []
    dtype = np.float64 if cells == "f64" else np.float32
    start = rng.normal(size=(2, 600)) * 3.0
    start[:, ::5] = rng.choice(EDGES[EDGES < 1e300], size=(2, 120))
    for form in forms(cells):
        v, g = start.astype(dtype)
        words = [v.ctypes.data, g.ctypes.data]
        for first, stride in zip((100, 300, 500), strides, strict=True):
            words += [first, stride]
        frame = np.array(words, np.int64)
        with np.errstate(all="ignore"):
            assert form.function("run")(frame.ctypes.data, n) == 0
        results.append((v, g))
    assert_same_bits(*results)


PARALLEL = """# cells: {cells}
def put(v, o, x, y):
    beside = o + 1
    v[o] = x - y
    v[beside - 1] *= 3.0 if x < y else 0.5


def inner(v, g, o, so, a, sa, b, sb, n):
    count = 5
    most = -7
    half = 0.5
    for i in parallel(n):
        x = v[a + i * sa]
        y = v[b + sb * i]
        y -= 0.25
        here = 1 + i
        z = x * y if math.fabs(x) < 2.0 else math.sqrt(math.fabs(y)) + half
        v[o + i * so] = z + (i - 3) * half
        g[o + i] -= z / (here + v[a])
        most = max(most, bits_of(z) >> 40)
        count += 1 if z > 0.0 and i - count_of(a) <= 9 else 0
    for i in parallel(2, n):
        g[a + i * sa] += v[o + i] - v[b + sb * i] if 0.25 * i < 3.0 else -0.0
    for i in parallel(n):
        put(v, 700 + i, v[a + i * sa], 2.0)
    v[o - 1] = float(count)
    v[o - 2] = float(most)


def count_of(a):
    return a - a + 1


def run(w, pc):
    inner(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], pc)
    return 0
"""


@every("cells", ["f64", "f32"])
@every("n", [0, 2, 5, 8, 10, 14, 31])
@pytest.mark.parametrize("strides", [(1, 1, 1), (1, 0, 1), (1, 1, 0), (2, -3, 1), (-1, 2, 3), (1, 1, 2)])
def test_parallel_iterations_have_the_bits_of_one_after_the_other(cells, n, strides):
    rng, results = np.random.default_rng(n), []
    dtype = np.float64 if cells == "f64" else np.float32
    start = rng.normal(size=(2, 800)) * 3.0
    start[:, ::5] = rng.choice(EDGES[np.abs(EDGES) < 1e300], size=(2, 160))
    for form in parallel_forms(cells):
        v, g = start.astype(dtype)
        words = [v.ctypes.data, g.ctypes.data]
        for first, stride in zip((100, 300, 500), strides, strict=True):
            words += [first, stride]
        frame = np.array(words, np.int64)
        with np.errstate(all="ignore"):
            assert form.function("run")(frame.ctypes.data, n) == 0
        results.append((v, g))
    assert_same_bits(*results)


@functools.cache
def parallel_forms(cells):
    text = PARALLEL.format(cells=cells)
    assert all(lanes in lower(text, "k").text for lanes in ("<8 x i64>", "<4 x i64>"))
    return [linked(text, module.compile_source) for module in (compiler, numba_compiler)]


@pytest.mark.parametrize(
    "body, why",
    [
        ("if pc: v[0 + i] = 1.0", "independent"),
        ("v[i * i] = 1.0", "a multiple"),
        ("v[int(v[0 + i])] = 1.0", "a multiple"),
        ("v[0 + i] = d_q[0 + i]", "cells are floats"),
        ("total += v[0 + i]", "of integers"),
        ("many -= i", "of integers"),
        ("opaque(i)", "a function of the module"),
    ],
)
def test_statements_outside_of_parallel_loops(body, why):
    head = "def run(w, pc):\n    v = w[0]\n    d_q = w[1]\n    total = 0.0\n    many = 0\n"
    text = f"{head}    for i in parallel(pc):\n        {body}\n    v[0] = total + many\n    return 0\n"
    with pytest.raises(OutsideOfKernelLanguage, match=why):
        lower(text, "k")


OUTSIDE = {
    "v[2 * i] = 1.0": "first + i",
    "v[0 + i] = math.sin(v[0 + i])": "one side of a choice",
    "v[0 + i] = math.sin(v[0 + i]) if v[0 + i] > 1.0 else sc_psi(1.0)": "one side of a choice",
    "v[0 + i] = v[0 + i] % 2.0": "no operator Mod",
    "v[0 + i] = d_q[0 + i]": "cells are floats",
    "while pc: pass": "no statement",
    "if pc: v[0 + i] = 1.0": "only adds",
    "for k in parallel(2): v[0 + i] = 1.0": "over range",
    "v[0 + i] -= 1.0": "no statement",
    "v[0 + i] = 1.0 if pc < i else 0.0": "says which cells",  # an earlier loop may have set it, too
}


@pytest.mark.parametrize("statement", OUTSIDE)
def test_statements_outside_of_simd_loops(statement):
    head = "# cells: f64\ndef run(w, pc):\n    v = w[0]\n    d_q = w[1]\n"
    text = f"{head}    for i in simd(pc):\n        {statement}\n    return 0\n"
    with pytest.raises(OutsideOfKernelLanguage) as caught:
        lower(text, "k")
    assert OUTSIDE[statement] in str(caught.value)
