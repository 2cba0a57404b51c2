"""Bodies that change Python's own objects: refused where steps would differ, right where they are alike."""

import collections
import functools
import itertools

import numpy as np
import pytest

import numbatape as nt

X = np.arange(1.0, 6.0)


class Model:
    count = 0

    def __init__(self, table=None):
        self.table, self.level, self.steps, self.first, self.factor = table, 0.3, 0, True, None

    def bump(self):
        self.steps += 1
        return self.steps

    def lazy(self):
        if self.factor is None:
            self.factor = np.linalg.cholesky(self.table)
        return self.factor

    @functools.cached_property
    def kept(self):
        return np.linalg.cholesky(self.table)


def summed(make):
    """Return a function whose loop adds what ``make(things, v)`` gives for each row."""

    def f(x):
        model, things = Model(), make.__kwdefaults__["new"]()

        def step(c, v):
            return c + v * make(model, things, c, v), None

        return nt.scan(step, 0.0, x)[0]

    return f


def count(model, things, c, v, *, new=list):
    things.append(1)
    return float(len(things))


def count_an_attribute(model, things, c, v, *, new=list):
    return model.bump()


def keep_a_level(model, things, c, v, *, new=list):
    model.level = 0.5 * model.level + v
    return model.level


def begin(model, things, c, v, *, new=list):
    factor = 2.0 if model.first else 3.0
    model.first = False
    return factor


def begin_with_another_value(model, things, c, v, *, new=list):
    found = c if model.first else v
    model.first = False
    return found


def take_the_next(model, things, c, v, *, new=lambda: iter([1.0, 2.0, 3.0, 4.0, 5.0])):
    return next(things)


def take_turns(model, things, c, v, *, new=lambda: itertools.cycle([1.0, 2.0])):
    return next(things)


def draw_from_a_generator(model, things, c, v, *, new=lambda: (k * 1.0 for k in range(9))):
    return next(things)


def fill_a_window(model, things, c, v, *, new=lambda: collections.deque([0.0, 0.0], maxlen=2)):
    things.append(v)
    return things[0]


def fill_an_entry(model, things, c, v, *, new=lambda: [0.0]):
    things[0] = things[0] + v
    return things[0]


def fill_a_set(model, things, c, v, *, new=set):
    things.add(len(things))
    return len(things)


def count_by_key(model, things, c, v, *, new=dict):
    things["n"] = things.get("n", 0) + 1
    return things["n"]


def exchange(model, things, c, v, *, new=lambda: [1.0, 2.0]):
    things[:] = things[::-1]
    return things[0]


def count_for_an_inner_loop(model, things, c, v, *, new=list):
    model.steps += 1.0
    return nt.fori_loop(0, 2, lambda i, d: np.sin(d) * model.steps + i, v)


def count_the_turns_of_an_inner_loop(model, things, c, v, *, new=list):
    model.steps += 1
    return nt.fori_loop(0, model.steps, lambda i, d: np.sin(d) + i, v)


def count_in_the_class(model, things, c, v, *, new=list):
    Model.count += 1
    return Model.count


STATES = [
    *(count, count_an_attribute, keep_a_level, begin, begin_with_another_value, take_the_next, take_turns),
    *(draw_from_a_generator, fill_a_window, fill_an_entry, fill_a_set, count_by_key, exchange),
    *(count_in_the_class, count_for_an_inner_loop, count_the_turns_of_an_inner_loop),
]


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_a_state_that_steps_leave_for_the_next_is_refused(make):
    f = summed(make)
    assert np.isfinite(f(X))  # outside of a trace it is Python's loop
    with pytest.raises(nt.UnsupportedOperationError, match=r"nt.scan: its body changes .* in each step"):
        nt.grad(f)(X)
    Model.count = 0


def counted_branch(x):
    taken = []
    nt.cond(x[0] > 0.0, lambda: taken.append(1), lambda: taken.append(2))
    return x[0] * len(taken)


def flagged_branch(x):
    model = Model()

    def chosen():
        model.first = False
        return x[0]

    return nt.cond(x[0] > 2.0, chosen, lambda: x[1]) * model.first


def counted_test(x):
    tests = []
    return nt.while_loop(lambda c: tests.append(1) or c < 9.0, lambda c: c + x[1], x[0]) * len(tests)


def counted_turns(x):
    turns = 0

    def body(i, c):
        nonlocal turns
        turns += 1
        return c + x[i]

    return nt.fori_loop(0, 3, body, 0.0) * turns


def counted_rows(x):
    rows = []
    return np.sum(nt.map(lambda v: rows.append(1) or v, x)) * len(rows)


@pytest.mark.parametrize("f", [counted_branch, flagged_branch, counted_test, counted_turns, counted_rows])
def test_the_same_in_other_loops_and_in_branches(f):
    with pytest.raises(nt.UnsupportedOperationError, match="its body changes"):
        nt.grad(f)(X)


CALLS = 0


class Counts:
    """Counts in many ways, for whoever looks at the counts afterwards."""

    def __init__(self):
        self.list, self.count, self.by_name, self.names, self.nested = [], 0, {}, set(), {"a": []}

    def by_append(self, c, v):
        self.list.append(v.shape)
        return c + v**2, None

    def by_attribute(self, c, v):
        self.count += 1
        return c + v**2, None

    def by_entry(self, c, v):
        self.by_name["n"] = self.by_name.get("n", 0) + 1
        return c + v**2, None

    def by_set(self, c, v):
        self.names.add(len(self.names))
        return c + v**2, None

    def by_global(self, c, v):
        global CALLS
        CALLS += 1
        return c + v**2, None

    def by_nested_list(self, c, v):
        self.nested["a"].append(1)
        return c + v**2, None

    def totals(self):
        return [len(self.list), self.count, self.by_name.get("n", 0), len(self.names), CALLS]


