"""What `check_derivatives` checks on request: a reference, allocations, shared arguments, dtypes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# The import is from the package itself, because that also announces the stand-ins of other
# packages' functions.
from .. import prepare_gradient_cache, value_and_gradient
from ..trace import pytrees
from .derivative_error import DerivativeError, compare
from .memory import peak_of
from .point import Point, contents, copied, float_leaves, is_active, unmarked, weighed


def check_reference(f: Callable, reference: Callable, point: Point, tolerances, rng) -> None:
    """Compare value and gradient with those of another function."""
    leaves = [float_leaves(g(*unmarked(copied(point.args)))) for g in (f, reference)]
    if list(map(np.shape, leaves[0])) != list(map(np.shape, leaves[1])):
        shapes = [list(map(np.shape, part)) for part in leaves]
        raise DerivativeError(f"the results have shapes {shapes[0]}, those of the reference {shapes[1]}")
    weights = [rng.uniform(0.5, 1.5, np.shape(x)) for x in leaves[0]]
    found = []
    for g in (f, reference):
        args = copied(point.args)
        value, grads = value_and_gradient(prepare_gradient_cache(weighed(g, weights), *args), *args)
        found.append(np.append(point.flat(grads), float(value)))
    within = tolerances[0] * np.max(np.abs(found[1]), initial=0.0) + tolerances[1]
    names = "here", "of the reference"
    compare("the value", found[0][-1], names, found[1][-1], within)
    compare("the gradient", found[0][:-1], names, found[1][:-1], within, "entry ")


def check_allocations(f: Callable, point: Point, max_bytes: int) -> None:
    """Check what a steady call allocates; it is bound to buffers, so that results do not count."""
    args = copied(point.args)
    leaves = float_leaves(f(*unmarked(copied(point.args))))
    weights = [np.ones(np.shape(x)) for x in leaves]
    peak = peak_of(prepare_gradient_cache(weighed(f, weights), *args).bind(*args))
    if peak > max_bytes:
        raise DerivativeError(f"a steady call allocates {peak} bytes, more than {max_bytes}")


def check_sharing(f: Callable, point: Point, rng) -> None:
    """Check that one array as two arguments has the gradients of two equal arrays."""
    args = point.args
    arrays = [k for k, x in enumerate(args) if isinstance(x, np.ndarray) and is_active(x)]
    for place, k in enumerate(arrays):
        for j in arrays[place + 1 :]:
            if args[k].shape != args[j].shape or args[k].dtype != args[j].dtype:
                continue
            given = list(copied(args))
            given[j] = given[k]
            apart = copied(given)
            before = contents(apart)
            with np.errstate(all="ignore"):
                value = f(*unmarked(apart))
            if contents(apart) != before:
                return  # a function that writes to its arguments may rightly see that both are one array
            total = weighed(f, [rng.uniform(0.5, 1.5, np.shape(x)) for x in float_leaves(value)])
            results = []
            for these in (given, copied(given)):
                _, grads = value_and_gradient(prepare_gradient_cache(total, *these), *these)
                results.append(point.flat(grads))
            names = "for one array twice", "for two equal arrays"
            compare(f"arguments {k} and {j}: the gradient", results[0], names, results[1], 0.0, "entry ")


def check_dtypes(f: Callable, point: Point, dtype: np.dtype) -> None:
    """Check dtypes of values and gradients for arguments of another dtype."""
    args = point.at(point.vector, dtype)
    with np.errstate(all="ignore"):
        wanted = float_leaves(f(*unmarked(copied(args))))
    total = weighed(f, [np.ones(np.shape(leaf)) for leaf in wanted])
    value, grads = value_and_gradient(prepare_gradient_cache(total, *args), *args)
    kind = np.result_type(*(np.asarray(leaf).dtype for leaf in wanted))
    if np.asarray(value).dtype != kind:
        raise DerivativeError(
            f"for {dtype} arguments the value is {np.asarray(value).dtype}, that of the plain function {kind}"
        )
    for k, (arg, grad) in enumerate(zip(args, grads, strict=True)):
        if grad is None:
            continue
        for leaf, own in zip(pytrees.leaves(grad), pytrees.leaves(arg), strict=True):
            if is_active(own) and np.asarray(leaf).dtype != np.asarray(own).dtype:
                raise DerivativeError(
                    f"for {dtype} arguments the gradient of argument {k} is {np.asarray(leaf).dtype}"
                )
