"""Patterns: exact for known functions, never too small for random ones (a NaN probe says so)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from numbatape.engine import Workspace, make_plan
from numbatape.engine.reference import Reference
from numbatape.ops import OPCODE, ROWS
from numbatape.recording.record import InputLeaf, record
from numbatape.sparse import index_sets
from numbatape.sparse.index_sets import IndexSets
from numbatape.sparse.pattern import hessian_pattern, jacobian_pattern
from numbatape.sparse.walk import Walk
from numbatape.tape import TapeBuilder
from numbatape.tape.instruction import MAIN
from numbatape.tape.tape import ACTIVE, CONSTANT


def planned(function, *arrays, levels=""):
    """Return the plan of a function; ``levels`` says "x" (active) or "c" (constant) an argument."""
    levels = levels or "x" * len(arrays)
    leaves = [InputLeaf(a, ACTIVE if k == "x" else CONSTANT) for a, k in zip(arrays, levels, strict=True)]
    tape = record(function, leaves, lambda args: (tuple(args), {})).tape
    return make_plan(tape, tuple(n for a in arrays for n in np.shape(a)))


def computed(plan, *arrays):
    """Return the value cells after a sweep."""
    space = Workspace(plan)
    for cells, array in zip(space.inputs, arrays, strict=True):
        cells[...] = array
    assert space.forward() == 0
    return space.v


def jacobian(function, *arrays, levels=""):
    plan = planned(function, *arrays, levels=levels)
    return jacobian_pattern(plan, computed(plan, *arrays)).matrix.toarray()


def hessian(function, *arrays, levels=""):
    plan = planned(function, *arrays, levels=levels)
    return hessian_pattern(plan, computed(plan, *arrays)).matrix.toarray()


def probed(plan, *arrays):
    """Return which outputs become NaN when one cell of the (float64) active inputs is NaN."""
    columns = []
    for k, slot in enumerate(plan.tape.inputs):
        if slot.level != ACTIVE:
            continue
        for cell in range(arrays[k].size):
            given = [np.array(a) for a in arrays]
            given[k].reshape(-1)[cell] = np.nan
            outputs = Reference(plan.tape, plan.dimensions).run(given)
            columns.append(np.concatenate([np.isnan(y).reshape(-1) for y in outputs]))
    return np.stack(columns, axis=1)


def text(matrix):
    return ["".join(".x"[int(cell)] for cell in row) for row in matrix]


X = np.linspace(0.5, 1.5, 5)
SQUARE = np.linspace(0.5, 1.5, 9).reshape(3, 3) + 3 * np.eye(3)

# ---- Jacobians


EXACT = {
    "diagonal": (lambda x: np.sin(x) * x, (X,), np.eye(5)),
    "band": (lambda x: x[1:] * x[:-1], (X,), np.eye(4, 5) + np.eye(4, 5, 1)),
    "reversed": (lambda x: x[::-1] ** 2, (X,), np.eye(5)[::-1]),
    "no derivative": (lambda x: np.floor(x) * 2.0 + x[0], (X,), np.eye(1, 5) * np.ones((5, 1))),
    "both branches": (lambda x: np.where(x[:2] > 0, x[1:3], x[3:]), (X,), np.eye(2, 5, 1) + np.eye(2, 5, 3)),
    "total": (lambda x: np.sum(x[:3]), (X,), [[1, 1, 1, 0, 0]]),
    "rows": (lambda x: np.max(x.reshape(2, 2), axis=1), (X[:4],), [[1, 1, 0, 0], [0, 0, 1, 1]]),
    "prefixes": (lambda x: np.cumsum(x), (X,), np.tri(5)),
    "gather": (lambda x: x[np.array([3, 0, -1])], (X,), np.eye(5)[[3, 0, 4]]),
    "gather rows": (
        lambda x: x.reshape(2, 2)[np.array([1, 1])] ** 2,
        (X[:4],),
        np.eye(4)[[2, 3, 2, 3]],
    ),
    "matmul": (lambda x: x.reshape(2, 2) @ np.ones((2, 1)), (X[:4],), [[1, 1, 0, 0], [0, 0, 1, 1]]),
    "triangle": (lambda x: np.tril(x.reshape(2, 2)), (X[:4],), np.diag([1, 0, 1, 1])),
    "broadcast": (lambda x: x[:2, None] * x[None, 3:], (X,), [[1, 0, 0, 1, 0], [1, 0, 0, 0, 1],
                                                              [0, 1, 0, 1, 0], [0, 1, 0, 0, 1]]),
    "stacked": (lambda x: np.concatenate([x[3:], x[:1]]), (X,), np.eye(5)[[3, 4, 0]]),
    "scalars": (lambda x: np.stack([x[0] * x[1], x[2] / x[0], np.exp(x[4])]), (X,), [[1, 1, 0, 0, 0],
                                                                        [1, 0, 1, 0, 0], [0, 0, 0, 0, 1]]),
    "several outputs": (lambda x: {"a": x[0], "b": x[3:]}, (X,), np.eye(5)[[0, 3, 4]]),
    "several inputs": (lambda x, y: x * y[::-1], (X[:2], X[:2]), [[1, 0, 0, 1], [0, 1, 1, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_known_jacobians(name):
    function, arrays, wanted = EXACT[name]
    assert text(jacobian(function, *arrays)) == text(np.array(wanted) != 0)


def test_guards_choose_the_branch():
    def chosen(x):
        return x[1] * 2.0 if x[0] > 0 else x[2] * 3.0

    assert text(jacobian(chosen, X)) == [".x..."]
    assert text(jacobian(chosen, -X)) == ["..x.."]


def test_constants_are_not_in_the_pattern():
    assert text(jacobian(lambda x, c: x * c + c, X[:2], X[:2], levels="xc")) == ["x.", ".x"]


@pytest.mark.parametrize("pattern_of", [jacobian_pattern, hessian_pattern])
def test_equal_tapes_are_walked_once_for_the_same_constants(pattern_of, monkeypatch):
    """Traced at another point, on the same path; and nobody who changes a matrix changes another one's."""
    walks = []
    monkeypatch.setattr(Walk, "run", lambda walk, run=Walk.run: walks.append(walk.plan) or run(walk))

    def of(x, k):
        return np.sum(x[(k + 1).astype(int)] ** 2)

    found = []
    for points in ((X, [2.0, 0.0]), (2.0 * X, [2.0, 0.0]), (X, [1.0, 0.0]), (X, [2.0, 0.0])):
        plan = planned(of, points[0], np.array(points[1]), levels="xc")
        matrix = pattern_of(plan, computed(plan, points[0], np.array(points[1]))).matrix
        found.append((plan, text(matrix.toarray())))
        matrix.data[:] = False
    assert len(walks) == 2
    assert found[0][1] == found[1][1] == found[3][1] != found[2][1]


