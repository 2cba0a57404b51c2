"""The baseline compiler: what it refuses, and that its kernels have the bits of Numba's."""

from __future__ import annotations

import ast
import builtins
import gc
import itertools
import re
from collections import Counter

import llvmlite.binding as llvm
import numpy as np
import pytest

from numbatape.engine import library
from numbatape.engine.codegen import kernel_source
from numbatape.jit import compiler, linalg, machine
from numbatape.jit.lowering import OutsideOfKernelLanguage, lower
from numbatape.jit.lowering.names import assigned_once
from numbatape.ops import OPCODE, OPS
from numbatape.ops.libm import PREFIX as LIBM
from tests.kernel_bits import EDGES, assert_same_bits, compare
from tests.numba_kernels import raw, strips
from tests.numba_kernels.__main__ import COMPILED, ORDERS, every_kernel, linked

HEAD = "# cells: f64\n"


def both(source):
    return [load(source) for load in COMPILED]


# ---- outside of the language


OUTSIDE = {
    "x ** 2": "Pow",
    "x @ 2": "MatMult",
    "[1, 2]": "List",
    "q": "a name that no line above gives a value",
    "unknown(x)": "a function that the kernel language has not",
    "math.gamma(x)": "a function of `math` that the kernel language has not",
    "math.exp(x, x)": "takes 1 arguments",
    "min(x)": "takes 2 arguments",
    "v[0.5]": "float where int is needed",
    "t[0]": "no cell array has this name",
    "x is 1": "no comparison Is",
    "(x for x in v)": "GeneratorExp",
    "'text'": "a constant is a number",
    "lambda: 1": "Lambda",
    "one(x, x)": "called with 2 arguments",
    "again(x)": "a function that calls itself",
    "sc_no_such(x)": "a function that scipy.special has not",
    "horner(2 * x, 1.0, 2.0)": "a polynomial is in a variable, and has coefficients",
    "horner(x)": "a polynomial is in a variable, and has coefficients",
}
MODULE = """
def one(x):
    return x


def again(x):
    return again(x)


def run(w, pc):
    v = w[0]
    x = 1.0
    v[0] = {}
    return 0
"""


@pytest.mark.parametrize("expression", OUTSIDE)
def test_expressions_outside_of_the_language(expression):
    with pytest.raises(OutsideOfKernelLanguage) as caught:
        lower(HEAD + MODULE.format(expression), "k")
    assert OUTSIDE[expression] in str(caught.value)
    assert "line " in str(caught.value)


