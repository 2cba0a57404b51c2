"""What `nt.vmap` traces, and when: once for any number of rows, and once for each way in which rows part."""

import math

import numpy as np
import pytest

import numbatape as nt

ROWS = np.array([[0.7, -0.4, 1.3], [-0.9, 0.2, 0.5], [1.1, 0.8, -0.6], [0.3, 1.7, 0.9]])


def squares(x):
    return np.sum(np.exp(x) * x)


def signs(x):
    return np.sin(x) if x > 0 else x**2


def signs_slope(x):
    return np.where(x > 0, np.cos(x), 2 * x)


def traces(cache):
    return str(cache.guards()).count("trace ")


def test_the_tape_does_not_grow_with_the_rows():
    def total(rows):
        return np.sum(nt.vmap(squares)(rows)) + np.sum(nt.batch(squares)(rows)[1])

    few, many = (nt.prepare_gradient_cache(total, np.ones((n, 3))) for n in (2, 200))
    assert len(few.tape) == len(many.tape)


def test_another_number_of_rows_needs_no_trace():
    cache = nt.prepare_gradient_cache(lambda rows: np.sum(nt.vmap(squares)(rows)), ROWS)
    for n in (2, 9, 1, 4):
        rows = np.linspace(-1, 1, 3 * n).reshape(n, 3)
        _, (gradient,) = nt.value_and_gradient(cache, rows)
        np.testing.assert_allclose(gradient, np.exp(rows) * (1 + rows), 1e-13)
    assert traces(cache) == 1


PATHS = [[1, 2, 3, 4], [-1, -2, -3, -4], [1, -2, 3, -4], [1, 2, 3, -4], [-1, 2, 3, -4], [-4, -1, -2, -1]]


def test_a_trace_for_each_way_in_which_rows_part():
    """All on one side, all on the other, some on each: further calls find these, whichever rows part."""
    cache = nt.prepare_gradient_cache(lambda rows: np.sum(nt.vmap(signs)(rows)), np.array(PATHS[0], float))
    for _ in range(3):
        for path in PATHS:
            rows = np.array(path, float)
            _, (gradient,) = nt.value_and_gradient(cache, rows)
            np.testing.assert_allclose(gradient, signs_slope(rows), 1e-14)
    assert traces(cache) == 3


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_a_truth_value_of_a_number_is_a_guard_on_whether_it_is_zero(bound):
    cache = nt.prepare_gradient_cache(lambda x: np.sin(x) if x - bound else x + 2, 3.0)
    for x in (5.0, 7.0, bound, 2.0, bound):
        value, (slope,) = nt.value_and_gradient(cache, x)
        assert (value, slope) == (np.sin(x), np.cos(x)) if x != bound else (x + 2, 1.0)
    assert traces(cache) == 2


@pytest.mark.parametrize(
    "mapped", [nt.vmap, lambda f: lambda rows: nt.batch(f)(rows)[0]], ids=["vmap", "batch"]
)
def test_results_have_the_sizes_of_their_call(mapped):
    g = mapped(lambda x: np.sin(x) * np.sum(x))
    for n in (2, 5, 3):
        rows = np.linspace(0, 1, 4 * n).reshape(4, n)
        np.testing.assert_allclose(g(rows), np.sin(rows) * rows.sum(1, keepdims=True), 1e-14)
        assert g(rows[:0]).shape == (0, n)


def test_values_of_a_batch_alone():
    rows, shared = np.linspace(-1, 1, 12).reshape(3, 4), np.arange(4.0)
    f = lambda x, w: np.sum(np.sin(x) * w)  # noqa: E731
    values = nt.batch(f, in_axes=(0, None))(rows, shared)[0]
    np.testing.assert_array_equal(nt.batch(f, in_axes=(0, None), value_only=True)(rows, shared), values)
    inside = nt.grad(lambda w: np.sum(nt.batch(f, in_axes=(0, None), value_only=True)(rows, w)))(shared)
    np.testing.assert_allclose(inside, np.sin(rows).sum(0), 1e-14)


def test_an_exception_that_is_caught_for_one_row():
    def f(a):
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(a)

    matrices = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)])
    np.testing.assert_allclose(nt.vmap(f)(matrices), [2.0, -2.0, 4.0])
    gradient = nt.grad(lambda a: np.sum(nt.vmap(f)(a)))(matrices)
    np.testing.assert_allclose(gradient, np.stack([nt.grad(f)(a) for a in matrices]), 1e-14)
    cache = nt.prepare_gradient_cache(lambda a: np.sum(nt.vmap(f)(a)), np.abs(matrices))
    np.testing.assert_allclose(nt.value_and_gradient(cache, matrices)[1][0], gradient, 1e-14)


