"""`numbatape.recording.contents` says which file has what; topics are imported when they are needed."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest

import numbatape.solvers  # noqa: F401  (it announces stand-ins of its own)
from numbatape.numpy_api import function_tables
from numbatape.recording import contents
from numbatape.trace import operations
from numbatape.trace.operands import values_of

contents.load_all()
TABLES = {
    "real": function_tables.REAL,
    "complex": function_tables.COMPLEX,
    "writers": function_tables.WRITERS,
    "ufuncs of complex numbers": function_tables.COMPLEX_UFUNCS,
}
RECENT = {
    "matvec",
    "vecmat",
    "unstack",
    "cumulative_sum",
    "cumulative_prod",
}  # older versions of NumPy lack them


@pytest.mark.parametrize("name", TABLES)
def test_what_is_registered_is_announced_for_its_file(name):
    table = TABLES[name]
    for function in table.registered:
        assert function_tables.name_of(function) in table.files, f"{function} is missing in contents.py"
        assert table.find(function) is table.registered[function]


@pytest.mark.parametrize("name", [name for name in TABLES if name != "complex"])
def test_what_is_announced_is_registered(name):
    registered = {function_tables.name_of(function) for function in TABLES[name].registered}
    assert set(TABLES[name].files) - registered <= RECENT


def test_functions_are_announced_for_the_file_that_implements_them():
    for function, implementation in function_tables.REAL.registered.items():
        file = function_tables.REAL.files[function_tables.name_of(function)]
        implementation = inspect.unwrap(implementation)
        assert implementation.__module__ == file, f"{function}: {implementation.__module__}"


def test_every_function_of_complex_arrays_is_a_real_one_with_an_implementation_that_exists():
    for function, implementation in function_tables.COMPLEX.registered.items():
        real = function_tables.REAL.registered[function]
        made = implementation.implementation() if implementation is not real else real
        assert inspect.isfunction(made), function


def test_operations_are_in_the_files_that_are_announced_for_them():
    for name, file in operations.announced().items():
        assert hasattr(importlib.import_module(file), name)
        assert callable(getattr(operations, name))


def test_forms_are_in_the_files_that_are_announced_for_them():
    assert set(function_tables.FORMS) == set(function_tables.FORM_FILES)
    for name, maker in function_tables.FORMS.items():
        assert maker.__module__ == function_tables.FORM_FILES[name]


def test_stand_ins_are_announced():
    for module, names in function_tables.MAKERS.items():
        assert set(names) == set(function_tables.STAND_INS[module])
    assert set(function_tables.MAKERS) == set(function_tables.STAND_INS)


# What each trace needs; all other topics wait until one of their functions is called.
ALWAYS = {
    "arrays_of_lists",
    "dispatch",
    "registration",
    "function_tables",
    "stand_ins",
    "ufunc_compositions",
    "ufuncs",
}
FIRST_GRADIENT = """
import sys
import numpy as np
{also}
import numbatape as nt
assert nt.grad(lambda x: np.sum(np.exp(x)))(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]
print(*(name for name in sys.modules if name.startswith("numbatape.")))
"""


@pytest.mark.parametrize("also", ["", "import scipy.stats, scipy.special, scipy.linalg, scipy.signal"])
def test_a_first_gradient_imports_no_topics_that_it_does_not_use(also):
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_GRADIENT.format(also=also)], capture_output=True, text=True, check=True
    )
    loaded = [name.split(".") for name in ran.stdout.split()]
    assert {name[2] for name in loaded if name[1] == "numpy_api" and name[2:]} == ALWAYS | {"reductions"}
    assert not {tuple(name) for name in loaded if name[1] in ("scipy_api", "matrix") and name[2:]}
    assert ["numbatape", "trace", "scatters"] not in loaded


def test_a_stand_in_is_made_by_the_files_that_are_announced_for_it():
    """A file that others import first would hide that a name is announced for the wrong one."""
    program = """if True:
        import sys
        from numbatape.numpy_api.function_tables import MAKERS, STAND_INS
        from numbatape.recording import contents

        class Noting(dict):
            def __setitem__(self, name, make):
                frame = sys._getframe(1)
                while frame.f_code.co_name != "<module>":
                    frame = frame.f_back
                found.setdefault((self.module, name), set()).add(frame.f_globals["__name__"])
                super().__setitem__(name, make)

        found = {}
        for module in STAND_INS:
            before = MAKERS.get(module, {})
            MAKERS[module] = Noting(before)
            MAKERS[module].module = module
        import numbatape.solvers
        contents.load_all()
        assert len(found) > 300
        for (module, name), files in found.items():
            if files != set(STAND_INS[module].get(name, ())):
                print(module, name, files)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_a_function_is_registered_once():
    table = function_tables.Table()
    table.register((np.sum, np.prod), values_of)
    with pytest.raises(AssertionError, match="sum is registered twice"):
        table.register((np.sum,), values_of)
