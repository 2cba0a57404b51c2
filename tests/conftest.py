"""Fixtures that any test may use."""

import signal

import numpy as np
import pytest


@pytest.fixture
def rng():
    """A random generator that starts the same in every test."""
    return np.random.default_rng(20240229)


@pytest.fixture
def interruptible():
    """Handle Ctrl-C as Python does: a shell starts background processes with Ctrl-C ignored."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)
