"""Bundle adjustment: cameras and points from where the points are seen in the pictures.

Simulated: cameras on an arc around a cloud of points, each of which is seen by some of them, to
half a pixel. Each residual depends on one camera and one point, so the Jacobian is sparse: 1 % of
its entries with the default sizes. numbatape finds which ones, and computes all of them by 8
directions.

Shows: `scipy_problem(..., solver="least_squares", sparse=True)`, gathers by index arrays,
`nt.sparse_jacobian`.
"""

import numpy as np
from scipy.optimize import least_squares

import numbatape as nt
from numbatape.integrations import scipy_problem

FOCAL, NOISE = 800.0, 0.5  # pixels


def rotate(vectors, r):
    """Rotate vectors by rotation vectors (Rodrigues' formula), which must not be zero."""
    angle = np.sqrt(np.sum(r**2, axis=1))[:, None]
    axis = r / angle
    along = np.sum(axis * vectors, axis=1)[:, None] * axis
    return along + np.cos(angle) * (vectors - along) + np.sin(angle) * np.cross(axis, vectors)


def project(scene, camera, point):
    """Return the picture coordinates of points in cameras, by pairs of their numbers."""
    seen = rotate(scene["points"][point], scene["turn"][camera]) + scene["shift"][camera]
    return FOCAL * seen[:, :2] / seen[:, 2:]


def residuals(scene, camera, point, pixels):
    return np.ravel(project(scene, camera, point) - pixels) / NOISE


def simulate(rng, cameras, points, views):
    """Return a scene, and the pairs of cameras and points that see each other."""
    angles = np.linspace(-0.6, 0.6, cameras)
    turn = np.column_stack([0.05 * rng.normal(size=cameras), angles, 0.05 * rng.normal(size=cameras)])
    shift = np.array([0.0, 0.0, 6.0]) + 0.1 * rng.normal(size=(cameras, 3))
    scene = {"turn": turn, "shift": shift, "points": rng.uniform(-1.0, 1.0, size=(points, 3))}
    camera = np.concatenate([rng.choice(cameras, views, replace=False) for _ in range(points)])
    return scene, camera, np.repeat(np.arange(points), views)


def main(cameras=20, points=300, views=5):
    rng = np.random.default_rng(0)
    truth, camera, point = simulate(rng, cameras, points, views)
    pixels = project(truth, camera, point) + NOISE * rng.normal(size=(len(point), 2))

    guess = {name: value + 0.02 * rng.normal(size=value.shape) for name, value in truth.items()}
    data = camera, point, pixels
    problem = scipy_problem(residuals, guess, args=data, solver="least_squares", sparse=True)
    jacobian = problem["jac"](problem["x0"], *data)
    (m, n), share = jacobian.shape, jacobian.nnz / np.prod(jacobian.shape)
    print(f"{m} residuals, {n} unknowns, {100 * share:.1f} % of the Jacobian is not zero")
    products = nt.jvp(lambda scene: residuals(scene, *data), (guess,), (truth,))[1]
    np.testing.assert_allclose(jacobian @ nt.flatten(truth)[0], products, rtol=1e-9, atol=1e-6)

    found = least_squares(**problem, x_scale="jac", tr_solver="lsmr")
    # Where the scene lies, how it is turned and how large it is cannot be seen: 7 unknowns are free.
    noise = NOISE * np.sqrt(2 * found.cost / (m - n + 7))
    before = NOISE * np.sqrt(np.mean(residuals(guess, *data) ** 2))
    print(f"pixels: errors of {before:.1f} before, noise of {noise:.3f} after ({NOISE} in truth)")
    np.testing.assert_allclose(noise, NOISE, rtol=4 / np.sqrt(2 * (m - n)))

    # Distances between points are known up to one factor, and to the accuracy that the pictures allow.
    scene = problem.unflatten(found.x)
    size = [np.linalg.norm(s["points"] - s["points"].mean(axis=0), axis=1) for s in (scene, truth)]
    ratio = size[0] / size[1]
    print(f"distances from the centre, up to a factor: right to {100 * np.std(ratio) / np.mean(ratio):.2f} %")
    assert np.std(ratio) < 0.05 * np.mean(ratio)


if __name__ == "__main__":
    main()
