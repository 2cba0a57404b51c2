"""How often a sub-tape's function runs, what tapes hold of it, and when it is traced again."""

import contextlib
import math
import pickle
import tracemalloc

import numpy as np
import pytest

import numbatape as nt


def counted(f, **options):
    """Return a sub-tape, and the list that gets an entry whenever its function runs."""
    runs = []

    def run(*args, **kwargs):
        runs.append(None)
        return f(*args, **kwargs)

    return nt.function(run, **options), runs


def test_a_function_runs_once_for_all_callers_sizes_and_verbs():
    g, runs = counted(lambda x: np.sin(x) * x)
    for f in (lambda x: np.sum(g(g(x))), lambda x: np.sum(nt.scan(lambda c, v: (c, g(v)), 0.0, x)[1] + g(x))):
        for n in (3, 5, 1):
            x = np.linspace(0.1, 1.0, n)
            for verb in (nt.grad, nt.hessian, nt.value_and_grad):
                verb(f)(x)
            nt.jvp(f, (x,), (x,))
    assert len(runs) == 2  # for an array, and for a number


def test_each_path_is_traced_once():
    g, runs = counted(lambda x: x**3 if x > 1.0 else x**2)
    cache = nt.prepare_gradient_cache(lambda x: sum(g(v) for v in x), np.full(4, 0.5))
    assert len(runs) == 1
    for x in (
        np.full(4, 2.0),
        np.array([0.5, 2.0, 3.0, 0.1]),
        np.array([2.0, 0.1, 0.2, 5.0]),
        np.full(4, 0.1),
    ):
        _, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(gradient, np.where(x > 1.0, 3.0 * x**2, 2.0 * x), rtol=1e-14)
    assert len(runs) == 2


def test_guards_of_sub_tapes_are_reported():
    @nt.function
    def inner(x):
        return 2.0 * x if x > 0 else -x

    @nt.function
    def outer(x):
        return inner(x) ** 2

    def f(x):
        return nt.scan(lambda total, v: (total + outer(v), total), 0.0, x)[0]

    cache = nt.prepare_gradient_cache(f, np.ones(2))
    for signs in ([1.0, 1.0], [1.0, -1.0]):
        nt.value_and_gradient(cache, np.array(signs))
    (guard,) = [one for one in cache.guards() if one["kind"] == "bool"]
    assert guard["inside"].endswith("inner") and set(guard["outcomes"]) == {True, False}
    assert guard["condition"] == "return 2.0 * x if x > 0 else -x"


def test_other_statics_dtypes_and_structures_are_other_signatures():
    g, runs = counted(lambda x, mode: x * 2.0 if mode == "a" else x + 1.0)
    f = lambda x: np.sum(g(x, "a") * g(x, "b") * g(x, "a")) + g(x[0], "b")  # noqa: E731
    nt.grad(f)(np.ones(3))
    assert len(runs) == 3
    nt.grad(f)(np.ones(3, np.float32))
    assert len(runs) == 6


def steps(x):
    for _ in range(250):
        x = 1.001 * np.sin(x)
    return x


def calls(g, n):
    def f(x):
        for _ in range(n):
            x = g(x)
        return x

    return f


def test_a_tape_of_many_calls_holds_the_function_once():
    g = nt.function(steps)
    cache = nt.prepare_gradient_cache(calls(g, 1000), np.float64(0.5))
    tape = cache.tape
    assert len(tape.calls) == 1000 and len(tape) <= 2000
    assert len({id(call.body) for call in tape.calls}) == 1
    assert len(tape.calls[0].body) == 500
    inlined = nt.prepare_gradient_cache(calls(steps, 20), 0.5).tape
    assert tape.nbytes < inlined.nbytes
    value, (gradient,) = nt.value_and_gradient(cache, 0.5)
    with np.errstate(all="ignore"):
        assert value == calls(steps, 1000)(0.5)
    assert gradient == pytest.approx(nt.jvp(calls(g, 1000), (0.5,), (1.0,))[1], rel=1e-9)


def test_a_derived_tape_holds_the_derived_function_once():
    slope = nt.grad(calls(nt.function(steps), 200))
    tape = nt.prepare_gradient_cache(lambda x: slope(x) ** 2, np.float64(0.5)).tape
    assert len(tape.calls) == 400 and len({id(call.body) for call in tape.calls}) == 2
    assert len(tape) < 2000


def test_a_checkpoint_keeps_no_cells():
    def peak(make):
        layer = make(lambda x: np.sin(np.cos(np.sin(np.cos(np.sin(np.cos(x)))))))
        f, x = calls(layer, 50), np.linspace(0.1, 1.0, 2000)
        tracemalloc.start()
        try:
            cache = nt.prepare_gradient_cache(lambda x: np.sum(f(x)), x)
            result = nt.value_and_gradient(cache, x)
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    (kept, (value, (gradient,))), (less, found) = peak(nt.function), peak(nt.checkpoint)
    assert less < 0.6 * kept
    assert found[0] == value
    np.testing.assert_array_equal(found[1][0], gradient)