STATEMENTS = {
    "for i in v:\n        pass": "over range",
    "for i in range(0, 3, pc):\n        pass": "a step is a number",
    "for i in range(3):\n        pass\n    else:\n        pass": "no else",
    "x = y = 1": "one target",
    "x, y = v": "as many expressions",
    "x: int = 1": "AnnAssign",
    "import math": "Import",
    "assert pc": "Assert",
    "del v": "Delete",
    "with v:\n        pass": "With",
    "return": "everywhere, or nowhere",
    "pc": "nobody uses",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_outside_of_the_language(statement):
    with pytest.raises(OutsideOfKernelLanguage, match="line 4 of a kernel") as caught:
        lower(f"{HEAD}def run(w, pc):\n    v = w[0]\n    {statement}\n    return 0\n", "k")
    assert STATEMENTS[statement] in str(caught.value)


@pytest.mark.parametrize(
    "text", ["import math", "X = 'text'", "X = nothing", "def f(x=1):\n    return x", "class A:\n    pass"]
)
def test_modules_outside_of_the_language(text):
    with pytest.raises(OutsideOfKernelLanguage, match="line 2"):
        lower(HEAD + text + "\n", "k")


def test_a_function_without_a_result_at_its_end():
    with pytest.raises(OutsideOfKernelLanguage, match="without a result"):
        lower(HEAD + "def run(w, pc):\n    if pc == 1:\n        return 2\n", "k")


@pytest.mark.parametrize("family", [0, 1])
@pytest.mark.parametrize(
    ("direction", "values"), [("forward", "fast"), ("forward", "numpy"), ("reverse", "fast")]
)
def test_every_kernel_is_in_the_language(direction, family, values):
    """So no kernel is refused when a user's program first needs it."""
    for row, op in enumerate(OPS):
        source = kernel_source(row, family, direction, values)
        if values == "fast" or source != kernel_source(row, family, direction):
            lowered = lower(linalg.with_wrappers(source), "k")
            assert (direction in lowered.entries) == (direction == "forward" or op.differentiable)


# ---- arms that jump to the next one

ARMS = """# cells: f64
def run(w, pc):
    code_q = w[0]
    total = 0
    at = -1
    while True:
        at += 1
        if at >= w[1]:
            return total
        word = code_q[at]
        op = word & 15 | word >> 12 << 8
        if op == 0:
            total += word >> 4
            continue
        elif op == 2:
            if total < 50:
                continue
            total -= 50
            continue
        elif op == 3:
            for i in range(word >> 4):
                if i == 3:
                    continue
                total += i
            continue
{more}
        else:
            if op == 15:
                return -total
            total += 1000
"""


@pytest.mark.parametrize("last", ["continue", "pass"])
def test_arms_of_a_long_choice_jump_to_the_next_one(last):
    more = "".join(
        f"        elif op == {k}:\n            total = total * {k} % 97\n            continue\n"
        for k in range(4, 12)
    )
    more += f"        elif op == 13:\n            total += 7\n            {last}\n"
    source = ARMS.format(more=more.rstrip("\n"))
    text = lower(source, "k").text
    # Two of each arm and of the rest: by the table, or none. The table's address is loaded for the first one.
    assert text.count("musttail") == (26 if last == "continue" else 0)
    assert text.count('.arms"') == (4 if last == "continue" else 0)
    rng = np.random.default_rng(4)
    for tail in ([], [15], [14, 12, 1, 13], [3, 4096 + 3, -1, 4]):
        words = np.append(rng.integers(0, 14, 300) + 16 * rng.integers(0, 9, 300), tail).astype(np.int64)
        frame = np.array([words.ctypes.data, len(words)], np.int64)
        found = {form.function("run")(frame.ctypes.data, 0) for form in both(source)}
        scope: dict = {}
        exec(source, scope)
        assert found == {scope["run"]((words, len(words)), 0)}


# ---- the same bits as Numba's

INTEGERS = """# cells: f64
def run(w, pc):
    a_q = w[0]
    z_q = w[1]
    for i in range(w[2]):
        x = a_q[2 * i]
        y = a_q[2 * i + 1]
        z_q[16 * i] = x // y
        z_q[16 * i + 1] = x % y
        z_q[16 * i + 2] = x // 4
        z_q[16 * i + 3] = x % 7
        z_q[16 * i + 4] = (x & 15) << 3 | (y ^ x)
        z_q[16 * i + 5] = x >> 2
        z_q[16 * i + 6] = min(x, y, 3)
        z_q[16 * i + 7] = max(x, y)
        z_q[16 * i + 8] = abs(x)
        z_q[16 * i + 9] = (x < y) + (x == y) + (x != 3 < y)
        z_q[16 * i + 10] = 1 if x and not y or x > 3 else -x
        k = 5
        total = 0
        for j in range(k):
            k = 0
            total += j
            if j > x:
                break
        z_q[16 * i + 11] = total
        for j in range(6, -3, -2):
            if j == y:
                continue
            total = total * 3 + j
        z_q[16 * i + 12] = total
        while True:
            total -= 7
            if total < 0:
                break
        z_q[16 * i + 13] = total
        x, y = y, x
        z_q[16 * i + 14] = x - 2 * y
    return pc
"""

REALS = """# cells: f64
LARGE = float("inf")


def widened(x):
    y = 0
    if x > 1.0:
        y = x
    return y


def quiet(v, n):
    v[n] = -v[n]


def run(w, pc):
    v = w[0]
    dg = w[1]
    for i in range(w[2]):
        x = v[2 * i]
        y = v[2 * i + 1]
        o = 24 * i
        dg[o] = x % y
        dg[o + 1] = x // y
        dg[o + 2] = min(x, y)
        dg[o + 3] = max(x, y, 1)
        dg[o + 4] = x if x < y else 0
        dg[o + 5] = (x <= y) + 2.0 * (x == x) + 4.0 * (x != y) + 8.0 * (0.0 < x < LARGE)
        dg[o + 6] = widened(x) - math.fabs(y)
        dg[o + 7] = math.copysign(math.sqrt(abs(x)), y)
        dg[o + 8] = math.pow(x, y)
        dg[o + 9] = math.pow(2.0, y) + math.pow(10.0, x)
        dg[o + 10] = math.exp(x) * math.log(y) + math.sin(x) * math.cos(x)
        dg[o + 11] = math.log1p(x) + math.expm1(y) - math.tanh(x)
        dg[o + 12] = math.floor(min(max(x, -1e9), 1e9)) if x == x else math.pi
        dg[o + 13] = int(y) if math.fabs(y) < 1e9 else 1 / y
        dg[o + 14] = x * y + x / y - 3
        dg[o + 15] = 7 / pc + (1 if x and y else float(pc))
        dg[o + 16] = math.erf(x) + math.atan2(x, y)
        dg[o + 17] = horner(x, 0.1, -0.7, 1.3, 2.9)
        quiet(dg, o + 16)
    dg[w[3]] = lane_sum(v, 0, w[2])
    dg[w[3] + 1] = lane_dot(v, 0, v, 3, w[2])
    dg[w[3] + 2] = lane_gaps(v, 0, v, 3, w[2])
    return pc
"""

PARALLEL = """# cells: f64
def rotated(v, o, x, y, c, s):
    v[o] = c * x - s * y
    v[o + 1] = c * y + s * x if x < y else x


def run(w, pc):
    v = w[0]
    n = w[1]
    for i in parallel(n):
        v[2 * n + 2 * i] = v[2 * i + 1] - v[2 * i]
        rotated(v, 4 * n + 2 * i, v[2 * i], v[2 * i + 1], 0.6, 0.8)
    first = opaque(2)
    for i in parallel(n - 1):
        v[first + 2 * i] += 3.0 * v[first + 2 * i + 1]
    return pc
"""


def test_integers():
    numbers = [0, 1, -1, 2, 3, -3, 7, -8, 100, 2**40, 2**63 - 1, -(2**63)]
    pairs = np.array(
        [pair for pair in itertools.product(numbers, repeat=2) if pair != (-(2**63), -1)], np.int64
    )
    results = []
    for form in both(INTEGERS):
        out = np.zeros((len(pairs), 16), np.int64)
        frame = np.array([pairs.ctypes.data, out.ctypes.data, len(pairs)], np.int64)
        assert form.function("run")(frame.ctypes.data, 5) == 5
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_reals(rng):
    pairs = np.array(list(itertools.product(EDGES, repeat=2)))
    pairs = np.concatenate([pairs, rng.normal(size=(100, 2)) * 10.0 ** rng.integers(-4, 4, size=(100, 2))])
    results = []
    for form in both(REALS):
        out = np.zeros(24 * len(pairs) + 2)
        frame = np.array([pairs.ctypes.data, out.ctypes.data, len(pairs), 24 * len(pairs)], np.int64)
        assert form.function("run")(frame.ctypes.data, 5) == 5
        results.append(out)
    assert_same_bits(*([x] for x in results))


@pytest.mark.parametrize("n", [0, 1, 5, 64, 67])
def test_independent_iterations(n, rng):
    cells = rng.normal(size=6 * n)
    results = []
    for form in both(PARALLEL):
        out = cells.copy()
        frame = np.array([out.ctypes.data, n], np.int64)
        assert form.function("run")(frame.ctypes.data, 5) == 5
        results.append(out)
    assert_same_bits(*([x] for x in results))
    assert "<8 x double>" not in lower(PARALLEL, "k").text  # cells that are never contiguous


@pytest.mark.parametrize("cells", ["f64", "f32"])
def test_transposes_write_64_cells_and_no_other(cells, rng):
    """Rows of eight cells that are eleven apart become columns, in rows of eight that are thirteen apart."""
    source = f"# cells: {cells}\ndef run(w, pc):\n    transpose8(w[0], 2, 13, w[1], 1, 11)\n    return 0\n"
    dtype = np.float64 if cells == "f64" else np.float32
    x = rng.normal(size=1 + 8 * 11).astype(dtype)
    want = np.zeros(2 + 8 * 13, dtype)
    want[2:].reshape(8, 13)[:, :8] = x[1:].reshape(8, 11)[:, :8].T
    for form in both(source):
        out = np.zeros_like(want)
        frame = np.array([out.ctypes.data, x.ctypes.data], np.int64)
        form.function("run")(frame.ctypes.data, 0)
        assert np.array_equal(out, want)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 8, 13, 15, 21])
