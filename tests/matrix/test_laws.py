"""Every rule of a matrix function: value, both modes, second order, replay at other points."""

import numpy as np
import pytest
import scipy.linalg as sl

import numbatape as nt
from numbatape.matrix.matrix_rule import Split
from numbatape.trace.evaluation import Evaluation
from tests.complex import laws
from tests.every_case import every, of_these_versions
from tests.matrix import cases

GROUPS = {
    "numpy": cases.NUMPY,
    "eigen": cases.EIGEN,
    "factors": cases.FACTORS,
    "equations": cases.EQUATIONS,
    "functions": cases.FUNCTIONS,
    "complex numpy": cases.COMPLEX_NUMPY,
    "complex": cases.COMPLEX_SCIPY,
}
ALL = of_these_versions(
    [
        pytest.param(f, args, id=f"{group}: {name}")
        for group, members in GROUPS.items()
        for name, (f, *args) in members.items()
    ],
    lambda case: case.values[0](*case.values[1]),
)


@every("f, args", ALL, tests=6)
def test_value_and_both_modes(f, args):
    laws.check(f, *args, tolerance=1e-11)


@every("f, args", [c for c in ALL if np.isrealobj(c.values[1][0])], tests=8)
def test_second_order(f, args):
    x, *rest = args
    rng = np.random.default_rng(1)
    weights = laws.like(rng, np.asarray(f(*args), complex))
    direction = rng.normal(size=x.shape)

    def loss(x):
        return np.sum(np.real(f(x, *rest) * weights))

    cache, step = nt.prepare_hvp_cache(loss, x), 1e-5
    moved = [nt.value_and_hvp(cache, direction, x + k * step * direction)[1] for k in (-2, -1, 1, 2)]
    expected = (8.0 * (moved[2] - moved[1]) - (moved[3] - moved[0])) / (12.0 * step)
    _, gradient, product = nt.value_and_hvp(cache, direction, x)
    scale = np.max(np.abs(gradient))  # an affine function's expected product is rounding
    np.testing.assert_allclose(product, expected, atol=1e-8 * (scale + np.max(np.abs(product))))
    other = nt.prepare_hvp_cache(loss, x, config=nt.Config(second_order_mode="forward_over_reverse"))
    np.testing.assert_allclose(
        nt.value_and_hvp(other, direction, x)[2], product, atol=1e-10 * (scale + np.max(np.abs(product)))
    )


@every("f, args", [c for c in ALL if np.isrealobj(c.values[1][0])], tests=6)
def test_pullbacks_are_the_same_for_any_cotangents(f, args):
    """They are recorded with numbers that are not those of their cotangents; `Split.reads_cotangents`."""
    x, *rest = args

    def loss(x):
        return np.sum(np.tanh(np.abs(f(x, *rest)) ** 2))

    ours = nt.prepare_hvp_cache(loss, x).tape

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Split, "reads_cotangents", True)
        theirs = nt.prepare_hvp_cache(loss, x).tape
    assert [each.outcome for each in ours.guards] == [each.outcome for each in theirs.guards]
    np.testing.assert_array_equal(ours.code, theirs.code)


def test_a_hessian_computes_no_cotangents_while_it_is_recorded(monkeypatch):
    """Each of their instructions takes 40 µs: a filter of 150 steps took ten times its first gradient."""
    computed, run = [], Evaluation._run
    monkeypatch.setattr(Evaluation, "_run", lambda self, row: (computed.append(row), run(self, row)))

    def stationary(x):
        p = sl.solve_discrete_lyapunov(np.array([[0.5, x[0]], [0.0, 0.9]]), np.diag(np.exp(x)))
        for _ in range(30):
            p = np.tanh(p @ p) + np.diag(x)
        return np.sum(p)

    nt.hessian(stationary)(np.array([0.3, -0.4]))
    assert len(computed) < 100


