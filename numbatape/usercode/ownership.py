"""Whether code is the user's or a library's. This is the one place that decides it.

The user's functions run as copies while tracing, what they capture is watched, and messages and tapes name
their lines. A library's code is not copied. Libraries are Python's own modules, numbatape, packages in a
directory of installed packages, and packages that an installer has put beside the user's own files
(``pip install --target``, deployment archives), according to the installer's records.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib.util
import inspect
import os
import site
import sys
import sysconfig
import types
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep
MARK = "__numbatape_scope__"  # this name in the globals of a function says that it is a copy
FOLDERS = frozenset(("site-packages", "dist-packages"))
# Parts of SciPy with solvers that call the user's function: iterations, which are differentiated as a whole.
SOLVERS = (
    *("scipy.optimize", "scipy.sparse.linalg._isolve", "scipy.sparse.linalg._eigen"),
    "scipy.integrate._bvp",
)
OBJECTIVES = ("rosen", "rosen_der", "rosen_hess", "rosen_hess_prod")  # beside them, functions to try them on
COPIED = ("numpy", "scipy")  # libraries whose Python functions may run as copies
# Beginnings of the names of libraries' modules whose functions and classes are copied like the user's.
LIKE_USERS = (
    *("numpy.polynomial", "scipy.interpolate._bary_rational", "scipy.interpolate._polyint"),
    "scipy.interpolate._rbf",
    *("scipy.signal._czt", "scipy.signal._lti_conversion", "scipy.signal._ltisys"),
    *("scipy.signal._short_time_fft", "scipy.sparse.linalg._interface", "scipy.spatial.transform"),
)
# Libraries, wherever they are installed. xarray computes with arrays of other packages by NumPy's protocols.
KNOWN = (*COPIED, "numba", "llvmlite", "optree", "xarray")


def _roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {os.path.dirname(os.__file__), site.getusersitepackages()}
    for name in KNOWN:
        with contextlib.suppress(ImportError, ValueError):  # programs may refuse a package, or put a stand-in
            spec = importlib.util.find_spec(name)  # imports nothing, because these are top-level packages
            if spec is not None and spec.origin is not None:
                found.add(os.path.dirname(spec.origin))
    return tuple(root + os.sep for root in found)


_ROOTS = _roots()
_CORE = (PACKAGE, *(root for root in _ROOTS if root.rstrip(os.sep).endswith(KNOWN)))
# Attributes by which a function has the parameters of another one.
_SIGNED = frozenset(("__wrapped__", "__signature__"))
_adopted: set[str] = set()  # libraries' packages that count as the user's, see `adopt`


def python_of(function):
    """Return the Python function behind one that Numba has compiled; others as they are.

    A Python function is its own, whatever attributes it has: `functools.wraps` copies ``py_func`` from a
    compiled function to one that wraps it.
    """
    return function if type(function) is types.FunctionType else getattr(function, "py_func", function)


def traced_function(function):
    """Return what is traced: the Python function behind a Numba dispatcher."""
    if function.__class__ is types.FunctionType:
        return function
    if not callable(function):
        raise TypeError(f"{function!r:.80} is not callable; verbs take functions: nt.grad(f)(x)")
    return python_of(function)


def parameter_names(function) -> tuple[str, ...]:
    """Return the names of positional parameters, for error messages."""
    if type(function) is types.FunctionType and _SIGNED.isdisjoint(vars(function)):
        code = function.__code__  # `inspect.signature` takes 20 µs
        return code.co_varnames[: code.co_argcount]
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def top(module: str | None) -> str:
    """Return the outermost package of a module's name."""
    return (module or "").partition(".")[0]


def module_of(value) -> str:
    """Return the name of the module of a value's class; some metaclasses make it something else than text."""
    name = type(value).__module__
    return name if isinstance(name, str) else ""


@functools.lru_cache(maxsize=10_000)
def is_users_file(file: str, module: str | None = None) -> bool:
    """Whether code of a file is the user's own.

    Parameters
    ----------
    file
        The name of the file in a code object. Code that was made at run time (``<string>``) is the user's if
        the module that it was made for is.
    module
        The name of the module, where it is known.
    """
    if file.startswith((PACKAGE, "<frozen")):
        return False
    if file.startswith("<"):
        made_for = getattr(sys.modules.get(module or ""), "__file__", None)
        if (
            made_for is None or made_for.startswith("<") or module == "__main__"
        ):  # the code was typed in a session
            return top(module) not in sys.stdlib_module_names
        return is_users_file(made_for, module)
    if top(module) in _adopted:
        return True
    return not (file.startswith(_ROOTS) or not FOLDERS.isdisjoint(file.split(os.sep)) or _is_installed(file))


class _Core(dict):
    """Whether code of a file is numbatape's, NumPy's, SciPy's or Numba's, by the file's name.

    This is asked for each frame of a stack and each operation of a trace; a dictionary answers faster than
    a function.
    """

    def __missing__(self, file: str) -> bool:
        found = self[file] = file.startswith(_CORE)
        return found


is_core = _Core()


def sees_sizes(frame: types.FrameType) -> bool:
    """Whether a frame's code reads sizes as traced ints: the user's, and copies of a library's functions."""
    return not is_core[frame.f_code.co_filename] or MARK in frame.f_globals


def is_users_function(function) -> bool:
    """Whether a Python function is the user's own."""
    return _is_users_code(function.__code__.co_filename, function.__globals__.get("__name__"))


@functools.lru_cache(maxsize=10_000)
def _is_users_code(file: str, module) -> bool:
    return runs_as_users(module) or is_users_file(file, module)


