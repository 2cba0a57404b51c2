"""What importing numbatape costs: names and rules are imported when somebody needs them."""

import ast
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import numbatape as nt

LOADS_OWN_KERNELS = (sys.platform, platform.machine()) == ("linux", "x86_64")  # elsewhere LLVM's loader does
INIT = ast.parse(Path(nt.__file__).read_text())

# What a gradient of NumPy's commonest functions does without: folders, and files of folders that it needs.
FOLDERS = (
    *(
        "integrations",
        "jit.lowering",
        "logdensity",
        "matrix",
        "rules",
        "scipy_api",
        "solvers",
        "sparse",
        "testing",
        "transforms",
    ),
    "nested",
)
FILES = ("programs.debug", "caches.pullback", "jit.compiler", "verbs.inner")
LATER = tuple(f"numbatape.{name}." for name in FOLDERS) + tuple(f"numbatape.{name}" for name in FILES)


def loaded_by(code: str) -> set[str]:
    """Return the modules of a fresh process that has run some code."""
    text = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_else():
    added = loaded_by("import numpy, numbatape") - loaded_by("import numpy")
    assert {name for name in added if name.startswith("numbatape")} == {"numbatape", "numbatape.late"}


FIRST = (
    "nt.grad(f)(np.ones(3))",
    "nt.value_and_gradient(nt.prepare_gradient_cache(f, np.ones(3)), np.ones(3))",
)


@pytest.mark.parametrize("call", FIRST)
def test_a_first_gradient_needs_no_scipy(call):
    program = (
        "import numpy as np, numbatape as nt\n"
        f"f = lambda x: np.sum(np.exp(x) * np.where(x > 0, x, 2 * x))\n{call}"
    )
    exec(program, {})  # its kernels are stored now
    loaded = loaded_by(program)
    assert not {name for name in loaded if name.partition(".")[0] in ("scipy", "numba", "optree", "pandas")}
    assert not {"numpy.ma", "numpy.fft", "numpy.random", "fractions", "difflib", "tempfile"} & loaded
    assert "llvmlite.binding" not in loaded or not LOADS_OWN_KERNELS
    own = {name for name in loaded if name.startswith("numbatape.")}
    own.discard("numbatape.nested.recorded_derivatives")  # it imports nothing before a derivative is traced
    assert not {name for name in own if name.startswith(LATER)}
    assert len(own) < 207


LATER_CALLS = {
    "another length": "g = nt.grad(f)\nfor n in (5, 6, 7, 9, 2000): g(np.ones(n))",
    "another length of a prepared function": (
        "c = nt.prepare_gradient_cache(f, x)\nfor n in (5, 6, 7, 9): nt.value_and_gradient(c, np.ones(n))"
    ),
    "a cotangent": "nt.vjp(f, x)[1](1.0)",
    "a loop over numbers": "nt.scan(lambda c, r: (c * r, c), 1.0, x)",
    "a Hessian": "nt.hessian(f)(x)",
    "a batch": "nt.batch(f)(np.stack([x, x]))",
}


@pytest.mark.parametrize("calls", LATER_CALLS.values(), ids=LATER_CALLS)
def test_later_calls_import_neither_llvm_nor_masked_arrays(calls):
    """LLVM's library takes 30 ms, half of what the first calls with other lengths take."""
    head = (
        "import numpy as np, numbatape as nt\nx = np.ones(4)\nf = lambda x: np.sum(np.exp(-x * x) * x[0])\n"
    )
    exec(head + calls, {})  # its kernels are stored now
    loaded = loaded_by(head + calls)
    assert not {"numpy.ma", "scipy", "numba"} & loaded
    assert not {"llvmlite.binding", "numbatape.jit.compiler"} & loaded or not LOADS_OWN_KERNELS


def test_new_lengths_of_short_vectors_do_without_what_serves_long_ones():
    program = (
        "import numpy as np, numbatape as nt\n"
        "cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(-x * x) * x[0]) / len(x), np.ones(9))\n"
        "for n in (5, 6, 7, 2000, 2200): nt.value_and_gradient(cache, np.ones(n))"
    )
    exec(program, {})  # its kernels are stored now
    loaded = loaded_by(program)
    assert not {"numbatape.jit.compiler", "llvmlite.binding"} & loaded or not LOADS_OWN_KERNELS
    assert "numbatape.steady_calls.elastic" in loaded
    assert "numbatape.programs.one_way" not in loaded


def test_a_log_density_from_the_command_line_needs_no_scipy(tmp_path):
    """Importing scipy.special alone would take as long as all else that README's command imports."""
    schools = Path(nt.__file__).parents[1] / "examples" / "eight_schools"
    given = ["logp", f"{schools}.py", "--draws", f"{schools}_draws.csv", "--out", str(tmp_path / "out.npz")]
    program = f"from numbatape.logdensity.cli import main\nassert main({given!r}) == 0"
    assert not {"scipy", "numba"} & loaded_by(program)


NO_NUMBA = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ImportError("no Numba in this process")

sys.meta_path.insert(0, Refused())
import numpy as np, scipy.special as sc, numbatape as nt