@pytest.mark.parametrize("cells", ["f64", "f32"])
def test_products_with_few_columns_have_the_order_of_others(columns, cells, rng):
    """Along rows that of ``lane_dot``, across them eight rows at a time; no other cell is written."""
    dtype, many, gap = np.float64 if cells == "f64" else np.float32, 24, columns + 3
    short = min(columns, 15)
    along = f"    eight_dots(w[0], 2, w[1], 1, {gap}, w[2], 1, {many}, {short})\n"
    row = f"lane_dot(w[1], 1 + i * {gap}, w[2], 1, {short})"
    dots = f"    for i in range({many}):\n        v[1 + i] = {row}\n"
    across = f"    add_slim_rows(w[3], 2, w[2], 0, 2, w[1], 3, {gap}, {columns}, {many - 1})\n"
    source = f"# cells: {cells}\ndef run(w, pc):\n    v = w[4]\n{along}{dots}{across}    return 0\n"
    x = rng.normal(size=(many + 1, gap)).astype(dtype)
    y = rng.normal(size=2 * many).astype(dtype)
    terms = (
        y[: 2 * many - 2 : 2, None].astype(float)
        * x.reshape(-1)[3:-gap].astype(float)[np.arange(many - 1)[:, None] * gap + np.arange(columns)]
    )
    for form in both(source):
        out, want, total = (np.full(size, 0.25, dtype) for size in (many + 4, many + 1, columns + 4))
        held = (out, x, y, total, want)
        form.function("run")(np.array([each.ctypes.data for each in held], np.int64).ctypes.data, 0)
        assert np.array_equal(out[2:-2], want[1:])
        assert np.array_equal(out[[0, 1, -2, -1]], total[[0, 1, -2, -1]])
        expected = np.full(columns, 0.25)
        for q in range(0, 16, 8):
            pairs = terms[q : q + 8 : 2] + terms[q + 1 : q + 8 : 2]
            expected += (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
        for row in terms[16:]:
            expected += row
        assert np.array_equal(total[2:-2], expected.astype(dtype))


@pytest.mark.parametrize("n", [0, 1, 8, 19])
@pytest.mark.parametrize("cells", ["f64", "f32"])
def test_lanes_read_cells_at_positions(n, cells, rng):
    """Positions are every second float64; no other cell is read, nor written."""
    loop = "    for i in simd(pc):\n        row = int(d[1 + i * 2])\n        v[50 + i] = v[3 + row * 2]\n"
    source = f"# cells: {cells}\ndef run(w, pc):\n    v = w[0]\n    d = w[1]\n{loop}    return 0\n"
    positions = np.full(2 * n + 1, np.nan)
    positions[1::2] = rng.integers(0, 23, n)
    for form in both(source):
        v = rng.normal(size=80).astype(np.float64 if cells == "f64" else np.float32)
        want = v.copy()
        want[50 : 50 + n] = v[3 + 2 * positions[1::2].astype(int)]
        form.function("run")(np.array([v.ctypes.data, positions.ctypes.data], np.int64).ctypes.data, n)
        assert np.array_equal(v, want)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 16, 19, 53])
