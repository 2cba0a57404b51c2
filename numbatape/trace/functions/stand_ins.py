"""What runs in place of functions that never reach a protocol, while tracing.

`numbatape.trace.scipy_bridge` hands these out. SciPy stays unimported: implementations are
registered by name and completed when the user's SciPy is there. The files that register them are
imported then too, by `TOPICS`: a function of NumPy alone does not wait for a hundred distributions.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

from .. import integers
from ..plain import strip, trace_of_plain, unflattened, wrap
from ..trace import failing
from .common import as_users_call, evaluated, find_trace, run_composition

PENDING: dict[str, dict[str, Callable]] = {}  # module -> name -> what makes the stand-in

_TRACE = "numbatape.trace"
_MATRIX = tuple(f"{_TRACE}.matrix.{name}" for name in ("functions", "scipys", "structured", "refusals"))


def _functions(*names: str) -> tuple[str, ...]:
    return tuple(f"{_TRACE}.functions.{name}" for name in names)


# Module -> the files of this package that have stand-ins for it; packages above this one add theirs.
TOPICS: dict[str, tuple[str, ...]] = {
    "numpy": _functions("array_functions", "type_tests"),
    "numpy.linalg": _functions("array_functions"),
    "numpy.lib.stride_tricks": _functions("array_functions"),
    "numpy.ctypeslib": _functions("array_functions"),
    "numpy.ma": _functions("array_functions"),
    "math": _functions("math_functions"),
    "cmath": (f"{_TRACE}.complex.stand_ins",),
    "scipy.fft": (f"{_TRACE}.complex.stand_ins", *_functions("spatial")),
    "scipy.special": _functions("special", "scipy_functions"),
    "scipy.linalg": (*_functions("scipy_functions", "spectral"), *_MATRIX),
    "scipy.stats": _functions(
        "continuous", "discrete", "rarer", "quantiles", "multivariate", "sample_statistics"
    ),
    "scipy.integrate": _functions("integrals"),
    "scipy.signal": _functions("signals"),
    "scipy.ndimage": _functions("signals"),
    "scipy.spatial.distance": _functions("spatial"),
}


def announce(module: str, *files: str) -> None:
    """Say that some files have stand-ins for a module: they are imported when it is."""
    TOPICS[module] = (*TOPICS.get(module, ()), *files)


def load(module: str) -> None:
    """Import what has stand-ins for a module."""
    for name in TOPICS[module]:
        importlib.import_module(name)


def load_all() -> None:
    """Import all that has stand-ins: for who goes through the table."""
    for module in list(TOPICS):
        load(module)


def stands_for(module: str, *names: str, run=run_composition):
    """Register an implementation for functions of a module, by name.

    ``run`` is `run_composition`, `run_record`, or None for one that evaluates nothing first.
    """

    def register(implementation):
        for name in names:
            make = functools.partial(stand_in, implementation=implementation, run=run)
            PENDING.setdefault(module, {})[name] = make
        return implementation

    return register


def complete(module: str) -> dict[str, tuple[Callable, Callable]]:
    """Return ``{name: (original, stand-in)}`` of a module, which is imported."""
    load(module)
    source = importlib.import_module(module)
    found = {}
    for name, make in PENDING[module].items():
        original = getattr(source, name, None)  # older versions lack some
        if original is not None:
            found[name] = original, make(original)
    return found


def stand_in(original, implementation, run=run_composition):
    """Return a function that is the original, but for traced arguments.

    NumPy's own take plain arrays as the ndarrays they are, so that results share memory where NumPy's do.
    """
    traced = implementation if run is None else evaluated(original, implementation, run)
    of_numbers = original.__module__ == "math"

    call_original = as_users_call(original)
    numpys = (getattr(original, "__module__", None) or "numpy").partition(".")[0] == "numpy"

    def call(*args, **kwargs):
        if of_numbers:
            args = tuple(map(integers.lifted, args))
        args = unflattened(args)
        trace = find_trace(args, tuple(kwargs.values()))
        if trace is None:
            inner = trace_of_plain(args, kwargs) if numpys else None
            if inner is None:
                return call_original(*args, **kwargs)
            return wrap(inner, original(*strip(args), **strip(kwargs)))
        # A plain array is an ndarray to all but what writes into it.
        if trace.integers:
            args, kwargs = integers.settled(args), integers.settled(kwargs)
        args, kwargs = strip(args), {k: v if k == "out" else strip(v) for k, v in kwargs.items()}
        with failing(trace):
            return traced(*args, **kwargs)

    call.__name__ = call.__qualname__ = original.__name__
    call.__doc__ = original.__doc__
    return call
