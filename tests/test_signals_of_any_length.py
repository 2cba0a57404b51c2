"""Spectra and other rates of signals of any length take one trace; what formulas hang on is a guard."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal, stats

from tests.every_case import every
from tests.test_symbolic_sizes import checked

LENGTHS = (9, 12, 30, 7, 16)


def vector(n):
    return np.random.default_rng(n).normal(size=n)


def positive(n):
    """Return a positive definite matrix."""
    a = np.random.default_rng(n).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def moment(frequencies, powers):
    return np.sum(np.cos(frequencies) * np.abs(powers))


FILTER = np.cos(np.arange(80.0))
SPECTRA = {
    "periodogram": lambda x: moment(*signal.periodogram(x, 10.0)),
    "periodogram of a window": lambda x: moment(*signal.periodogram(x, window="hann", detrend="linear")),
    "periodogram with zeros": lambda x: moment(*signal.periodogram(x, nfft=2 * len(x) + 1)),
    "welch": lambda x: moment(*signal.welch(x, nperseg=4)),
    "welch of one segment": lambda x: moment(*signal.welch(x, nperseg=len(x))),
    "welch of short signals": lambda x: moment(*signal.welch(x)),
    "csd": lambda x: moment(*signal.csd(x, np.sin(x), nperseg=5, noverlap=3, scaling="spectrum")),
    "csd of two lengths": lambda x: moment(*signal.csd(x, x[2:], nperseg=4)),
    "coherence": lambda x: moment(*signal.coherence(x, x**2 + x, nperseg=4)),
    "spectrogram": lambda x: moment(*signal.spectrogram(x, nperseg=4)[1:]),
    "stft": lambda x: moment(*signal.stft(x, nperseg=4)[1:]),
    "fewer samples": lambda x: np.sum(signal.resample(x, 6) ** 3),
    "twice as many samples": lambda x: np.sum(signal.resample(x, 2 * len(x)) ** 3),
    "half as many samples": lambda x: np.sum(signal.resample(x, len(x) // 2) ** 3),
    "long convolutions": lambda x: np.sum(signal.fftconvolve(np.tile(x, 12), FILTER, "same") ** 2),
    "long complex ones": lambda x: np.sum(np.abs(signal.fftconvolve(np.tile(x, 12) * 1j, FILTER)) ** 2),
    "convolutions of tables": lambda x: np.sum(
        signal.fftconvolve(np.outer(x, np.tile(x, 2)), FILTER[:70].reshape(7, 10), "same") ** 2
    ),
    "images that repeat": lambda x: np.sum(
        signal.convolve2d(np.outer(x, x), np.arange(9.0).reshape(3, 3), "same", "wrap") ** 2
    ),
}  # fmt: skip


@every("name", SPECTRA, tests=2)
@pytest.mark.filterwarnings("ignore:nperseg:UserWarning")
def test_spectra_follow_sizes(name):
    cache = checked(SPECTRA[name], lambda n: (vector(n),), LENGTHS)
    assert cache.traces == (2 if name == "stft" else 1)


def complex_polynomial(x):
    return np.sum(np.abs(np.polyval(x + 1j * np.cos(x), np.array([0.3, 0.7])))) + np.abs(np.polyval(x, 0.5j))


def deviations(x):
    """Return a function of entries that is no elementwise one: for one entry, it seems to be."""
    return np.sum(np.piecewise(x, [x < 9.0], [lambda v: (v - np.mean(v)) ** 2, 0.5]))


def direction(x):
    """Return a density on spheres of several dimensions, and its entropy."""
    mean = np.ones(len(x)) / np.sqrt(len(x))
    law = stats.vonmises_fisher(mean, 2.0)
    return stats.vonmises_fisher.logpdf(x / np.linalg.norm(x), mean, 2.0) + np.sum(x) * law.entropy()


GUARDS = {
    "degrees of complex polynomials": complex_polynomial,
    "functions of pieces": deviations,
}


@every("name", ("degrees of complex polynomials", "functions of pieces"))
@every("first", (1, 4))
def test_sizes_that_formulas_hang_on_are_guards(name, first):
    checked(GUARDS[name], lambda n: (vector(n),), (first, 3, 1, 6, 4))


def test_dimensions_of_laws_are_those_of_the_call():
    checked(direction, lambda n: (vector(n),), (4, 3, 6))
    checked(
        lambda a: stats.matrix_normal.logpdf(a, rowcov=a, colcov=a), lambda n: (positive(n),), (4, 1, 3, 6)
    )
    checked(lambda a: stats.matrix_normal.entropy(rowcov=a, colcov=a), lambda n: (positive(n),), (4, 1, 3))