@pytest.mark.parametrize("kind", ["append", "attribute", "entry", "set", "global"])
def test_the_caller_may_count_how_often_a_body_runs(kind):
    """Nothing that is computed depends on such a count; where something may, the body is refused."""
    global CALLS
    CALLS, counts = 0, Counts()
    step = getattr(counts, f"by_{kind}")

    def outer(c, v):
        return nt.scan(step, c, np.array([1.0, 2.0]) * v)[0], None

    np.testing.assert_allclose(nt.grad(lambda x: nt.scan(step, 0.0, x)[0])(X), 2.0 * X)
    assert sum(counts.totals()) == 1
    np.testing.assert_allclose(nt.grad(lambda x: nt.scan(outer, 0.0, x)[0])(X), 10.0 * X)
    before = sum(counts.totals())
    assert before <= 3
    with pytest.raises(nt.UnsupportedOperationError, match="its body changes"):
        nt.grad(lambda x: nt.scan(step, 0.0, x)[0] * sum(counts.totals()))(X)
    with pytest.raises(nt.UnsupportedOperationError, match="its body changes"):
        nt.grad(lambda x: nt.scan(step, 0.0, x)[0] * getattr(counts, "count", CALLS))(X)


def test_counts_that_may_be_read_in_ways_that_do_not_show_are_refused():
    counts = Counts()
    with pytest.raises(nt.UnsupportedOperationError, match="its body changes"):
        nt.grad(lambda x: nt.scan(Counts().by_append, 0.0, x)[0])(X)
    with pytest.raises(nt.UnsupportedOperationError, match="its body changes"):
        nt.grad(lambda x: nt.scan(counts.by_nested_list, 0.0, x)[0])(X)


def test_the_caller_may_count_branches():
    taken = []

    def of(v, factor):
        taken.append(factor)
        return factor * v

    def f(x):
        return nt.cond(x[0] > 0.0, lambda v: of(v, 2.0), lambda v: of(v, 3.0), x[1])

    np.testing.assert_allclose(nt.grad(f)(X), [0.0, 2.0, 0.0, 0.0, 0.0])
    assert sorted(taken) == [2.0, 3.0]


def assigned_first(x):
    model = Model()

    def step(c, v):
        model.level = 0.5 * c + v
        return c + model.level, None

    return nt.scan(step, 0.0, x)[0]


def assigned_around_loops(x):
    model = Model()

    def step(c, v):
        model.level = 0.5 * c + v
        c = nt.scan(lambda d, w: (np.sin(d) + w * model.level, None), c, np.array([1.0, 0.5]) * v)[0]
        return nt.cond(c > 0.3, lambda: c * model.level, lambda: c + 2.0) + np.sum(
            np.array([0.1, 0.2]) * v
        ), None

    return nt.scan(step, 0.0, x / 5.0)[0]


def computed_once(x):
    model = Model(np.array([[2.0, 0.3], [0.3, 1.0]]) * x[0])
    return nt.scan(lambda c, v: (c * 0.5 + v * np.sum(model.lazy()), None), 0.0, x)[0]


def cached(x):
    model = Model(np.array([[2.0, 0.3], [0.3, 1.0]]))
    return nt.scan(lambda c, v: (c * 0.5 + v * np.sum(model.kept), None), 0.0, x)[0]


def state_of_rows(x):
    model = Model()

    def row(v):
        model.level = 0.5 * model.level + v
        return model.level

    return np.sum(nt.vmap(row)(x) ** 2)


def appended_rows(x):
    rows = []
    return np.sum(nt.vmap(lambda v: rows.append(1) or v * len(rows))(x)) * len(rows)


@pytest.mark.parametrize(
    "f", [assigned_first, assigned_around_loops, computed_once, cached, state_of_rows, appended_rows]
)
def test_what_each_step_finds_alike_is_as_in_python(f):
    """Rows of nt.vmap that differ are recorded one after another."""
    value, slope = nt.value_and_grad(f)(X)
    step = 1e-6 * np.eye(5)
    np.testing.assert_allclose(value, f(X), rtol=1e-14)
    np.testing.assert_allclose(slope, [(f(X + d) - f(X - d)) / 2e-6 for d in step], rtol=1e-7)


def around(x):
    with np.errstate(divide="raise"):
        return nt.scan(lambda c, v: (c + 1.0 / (v - 3.0), None), 0.0, x)[0]


def inside(x):
    def step(c, v):
        with np.errstate(divide="raise"):
            return c + 1.0 / (v - 3.0), None

    return nt.scan(step, 0.0, x)[0]


@pytest.mark.parametrize(("f", "says"), [(around, "told to raise"), (inside, "lets NumPy raise")])
def test_errors_that_numpy_is_to_raise_for_single_steps(f, says):
    with pytest.raises(nt.UnsupportedOperationError, match=f"nt.scan: .*{says} floating-point errors"):
        nt.grad(f)(X)


def test_rows_of_a_map_raise_what_numpy_is_to_raise():
    def f(x):
        with np.errstate(divide="raise"):
            return np.sum(nt.vmap(lambda v: 1.0 / (v - 3.0))(x))

    with pytest.raises(FloatingPointError):
        nt.grad(f)(X)
    np.testing.assert_allclose(nt.grad(f)(X + 0.5), -1.0 / (X - 2.5) ** 2)
