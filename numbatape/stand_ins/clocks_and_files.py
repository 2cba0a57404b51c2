"""Functions that read the outside world (clocks, files, fresh random numbers) raise while tracing.

A tape would keep what was read, and repeat it in every call.
"""

from __future__ import annotations

import builtins
import functools
import os
import pathlib
from collections.abc import Callable, MutableMapping

from ..capture.files import note
from ..errors import UnsupportedOperationError
from ..late import imported
from ..numpy_api.stand_ins import named_like
from ..trace.complex_parts import is_traced
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import value_of
from ..trace.trace import current
from ..usercode.frames import where_in_user_code

# Names of functions and classes that have stand-ins, by what they read. Those of FILES, GENERATORS and
# OF_ARRAYS are NumPy's, those of OF_SYSTEM, OF_FILES and OF_PATHS are in ``os``, and those of ASKING are
# methods of paths.
CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")
CLOCKS += ("process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime")
TOKENS = ("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice")
FILES = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")
OF_SYSTEM = ("getenv", "getenvb", "getcwd", "getpid", "getloadavg", "times")
OF_FILES = ("stat", "lstat", "fstat", "access", "read", "readlink", "get_terminal_size")
OF_PATHS = ("exists", "lexists", "isfile", "isdir", "islink", "ismount", "samefile", "realpath", "abspath")
OF_PATHS += ("getsize", "getmtime", "getatime", "getctime", "expandvars", "expanduser")
ASKING = ("stat", "lstat", "exists", "is_file", "is_dir", "is_mount", "is_symlink", "samefile", "owner")
ASKING += ("group", "resolve", "absolute", "readlink", "iterdir", "glob", "rglob", "walk", "expanduser")
ENGINES = ("Sobol", "Halton", "LatinHypercube", "PoissonDisk", "MultinomialQMC", "MultivariateNormalQMC")
# Seeded generators that a function makes are noted, and draw for it (`numbatape.stand_ins.seeded_draws`).
NOTING = ("np.random.default_rng", "np.random.RandomState", "np.random.Generator")
OF_ARRAYS = ("shuffle", "permutation", "permuted", "choice", "normal", "uniform", "exponential")
GENERATORS = (
    "default_rng",
    "Generator",
    "RandomState",
    "SeedSequence",
    "PCG64",
    "PCG64DXSM",
    "MT19937",
    "Philox",
    "SFC64",
)


def _always(args, kwargs) -> bool:
    return True


def _unseeded(args, kwargs) -> bool:
    """Whether a generator is seeded from the system's entropy."""
    given = args[0] if args else next(iter(kwargs.values()), None)
    return given is None


def _unscrambled(args, kwargs) -> bool:
    """Whether points are scrambled by the system's entropy."""
    return kwargs.get("rng", kwargs.get("seed")) is None and kwargs.get("scramble", True)


def _of_now(args, kwargs) -> bool:
    """Whether a function of a time was given no time, and takes the present one."""
    return not args and not kwargs


def _path(args, kwargs) -> bool:
    """Whether the argument is a path of the file system."""
    given = args[0] if args else next(iter(kwargs.values()), None)
    return isinstance(given, (str, bytes, os.PathLike))


def _reads(args, kwargs) -> bool:
    mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    return not set("wax") & set(mode)


def _refusing(name: str, what: str, instead: str, when: Callable):
    """Return the maker of a stand-in for a function or a class, which raises while tracing."""

    def make(original):
        """Return what stands for a function or class and raises while tracing."""

        def check(args, kwargs):
            if current() is not None and when(args, kwargs):
                raise UnsupportedOperationError(
                    f"{name} at {where_in_user_code()} {what} while the function is traced; the tape would "
                    f"repeat it in every call. {instead}"
                )

        def made(*args, **kwargs):
            trace = current()
            if trace is None or name not in NOTING:
                return original(*args, **kwargs)
            return imported(".seeded_draws", __package__).noting(trace, original, args, kwargs)

        if isinstance(original, type):

            class Refusing(type):
                def __call__(cls, *args, **kwargs):
                    check(args, kwargs)
                    return made(*args, **kwargs)

                def __instancecheck__(cls, instance):
                    return isinstance(instance, original)

                def __getattr__(cls, attribute):
                    return getattr(original, attribute)

            return Refusing(original.__name__, (), {"__module__": original.__module__})

        def call(*args, **kwargs):
            check(args, kwargs)
            return made(*args, **kwargs)

        return named_like(call, original)

    return make