def test_constant_positions_are_watched():
    x, positions = X, np.array([2.0, 0.0])
    plan = planned(lambda x, k: x[(k + 1).astype(int)], x, positions, levels="xc")
    cells = computed(plan, x, positions)
    pattern = jacobian_pattern(plan, cells)
    assert text(pattern.matrix.toarray()) == ["...x.", ".x..."]
    assert pattern.holds(cells)
    assert not pattern.holds(computed(plan, x, positions[::-1]))
    # Nothing is known of positions before a sweep, or of those that depend on inputs.
    assert jacobian_pattern(plan).matrix.nnz == 10
    assert jacobian(lambda x: x[np.argsort(x)[:2]], X).all()


@pytest.mark.parametrize("lower", [True, False])
def test_triangular_systems(lower):
    import scipy.linalg

    def solved(a, b):
        return scipy.linalg.solve_triangular(a, b, lower=lower)

    plan = planned(solved, SQUARE, X[:3])
    found = jacobian_pattern(plan).matrix.toarray()
    difference = numerical_jacobian(lambda a, b: solved(a, b), SQUARE, X[:3])
    assert (found == (difference != 0)).all()


def test_cholesky_reads_the_lower_triangle():
    matrix = SQUARE @ SQUARE.T
    found = jacobian(np.linalg.cholesky, matrix)
    difference = numerical_jacobian(np.linalg.cholesky, matrix)
    assert (found == (difference != 0)).all()