def test_captured_data_that_changes_is_seen():
    weights, scale = np.array([1.0, 2.0, 3.0]), [2.0]
    g, runs = counted(lambda x: np.sum(weights * x) * scale[0])
    f = lambda x: g(x) + g(2.0 * x)  # noqa: E731
    x = np.ones(3)
    for change in (lambda: None, lambda: weights.__setitem__(0, 5.0), lambda: scale.__setitem__(0, 3.0)):
        change()
        for _ in range(2):
            np.testing.assert_allclose(nt.grad(f)(x), 3.0 * weights * scale[0], rtol=1e-15)
    assert len(runs) == 3


def test_captured_state_that_the_caller_changes_between_calls_is_seen():
    buffer = np.zeros(3)
    g = nt.function(lambda x: np.sum(buffer * x))

    def f(x):
        buffer[:] = 0.0
        before = g(x)
        buffer[0] = 2.0 * x[1]
        return before + g(x)

    np.testing.assert_allclose(nt.grad(f)(np.array([3.0, 4.0, 5.0])), [8.0, 6.0, 0.0])


def test_arrays_of_the_caller_are_seen_as_they_are_in_each_call():
    def f(x):
        buffer = np.zeros(2)
        g = nt.function(lambda y: np.sum(buffer * y))
        first = g(x)
        buffer[0] = 5.0
        second = g(x)
        buffer[1] = x[0]
        return first + second + g(x)

    np.testing.assert_allclose(nt.grad(f)(np.array([3.0, 4.0])), [14.0, 3.0])


FACTOR = 2.0


@nt.function
def scaled(x):
    return x * FACTOR


def test_globals_that_the_caller_assigns_are_seen():
    def f(x):
        global FACTOR
        FACTOR = 2.0
        first = scaled(x)
        FACTOR = 3.0
        second = scaled(x)
        FACTOR = 4.0 * np.sin(x)
        third = scaled(x)
        FACTOR = 2.0
        return first + second + third

    for x in (0.5, 0.7):
        slope = 5.0 + 4.0 * (np.sin(x) + x * np.cos(x))
        np.testing.assert_allclose(nt.grad(f)(x), slope, rtol=1e-14)
        assert FACTOR == 2.0


def test_state_that_the_function_changes_itself():
    count = [0.0]

    def run(x):
        count[0] += 1.0
        return count[0] * x

    g = nt.function(run)
    assert [float(nt.grad(lambda x: g(x) + g(x))(1.0)) for _ in range(2)] == [3.0, 7.0]


def test_traced_values_that_are_stored_are_stored_in_each_call():
    seen = []

    @nt.function
    def g(x):
        y = np.sin(x)
        seen.append(y)
        return y * x

    for x in (1.0, 2.0, 3.0):
        nt.grad(lambda x: g(g(x)))(x)
        assert [type(y) for y in seen] == [np.float64, np.float64]
        assert seen[0] == np.sin(x)
        seen.clear()


def test_outside_of_a_trace_it_is_the_function():
    g, runs = counted(lambda x, n: [x] * n)
    x = np.ones(2)
    assert g(x, 2)[1] is x and len(runs) == 1


def test_a_call_by_constants_alone_is_plain_python():
    g, _ = counted(lambda x: [x, x])
    kept = []

    def f(x):
        kept.append(g(3.0))
        return x * kept[-1][0]

    assert nt.grad(f)(1.0) == 3.0 and kept[0] == [3.0, 3.0]


def test_guards_are_those_of_the_key_alone():
    runs = []

    def f(x):
        runs.append(None)
        return x[0] ** 3 if x[0] > 1.0 else x[0] ** 2

    g = nt.guarded(f, lambda x: x[0] > 1.0)
    for x in (0.5, 2.0, 0.7, 3.0):
        slope = nt.grad(lambda v: 2.0 * g(v))(np.array([x]))
        np.testing.assert_allclose(slope, [6.0 * x**2 if x > 1.0 else 4.0 * x], rtol=1e-15)
    assert len(runs) == 2
    (call,) = nt.prepare_gradient_cache(lambda v: g(v), np.array([0.5])).tape.calls
    assert all(len(loop.body.guards) == 1 for loop in call.loops)


