"""Whose code something is: modules in circles, installed packages beside the user's files, archives."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape.errors import LeakError
from numbatape.usercode import ownership

CIRCLE = {
    "ma.py": """
        import mb
        import numpy as np
        def fa(x): return np.array([x[0], x[1] ** 2])
        def ga(x): return mb.gb(x)
        """,
    "mb.py": """
        import ma
        import numpy as np
        def gb(x): return np.sum(ma.fa(x))
        """,
    "pkg/__init__.py": """
        import pkg.a
        from pkg.a import f
        me = pkg
        """,
    "pkg/a.py": """
        import numpy as np
        import pkg
        import pkg.b
        calls = 0
        def helper(x):
            pkg.a.calls = calls + 1
            return np.array([x[0], 2 * x[1]])
        def f(x): return np.sum(pkg.a.helper(x)) + pkg.b.g(x)
        """,
    "pkg/b.py": """
        import math
        import pkg.a as other
        from . import a
        class Z:
            def m(self, x): return other.helper(x)[0] * math.exp(x[0])
        def g(x): return Z().m(x) + a.helper(x)[1]
        """,
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that modules are found in; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_modules_in_circles(folder):
    write(folder, CIRCLE)
    import ma
    import mb
    import pkg

    x = np.array([1.0, 2.0])
    for f in (ma.ga, mb.gb, lambda x: ma.mb.ma.mb.gb(x)):
        np.testing.assert_allclose(nt.grad(f)(x), [1.0, 4.0])
    want = [1.0 + 2.0 * np.e, 4.0]
    for f in (pkg.f, pkg.a.f, lambda x: pkg.me.a.f(x), lambda x: getattr(pkg.me, "f")(x)):  # noqa: B009
        np.testing.assert_allclose(nt.grad(f)(x), want)
    assert pkg.a.calls == 12  # three times in each: `helper` reads what it has assigned to its module


@pytest.mark.filterwarnings("ignore::numbatape.errors.UnwatchedWarning")  # of vars
def test_a_module_as_an_argument(folder):
    write(folder, CIRCLE)
    import ma

    def f(module, x):
        return np.sum(getattr(module, "fa")(x)) + np.sum(vars(module)["fa"](x))  # noqa: B009

    np.testing.assert_allclose(nt.grad(lambda x: f(ma, x))(np.ones(2)), [2.0, 4.0])


LIBRARY = {
    "thirdparty/__init__.py": """
        import numpy as np
        def helper(x): return np.array([x[0], 2.0 * x[1]])
        """,
    "thirdparty-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n",
    "thirdparty-1.0.dist-info/RECORD": "thirdparty/__init__.py,,\nthirdparty-1.0.dist-info/METADATA,,\n",
    "own.py": """
        import numpy as np
        import thirdparty
        def mine(x): return np.sum(np.array([x[0], 2.0 * x[1]]))
        def other(x): return np.sum(thirdparty.helper(x))
        """,
}


def test_packages_installed_beside_the_users_files(folder):
    """``pip install --target .``: what the installer's records name is a library's."""
    write(folder, LIBRARY)
    import own
    import thirdparty

    assert ownership.is_users_module(own)
    assert not ownership.is_users_module(thirdparty)
    np.testing.assert_allclose(nt.grad(own.mine)(np.ones(2)), [1.0, 2.0])
    with pytest.raises(LeakError, match=r"own.py:\d+ in other"):
        nt.grad(own.other)(np.ones(2))


def test_the_package_of_the_function_is_the_users(folder):
    """Who differentiates a function of an installed package means that package's code."""
    write(folder, LIBRARY)
    import thirdparty

    np.testing.assert_allclose(nt.jacobian(thirdparty.helper)(np.ones(2)), [[1.0, 0.0], [0.0, 2.0]])
    assert ownership.is_users_module(thirdparty)
    ownership._adopted.discard("thirdparty")
    for cached in ownership._CACHES:
        cached.cache_clear()


def test_archives(folder):
    with zipfile.ZipFile(folder / "code.zip", "w") as archive:
        archive.writestr(
            "zipped.py", "import numpy as np\ndef f(x): return np.sum(np.array([x[0], x[1]]) ** 2)\n"
        )
    sys.path.insert(0, str(folder / "code.zip"))
    import zipped

    sys.path.remove(str(folder / "code.zip"))
    np.testing.assert_allclose(nt.grad(zipped.f)(np.ones(2)), [2.0, 2.0])