def numerical_jacobian(function, *arrays, step=1e-6):
    columns = []
    for k, array in enumerate(arrays):
        for cell in np.ndindex(array.shape):
            moved = [a.copy() for a in arrays]
            moved[k][cell] += step
            columns.append((function(*moved) - function(*arrays)).reshape(-1))
    return np.stack(columns, axis=1)


PROBED = {
    "algebra": (
        lambda x, y: np.linalg.solve(x @ x.T, y[:, None])[:, 0] + np.linalg.det(x) * y[::-1],
        (SQUARE, X[:3]),
    ),
    "batches": (
        lambda x, y: np.linalg.inv(x[None] * np.arange(1.0, 3.0)[:, None, None]) @ y,
        (SQUARE, X[:3]),
    ),
    "reductions": (
        lambda x: np.prod(x, axis=0) + np.cumprod(x, axis=1)[1] * np.min(x) + np.linalg.norm(x, axis=1),
        (SQUARE,),
    ),
    "gathers": (
        lambda x: np.sort(x, axis=0)[np.array([2, 0])] * np.triu(x, -1)[1:],
        (SQUARE,),
    ),
    "float32": (
        lambda x, y: np.concatenate([x * np.float32(2), y]) * y[0],
        (X[:3].astype(np.float32), X[:2]),
    ),
    "loop": (lambda x: np.stack([sum(x[j] * x[j + 1] for j in range(k)) + x[4] for k in range(1, 4)]), (X,)),
}


@pytest.mark.parametrize("name", PROBED)
def test_no_entry_is_missed(name):
    function, arrays = PROBED[name]
    plan = planned(function, *arrays)
    missed = probed(plan, *arrays) & ~jacobian_pattern(plan).matrix.toarray()
    assert not missed.any()


@pytest.fixture(params=itertools.product([64, 2], [32, 0]), ids=lambda p: f"small {p[0]}, few {p[1]}")
def limits(request, monkeypatch):
    """The ways to keep sets (2: nearly all as unions) and to unite them (0: always by arrays)."""
    monkeypatch.setattr(index_sets, "SMALL", request.param[0])
    monkeypatch.setattr(index_sets, "FEW", request.param[1])


@pytest.mark.parametrize("seed", range(12))
def test_no_entry_is_missed_in_random_tapes(seed, limits):
    rng = np.random.default_rng(seed)
    steps = [(int(k), *rng.integers(0, 6, 2), int(rng.integers(1, 5))) for k in rng.integers(0, 8, 25)]

    def program(x):
        pool = [x[k] for k in range(3)] + [x[3:6], x[6:9], x[::3]]  # scalars and vectors
        for kind, i, j, width in steps:
            a, b = pool[i], pool[j]
            if kind < 3:
                new = a * b + 1.0
            elif kind == 3:
                new = np.sin(a)
            elif kind == 4:
                new = np.stack([np.sum(a), np.sum(b), np.sum(a) * 0.5])
            elif kind == 5:
                new = np.cumsum(np.concatenate([np.atleast_1d(a), np.atleast_1d(b)]))[-width:]
                new = np.sum(new) if width < 3 else new[:3] if new.ndim and len(new) >= 3 else np.sum(new)
            elif kind == 6:
                new = np.where(a > 0.3, b, 2.0 * b)
            else:
                new = np.broadcast_to(a, (3,))[np.array([2, 0, 0])] - b
            pool[i if np.shape(new) == np.shape(pool[i]) else j] = new
        return [np.asarray(p) if isinstance(p, float) else p for p in pool]

    x = rng.uniform(0.1, 0.9, 9)
    plan = planned(program, x)
    found = jacobian_pattern(plan, computed(plan, x)).matrix.toarray()
    assert not (probed(plan, x) & ~found).any()


