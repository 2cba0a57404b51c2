"""Fixtures that any test may use."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """A random generator that starts the same in every test."""
    return np.random.default_rng(20240229)