@pytest.mark.parametrize("cells", ["f64", "f32"])
def test_sums_have_their_lanes_in_the_text(n, cells, rng):
    """The order of additions is that of 16 lanes, 4 lanes, a pair and one, whatever the processor."""
    body = "    v = w[0]\n    d = w[1]\n    d[0] = lane_sum(v, 0, pc)\n    return 0\n"
    source = f"# cells: {cells}\ndef run(w, pc):\n{body}"
    x = rng.normal(size=n + 1).astype(np.float64 if cells == "f64" else np.float32)

    def halved(lanes):
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        return lanes[0]

    want, first, wide = 0.0, 0, x.astype(np.float64)
    for width in (16, 4):
        lanes, start = np.zeros(width), first
        while n - first >= width:
            lanes, first = lanes + wide[first : first + width], first + width
        want += halved(lanes) if first > start else 0.0
    for width in (2, 1):
        if n & width:
            want, first = want + halved(wide[first : first + width]), first + width
    out = np.zeros(1)
    frame = np.array([x.ctypes.data, out.ctypes.data], np.int64)
    linked(source, compiler.compile_source).function("run")(frame.ctypes.data, n)
    assert out[0] == want


FORMULAS = {
    "x + y": np.add,
    "x - y": np.subtract,
    "x*y": np.multiply,
    "x/y": np.divide,
    "x*y if x != 0.0 else 0.0": lambda x, y: np.where(x != 0, x * y, np.zeros_like(x)),
}