def test_an_exception_for_one_row():
    matrices = np.stack([np.eye(2), -np.eye(2)])
    for g in (nt.vmap(np.linalg.cholesky), nt.grad(lambda a: np.sum(nt.vmap(np.linalg.cholesky)(a)))):
        with pytest.raises(np.linalg.LinAlgError):
            g(matrices)


def test_what_does_not_depend_on_the_row_is_computed_once():
    def total(w, rows):
        return np.sum(nt.vmap(lambda x: np.linalg.inv(w) @ x)(rows))

    cache = nt.prepare_gradient_cache(total, np.eye(3), ROWS)
    (row,) = [line for line in str(cache.tape).splitlines() if " inv " in line]
    assert row.partition("<-")[0].count(",") == 1  # a matrix, and not one for each row


def test_a_value_from_inside_that_is_used_outside():
    kept = {}

    def f(x):
        kept["last"] = x * 2
        return x

    with pytest.raises(nt.LeakError, match=r"nt\.vmap"):
        nt.grad(lambda rows: np.sum(nt.vmap(f)(rows)) + np.sum(kept["last"]))(ROWS)


def test_a_row_that_fails_before_a_branch_that_parts_the_others():
    """An exception that the function catches for a row does not reach the caller."""

    def f(x):
        try:
            factor = np.linalg.cholesky(x[0] * np.eye(2) + np.ones((2, 2)))
        except np.linalg.LinAlgError:
            return 3.0 * x[1]
        if x[1] > 2.5:
            return np.sum(factor)
        return np.sum(factor) * x[1]

    rows = np.array([[1.0, 2.0], [-5.0, 3.0], [2.0, 4.0]])
    gradient = nt.grad(lambda rows: np.sum(nt.vmap(f)(rows)))
    for chosen in ([0, 1, 2], [0, 2], [1, 0], [2, 1, 0]):
        expected = [nt.grad(f)(row) for row in rows[chosen]]
        np.testing.assert_allclose(gradient(rows[chosen]), expected, rtol=1e-13)


def test_a_row_that_fails_before_a_branch_that_hangs_on_the_failure():
    """Comparing the guards of all rows computes what fails in one of them."""

    def f(x):
        try:
            total = np.sum(np.linalg.cholesky(x[0] * np.eye(2) + np.ones((2, 2))))
            return total * x[1] if math.log(total) > 0.3 else total
        except np.linalg.LinAlgError:
            return 3.0 * x[1]

    rows = np.array([[1.0, 2.0], [-5.0, 3.0], [2.0, 4.0]])
    gradient = nt.grad(lambda rows: np.sum(nt.vmap(f)(rows)))
    for chosen in ([0, 1, 2], [0, 2], [1, 0], [2, 1, 0]):
        expected = [nt.grad(f)(row) for row in rows[chosen]]
        np.testing.assert_allclose(gradient(rows[chosen]), expected, rtol=1e-13)


def root(x):
    try:
        return math.sqrt(x)
    except ValueError:
        return 3.0 * x


@pytest.mark.parametrize("first", [-1.0, 4.0])
def test_rows_of_which_some_raise_after_others_have_raised(first):
    """What the function catches for the first row says nothing of the others, also in a second mapping."""

    def total(rows):
        return root(-rows[-1]) + np.sum(nt.vmap(root)(rows))

    rows = np.array([first, 1.0, -4.0, 9.0])
    value, slope = nt.value_and_grad(total)(rows)
    np.testing.assert_allclose(value, root(-9.0) + sum(map(root, rows)))
    np.testing.assert_allclose(slope, np.where(rows > 0, 0.5 / np.sqrt(np.abs(rows)), 3.0) - [0, 0, 0, 3.0])


@pytest.mark.parametrize("dtype", [float, int, bool])
def test_rows_of_a_captured_array_part_with_the_others(dtype):
    captured = np.array([0, 1, 3, 1]).astype(dtype)

    def f(x, k):
        return x * k if x > 0.5 else x**2 + k

    x = ROWS[:, 0]
    gradient = nt.grad(lambda x: np.sum(nt.vmap(f)(x, captured)))(x)
    np.testing.assert_allclose(gradient, np.where(x > 0.5, captured, 2 * x))


def test_a_branch_on_a_loop_beside_an_array_that_the_argument_was_written_to():
    """The argument's cell stays where it was: a row's branch reads the loop while the row is recorded."""

    def end(s, x):
        return nt.scan(lambda a, b: (np.tanh(a * b + s), None), s, x)[0]

    def f(s, x):
        table = np.ones(3)
        table[0] = s
        return table[1] * s**2 if end(s, x) > 0.3 else 3.0 * table[0]

    s = np.array([0.5, -0.7, 0.2, 1.0])
    expected = [2 * a if end(a, x) > 0.3 else 3.0 for a, x in zip(s, ROWS, strict=True)]
    np.testing.assert_allclose(nt.vmap(nt.grad(f))(s, ROWS), expected)