@every("f, args", ALL, tests=6)
def test_replay(f, args):
    """A cache at another point: values and gradients of a fresh one; inputs untouched."""
    others = [0.9 * x if k == 0 else x for k, x in enumerate(args)]
    kept = [x.copy() for x in others]
    cotangent = laws.like(np.random.default_rng(2), f(*args))
    results = []
    for start in (args, others):
        cache = nt.prepare_pullback_cache(f, *start)
        results.append(nt.value_and_pullback(cache, cotangent, *others))
        nt.value_and_pullback(cache, cotangent, *args)
        again = nt.value_and_pullback(cache, cotangent, *others)
        np.testing.assert_array_equal(again[0], results[-1][0])
        for g, h in zip(again[1], results[-1][1], strict=True):
            np.testing.assert_array_equal(g, h)
    laws.close(results[0][0], f(*others), 1e-11)
    for g, h in zip(results[0][1], results[1][1], strict=True):
        laws.close(g, h, 1e-9)
    for x, copy in zip(others, kept, strict=True):
        np.testing.assert_array_equal(x, copy)


# ---- real and complex eigenvalues

REAL = np.diag([1.0, 2.0, 3.0]) + 0.1 * cases.A[:3, :3]
TURNING = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.2], [0.1, 0.0, 0.3]])


def radius(a):
    return np.max(np.abs(np.linalg.eigvals(a)))


def test_real_and_complex_eigenvalues_are_two_variants():
    cache = nt.prepare_gradient_cache(radius, REAL)
    direction = np.cos(np.arange(9.0)).reshape(3, 3)
    matrices = (REAL, TURNING, REAL + 0.1, 2.0 * TURNING, REAL)
    for a in matrices:
        value, (gradient,) = nt.value_and_gradient(cache, a)
        assert value == pytest.approx(radius(a), rel=1e-14)
        slope = (radius(a + 1e-6 * direction) - radius(a - 1e-6 * direction)) / 2e-6
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-7)
    # Since NumPy 2.5 all eigenvalues are complex.
    assert cache.traces == len({np.linalg.eigvals(a).dtype for a in matrices})


def test_eigenvalues_of_constants():
    cache = nt.prepare_gradient_cache(
        lambda x, m: np.sum(x * np.real(np.linalg.eigvals(m))), np.ones(3), nt.Constant(REAL)
    )
    for a in (REAL, TURNING, 2.0 * REAL):
        gradient = nt.value_and_gradient(cache, np.ones(3), a)[1][0]
        np.testing.assert_allclose(gradient, np.real(np.linalg.eigvals(a)), atol=1e-15)


def test_batches_and_lanes():
    points = np.stack([TURNING, REAL, TURNING + 0.05])
    values, gradients = nt.batch(radius)(points)
    np.testing.assert_allclose(values, [radius(a) for a in points], rtol=1e-14)
    np.testing.assert_allclose(gradients, np.stack([nt.grad(radius)(a) for a in points]), rtol=1e-12)

    def sizes(a):
        w = np.linalg.eigvals(a)
        return w.real**2 + w.imag**2

    forward, reverse = (nt.jacobian(sizes, mode=mode)(TURNING) for mode in ("forward", "reverse"))
    np.testing.assert_allclose(forward, reverse, atol=1e-13)


def test_float32_stays():
    def f(a):
        w, v = np.linalg.eig(a)
        return np.sum(np.abs(w)) + np.sum(np.abs(v[0]))

    single = TURNING.astype(np.float32)
    value, gradient = nt.value_and_grad(f)(single)
    assert value.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(value, f(single), rtol=1e-6)
    np.testing.assert_allclose(gradient, nt.grad(f)(TURNING), atol=2e-6)


def test_third_derivative_of_eigenvalues():
    def f(t):
        return np.sum(np.abs(np.linalg.eigvals(TURNING * np.sin(t) + REAL * t)) ** 2)

    second = nt.derivative(nt.derivative(f))
    slope = (8 * (second(0.701) - second(0.699)) - (second(0.702) - second(0.698))) / 0.012
    assert nt.derivative(second)(0.7) == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize("f", [np.linalg.eigvals, sl.eigvals, lambda a: np.linalg.eig(a)[1]])
