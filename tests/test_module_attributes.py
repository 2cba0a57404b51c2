"""Modules as a traced function sees them: with all the names that they have."""

import importlib
import types

import numpy as np
import pytest

import numbatape as nt
from numbatape.numpy_api import stand_ins

MODULES = ("numpy", "numpy.linalg", "numpy.fft", "math", "statistics", "scipy.special", "scipy.stats")
MODULES += ("scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg", "scipy.interpolate")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_all_of_its_names(name):
    """Code asks `hasattr(scipy.special, "sph_harm_y")` and takes another way where the answer is no."""
    module, missing = importlib.import_module(name), []
    names = [each for each in dir(module) if hasattr(module, each)]

    def f(x):
        missing.extend(each for each in names if not hasattr(module, each))
        return x[0]

    assert nt.grad(f)(np.ones(2))[0] == 1.0 and missing == []


def test_what_stands_for_a_callable_without_a_name():
    """Legendre functions are such objects in SciPy 1.15 and 1.16."""

    class MultiUFunc:
        """The documentation of the original."""

    made = stand_ins.named_like(lambda x: x, MultiUFunc())
    assert isinstance(made, types.FunctionType)
    assert (made.__name__, made.__doc__) == ("MultiUFunc", "The documentation of the original.")
