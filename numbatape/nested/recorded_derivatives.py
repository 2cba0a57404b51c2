"""What a program records in place of a function: the function with derivatives in given directions.

Each turns a function of ``(*args, **kwargs)`` into one of ``(*args, directions, **kwargs)``, where the
directions are a tuple with one entry per differentiated leaf of the arguments (of the outputs, for a
pullback). The arguments are the trace's own inputs, so that they need no marks.
"""

from __future__ import annotations

import functools

from ..late import imported
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.trace import current


def _transforms():
    """Return what takes derivatives of a trace; a first gradient, which imports this file, needs none."""
    return imported(".transforms", __package__)


def _active(args) -> list[TracedArray]:
    leaves = pytrees.leaves(tuple(args))
    return [x for x in leaves if type(x) is TracedArray and x._level == ACTIVE]


def _all_or_zeros(parts, numbers) -> tuple:
    """Return derivatives; None becomes zeros in a value's dimensions, which are symbols, not sizes."""
    trace = current()
    assert trace is not None
    zeros_like = imported(".marks", __package__).zeros_like
    return tuple(
        zeros_like(trace, number) if part is None else part
        for part, number in zip(parts, numbers, strict=True)
    )


@functools.cache  # The object is always the same, because programs are kept by it.
def pushforward(strong: bool):
    """Record ``(result, tangents of its float leaves)``."""

    def transform(function):
        def derived(*args, **kwargs):
            *primals, tangents = args
            leaves = _active(primals)
            run = _transforms().Linearised(
                current(), lambda _: function(*primals, **kwargs), leaves, marked=True
            )
            run.require_numbers()
            return run.result, _all_or_zeros(run.push(tangents, strong), run.results)

        return derived

    return transform


def pullback(function):
    """Record ``(result, gradients of the differentiated leaves)``."""

    def derived(*args, **kwargs):
        *primals, cotangents = args
        leaves = _active(primals)
        run = _transforms().Linearised(current(), lambda _: function(*primals, **kwargs), leaves, marked=True)
        run.require_numbers()
        given = cotangents if run.outputs else ()  # a constant takes no cotangent
        return run.result, _all_or_zeros(run.pull(given), run.inputs)

    return derived


def in_lanes(transform):
    """Record a derivative for directions in lanes: all values that depend on them are linear in them."""

    def with_lanes(function):
        run = transform(function)

        def derived(*args, **kwargs):
            trace = current()
            assert trace is not None
            trace.directions = tuple(x._id for x in pytrees.leaves(args[-1]) if type(x) is TracedArray)
            return run(*args, **kwargs)

        return derived

    return with_lanes


def gradients(function):
    """Record ``(result, gradients of the differentiated leaves)``; zeros if the result is no real scalar."""

    def derived(*args, **kwargs):
        leaves = _active(args)
        run = _transforms().Linearised(current(), lambda _: function(*args, **kwargs), leaves, marked=True)
        scalar = run.structure.is_leaf() and run.outputs and run.outputs[0].ndim == 0
        return run.result, _all_or_zeros(run.gradient(run.outputs[0] if scalar else None), run.inputs)

    return derived


@functools.cache
def second_pushforward(strong: bool):
    """Record ``(result, second derivatives of its float leaves)``, by forward over forward mode."""

    def transform(function):
        def derived(*args, **kwargs):
            *primals, directions = args
            leaves = _active(primals)
            run, seconds = _transforms().second_push(
                current(), lambda _: function(*primals, **kwargs), leaves, directions, strong, marked=True
            )
            return run.result, _all_or_zeros(seconds, run.results)

        return derived

    return transform


@functools.cache
def with_aux(transform):
    """Record what a transform records of a function's first result, and the second result behind it."""

    def wrapped(function):
        def derived(*args, **kwargs):
            found = []

            def first(*args, **kwargs):
                value, aux = pytrees.value_and_aux(function(*args, **kwargs))
                found.append(aux)
                return value

            return (*transform(first)(*args, **kwargs), found[-1])

        return derived

    return wrapped


def first_result(function):
    """Record the value of a function that returns ``(value, aux)``."""

    def value(*args, **kwargs):
        return pytrees.value_and_aux(function(*args, **kwargs))[0]

    return value


def second_result(function):
    """Record aux of a function that returns ``(value, aux)``."""

    def aux(*args, **kwargs):
        return pytrees.value_and_aux(function(*args, **kwargs))[1]

    return aux


@functools.cache
def of_first_result(transform):
    """Record what a transform records, of a function's first result alone."""
    return lambda function: transform(first_result(function))


@functools.cache
def hessian_vector(mode: str, strong: bool):
    """Record ``(result, gradients, Hessian times directions)`` of a scalar function."""

    def transform(function):
        def derived(*args, **kwargs):
            *primals, directions = args
            leaves = _active(primals)
            numbers = [leaf._id for leaf in leaves]
            result, grads, products = _transforms().hessian_product(
                current(),
                lambda _: function(*primals, **kwargs),
                leaves,
                list(directions),
                mode,
                strong,
                marked=True,
            )
            return result, _all_or_zeros(grads, numbers), _all_or_zeros(products, numbers)

        return derived

    return transform