def test_empty_and_one(f):
    def total(a):
        return np.sum(np.real(f(a)))

    assert nt.grad(total)(np.zeros((1, 1))).shape == (1, 1)
    if f is not sl.eigvals:
        assert nt.grad(total)(np.zeros((0, 0))).shape == (0, 0)


# ---- singular complex matrices


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_complex_cofactors_at_any_rank(rank):
    a = cases.C @ np.diag([1.0 + (k < 4) for k in range(4)])
    left, values, right = np.linalg.svd(a)
    values[rank:] = 0.0
    a = (left * values) @ right
    gradient = nt.vjp(np.linalg.det, a)[1](1.0)[0]
    expected = np.empty((4, 4), complex)
    for i in range(4):
        for j in range(4):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            expected[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    np.testing.assert_allclose(gradient, np.conj(expected), atol=1e-13 * np.max(np.abs(values)) ** 3)


# ---- errors


def test_a_failed_factorisation_runs_the_users_except():
    def f(ab):
        try:
            return np.sum(sl.solveh_banded(ab, np.ones(2)))
        except np.linalg.LinAlgError:
            return 7.0 * np.sum(ab)

    good, bad = np.array([[0.0, 0.1], [1.0, 1.0]]), np.array([[0.0, 0.1], [-1.0, 1.0]])
    cache = nt.prepare_gradient_cache(f, good)
    for ab in (good, bad, 2.0 * good, bad):
        value, (gradient,) = nt.value_and_gradient(cache, ab)
        assert value == pytest.approx(f(ab), rel=1e-14)
        if ab is bad:
            np.testing.assert_array_equal(gradient, np.full((2, 2), 7.0))


def test_a_failed_factorisation_raises_and_the_cache_stays():
    good, bad = np.array([[0.0, 0.1], [1.0, 1.0]]), np.array([[0.0, 0.1], [-1.0, 1.0]])
    cache = nt.prepare_gradient_cache(lambda ab: np.sum(sl.solveh_banded(ab, np.ones(2))), good)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        nt.value_and_gradient(cache, bad)
    assert nt.value_and_gradient(cache, good)[0] == pytest.approx(np.sum(sl.solveh_banded(good, np.ones(2))))


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    nt.grad(lambda a: np.sum(sl.logm(a)))(cases.positive(cases.A))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


RAISES = {
    "logm on the cut": (lambda a: sl.logm(a), -np.eye(2) + 0.1 * cases.A[:2, :2], "negative eigenvalue"),
    "power": (lambda t: sl.fractional_matrix_power(cases.A, t), 0.5, "t must be a plain number"),
    "eig, complex vectors of a pair": (lambda a: sl.eig(a, np.eye(4))[0], cases.A, "right=False"),
    "eigvals, infinite": (lambda a: sl.eigvals(a, np.diag([1.0, 1, 1, 0])), cases.A, "a singular b"),
    "eig, left": (lambda a: sl.eig(a, left=True)[0], cases.A, "left=True"),
    "polar": (lambda a: sl.polar(a)[0], cases.WIDE, "side='left'"),
    "rq": (lambda a: sl.rq(a)[0], cases.WIDE, "economic"),
    "pinv": (lambda a: np.linalg.pinv(a * 0.0 + 1.0), cases.LONG, "less than full rank"),
    "orth": (lambda a: sl.orth(a * 0.0 + 1.0), cases.TALL, "less than full rank"),
    "pinvh": (lambda a: sl.pinvh(a * 0.0 + 1.0), cases.A, "less than full rank"),
    "schur, complex eigenvalues": (lambda a: sl.schur(a)[0], cases.A, "complex eigenvalues.*np.linalg.eig"),
    "schur of something complex": (lambda a: sl.schur(a * 1j)[0], cases.A, "schur.*complex result"),
    "ldl of something complex": (lambda a: sl.ldl(cases.whole(a * 1j))[0], cases.A, "ldl.*real matrices"),
    "qz": (lambda a: sl.qz(a, a)[0], cases.A, r"scipy.linalg.qz .* use scipy.linalg.eigvals\(a, b\)"),
}


@pytest.mark.parametrize("name", RAISES)
def test_errors(name):
    f, x, text = RAISES[name]
    with pytest.raises(nt.UnsupportedOperationError, match=text) as caught:
        nt.grad(lambda x: np.sum(np.abs(f(x))))(x)
    assert "test_laws.py" in str(caught.value)


def test_what_is_refused_works_on_constants():
    def f(x, m):
        return x * np.trace(sl.schur(m)[0])

    cache = nt.prepare_gradient_cache(f, 2.0, nt.Constant(REAL))
    for m in (REAL, 2.0 * REAL):
        assert nt.value_and_gradient(cache, 2.0, m)[1][0] == pytest.approx(np.trace(m), rel=1e-12)


def test_symmetry_is_a_guard():
    def f(a):
        return np.sum(a**2) if sl.issymmetric(a, rtol=1e-10) else np.sum(a**3)

    cache = nt.prepare_gradient_cache(f, np.eye(2))
    tilted = np.array([[1.0, 2.0], [3.0, 4.0]])
    for a, expected in ((np.eye(2), 2 * np.eye(2)), (tilted, 3 * tilted**2), (np.eye(2), 2 * np.eye(2))):
        np.testing.assert_allclose(nt.value_and_gradient(cache, a)[1][0], expected, rtol=1e-14)
    assert nt.grad(lambda a: np.sum(a) * sl.ishermitian(a))(np.eye(2)).all()


@pytest.mark.parametrize(
    "basis",
    [
        lambda a: np.linalg.svd(a)[0],
        lambda a: np.linalg.svd(a.T)[2],
        lambda a: np.linalg.qr(a, "complete")[0],
        lambda a: sl.null_space(a.T),
    ],
)
def test_a_basis_that_could_be_any_has_no_derivative(basis):
    weights = np.arange(1.0, 6.0)
    with pytest.raises(nt.UnsupportedOperationError, match="projector"):
        nt.grad(lambda a: np.sum(weights[:, None] * basis(a)[:5, -2:]))(cases.TALL[:5])


@pytest.mark.parametrize("real", [True, False])
def test_slogdet_of_singular_matrices_has_derivatives_that_are_not_numbers(real):
    """Second ones raised, and complex first ones; where another value is chosen, that one counts alone."""
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])

    def logarithm(a):
        return np.linalg.slogdet(a if real else a + 0j)[1]

    def chosen(a):
        return np.where(np.isfinite(logarithm(a)), logarithm(a), 0.0) + a[0, 0] ** 2

    value, gradient = nt.value_and_grad(logarithm)(singular)
    assert value == -np.inf and np.isnan(gradient).all()
    assert np.isnan(nt.hessian(logarithm)(singular)).all()
    np.testing.assert_array_equal(nt.grad(chosen)(singular), [[2.0, 0.0], [0.0, 0.0]])
    regular = np.array([[2.0, 1.0], [0.5, 3.0]])
    expected = np.linalg.inv(regular).T + np.diag([4.0, 0.0])
    np.testing.assert_allclose(nt.grad(chosen)(regular), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "f",
    [lambda a: sl.polar(a)[0], lambda a: sl.polar(a)[1], lambda a: sl.orthogonal_procrustes(a, cases.A)[0]],
)
def test_polar_factors_of_a_singular_matrix_have_no_derivative(f):
    """Neither mode gives numbers: the factors jump, or have a kink, where a singular value is zero."""
    singular = cases.A.copy()
    singular[:, 1] = 0.5 * singular[:, 0]
    assert np.isnan(nt.grad(lambda a: np.sum(f(a) ** 3))(singular)).all()
    assert np.isnan(nt.jvp(f, (singular,), (np.eye(4),))[1]).all()