@pytest.mark.parametrize("pattern", ["vv", "sv", "vs"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_strips_over_float32_cells_have_the_bits_of_numpy(formula, pattern, rng):
    """So have they after a product that is computed in float64: a second rounding changes nothing."""
    body = f'    strip("{formula}", "{pattern}", w[0], w[1], 0, w[2], 0, pc)\n    return 0\n'
    run = linked(f"# cells: f32\ndef run(w, pc):\n{body}", compiler.compile_source).function("run")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1e-38], np.float32)
    for n in (0, 1, 15, 16, 37, 200):
        x, y = (np.append(special, rng.normal(size=n)).astype(np.float32) for _ in range(2))
        y = rng.permutation(y)
        n = len(x)
        frame = np.zeros(3, np.int64)
        cells = np.concatenate([x, y, np.zeros(n + 1, np.float32)])
        frame[:] = cells.ctypes.data, 2 * n, n
        assert run(frame.ctypes.data, n) == 0
        one_x, one_y = (each[:1] if kind == "s" else each for each, kind in zip((x, y), pattern, strict=True))
        with np.errstate(all="ignore"):
            expected = FORMULAS[formula](one_x, one_y)
            wide = FORMULAS[formula](one_x.astype(float), one_y.astype(float)).astype(np.float32)
        np.testing.assert_array_equal(cells[2 * n : -1], expected)
        np.testing.assert_array_equal(cells[2 * n : -1], wide)
        assert cells[-1] == 0.0


@pytest.mark.parametrize("pattern, divided", [("vs", "double"), ("vv", "<8 x double>")])
def test_what_is_one_number_of_a_strip_is_computed_once(pattern, divided):
    body = f'    strip("x * (1.0 / y)", "{pattern}", w[0], w[1], 0, w[2], 0, pc)\n    return 0\n'
    text = lower(f"# cells: f64\ndef run(w, pc):\n{body}", "k").text
    assert f"fdiv {divided}" in text and (pattern == "vv" or "fdiv <" not in text)


