"""Models of nutpie whose log-density is a C function, as that of a model of PyMC is.

nutpie keeps the class of such models beside its compiler for PyMC, but neither the class nor the sampler
needs PyMC. The class takes the addresses of two C functions and of some words, which both functions get.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..caches.c_function import CFunction
from ..errors import SpecError
from ..jit.c_function import DONE, NOT_FINITE
from .vector_functions import package

INTERVAL = 0.02  # seconds between two looks at whether the model has raised something


class Failures:
    """What a model has raised in threads of nutpie.

    nutpie panics at a number that stands for an error, and a divergence does not stop it. So the threads go
    on, with divergences, until the thread that waits for them looks here.

    Attributes
    ----------
    first
        The first exception, None as long as there is none.
    """

    def __init__(self):
        self.first: BaseException | None = None

    def of_density(self, error: BaseException) -> int:
        """Return what the C function of a log-density returns for an exception, which is a divergence.

        A factorisation that fails is no more than that.
        """
        if not isinstance(error, np.linalg.LinAlgError):
            self.first = self.first or error
        return NOT_FINITE

    def of_draw(self, error: BaseException) -> int:
        """Return what the C function of a draw returns for an exception; nobody gets to see this draw."""
        self.first = self.first or error
        return DONE


class Sampler:
    """A sampler of nutpie's that also raises what the model has raised."""

    def __init__(self, sampler, failures: Failures):
        self._sampler, self._failures = sampler, failures

    def __getattr__(self, name: str):
        return getattr(self._sampler, name)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until sampling is finished, at most so many seconds."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                self._sampler.wait(max(0.0, min(INTERVAL, until - time.monotonic())))
            except TimeoutError:
                self._look()
                if time.monotonic() >= until:
                    raise
            except Exception as error:  # nutpie's, of a chain that finds no starting point
                self._look(error)
                raise
            else:
                return self._look()

    def take_results(self):
        """Return what was drawn."""
        self._look()
        return self._sampler.take_results()

    def inspect(self):
        """Return what was drawn so far."""
        self._look()
        return self._sampler.inspect()

    def _look(self, cause: BaseException | None = None) -> None:
        if self._failures.first is not None:
            raise self._failures.first from cause


def as_data(value):
    """Return data as the model gets them: a list of numbers is meant as an array."""
    return np.asarray(value) if isinstance(value, (list, tuple)) else value


@functools.cache
def _model_class():
    """Return the class of models, a subclass of nutpie's."""
    compiled = package("nutpie.compile_pymc", "sampling", "nutpie")

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class CompiledModel(compiled.CompiledPyMCModel):
        """A log-density for ``nutpie.sample``; its C functions are made when sampling begins."""

        functions: Callable = dataclasses.field(repr=False)

        def with_data(self, **updates):
            for name in updates:
                if name not in self.shared_data:
                    raise SpecError(f"{name} is no data of this model; it has {', '.join(self.shared_data)}")
            new = {name: as_data(value) for name, value in updates.items()}
            return dataclasses.replace(self, shared_data=self.shared_data | new)

        def _with_functions(self, failures: Failures):
            density, draw = self.functions(self.shared_data, failures)
            words = np.zeros((2, len(density.table)), np.int64)
            for function in (density, draw):
                words[function.place] = function.table
            # The model is kept alive by nutpie, and with it what the words refer to.
            return dataclasses.replace(
                self, compiled_logp_func=density, compiled_expand_func=draw, user_data=words
            )

        def _make_model(self, init_mean):
            if self.compiled_logp_func is None:  # nutpie measures the time of the log-density
                return self._with_functions(Failures())._make_model(init_mean)
            return super()._make_model(init_mean)

        def _make_sampler(self, *args, **kwargs):
            if self.compiled_logp_func is not None:
                return super()._make_sampler(*args, **kwargs)
            failures = Failures()
            return Sampler(self._with_functions(failures)._make_sampler(*args, **kwargs), failures)

    return CompiledModel


def compiled_model(
    size: int,
    functions: Callable[[Mapping[str, Any], Failures], tuple[CFunction, CFunction]],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    initial: Callable[[int], np.ndarray],
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
):
    """Return nutpie's model of a log-density and its gradient.

    Parameters
    ----------
    size
        The length of the vector that is sampled.
    functions
        ``functions(data, failures)`` → two C functions: of the log-density with its gradient, and of a
        vector of all that is kept of a draw.
    shapes
        What that vector consists of: names and shapes, in this order.
    initial
        ``initial(seed)`` → a point at which a chain may start.
    dims, coords
        Names of the axes of what is kept, and labels along them.
    data
        What ``model.with_data`` may change: arrays, and containers of them.
    """
    names, sizes = list(shapes), [math.prod(shape) for shape in shapes.values()]
    stops = np.cumsum(sizes).tolist()
    slices = [slice(stop - count, stop) for stop, count in zip(stops, sizes, strict=True)]
    model = _model_class()
    # From version 0.16.9 on nutpie asks for this, which concerns models of PyMC alone.
    newer = {"shared_var_keys": {}}
    fields = {field.name for field in dataclasses.fields(model)}
    return model(
        **{name: value for name, value in newer.items() if name in fields},
        dims={path: tuple(axes) for path, axes in (dims or {}).items()},
        compiled_logp_func=None,
        compiled_expand_func=None,
        initial_point_func=initial,
        shared_data=dict(data or {}),
        user_data=np.zeros(0, np.int64),
        n_expanded=sum(sizes),
        shape_info=(names, slices, [tuple(shape) for shape in shapes.values()]),
        logp_func=None,
        expand_func=None,
        _n_dim=size,
        _shapes={name: tuple(shape) for name, shape in shapes.items()},
        _coords={axis: _labels(along) for axis, along in (coords or {}).items()},
        functions=functions,
    )


def _labels(along):
    """Return labels as nutpie takes them: an array of numbers, or a list of strings."""
    labels = np.asarray(along)
    return labels if labels.dtype.kind in "iuf" else [str(label) for label in labels]