@pytest.mark.parametrize("key", [lambda x: (int(x[0]), x[1] > 0), lambda x: {"a": x[0] // 1.0, "b": "text"}])
def test_keys_are_trees_of_numbers(key):
    g = nt.guarded(lambda x: float(int(x[0]) + 1) * x[1], key)
    for x in ([1.5, 2.0], [2.5, 1.0], [1.1, -1.0]):
        np.testing.assert_allclose(nt.grad(g)(np.array(x)), [0.0, int(x[0]) + 1.0])


def test_sub_tapes_pickle_and_have_the_functions_names():
    again = pickle.loads(pickle.dumps(nt.function(steps)))
    assert again.__name__ == "steps" and again(0.5) == steps(0.5)


def test_clear_caches_forgets_traces():
    g, runs = counted(np.sin)
    f = lambda x: g(x)  # noqa: E731
    nt.grad(f)(1.0)
    nt.clear_caches()
    nt.grad(f)(1.0)
    assert len(runs) == 2


def test_a_failure_inside_is_numpys():
    g = nt.function(lambda x: np.linalg.cholesky(x * np.eye(2)))
    cache = nt.prepare_gradient_cache(lambda x: np.sum(g(x)), 1.0)
    with pytest.raises(np.linalg.LinAlgError):
        nt.value_and_gradient(cache, -1.0)
    assert nt.value_and_gradient(cache, 4.0)[0] == 4.0


def test_a_failure_that_it_catches_itself():
    @nt.function
    def g(x):
        try:
            return np.linalg.cholesky(x[0] * np.eye(2))[0, 0] + x[np.floor(3.0 * x[1]).astype(int)]
        except np.linalg.LinAlgError:
            return 3.0 * x[0]
        except IndexError:
            return x[1] ** 2

    cache = nt.prepare_gradient_cache(lambda x: 2.0 * g(x), np.array([4.0, 0.4]))
    for x, slopes in (
        ([4.0, 0.4], [0.5, 2.0]),
        ([-1.0, 0.4], [6.0, 0.0]),
        ([1.0, 2.0], [0.0, 8.0]),
        ([1.0, 0.1], [3.0, 0.0]),
    ):
        np.testing.assert_array_equal(nt.value_and_gradient(cache, np.array(x))[1][0], slopes)


class NegativeError(Exception):
    pass


def test_an_error_of_the_users_that_a_caller_catches():
    """It is caught at all points, whichever was first and however many sub-tapes are between."""

    @nt.function
    def root(v):
        if v < 0.0:
            raise NegativeError
        return np.sqrt(v)

    outer = nt.function(lambda v: 2.0 * root(v))

    def f(x, inner):
        total = 0.0
        for v in x:
            try:
                total = total + inner(v)
            except NegativeError:
                total = total - v**3
        return total

    for inner in (root, outer):
        caches = [nt.prepare_gradient_cache(f, np.array(x), inner) for x in ([1.0, 2.0], [-1.0, 2.0])]
        for again in range(3):
            traces = [cache.traces for cache in caches]
            for x in ([1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0], [3.0, -1.0]):
                for cache in caches:
                    value, (slope, _) = nt.value_and_gradient(cache, np.array(x), inner)
                    assert value == f(np.array(x), inner)
                    factor = 1.0 if inner is root else 2.0
                    np.testing.assert_allclose(
                        slope, [0.5 * factor / v**0.5 if v > 0.0 else -3.0 * v**2 for v in x]
                    )
            assert again < 2 or traces == [cache.traces for cache in caches]


def test_a_failure_that_the_caller_catches():
    g = nt.function(lambda x: np.linalg.cholesky(x * np.eye(2))[0, 0])

    def f(x):
        with contextlib.suppress(np.linalg.LinAlgError):
            return g(x)
        return 3.0 * x

    cache = nt.prepare_gradient_cache(f, 4.0)
    for x, slope in ((4.0, 0.25), (-1.0, 3.0), (1.0, 0.5)):
        assert nt.value_and_gradient(cache, x)[1] == (slope,)


REFUSED = {
    "static by position": (
        lambda x: nt.function(lambda y, n: y, static_argnums=1)(x, x[0]),
        nt.SpecError,
        "argument 1 is static, and it was called with a traced value",
    ),
    "static without hash": (
        lambda x: nt.function(lambda y, n: y, static_argnames="n")(x, n=[1]),
        nt.SpecError,
        "argument 1 is static, so it must be hashable; got a list",
    ),
    "no such position": (
        lambda x: nt.function(lambda y: y, static_argnums=2)(x),
        nt.SpecError,
        "static_argnums=2",
    ),
    "no such name": (
        lambda x: nt.function(lambda y: y, static_argnames="m")(x),
        nt.SpecError,
        "static_argnames='m'",
    ),
    "arguments": (lambda x: nt.function(lambda y: y)(x, x), TypeError, "too many positional"),
    "leaks": (lambda x: nt.function(lambda y: float(y[0]) * y)(x), nt.LeakError, r"float\(x\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        nt.grad(lambda x: np.sum(f(x)))(np.ones(3))


def test_a_key_that_is_no_function():
    with pytest.raises(TypeError, match="the key must be callable"):
        nt.guarded(np.sin, 3)


def test_a_function_made_inside_cannot_branch_differently_from_step_to_step():
    def f(x):
        g = nt.function(lambda v: v * x[0] if v > 0.5 else v)
        return nt.scan(lambda c, v: (c + g(v), None), 0.0, x)[0]

    with pytest.raises(nt.UnsupportedOperationError, match=r"define\s+it outside|nt.cond"):
        nt.grad(f)(np.array([0.3, 0.7]))


@pytest.mark.parametrize("verb", [nt.grad, nt.hessian])
@pytest.mark.parametrize("outer", [lambda s: s, lambda s: 2 * s], ids=["result", "number needed"])
def test_branches_that_hang_on_the_last_bit(verb, outer):
    """NumPy's pairwise sum decides the branch where the kernel's sum differs in the last bit."""
    points = np.random.default_rng(5).uniform(size=(10, 50))
    points /= np.sum(points, axis=1, keepdims=True)  # the sums are 1.0 within an ulp or two

    def f(x):
        return np.sum(x) ** 2 if np.sum(x) > 1.0 else np.sum(x)

    for x in points:
        nt.clear_caches()  # a tape that is kept decides by the kernel's sum
        g = nt.function(f)
        np.testing.assert_allclose(verb(lambda x, g=g: outer(g(x)))(x), verb(lambda x: outer(f(x)))(x), 1e-13)


def test_functions_with_the_same_traces_so_far_are_told_apart():
    def branching(otherwise):
        return nt.function(lambda x: x**2 if x > 0 else otherwise(x))

    slopes = []
    for otherwise in (np.sin, np.sin, np.cos):
        g = branching(otherwise)

        def weighted(x, g=g):
            return np.sum(nt.map(g, x) * np.array([1.0, 2.0]))

        slopes += [nt.grad(weighted)(x) for x in (np.array([1.0, 2.0]), np.array([1.0, -2.0]))]
    np.testing.assert_allclose(slopes[::2], np.full((3, 2), [2.0, 8.0]))
    np.testing.assert_allclose(slopes[1::2], [[2.0, 2 * np.cos(2)]] * 2 + [[2.0, 2 * np.sin(2)]])


def test_a_function_made_inside_takes_another_branch_in_each_call():
    def f(x):
        g = nt.function(lambda v: v * x[0] if x[1] > 0.5 else v)
        return np.sum(nt.map(g, x) * np.array([1.0, 2.0]))

    cache = nt.prepare_gradient_cache(f, np.ones(2))
    for _ in range(3):
        for x, slopes in ([0.3, 0.7], [2.0, 0.6]), ([0.3, 0.2], [1.0, 2.0]):
            np.testing.assert_allclose(nt.value_and_gradient(cache, np.array(x))[1][0], slopes)
    assert "trace 2" in str(cache.guards())
    assert "trace 3" not in str(cache.guards())


def test_calls_of_maps_have_numbers_of_their_own():
    """What several instructions call is called by Python, a hundred times slower than by kernels."""
    g = nt.function(lambda row: np.sin(row) * row)
    mapped = nt.vmap(lambda row: g(row) + g(0.5 * row))
    cache = nt.prepare_gradient_cache(lambda x: np.sum(mapped(x) * mapped(2.0 * x)), np.ones((3, 2)))
    calls = [row.split()[-3] for row in str(cache.tape).splitlines() if row.split()[1:2] == ["call"]]
    assert len(calls) == 4
    assert len(set(calls)) == 4


def exponential(v):
    return 0.0 * v if v < 0.0 else math.exp(v)


def square_root(v):
    try:
        return math.sqrt(v)
    except ValueError:
        return 0.0 * v


@pytest.mark.parametrize("f", [exponential, square_root])
@pytest.mark.parametrize("x", [[-0.1, -2.2, 0.8], [0.5, -1.0, 2.0], [1.0, 2.0, 0.3], [-1.0, -2.0, -3.0]])
def test_steps_of_a_loop_return_numbers_of_python_or_of_numpy(f, x):
    """One instruction serves the paths that return a number of ``math`` and those that return NumPy's."""
    x, sub = np.array(x), nt.function(f)
    value, gradient = nt.value_and_grad(lambda x: np.sum(nt.map(sub, x) ** 2))(x)
    np.testing.assert_allclose(value, sum(f(v) ** 2 for v in x), rtol=1e-13)
    np.testing.assert_allclose(gradient, [nt.grad(lambda v: f(v) ** 2)(v) for v in x], rtol=1e-13, atol=1e-15)
