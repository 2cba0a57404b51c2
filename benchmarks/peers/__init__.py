"""Engines: each module here prepares workloads for one library.

A module defines `ENGINES`, a dictionary from the engine's name to `prepare(workload)`, which returns
`(call, read)`: `call()` is what is timed, NumPy arrays in and NumPy arrays out, and `read(result)`
turns what it returned into `(value, gradients)` for the check. Modules import their library when
they are imported themselves, so that an absent peer costs nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable

PEERS = ("jax", "casadi", "autograd", "torch", "pytensor")


class Unsupported(Exception):
    """The engine cannot run this workload; the message says why."""


def installed() -> list[str]:
    """Return the peers that can be imported here."""
    return [name for name in PEERS if importlib.util.find_spec(name)]


def engines(library: str) -> dict[str, Callable]:
    """Import a library's module and return its engines."""
    return importlib.import_module(f"{__name__}.{library}_peer").ENGINES


def rebound(function: Callable, **names) -> Callable:
    """Return the function with module-level names (`np`, `expit`, ...) meaning something else.

    The workloads are written against NumPy; a peer with its own namespace runs the same source.
    Other functions of the same module that it calls are rebound as well.
    """
    module = sys.modules[function.__module__]
    scope = dict(vars(module))
    for name, value in vars(module).items():
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            scope[name] = types.FunctionType(
                value.__code__, scope, name, value.__defaults__, value.__closure__
            )
    scope.update(names)
    code, closure = function.__code__, function.__closure__
    return types.FunctionType(code, scope, function.__name__, function.__defaults__, closure)
