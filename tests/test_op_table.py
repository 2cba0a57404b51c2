"""What each op has to say of itself, and that a new op is one file."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape.ops import OPS, ArrayOp, Elementwise, oracle
from numbatape.ops.oracles import needs_shape
from numbatape.ops.table import UNKNOWN, parameters
from numbatape.trace.primitives import array_instruction, value_of

ARRAY_OPS = [op for op in OPS if isinstance(op, ArrayOp)]


def operands_of(op):
    shapes = op.cases[-1] if op.cases[-1][0] != (0,) else op.cases[0]
    rng = np.random.default_rng(3)
    made = op.make(rng, shapes) if op.make else [rng.normal(size=shape) for shape in shapes]
    return [np.asarray(x, float) for x in made]


def is_index(op, k: int) -> bool:
    return "abc"[k] in op.index


def is_piecewise_constant(op) -> bool:
    """Whether a small step of the operands leaves the result as it is."""
    operands = operands_of(op)
    waves = [1e-9 * np.cos(np.arange(x.size)).reshape(x.shape) for x in operands]
    stepped = [x if is_index(op, k) else x + waves[k] for k, x in enumerate(operands)]
    return bool(np.array_equal(oracle(op)(*operands), oracle(op)(*stepped)))


ROWS_AND_COLUMNS = np.indices((4, 5))
WHOLE = np.array([-7.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 9.0])
# What rows say of themselves by which masks of positions are read off a tape, beside NumPy's functions.
MEANINGS = {
    ("compares", "<"): np.less,
    ("compares", "<="): np.less_equal,
    ("compares", "=="): np.equal,
    ("compares", "!="): np.not_equal,
    ("compares", ">="): np.greater_equal,
    ("compares", ">"): np.greater,
    ("logic", "not"): lambda x: x == 0,
    ("logic", "and"): lambda x, y: np.minimum(x != 0, y != 0),
    ("logic", "or"): lambda x, y: np.maximum(x != 0, y != 0),
    ("logic", "xor"): lambda x, y: (x != 0) != (y != 0),
    ("magnitude", True): lambda x: np.maximum(x, -x),
    ("floored", "quotient"): lambda x, y: np.floor(x / y),
    ("floored", "remainder"): lambda x, y: x - y * np.floor(x / y),
    ("counts_up", True): lambda x, shape: x + np.arange(shape[0]),
    ("triangle", "<="): lambda x, k: np.where(ROWS_AND_COLUMNS[1] - ROWS_AND_COLUMNS[0] <= k, x, 0.0),
    ("triangle", ">="): lambda x, k: np.where(ROWS_AND_COLUMNS[1] - ROWS_AND_COLUMNS[0] >= k, x, 0.0),
}
OF_ARRAYS = {
    "counts_up": ("()->(n)", (np.array(3.0), (4,))),
    "triangle": ("(m,n),()->(m,n)", (np.ones((4, 5)), np.array(1.0))),
}


def means(op, trait: str, its) -> bool:
    """Whether an op computes what a trait says, by its oracle on whole numbers."""
    function = MEANINGS[trait, its]
    if trait in OF_ARRAYS:
        signature, operands = OF_ARRAYS[trait]
        if isinstance(op, Elementwise) or (op.signature, needs_shape(op)) != (
            signature,
            trait == "counts_up",
        ):
            return False
    else:
        arity = len(inspect.signature(function).parameters) if inspect.isfunction(function) else function.nin
        if not isinstance(op, Elementwise) or op.arity != arity:
            return False
        numbers = np.append(WHOLE, 0.0) if trait == "logic" else WHOLE  # nothing is divided by zero
        operands = [x.ravel() for x in np.meshgrid(*[numbers] * arity)]
    try:
        with np.errstate(all="ignore"):
            found = oracle(op)(*operands)
    except (ArithmeticError, ValueError):
        return False  # it is not for all whole numbers
    return bool(np.array_equal(np.asarray(found, float), np.asarray(function(*operands), float)))


def unsaid(op) -> list[str]:
    """Return the traits that a row should have and has not, or has and should not."""
    return [trait for trait, its in MEANINGS if means(op, trait, its) != (getattr(op, trait) == its)]


def missing(op) -> list[str]:
    """Return what a row does not say."""
    found = []
    if op.oracle is None and not any(op.numpy) and not op.calls:
        found.append("oracle")
    if isinstance(op, Elementwise):
        if len(op.domains) != op.arity:
            found.append("domains")
        if UNKNOWN in op.partials and not op.third_of:
            found.append("third_of")
        return found + unsaid(op)
    if not sys.modules[op.forward.__module__].__dict__[op.forward.__qualname__.split(".")[0]].__doc__:
        found.append("docstring")
    if not op.cases and not (needs_shape(op) or op.calls or op.agrees):
        found.append("cases")
    if op.reverse is None:
        if op.cases and not is_piecewise_constant(op):
            found.append("reverse")
        return found + unsaid(op)
    if op.depends is None:
        found.append("depends")
    if op.interacts is None and not op.linear:
        found.append("interacts")
    if op.pullback is None and not op.calls:  # a rule of the user's has its own
        found.append("pullback")
    return found + unsaid(op)


def test_nothing_is_missing():
    assert {op.name: missing(op) for op in OPS if missing(op)} == {}


def test_what_is_missing_is_named():
    op = next(op for op in OPS if op.name == "norm2")
    bare = {"oracle": None, "numpy": (), "cases": (), "depends": None, "interacts": None, "pullback": None}
    assert missing(dataclasses.replace(op, **bare)) == ["oracle", "cases", "depends", "interacts", "pullback"]
    assert missing(dataclasses.replace(op, reverse=None)) == ["reverse"]
    for op in OPS:
        if UNKNOWN in getattr(op, "partials", ()):
            assert missing(dataclasses.replace(op, third_of="")) == ["third_of"]


@pytest.mark.parametrize(("trait", "its"), MEANINGS)
def test_a_meaning_that_is_not_said_is_named(trait, its):
    (op,) = (op for op in OPS if getattr(op, trait) == its)
    other = {"compares": "<", "logic": "and", "triangle": "<=", "floored": "quotient"}.get(trait, False)
    bare = dataclasses.replace(op, **{trait: type(its)()})
    assert missing(bare) == [trait]
    if its != other and other:
        wrong = dataclasses.replace(op, **{trait: other})
        assert missing(wrong) == [trait, trait]  # it says what is not so, and not what is


# Strings that are names of ops, and of something else where they are compared: by file of these folders.
READERS = ("derive", "emitter", "engine", "nested", "rules", "sparse", "tape", "trace")
OTHER_NAMES = {
    "trace/frames/column_functions.py": {"sum"},  # a method of a column
    "trace/integer_ranges.py": {"power", "sum"},  # what the trait `integers` says
    "trace/frames/pandas_windows.py": {"max", "min", "sum"},  # methods of a window
    "trace/position_sets.py": {"quotient", "remainder"},  # what the trait `floored` says
    "trace/frames/row_labels.py": {"dot"},  # a method of a frame
    "trace/size_fractions.py": {"add", "mul", "sub"},  # Python's operators
    "trace/symbolic_sizes.py": {"add", "mul", "sub"},  # Python's operators
}


def words(node) -> list[str]:
    """Return the strings that something is compared with, and those of ``OPCODE["name"]`` in it."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [text for part in node.elts for text in words(part)]
    numbers = [part.slice for part in ast.walk(node) if isinstance(part, ast.Subscript)]
    opcodes = [part for part in numbers if ast.unparse(node).find("OPCODE[") >= 0]
    return [part.value for part in (node, *opcodes) if isinstance(part, ast.Constant)]