# (row, family, direction): formulas of each kind, operands of one cell, a loop of NumPy's, a cast, strips
# over float32 cells, array ops
SAMPLE = [
    *[("power", 0, "reverse"), ("hypot", 0, "forward"), ("maximum", 1, "reverse"), ("cast", 1, "forward")],
    *[("add", 1, "forward"), ("sum", 0, "forward"), ("sort", 0, "reverse"), ("solve_lower", 0, "reverse")],
    ("kv", 0, "reverse"),  # a series, which ends at all edges
]


SCALED = """# cells: f64
def scaled(v, o, a, n):
    for i in {loop}(n):
        v[o + i] = {value}

def twice(x):
    return 2.0 * x

def run(w, pc):
    scaled(w[0], 0, w[1], w[2])
    return 0
"""


@pytest.mark.parametrize("loop", ["range", "parallel", "simd"])
def test_kernels_get_the_short_list_of_passes(loop, monkeypatch):
    source = SCALED.format(loop=loop, value="2.0 * v[a + i]")
    lowered = lower(source, "key")
    assert ("<8 x double>" in lowered.text) == (loop in ("parallel", "simd"))
    asked = []
    short = compiler._short
    monkeypatch.setattr(compiler, "_short", lambda: asked.append(1) or short())
    assert compiler.compile_source(source, "key").code and asked


@pytest.mark.parametrize(
    "loop, place, hidden",
    [("simd", "o + i", 1), ("parallel", "o + i", 1), ("parallel", "o + i * pc", 0), ("range", "o + i", 0)],
)
def test_counters_of_few_turns_are_hidden_from_llvm(loop, place, hidden):
    """Its search for the cheapest addresses took a fifth of the time in which rfft is compiled."""
    source = f"{HEAD}def run(w, pc):\n    v = w[0]\n    o = w[1]\n    for i in {loop}(w[2]):\n"
    text = lower(f"{source}        v[{place}] = 1.0\n    return 0\n", "key").text
    assert text.count('asm ""') == hidden


def test_a_list_of_passes_that_lacks_some(monkeypatch):
    """As of llvmlite 0.44, the oldest that can be installed."""
    passes = type(compiler.llvm.create_new_module_pass_manager())
    monkeypatch.delattr(passes, "add_always_inliner_pass", raising=False)
    source = SCALED.format(loop="range", value="2.0 * v[a + i]")
    assert compiler._short() is None and compiler.compile_source(source, "key").code
    twice = compiler.compile_source(source.replace("f64", "f64, two tiers", 1), "key", optimise=True)
    assert twice.tier == "only"  # all passes are what it gets at once


@pytest.mark.parametrize(
    "end, optimise, tier, asked",
    [
        ("", False, "only", 1),
        ("", True, "only", 1),
        (", two tiers", False, "baseline", 1),
        (", two tiers", True, "optimised", 0),
        (", all passes", False, "only", 0),
        (", all passes", True, "only", 0),
    ],
)
def test_the_first_line_of_a_text_says_which_passes_it_gets_when(end, optimise, tier, asked, monkeypatch):
    lists, manager = [], llvm.PassBuilder.getModulePassManager
    monkeypatch.setattr(
        llvm.PassBuilder, "getModulePassManager", lambda self: lists.append(1) or manager(self)
    )
    source = SCALED.format(loop="range", value="2.0 * v[a + i]").replace("f64", f"f64{end}", 1)
    assert compiler.compile_source(source, "key", optimise=optimise).tier == tier
    assert len(lists) == 1 - asked


def test_kernels_of_both_tiers_are_those_that_gain():
    """Each direction by itself; sweeps and what derives plans gain nothing."""
    found = {
        (name, way): lower(kernel_source(OPCODE[name], 1, way), "key").effort
        for name in ("sum", "exp", "max")
        for way in ("forward", "reverse")
    }
    assert [pair for pair, effort in found.items() if effort] == [
        ("sum", "forward"),
        ("max", "forward"),
        ("max", "reverse"),
    ]
    fixed = {name: lower(linalg.with_wrappers(text), "key").effort for name, text in library.texts((), ())}
    assert not any(fixed.values())


