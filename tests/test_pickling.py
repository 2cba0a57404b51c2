"""Caches pickle: the function travels by name, and is traced where it lands. Copies are clones."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape.transforms import positive, unconstrained
from tests.pickled_functions import Model, compiled, scalar, vector

X = np.array([0.5, 1.5, 2.5])
ROOT = Path(__file__).parents[1]


def gradient_cache():
    config = nt.Config(reuse_buffers=True)
    return nt.prepare_gradient_cache(scalar, X, kwargs={"scale": 2.0}, config=config)


def resized_cache():
    return nt.prepare_gradient_cache(scalar, np.ones(2), config=nt.Config(fixed_sizes=True)).resize(X)


CACHES = {
    "gradient": (gradient_cache, lambda c: nt.value_and_gradient(c, X)),
    "resized": (resized_cache, lambda c: nt.value_and_gradient(c, X)),
    "compiled": (lambda: nt.prepare_gradient_cache(compiled, X), lambda c: nt.value_and_gradient(c, X)),
    "callable": (
        lambda: nt.prepare_gradient_cache(Model(X), X, include_callable=True),
        lambda c: (*nt.value_and_gradient(c, X), nt.value_and_gradient(c, Model(2 * X), X)),
    ),
    "pullback": (
        lambda: nt.prepare_pullback_cache(vector, X, nt.Constant(2.0)),
        lambda c: (nt.value_and_pullback(c, X, X), nt.value_and_jacobian(c, X)),
    ),
    "lanes": (
        lambda: nt.prepare_derivative_cache(vector, X, nt.Static(2), lanes=2),
        lambda c: nt.value_and_derivative(c, (X, np.ones((2, 3)))),
    ),
    "hvp": (lambda: nt.prepare_hvp_cache(scalar, X), lambda c: nt.value_and_hvp(c, X, X)),
    "Hessian": (lambda: nt.prepare_hessian_cache(scalar, X), lambda c: nt.value_gradient_and_hessian(c, X)),
    "sparse": (
        lambda: nt.prepare_sparse_jacobian_cache(vector, X, nt.Constant(3), pattern=np.eye(3), check=True),
        lambda c: (nt.value_and_sparse_jacobian(c, X)[1].toarray(), c._check),
    ),
}


def same(one, other):
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, Model):
        same(one.weights, other.weights)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("how", [lambda c: pickle.loads(pickle.dumps(c)), copy.copy, copy.deepcopy])
def test_caches(name, how):
    prepare, call = CACHES[name]
    cache = prepare()
    for _ in range(2):
        expected = copy.deepcopy(call(cache))
        made = how(cache)
        assert isinstance(made, type(cache))
        assert made._program.config == cache._program.config
        assert type(made) is type(
            cache
        )  # a cache that waits is of another class, whose attributes are slower
        assert not hasattr(type(made), "__getattr__")
        for _ in range(3):
            same(call(made), expected)
        same(call(cache), expected)


def test_in_another_process(tmp_path):
    cache = gradient_cache()
    (tmp_path / "cache").write_bytes(pickle.dumps(cache))
    program = (
        "import pickle, sys, numbatape as nt, numpy as np\n"
        "cache = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "print(nt.value_and_gradient(cache, np.array([1.0, 2.0]))[1][0].tolist())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[6.0, 24.0]"


def test_a_lambda_needs_cloudpickle(monkeypatch):
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x), X)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(pickle.PicklingError, match=r"<lambda>.* has no name .*install cloudpickle"):
        pickle.dumps(cache)
    same(nt.value_and_gradient(copy.deepcopy(cache), X)[1], (np.ones(3),))


def test_a_lambda_by_value():
    pytest.importorskip("cloudpickle")
    scale = 3.0
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x) * scale, X)
    same(nt.value_and_gradient(pickle.loads(pickle.dumps(cache)), X)[1], (np.full(3, 3.0),))


@pytest.mark.parametrize(
    "verb", [nt.grad, nt.value_and_grad, nt.hessian, nt.jacobian, nt.batch, nt.sparse_hessian]
)
def test_verbs(verb):
    made = verb(scalar)
    points = np.stack([X, 2 * X]) if verb is nt.batch else X
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made) and again.__name__ == f"{verb.__name__}_of_scalar"
    results = [function(points) for function in (made, again, copy.copy(made), copy.deepcopy(made))]
    for result in results[1:]:
        dense = [r.toarray() if hasattr(r, "toarray") else r for r in (result, results[0])]
        same(*dense)


def test_options_of_verbs_travel_along():
    made = nt.jacobian(vector, mode="reverse", static_argnames="k")
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made) == "<jacobian of vector: reverse>"
    same(again(X, 2.0), made(X, 2.0))
    both = pickle.loads(pickle.dumps(nt.value_and_grad(scalar, argnums=(0,))))
    assert isinstance(both(X)[1], tuple)


def test_a_verb_of_a_lambda():
    pytest.importorskip("cloudpickle")
    scale = 3.0
    same(pickle.loads(pickle.dumps(nt.grad(lambda x: np.sum(x) * scale)))(X), np.full(3, 3.0))


def test_a_verb_is_a_method_where_a_function_would_be():
    class Holder:
        gradient = nt.grad(lambda self, x: np.sum(x**2), argnums=1)

    same(Holder().gradient(X), 2 * X)


class Quadratic:
    """A model that keeps derivatives of its own method, as estimators do."""

    def __init__(self, scale):
        self.scale = scale
        self.slope = nt.grad(self.loss)
        self.cache = nt.prepare_gradient_cache(self.loss, X)

    def loss(self, x):
        return self.scale * np.sum(x**2)

    def __call__(self, x):
        return self.loss(x)


@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_derivatives_in_a_copied_object_are_those_of_the_copy(how):
    model = Quadratic(1.0)
    again = how(how(model))
    again.scale = 3.0
    for one in (model, again):
        same(one.slope(X), 2 * one.scale * X)
        same(nt.value_and_gradient(one.cache, X)[1], (2 * one.scale * X,))
        assert one.cache.clone().traces >= 1
    copied, slope, cache, density = how(
        (again, nt.grad(again), nt.prepare_gradient_cache(again, X), unconstrained(again, X, positive))
    )
    copied.scale = 5.0
    same(slope(X), 10 * X)
    same(nt.value_and_gradient(cache, X)[1], (10 * X,))
    same(density(X), 5.0 * np.sum(np.exp(X) ** 2) + np.sum(X))


def test_a_density_of_real_numbers_pickles():
    density = unconstrained(scalar_of_parts, {"a": 2.0, "b": X, "n": 2}, {"a": positive})
    again = pickle.loads(pickle.dumps(density))
    assert repr(again) == repr(density) and copy.deepcopy(density) is density
    same(nt.grad(again)(again.start), nt.grad(density)(density.start))


def scalar_of_parts(p):
    return np.sum(p["b"] ** p["n"]) * p["a"]


def test_a_cache_that_cannot_be_prepared_where_it_arrives_says_so_in_each_call():
    again = copy.deepcopy(Quadratic(1.0))
    del again.scale
    for _ in range(2):
        with pytest.raises(nt.SpecError, match=r"traces its function when it is first .*scale"):
            nt.value_and_gradient(again.cache, X)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        copy.copy(Quadratic(1.0).cache).nothing_like_it  # noqa: B018


def test_threads_that_clone_a_copied_cache_prepare_it_once(monkeypatch):
    made, prepare = [], nt.GradientCache._prepare
    monkeypatch.setattr(nt.GradientCache, "_prepare", lambda *given: made.append(prepare(*given)) or made[-1])
    again = copy.deepcopy(Quadratic(2.0)).cache
    made.clear()
    with ThreadPoolExecutor(4) as pool:
        clones = list(pool.map(lambda how: how(again), [copy.copy, lambda cache: cache.clone()] * 4))
    assert len(made) == 1
    for clone in clones:
        same(nt.value_and_gradient(clone, X)[1], (4 * X,))
