"""The option ``output`` of ``scipy.ndimage``: an array that the result is written to, or its dtype."""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stand_in
from ...trace import operations
from ...trace.operands import find_trace, values_of
from ...trace.plain_arrays import as_ndarrays
from ...trace.trace import failing


def filters(*names: str):
    """Register an implementation that takes no notice of its parameter ``output``, by names of functions."""

    def register(implementation):
        place = list(inspect.signature(implementation).parameters).index("output")
        for name in names:
            make = functools.partial(_maker, implementation, place)
            MAKERS["scipy.ndimage"][name] = make
        return implementation

    return register


def _maker(implementation, place: int, original):
    usual = stand_in(original, implementation)

    @functools.wraps(original)
    def call(*args, **kwargs):
        output = args[place] if len(args) > place else kwargs.get("output")
        trace = None if output is None else find_trace(args, tuple(kwargs.values()))
        if trace is None:
            return usual(*args, **kwargs)
        args = (*args[:place], *([None] if len(args) > place else []), *args[place + 1 :])
        kwargs = {name: value for name, value in kwargs.items() if name != "output"}
        with failing(trace):
            return _delivered(original, usual, output, place, args, kwargs)

    return call


def _delivered(original, usual, output, place: int, args, kwargs):
    """Return the result in a given array, or as a dtype, as SciPy does."""
    to_array = not isinstance(output, (str, type, np.dtype))
    dtype = np.asarray(values_of(as_ndarrays(output))).dtype if to_array else np.dtype(output)
    if dtype.kind != "f":  # SciPy rounds to integers after each of a filter's passes
        raise unsupported_argument(
            f"scipy.ndimage.{original.__name__}", f"output of dtype {dtype}", "an output of floats is"
        )
    image, *others = args
    if dtype == np.float64 and image.dtype == np.float32:
        image = np.astype(image, np.float64)  # SciPy computes in float64, and rounds to the output's dtype
    result = usual(image, *others, **kwargs)
    if not to_array:
        return result if result.dtype == dtype else np.astype(result, dtype)

    def again():
        target = np.array(values_of(as_ndarrays(output)))
        given = list(values_of(as_ndarrays(args)))
        options = {name: values_of(as_ndarrays(value)) for name, value in kwargs.items()}
        if len(given) > place:
            given[place] = target
        else:
            options["output"] = target
        original(*given, **options)
        return target

    return operations.store(output, result, f"scipy.ndimage.{original.__name__}(..., output=array)", again)
