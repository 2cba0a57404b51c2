"""What reads the world outside of a function: clocks, files, fresh random numbers. It raises while tracing.

A tape would keep what was read, and give it again in every call.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable

from ...errors import UnsupportedOperationError
from ..plain import strip
from ..primitives import value_of
from ..trace import current, where_in_user_code
from . import warning_filters

CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")
CLOCKS += ("process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime")
TOKENS = ("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice")
FILES = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")
GENERATORS = (
    "default_rng",
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
    """Whether a generator is made from entropy that nobody gave."""
    given = args[0] if args else next(iter(kwargs.values()), None)
    return given is None


def _of_now(args, kwargs) -> bool:
    """Whether a function of a time was given none."""
    return not args and not kwargs


def _path(args, kwargs) -> bool:
    """Whether what is read has a name in the file system."""
    given = args[0] if args else next(iter(kwargs.values()), None)
    return isinstance(given, (str, bytes, os.PathLike))


def _reads(args, kwargs) -> bool:
    mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    return not set("wax") & set(mode)


def _refusing(name: str, what: str, instead: str, when: Callable):
    """Return what makes the stand-in for a function, or for a class, that raises while tracing."""

    def make(original):
        def check(args, kwargs):
            if current() is not None and when(args, kwargs):
                raise UnsupportedOperationError(
                    f"{name} at {where_in_user_code()} {what} while the function is traced; the tape would "
                    f"repeat it in every call. {instead}"
                )

        if isinstance(original, type):

            class Refusing(type):
                def __call__(cls, *args, **kwargs):
                    check(args, kwargs)
                    return original(*args, **kwargs)

                def __instancecheck__(cls, instance):
                    return isinstance(instance, original)

                def __getattr__(cls, attribute):
                    return getattr(original, attribute)

            return Refusing(original.__name__, (), {"__module__": original.__module__})

        def call(*args, **kwargs):
            check(args, kwargs)
            return original(*args, **kwargs)

        call.__name__ = call.__qualname__ = original.__name__
        call.__doc__ = original.__doc__
        return call

    return make


def _clock_class(original):
    """Return what stands for ``datetime.datetime`` or ``date``: it does not know what time it is."""

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
    """Return what stands for ``np.errstate``: where errors raise, the tape holds for these inputs only."""

    def errstate(*args, **kwargs):
        trace = current()
        if trace is not None and not {"raise", "call"}.isdisjoint({*args, *kwargs.values()}):
            trace.failed = True
        return original(*args, **kwargs)

    return errstate


CLOCK = "reads a clock", "Read it outside and pass the number as nt.Constant(...)"


def _table() -> dict[str, dict[str, Callable]]:
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
        "numpy": {"errstate": _error_state, "seterr": _error_state},
        "warnings": {
            "catch_warnings": warning_filters.catch_warnings,
            "simplefilter": warning_filters.adding_filter,
            "filterwarnings": warning_filters.adding_filter,
        },
    }
    for module, name, (what, instead), when in rows:
        full = f"{module.replace('numpy', 'np')}.{name}"
        found.setdefault(module, {})[name] = _refusing(full, what, instead, when)
    return found


OUTSIDE = _table()


def _print(*args, **kwargs):
    """Print; while tracing the values of the trace, of which the tape knows nothing."""
    builtins.print(*(value_of(strip(arg)) for arg in args), **kwargs)


_file = "reads a file", "Read it outside and pass the data as nt.Constant(...)"
BUILTINS: dict[str, Callable] = {"print": _print, "open": _refusing("open", *_file, _reads)(open)}