def _clock_class(original):
    """Return the stand-in for ``datetime.datetime`` or ``date``: asking it for the present time raises."""

    class Refusing(type):
        def __call__(cls, *args, **kwargs):
            return original(*args, **kwargs)

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __getattr__(cls, name):
            found = getattr(original, name)
            if name not in ("now", "utcnow", "today"):
                return found
            what, instead = CLOCK
            return _refusing(f"datetime.{original.__name__}.{name}", what, instead, _always)(found)

    return Refusing(original.__name__, (), {"__module__": original.__module__})


def _error_state(original):
    """Return the stand-in for ``np.errstate``: where errors raise, the tape holds for these inputs only."""

    def errstate(*args, **kwargs):
        if not {"raise", "call"}.isdisjoint({*args, *kwargs.values()}):
            _note_errors()
        return original(*args, **kwargs)

    return errstate


def note_error_state(state) -> None:
    """Note that a function refers to an ``np.errstate`` that was made outside."""
    fields = ("_all", "_divide", "_over", "_under", "_invalid")
    if not {"raise", "call"}.isdisjoint(str(getattr(state, field, "raise")) for field in fields):
        _note_errors()


def _note_errors() -> None:
    trace = current()
    if trace is not None:
        trace.note_one_step("lets NumPy raise floating-point errors")


def _present_errors(original):
    """Return the stand-in for ``np.geterr``: only tracing runs without floating-point errors."""

    def geterr():
        trace = current()
        if trace is None:
            return original()
        note("`np.geterr`")
        return {k: trace.capture.float_errors[k] if how == "ignore" else how for k, how in original().items()}

    return geterr


class _Environment(MutableMapping):
    """The stand-in for ``os.environ``, which notes that it is read."""

    def __init__(self, original):
        self._original = original

    def __getitem__(self, key):
        note("`os.environ`")
        return self._original[key]

    def __iter__(self):
        note("`os.environ`")
        return iter(self._original)

    def __len__(self):
        note("`os.environ`")
        return len(self._original)

    def __setitem__(self, key, value):
        _note_change()
        self._original[key] = value

    def __delitem__(self, key):
        _note_change()
        del self._original[key]

    def __getattr__(self, name):
        note("`os.environ`")
        return getattr(self._original, name)


def _note_change() -> None:
    """Note that the process's environment is about to change, which a trace that starts again undoes."""
    trace = current()
    if trace is not None and trace.capture.environment is not None:
        trace.capture.environment.note_process()


def _noting(name: str):
    """Return the maker of a stand-in for a function that reads something which cannot be watched."""

    def make(original):
        def call(*args, **kwargs):
            note(f"`{name}`")
            return original(*args, **kwargs)

        return named_like(call, original)

    return make


def noting_path(path: pathlib.Path) -> pathlib.Path:
    """Return an equal path, which notes when the file system is asked about it."""
    return _path_class(type(path))(path)


@functools.cache
def _path_class(cls: type) -> type:
    body = {
        name: _noting(f"{cls.__name__}.{name}")(getattr(cls, name)) for name in ASKING if hasattr(cls, name)
    }
    return type(cls.__name__, (cls,), {**body, "__slots__": (), "__module__": cls.__module__})


def _path_type(original):
    """Return the stand-in for a class of ``pathlib``, whose paths note that the file system is asked."""

    class Noting(type):
        def __call__(cls, *args, **kwargs):
            return noting_path(original(*args, **kwargs))

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, other):
            return issubclass(other, original)

        def __getattr__(cls, attribute):
            return getattr(original, attribute)

    return Noting(original.__name__, (), {"__module__": original.__module__})


CLOCK = "reads a clock", "Read it outside and pass the number as nt.Constant(...)"


OF_INTERPRETER = (
    "getrecursionlimit",
    "getswitchinterval",
    "get_int_max_str_digits",
    "gettrace",
    "getprofile",
)