def test_no_code_asks_what_an_op_is_called():
    """What code does with an instruction depends on the traits of its op, never on the op's name."""
    package, names, found = Path(nt.__file__).parent, {op.name for op in OPS}, {}
    for path in (path for folder in READERS for path in sorted((package / folder).rglob("*.py"))):
        compared = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Compare)]
        parts = [part for node in compared for part in (node.left, *node.comparators)]
        texts = names.intersection(text for part in parts for text in words(part))
        if texts:
            found[path.relative_to(package).as_posix()] = texts
    assert found == OTHER_NAMES


def of_one_operand(op):
    """Yield a function of each operand that is no index, the other ones being constants, and a point."""
    operands = operands_of(op)
    value = oracle(op)(*operands)
    weights = np.cos(np.arange(np.size(value))).reshape(np.shape(value))
    for k in (k for k in range(op.arity) if not is_index(op, k)):

        def f(x, k=k):
            xs = [*operands[:k], x, *operands[k + 1 :]]
            z = array_instruction(op, xs, np.asarray(oracle(op)(*map(value_of, xs)))[()])
            return np.sum(weights * z) + np.sum(x)

        yield f, operands[k]


@pytest.mark.parametrize("op", [op for op in ARRAY_OPS if op.cases], ids=lambda op: op.name)
def test_lanes_and_forward_mode_beside_constants(op):
    """Values and gradients of two points at once are those of one by one.

    The tangent of an operand that is constant is zero, also where a rule applies the op to tangents.
    """
    for f, x in of_one_operand(op):
        points, slopes = np.stack([x, 0.5 * x]), nt.value_and_grad(f)
        values, gradients = nt.batch(f)(points)
        for value, gradient, point in zip(values, gradients, points, strict=True):
            one, its = slopes(point)
            np.testing.assert_allclose(value, one, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(gradient, its, rtol=1e-12, atol=1e-12)
        direction = np.sin(1.0 + np.arange(x.size)).reshape(x.shape)
        _, slope = nt.jvp(f, (x,), (direction,))
        np.testing.assert_allclose(slope, np.sum(slopes(x)[1] * direction), rtol=1e-12, atol=1e-12)


def test_a_new_op_is_one_file(tmp_path):
    """The file that the documentation shows, in a process whose op table has it."""
    root = Path(__file__).parents[1]
    page = (root / "docs" / "adding-an-op.md").read_text()
    (tmp_path / "mine.py").write_text(page.split("```py\n")[1].split("```\n")[0])
    command = [sys.executable, "-W", "error", "-m", "tests.one_file_of_ops", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=200)
    assert run.stdout == "added\n", run.stderr


def test_totals_have_one_operand():
    """Passes put other instructions in the place of what a total adds up, its first operand."""
    assert [op.arity for op in OPS if op.totals] == [1]


def test_sizes_of_array_ops_have_names_of_their_own():
    """A size that a kernel takes is a variable beside those of the loop around the kernel."""
    taken = set("vgdowqracbs")
    read = {op.name: taken & set(op.letters) & set(parameters(op.forward)) for op in ARRAY_OPS}
    assert {name: letters for name, letters in read.items() if letters} == {}