x, system = np.linspace(0.2, 1.7, 6), np.diag(np.arange(1.0, 7.0))
rule = nt.primitive(lambda x: np.sum(x * x), pullback=lambda ybar, y, x: (2.0 * ybar * x,))
grad = nt.grad(lambda x: np.sum(np.sin(x) * sc.gammaln(x)) + rule(np.linalg.solve(system, x)))
assert np.all(np.isfinite(grad(x)))
assert np.isfinite(nt.hessian(lambda x: np.prod(np.exp(x)))(x)).all()
assert nt.grad(lambda x: np.sum(np.tanh(x)))(x.astype(np.float32)).dtype == np.float32
assert nt.grad(lambda x: nt.scan(lambda c, r: (0.9 * c * r, r), x[0], x)[0])(x).shape == (6,)
nt.warmup(dtypes=())
assert nt.kernel_info()["kernels"] is not None and "numba" not in sys.modules
"""


def test_all_but_compiled_rules_works_without_numba():
    """Also where a finder refuses it: `importlib.util.find_spec` raises that to who asks for a package."""
    subprocess.run([sys.executable, "-c", NO_NUMBA], capture_output=True, text=True, check=True)


def test_products_of_matrices_need_none_of_scipy_beside_its_blas():
    program = (
        "import numpy as np, numbatape as nt\n"
        "a = np.eye(30) + 1.0\n"
        "f = lambda x: np.sum((x @ a) ** 2) + np.linalg.slogdet(x)[1]\n"
        "print(nt.grad(f)(a)[0, 1])\n"
    )
    loaded = loaded_by(program)
    assert not {"scipy.linalg", "scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"} & loaded
    later = "import scipy.linalg.cython_blas\nassert scipy.linalg.cython_blas.__pyx_capi__['dgemm']\n"
    later += "from scipy.linalg import cython_lapack, lu\nassert cython_lapack.__pyx_capi__['dgetrf']\n"
    later += "assert np.allclose(nt.grad(f)(a), nt.grad(lambda x: f(x + lu(a)[1]))(a - lu(a)[1]))\n"
    assert {"scipy.linalg", "scipy.linalg.cython_blas"} <= loaded_by(program + later)


@pytest.mark.parametrize(
    "call",
    [
        "nt.value_and_grad(f, argnums=(0, 1))(np.ones(3), 2.0)",
        "nt.hessian(f)(np.ones(3), 2.0)",
        "nt.jvp(f, (np.ones(3), 2.0), (np.ones(3), 1.0))",
        "nt.value_and_gradient(nt.prepare_gradient_cache(f, np.ones(3), nt.Constant(2.0)), np.ones(4))",
        "nt.jacobian(lambda x: (x, x[0]))(np.ones(3))",
    ],
)
def test_arguments_without_containers_need_no_optree(call):
    program = f"import numpy as np, numbatape as nt\nf = lambda x, a: np.sum(a * x**3)\n{call}"
    exec(program, {})
    assert "optree" not in loaded_by(program)


@pytest.mark.parametrize("name", [*FOLDERS, *FILES])
def test_what_is_imported_later_is_there(name):
    assert importlib.util.find_spec(f"numbatape.{name}")


def test_the_table_of_names_is_what_type_checkers_see():
    (block,) = (n for n in INIT.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test))
    seen = {a.name: node.module for node in block.body for a in node.names if node.module}
    assert seen == nt._HOME
    assert {*seen, *nt._MODULES} == set(nt.__all__)
    assert set(nt.__all__) <= set(dir(nt))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the names share one process, which forks")
def test_any_name_may_be_the_first():
    """Each module is the first that a process imports: a copy of one that has imported NumPy alone."""
    first = {f"numbatape.{module}": names[0] for module, names in nt._NAMES.items()}
    program = f"""
import numpy, os, sys
for module, name in {first!r}.items():
    child = os.fork()
    if not child:
        exec(f"from numbatape import {{name}}")
        os._exit(0 if module in sys.modules else 1)
    if os.waitpid(child, 0)[1]:
        print(module)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_checks_know_what_other_packages_functions_stand_for():
    """Whoever imports ``numbatape.testing`` alone traces functions of SciPy's too."""
    assert "numbatape.solvers" in loaded_by("from numbatape.testing import check_derivatives")


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'gradient'"):
        nt.gradient  # noqa: B018


def test_the_drop_in_for_numpy_may_be_imported_first():
    """Its functions know traced arrays whatever was imported before it."""
    code = (
        "import numbatape.numpy as np, numbatape as nt\n"
        "print(nt.jacobian(lambda x: np.concatenate([np.ravel(np.asarray(2 * x)), np.array([x])]))(1.0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[2.", "1.]"]


def test_rules_may_be_called_before_anything_is_traced():
    code = (
        "import numpy as np, numbatape as nt\n"
        "cube = nt.primitive(lambda x: x**3, pullback=lambda ybar, y, x: (3.0 * ybar * x**2,))\n"
        "assert cube(np.array([2.0]))[0] == 8.0\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_loops_may_run_before_anything_is_traced():
    code = (
        "import numbatape as nt\n"
        "assert nt.fori_loop(0, 3, lambda i, y: y * 2.0 + i, 1.0) == 12.0\n"
        "assert nt.while_loop(lambda c: c < 5, lambda c: c + 2, 0) == 6\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_a_file_of_numpys_functions_may_be_imported_alone():
    """As docs/adding-an-op.md does it, whose reader looks at one implementation."""
    code = "from numbatape.numpy_api import ordering; print(ordering.sort.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "sort\n"