def _table() -> dict[str, dict[str, Callable]]:
    """Return the stand-ins for what differs between calls: for each module, makers by name."""
    draw = "draws random numbers", "Draw outside and pass the numbers as nt.Constant(...), or give a seed"
    file = "reads a file", "Read it outside and pass the data as nt.Constant(...)"
    rows = [("time", n, CLOCK, _of_now if n in ("localtime", "gmtime", "ctime") else _always) for n in CLOCKS]
    rows += [("os", "urandom", draw, _always), ("os", "getrandom", draw, _always)]
    rows += [("uuid", "uuid1", draw, _always), ("uuid", "uuid4", draw, _always)]
    rows += [("secrets", name, draw, _always) for name in TOKENS]
    rows += [("random", "Random", draw, _unseeded), ("random", "SystemRandom", draw, _always)]
    rows += [("numpy.random", name, draw, _unseeded) for name in GENERATORS]
    rows += [("numpy", name, file, _path) for name in FILES]
    found: dict[str, dict[str, Callable]] = {
        "datetime": {"datetime": _clock_class, "date": _clock_class},
        "numpy": {"errstate": _error_state, "seterr": _error_state, "geterr": _present_errors}
        | {"get_printoptions": _noting("np.get_printoptions")},
        "decimal": {name: _noting(f"decimal.{name}") for name in ("getcontext", "localcontext")},
        "functools": {"lru_cache": _memo("of_lru_cache"), "cache": _memo("of_cache")},
        "gc": {"isenabled": _noting("gc.isenabled")},
        "sys": {name: _noting(f"sys.{name}") for name in OF_INTERPRETER},
        "warnings": {
            "catch_warnings": _of_filters("catch_warnings"),
            "simplefilter": _of_filters("adding_filter"),
            "filterwarnings": _of_filters("adding_filter"),
        },
    }
    found["numpy.random"] = dict.fromkeys(OF_ARRAYS, _of_global_generator)
    found["json"] = {"dump": _of_text, "dumps": _of_text}
    found["os"] = {name: _noting(f"os.{name}") for name in (*OF_SYSTEM, *OF_FILES)} | {
        "environ": _Environment
    }
    found["os.path"] = {name: _noting(f"os.path.{name}") for name in OF_PATHS}
    found["pathlib"] = dict.fromkeys(("Path", "PosixPath", "WindowsPath"), _path_type)
    engine = "Draw outside and pass the points as nt.Constant(...), or give a seed"
    rows += [("scipy.stats.qmc", name, ("draws random points", engine), _unscrambled) for name in ENGINES]
    for module, name, (what, instead), when in rows:
        full = f"{module.replace('numpy', 'np')}.{name}"
        found.setdefault(module, {})[name] = _refusing(full, what, instead, when)
    return found


def _of_global_generator(original):
    return imported(".drawn_from_arrays", __package__).of_global_generator(original)


def _of_text(original):
    """Return a writer of text that gets numbers in place of traced ones, whose use as text is noted."""

    def write(tree, *args, **kwargs):
        return original(_numbers(tree), *args, **kwargs)

    return write


def _numbers(tree):
    """Return a tree that `json` can write: numbers in place of traced ones, plain dicts and lists."""
    if is_traced(tree):
        repr(tree)  # repr notes that the function writes the number down
        return tree._value
    if isinstance(tree, dict):
        return {key: _numbers(part) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_numbers(part) for part in tree]
    return tree.settled() if type(tree) is TracedInteger else as_ndarrays(tree)


def _memo(name: str) -> Callable:
    """Return a maker of `numbatape.capture.memos`, which few programs need."""
    return lambda original: getattr(imported("..capture.memos", __package__), name)(original)


def _of_filters(name: str) -> Callable:
    """Return a maker of `numbatape.stand_ins.warning_filters`, which few programs need."""
    return lambda original: getattr(imported(".warning_filters", __package__), name)(original)


REPLACED = _table()  # The keys are modules and names; each value makes the stand-in from the original.


def _print(*args, **kwargs):
    """Print; while tracing, this prints the values of the trace, and records nothing."""
    builtins.print(*(value_of(as_ndarrays(arg)) for arg in args), **kwargs)


_file = "reads a file", "Read it outside and pass the data as nt.Constant(...)"
BUILTINS: dict[str, Callable] = {"print": _print, "open": _refusing("open", *_file, _reads)(open)}