def test_the_collector_rests_while_a_kernel_is_compiled(monkeypatch):
    """It took a seventh of the time, in the trees of the texts' syntax, and found nothing."""
    seen, host = [], machine.host
    monkeypatch.setattr(machine, "host", lambda: seen.append(gc.isenabled()) or host())
    compiler.compile_source(SCALED.format(loop="simd", value="1.0"), "key")
    assert seen == [False] and gc.isenabled()


def test_small_functions_are_copied_to_their_calls():
    """The short list of passes inlines nothing that is not marked; `recurrence` took a tenth longer."""
    text = lower(SCALED.format(loop="range", value="twice(v[a + i]) + twice(v[o + i])"), "key").text
    (line,) = (line for line in text.splitlines() if line.startswith("define") and "twice" in line)
    assert line.endswith("alwaysinline {")


@pytest.mark.parametrize("name, family, direction", SAMPLE)
def test_kernels_of_the_table(name, family, direction):
    """A sample; ``python -m tests.numba_kernels`` compares the whole table, in half an hour."""
    assert compare(OPCODE[name], family, direction, "fast", COMPILED) >= 8


def test_all_kernels_can_be_compared():
    """What runs by hand has each kernel of the library, and Numba knows all functions that these call."""
    found = Counter(direction for _, _, direction, _ in every_kernel([]))
    rows = [op for op in OPS if not op.name.startswith(LIBM) and op.name not in ORDERS]
    assert found["forward"] >= 2 * len(rows)
    assert found["reverse"] >= 2 * sum(op.differentiable for op in rows)
    known = {*dir(builtins), *strips.MAKERS, *raw.namespace("f64", "")}
    for text in {re.sub("#.*", "", linalg.with_wrappers(text)) for _, text in library.texts()}:
        called = set(re.findall(r"(?<![\w.])([a-z]\w*)\(", text))
        called -= set(re.findall(r"^def (\w+)", text, re.M))
        assert {name for name in called if not name.startswith(("sc_", "loop_"))} <= known


def test_a_kernel_with_other_bits_is_found():
    """One unit in the last place, of one cell."""

    def spoilt(source):
        assert "= math.sqrt(x)" in source
        changed = source.replace("= math.sqrt(x)", "= 1.0000000000000002 * math.sqrt(x)")
        return linked(changed, compiler.compile_source)

    row = OPCODE["sqrt"]
    with pytest.raises(AssertionError):
        compare(row, 0, "forward", "fast", [COMPILED[0], spoilt])


def test_a_variable_that_is_assigned_once_needs_no_memory():
    text = """# cells: f64
def forward(w, pc):
    v = w[2]
    n = w[3]
    some = 1
    if n > 4:
        late = n + some
        some = 2
    held = w
    total = 0.0
    for i in range(n):
        if i > 2:
            v = w[4]
        once = i * 2.0
        total += once
    v[0] = total + some
    return late + n
"""
    (function,) = ast.parse(text).body
    assert assigned_once(function) == {"w", "pc", "n", "held", "i", "once"}


@pytest.mark.parametrize("address, value", [(0, 1.0), (1, 5.0)])
def test_an_address_of_cells_that_gets_another_name_in_a_branch(address, value):
    """The pointer that is made of it there does not serve the lines behind."""
    text = """# cells: f64
def forward(w, pc):
    base = w[0]
    if pc > 0:
        xv = base
        xv[0] = 5.0
    yv = base
    yv[1] = yv[0]
    return 0
"""
    cells = np.array([1.0, 0.0])
    frame = np.array([cells.ctypes.data])
    assert linked(text, compiler.compile_source).function("forward")(frame.ctypes.data, address) == 0
    assert cells[1] == value