def test_numpy_in_another_directory_is_a_library(tmp_path):
    """NumPy that is not where the interpreter's own packages are (PYTHONPATH, --target)."""
    target = tmp_path / "target"
    target.mkdir()
    for package in ("numpy", "scipy", "numba", "llvmlite", "optree"):
        (target / package).symlink_to(Path(sys.modules.get(package, np).__file__).parents[1] / package)
    for path in Path(np.__file__).parents[1].iterdir():
        if not (target / path.name).exists():
            (target / path.name).symlink_to(path)
    program = """
        import numpy as np, numbatape as nt, scipy.special
        from numbatape.usercode import ownership
        assert "target" in np.__file__, np.__file__
        for module in (np, np.linalg, scipy.special):
            assert not ownership.is_users_module(module)
        def f(x): return np.sum(np.array([x[0], scipy.special.logsumexp(x)]))
        try:
            nt.grad(lambda x: np.sum(np.linalg.matrix_rank(np.outer(x, x)) * x))(np.ones(2))
        except nt.UnsupportedOperationError as error:
            assert "<string>" in str(error), error
        print(nt.grad(f)(np.zeros(2)).tolist())
        """
    home = str(Path(nt.__file__).parents[1])
    environment = {"PYTHONPATH": f"{target}:{home}", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-S", "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1.5, 0.5]\n", done.stderr


def test_who_owns_what():
    assert ownership.is_users_class(type("Made", (), {"__module__": __name__}))
    assert ownership.is_users_file("<stdin>", "__main__")
    assert not ownership.is_users_file("<string>", "dataclasses")
    assert not ownership.is_users_file("<frozen importlib._bootstrap>")
    for library in (np, textwrap, nt, pytest):
        assert not ownership.is_users_file(library.__file__, library.__name__)


def test_what_is_imported_by_a_call():
    """As ``import`` does, ``__import__`` gives what stands for the module while tracing."""
    f = lambda x: __import__("math").sin(x[0]) + np.sum(__import__("numpy").array([x[1], 2.0]))  # noqa: E731
    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(nt.grad(f)(x), [np.cos(0.5), 1.0], rtol=1e-15)
    with pytest.raises(nt.UnsupportedOperationError, match="clock"):
        nt.grad(lambda x: x[0] * __import__("time").time())(x)


CLASS = """
import enum
class Choice(enum.Enum):
    ONE = 1
    @property
    def rate(self):
        return rate
rate = 2.0
def chosen(x):
    return np.sum(x) * Choice.ONE.rate
class Model:
    rate = 2.0
    def __call__(self, x):
        return np.sum(x * x) * self.rate
model = Model()
"""


@pytest.mark.parametrize("scope", [{}, {"__name__": "a_module_that_is_nowhere"}], ids=["exec", "not entered"])
def test_classes_whose_module_is_not_there(scope):
    """Their objects are watched like others of the user's."""
    scope = {"np": np, **scope}
    exec(CLASS, scope)
    model = scope["model"]
    g = nt.value_and_grad(model)
    for rate in (2.0, 3.0, 5.0):
        model.rate = rate
        assert g(np.ones(2))[0] == 2.0 * rate
    model.rate = 1.0
    scope["Model"].__call__ = lambda self, x: np.sum(x) * self.rate
    assert g(np.ones(2))[0] == 2.0
    for scope["rate"] in (2.0, 3.0):
        np.testing.assert_array_equal(nt.grad(scope["chosen"])(np.ones(2)), [scope["rate"]] * 2)


class Shape:
    """`__new__` chooses among derived classes; it names this one, and so does a static method."""

    def __new__(cls, size):
        if cls is Shape:
            return Round.__new__(Round, size)
        return super().__new__(cls)

    @staticmethod
    def twice(size):
        return Shape(np.array([size[0], 2.0 * size[1]]))


class Round(Shape):
    def __init__(self, size):
        self.size = np.array([size[0], size[1], 1.0])


@pytest.mark.parametrize("make", [Shape, Round, Shape.twice, lambda x: Round.twice(x)])
def test_constructors_that_choose_a_class(make):
    f = lambda x: np.sum(make(x).size ** 2)  # noqa: E731
    x = np.array([3.0, -1.0])
    factor = 4.0 if make not in (Shape, Round) else 1.0
    for _ in range(2):
        np.testing.assert_allclose(nt.grad(f)(x), 2.0 * x * [1.0, factor], rtol=1e-15)