def is_users_class(cls: type) -> bool:
    """Whether a class is the user's own; one of a module without a file was made in a session.

    A class that ``exec`` makes, or a module that was loaded from a file and not entered in `sys.modules`,
    names a module that is not there, or "builtins": its methods say whose it is. So do those of a class of
    another process's main program, which joblib's workers unpickle: theirs is a file of joblib's.
    """
    module = cls.__module__
    if runs_as_users(module):
        return True
    if isinstance(module, str) and module.startswith("_cython_"):  # Cython's own types have no file
        return False
    if module == "builtins" or module not in sys.modules:
        methods = _methods_of(cls)
        if methods:
            return any(map(is_users_function, methods))
        if module == "builtins" or not isinstance(module, str) or "__weakref__" not in vars(cls):
            return False
        return is_users_file(f"<{module}>", module)
    scope = vars(sys.modules[module])
    if is_users_file(scope.get("__file__") or f"<{module}>", module):
        return True
    methods = [] if module != "__main__" or scope.get(cls.__name__) is cls else _methods_of(cls)
    return any(map(is_users_function, methods))


def _methods_of(cls: type) -> list[types.FunctionType]:
    """Return the functions among the members of a class; an enumeration has some of Python's own."""
    members = vars(cls).values()
    found = (getattr(each, "fget", None) or getattr(each, "__func__", each) for each in members)
    return [each for each in found if type(each) is types.FunctionType]


def is_users_module(module) -> bool:
    """Whether a module is the user's own; one made by hand, which has no file, is."""
    name = module.__name__
    if runs_as_users(name):
        return True
    file = getattr(module, "__file__", None)
    if file is None and name in sys.builtin_module_names:
        return False
    return is_users_file(file or f"<{name}>", name)


def is_library_function(function) -> bool:
    """Whether a function of NumPy's or SciPy's may run as a copy where an argument is traced."""
    if type(function) is not types.FunctionType:
        return False
    module = function.__globals__.get("__name__")
    # Solvers iterate until numbers are close enough: what they find is differentiated as a whole.
    solves = isinstance(module, str) and module.startswith(SOLVERS) and function.__name__ not in OBJECTIVES
    return _is_library(module) and not solves


def is_librarys_name(module) -> bool:
    """Whether a name is that of a module of NumPy's or SciPy's."""
    return top(module) in COPIED


def is_library_module(module) -> bool:
    """Whether a module is a part of NumPy's or SciPy's."""
    return _is_library(module.__name__)


def _is_library(module) -> bool:
    return is_librarys_name(module) and not runs_as_users(module)


def runs_as_users(module) -> bool:
    """Whether a module of NumPy's or SciPy's counts as the user's; its functions and classes are Python."""
    return isinstance(module, str) and module.startswith(LIKE_USERS)


def adopt(function) -> None:
    """From now on, count the package of a function that is to be differentiated as the user's.

    Someone who installs a package of models, and differentiates them, wants that package's code to be traced.
    """
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or is_users_function(function):
        return
    name = top(function.__globals__.get("__name__"))
    if name and name not in (*KNOWN, "numbatape") and name not in sys.stdlib_module_names:
        _adopted.add(name)
        for cached in _CACHES:
            cached.cache_clear()


def decided(function):
    """Cache a function whose results depend on which code is the user's (a decorator)."""
    cached = functools.lru_cache(maxsize=10_000)(function)
    _CACHES.append(cached)
    return cached


_CACHES: list = [is_users_file, _is_users_code]


def _is_installed(file: str) -> bool:
    """Whether an installer has put a file into a directory of ``sys.path`` beside the user's files."""
    entries = [os.path.abspath(entry) + os.sep for entry in sys.path]
    entry = max((entry for entry in entries if file.startswith(entry)), key=len, default=None)
    return entry is not None and file[len(entry) :].split(os.sep)[0] in _installed(entry)


@functools.cache
def _installed(entry: str) -> frozenset[str]:
    """Return the files and folders in a directory (or archive) that belong to installed packages."""
    if os.path.isdir(entry) and not any(name.endswith(".dist-info") for name in os.listdir(entry)):
        return frozenset()
    from importlib.metadata import distributions  # 20 ms, imported only if it is needed

    found: set[str] = set()
    for each in distributions(path=[entry.rstrip(os.sep)]):
        record = each.read_text("RECORD") or ""
        found.update(line.partition(",")[0].partition("/")[0] for line in record.splitlines())
    return frozenset(name for name in found if name not in ("", "..") and not name.endswith(".dist-info"))


# ---- the user's own classes among a class and its bases

# Exceptions are caught, and members of enumerations compared, by class: another class cannot stand in.
LENT = (BaseException, enum.Enum)


@decided
def users_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases, in the order of lookup.

    There are none where an object can have no stand-in (`lent_classes`).
    """
    if issubclass(cls, (*LENT, type)):
        return ()
    return tuple(base for base in cls.__mro__ if is_users_class(base))


@decided
def lent_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases where an object can have no stand-in.

    Their members are lent instead, see `numbatape.stand_ins.lending`.
    """
    return tuple(base for base in cls.__mro__ if is_users_class(base)) if issubclass(cls, LENT) else ()


@decided
def users_metaclasses(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among the metaclass of a class and its bases."""
    return tuple(base for base in type(cls).__mro__ if is_users_class(base))


@decided
def is_users_object_class(cls: type) -> bool:
    """Whether objects of a class are the user's: the class, or one of its bases, is the user's own."""
    return not issubclass(cls, type) and any(is_users_class(base) for base in cls.__mro__)