def test_an_accumulating_instruction_keeps_what_the_cells_had():
    builder = TapeBuilder(ROWS)
    x = builder.input((4,), 0, ACTIVE)
    (dim,) = builder.layouts[builder.values[x][2]].dims
    storage = builder.values[x][0]
    out = builder.array((dim,), 0, ACTIVE)
    builder.emit(2 * OPCODE["copy"], 1, MAIN, out, x)
    target = builder.view(builder.values[out][0], 0, (2,), (1,))
    part = builder.view(storage, 2, (2,), (1,))
    builder.emit(2 * OPCODE["add"], 2, MAIN, target, target, part)  # out[:2] += x[2:4]
    one = builder.view(builder.values[out][0], 3, (1,), (1,))
    first = builder.view(storage, 0, (1,), (1,))
    builder.emit(2 * OPCODE["add"], 2, MAIN, one, one, first)  # out[3:] += x[:1]
    plan = make_plan(builder.freeze((out,)), (4,))
    assert text(jacobian_pattern(plan).matrix.toarray()) == ["x.x.", ".x.x", "..x.", "x..x"]


# ---- Hessians


def arrow(x):
    return x[0] * np.sum(np.sin(x[1:])) + np.sum(x**2)


def banded(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2)


def banded_loop(x):
    total = 0.0
    for k in range(len(x) - 1):
        total = total + (x[k + 1] - x[k] ** 2) ** 2
    return total


def blocks(x):
    return np.sum(np.prod(np.exp(x.reshape(-1, 3)), axis=1))


BAND = np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1)
SIX = np.linspace(0.2, 1.0, 6)
HUB = np.arange(6) == 0
CROSS = np.kron([[0, 1], [1, 0]], np.ones((3, 3)))
HESSIANS = {
    "arrow": (arrow, np.eye(6) + HUB + HUB[:, None]),
    "banded": (banded, BAND),
    "banded loop": (banded_loop, BAND),
    "blocks": (blocks, np.kron(np.eye(2), np.ones((3, 3)))),
    "linear": (lambda x: np.sum(x * np.arange(6.0)) + np.sort(x)[0] + np.max(x), np.zeros((6, 6))),
    "product": (lambda x: x[0] * x[5], np.eye(6)[::-1] * (HUB | HUB[::-1])),
    "dot": (lambda x: x[:3] @ x[3:], np.eye(6, k=3) + np.eye(6, k=-3)),
    "quadratic form": (lambda x: np.sum(x[None, :2] @ np.diag([1.0, 2.0]) @ x[:2, None]),
                       np.pad(np.ones((2, 2)), (0, 4))),
    "bilinear form": (lambda x: x[:3] @ (np.ones((3, 3)) @ x[3:]), CROSS),
    "log of a sum": (lambda x: np.log(np.sum(np.exp(x))), np.ones((6, 6))),
    "system": (lambda x: np.linalg.solve(np.diag(x[:2]) + np.eye(2), x[2:4])[0],
               np.pad([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]], (0, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", HESSIANS)
def test_known_hessians(name):
    function, wanted = HESSIANS[name]
    assert text(hessian(function, SIX)) == text(np.array(wanted) != 0)


def test_hessian_of_one_of_several_outputs():
    plan = planned(lambda x: (x[0] * x[1], x[2] ** 2), X)
    assert text(hessian_pattern(plan, output=0).matrix.toarray())[:2] == [".x...", "x...."]
    assert hessian_pattern(plan, output=0).matrix.nnz == 2
    assert hessian_pattern(plan, output=1).matrix.nnz == 1
    assert hessian_pattern(plan).matrix.nnz == 3


# ---- sets


def test_sets_against_python(rng, limits):
    sets = IndexSets(20)
    known = [set(), *({k} for k in range(20))]
    numbers = list(range(21))
    for _ in range(60):
        if rng.random() < 0.5:
            a, b = (int(k) for k in rng.integers(0, len(known), 2))
            numbers.append(sets.pair(numbers[a], numbers[b]))
            known.append(known[a] | known[b])
        else:
            groups = rng.integers(0, len(known), (3, int(rng.integers(1, 5))))
            made = sets.unite_rows(np.array(numbers)[groups])
            numbers += made.tolist()
            known += [set().union(*(known[k] for k in row)) for row in groups]
    indptr, indices = sets.resolve(np.array(numbers))
    found = [indices[a:b].tolist() for a, b in zip(indptr, indptr[1:], strict=False)]
    assert found == [sorted(members) for members in known]


def test_a_running_total_is_linear_in_memory():
    n = 3000
    plan = planned(banded_loop, np.linspace(0.1, 1.0, n))
    pattern = jacobian_pattern(plan)
    assert pattern.matrix.nnz == n
