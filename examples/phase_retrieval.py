"""Phase retrieval: an image from the intensities of its diffraction patterns.

A detector measures intensities of light, the squared moduli of a Fourier transform, and loses its
phase. Here an object is lit through several random masks (coded diffraction, Candes, Li and
Soltanolkotabi 2015), and found again up to one phase that no intensity shows.

Shows: gradients with respect to complex arrays, `np.fft`, a Hessian-vector product of complex
numbers, L-BFGS over complex unknowns as pairs of real ones.
"""

import numpy as np
from scipy.optimize import minimize

import numbatape as nt


def intensities(image, masks):
    """Return what the detector measures, a pattern for each mask."""
    return np.abs(np.fft.fft2(masks * image, norm="ortho")) ** 2


def misfit(image, masks, measured):
    return 0.25 * np.mean((intensities(image, masks) - measured) ** 2)


def first_guess(masks, measured, rounds=30):
    """Return an image that correlates with the object: power iterations (spectral initialisation)."""
    image = np.ones(measured.shape[1:], complex)
    for _ in range(rounds):
        waves = measured * np.fft.fft2(masks * image, norm="ortho")
        image = np.mean(np.conj(masks) * np.fft.ifft2(waves, norm="ortho"), axis=0)
        image = image / np.linalg.norm(image)
    return image * np.sqrt(np.sum(measured) / np.sum(np.abs(masks * image) ** 2))


def phantom(n):
    """Return a complex object: a disc that absorbs, a square that delays, and a ramp of phase."""
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    absorbed = 0.6 * ((x - 0.2) ** 2 + (y + 0.1) ** 2 < 0.25)
    delayed = 1.2 * ((np.abs(x + 0.4) < 0.3) & (np.abs(y - 0.4) < 0.3))
    return (1.0 - absorbed) * np.exp(1j * (delayed + 0.5 * x))


def main(n=64, patterns=8):
    rng = np.random.default_rng(0)
    truth = phantom(n)
    masks = rng.choice([1, -1, 1j, -1j], size=(patterns, n, n))
    measured = intensities(truth, masks)

    # The gradient of a real function of complex numbers is the direction of steepest ascent, so a
    # step against it goes downhill: no conjugate is needed. SciPy's optimisers want real numbers.
    slope = nt.value_and_grad(misfit)

    def real_misfit(pair):
        value, gradient = slope(pair.view(complex).reshape(n, n), masks, measured)
        return value, gradient.ravel().view(float)

    start = first_guess(masks, measured).ravel().view(float)
    found = minimize(
        real_misfit, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 0, "gtol": 1e-9}
    )
    image = found.x.view(complex).reshape(n, n)

    def error(image):
        """Return the relative error, after the best phase for the whole image."""
        phase = np.vdot(image, truth)
        return np.linalg.norm(image * phase / abs(phase) - truth) / np.linalg.norm(truth)

    print(f"{n} x {n} pixels, {patterns} patterns, {found.nit} steps")
    guess = start.view(complex).reshape(n, n)
    print(f"relative error: {error(guess):.2f} at the start, {error(image):.1e} in the end")
    assert error(image) < 1e-4

    # One phase for the whole image changes nothing: along it, the misfit has no curvature.
    along = nt.hvp(misfit)(truth, masks, measured, 1j * truth)
    across = nt.hvp(misfit)(truth, masks, measured, truth)
    along, across = np.linalg.norm(along), np.linalg.norm(across)
    print(f"curvature along the common phase {along:.0e}, across it {across:.0e}")
    assert along < 1e-10 * across


if __name__ == "__main__":
    main()
