"""Modules as a traced function sees them: with all the names that they have."""

import importlib
import sys
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


SETTINGS = """
import numpy as np

scale = 1.0

def scaled(x):
    return np.sum(x) * scale
"""


def _by_attribute(module, value):
    module.scale = value


def _by_item(module, value):
    module.__dict__["scale"] = value


def _by_update(module, value):
    vars(module).update(scale=value)


def _anew(module, value):
    del module.scale
    assert not hasattr(module, "scale")
    vars(module).setdefault("scale", value)


def _popped(module, value):
    attributes = module.__dict__
    assert attributes.pop("scale") is not None
    attributes |= {"scale": value}


@pytest.mark.parametrize("put", [_by_attribute, _by_item, _by_update, _anew, _popped])
def test_what_is_assigned_to_a_module_is_what_its_functions_read(put, monkeypatch):
    """Also functions that ran before, and whatever way the module's attributes are reached."""
    module = types.ModuleType("settings_of_test")
    module.__file__ = __file__
    exec(SETTINGS, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def f(x):
        put(module, 2.0)
        first = module.scaled(x)
        put(module, 5.0)
        return first + module.scaled(x) + np.sum(x) * module.scale + np.sum(x) * vars(module)["scale"]

    for k in range(3):
        module.scale = 1.0 + k
        np.testing.assert_array_equal(nt.grad(f)(np.ones(2)), [17.0, 17.0])
        assert module.scale == 5.0


def test_a_function_that_is_put_back_into_a_module_is_the_function(monkeypatch):
    """And not its copy, whose globals are those of one trace."""
    module = types.ModuleType("settings_of_test")
    module.__file__ = __file__
    exec(SETTINGS, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    own = module.scaled

    def f(x):
        kept, module.scaled = module.scaled, lambda x: 7.0 * np.sum(x)
        first = module.scaled(x)
        module.scaled = kept
        return first + module.scaled(x)

    for k in range(3):
        module.scale = 1.0 + k
        np.testing.assert_array_equal(nt.grad(f)(np.ones(2)), [8.0 + k, 8.0 + k])
        assert module.scaled is own


@pytest.mark.parametrize("put", [_by_attribute, _by_item, _by_update])
def test_traced_values_that_are_kept_in_a_module_become_numbers(put, monkeypatch):
    module = types.ModuleType("settings_of_test")
    module.__file__ = __file__
    exec(SETTINGS, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def f(x):
        put(module, x[0] * 2.0)
        return module.scaled(x)

    for k in range(1, 4):
        np.testing.assert_array_equal(nt.grad(f)(np.array([1.0 * k, 1.0])), [4.0 * k + 2.0, 2.0 * k])
        assert type(module.scale) is np.float64 and module.scale == 2.0 * k
