"""The option ``output`` of ``scipy.ndimage``: an array that the result is written to, or its dtype."""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stand_in
from ...rules.searches import Search
from ...trace import operations
from ...trace.operands import find_trace, lift_all, values_of
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
    """Return what stands for a filter whose argument ``output`` may be an array or a dtype."""
    usual = stand_in(original, implementation)

    @functools.wraps(original)
    def call(*args, **kwargs):
        output = args[place] if len(args) > place else kwargs.get("output")
        image = args[0] if args else kwargs.get("input")
        whole = getattr(image, "dtype", np.dtype(float)).kind in "biu"
        trace = None if output is None and not whole else find_trace(args, tuple(kwargs.values()))
        if trace is None:
            return usual(*args, **kwargs)
        if output is None:
            with failing(trace):
                return _of_whole_numbers(original, usual, args, kwargs)
        args = (*args[:place], *([None] if len(args) > place else []), *args[place + 1 :])
        kwargs = {name: value for name, value in kwargs.items() if name != "output"}
        with failing(trace):
            return _delivered(original, usual, output, place, args, kwargs)

    return call


def _of_whole_numbers(original, usual, args, kwargs):
    """Return the result for an image of integers, which SciPy rounds or truncates after each of its passes.

    So it is a step function of the other arguments: data without a derivative, which SciPy itself computes.
    """
    keys = [*range(len(args)), *kwargs]
    given = dict(zip(keys, (*args, *kwargs.values()), strict=True))
    traced = [key for key in keys if find_trace(given[key]) is not None]
    operands = lift_all(*(given[key] for key in traced))
    dtypes = [np.asarray(values_of(x)).dtype for x in operands]

    def run(*numbers):
        known = given | {
            key: np.asarray(x).astype(dtype) for key, x, dtype in zip(traced, numbers, dtypes, strict=True)
        }
        places = [known.pop(k) for k in range(len(args))]
        return original(*places, **known)

    dtype = run(*values_of(operands)).dtype
    if dtype.kind not in "biu":  # such as the coefficients of splines
        return usual(*args, **kwargs)
    search = Search(f"scipy.ndimage.{original.__name__}", run, tuple(operands))
    return search.numbers("an image of integers", np.asarray).astype(dtype)


def _delivered(original, usual, output, place: int, args, kwargs):
    """Return the result in a given array, or as a dtype, as SciPy does."""
    to_array = not isinstance(output, (str, type, np.dtype))
    dtype = np.asarray(values_of(as_ndarrays(output))).dtype if to_array else np.dtype(output)
    if dtype.kind != "f":  # SciPy rounds to integers after each of a filter's passes
        raise unsupported_argument(
            f"scipy.ndimage.{original.__name__}", f"output of dtype {dtype}", "an output of floats is"
        )
    image, *others = args
    if (dtype == np.float64 and image.dtype == np.float32) or image.dtype.kind in "biu":
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
