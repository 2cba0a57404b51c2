"""Every exception and warning that numbatape raises on its own account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_LINES, MOST_CHARACTERS = 20, 2000


class NumbatapeError(Exception):
    """Base of all of numbatape's exceptions.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> try:
    ...     nt.grad(np.sin)(np.ones(2))
    ... except nt.NumbatapeError as error:
    ...     print(type(error).__name__)
    OutputError
    """

    def __str__(self) -> str:
        """Return the message; the text of a large argument is shortened, so that the rest can be read."""
        text = super().__str__()
        if len(text) > MOST_CHARACTERS:
            text = f"{text[: MOST_CHARACTERS // 2]} ... {text[-MOST_CHARACTERS // 2 :]}"
        lines = text.splitlines()
        if len(lines) > MOST_LINES:
            half = MOST_LINES // 2
            lines[half : 1 - half] = [f"... ({len(lines) - 2 * half + 1} lines more)"]
        return "\n".join(lines) if len(lines) > 1 else text


class ConfigError(NumbatapeError, ValueError, TypeError):
    """A field of `Config` was given a value that it does not accept.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.Config(chunk_size=0)
    Traceback (most recent call last):
    ...
    numbatape.errors.ConfigError: Config(chunk_size=0): chunk_size must be a positive integer or None
    """


class SpecError(NumbatapeError, ValueError):
    """The arguments do not fit what a cache was prepared for, or cannot be differentiated.

    Its kinds are `ArityError`, `StructureError`, `DtypeError`, `ShapeError`, `PatternError` and
    `OutputError`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> try:
    ...     nt.grad(np.sum, argnums=1)(np.ones(2))
    ... except nt.SpecError as error:
    ...     print(error)
    argnums=1 names argument 1, but the call has 1 positional argument; what is passed by name is a constant
    """


class ArityError(SpecError):
    """A cache was called with another number of arguments than it was prepared for.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(np.sum, np.ones(2))
    >>> nt.value_and_gradient(cache, np.ones(2), 1.0)
    Traceback (most recent call last):
    ...
    numbatape.errors.ArityError: prepared for 1 argument, got 2
    """


class StructureError(SpecError):
    """A container has another structure than the one that the cache was prepared for.

    Examples
    --------
    >>> import numbatape as nt
    >>> cache = nt.prepare_gradient_cache(lambda p: p["a"] ** 2, {"a": 1.0})
    >>> nt.value_and_gradient(cache, {"b": 1.0})
    Traceback (most recent call last):
    ...
    numbatape.errors.StructureError: argument 0 (`p`): the arguments' structure differs: ...
    """


class DtypeError(SpecError, TypeError):
    """An argument has another dtype than the prepared one, or a dtype that cannot be differentiated.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.grad(lambda n: n**2)(3)
    Traceback (most recent call last):
    ...
    numbatape.errors.DtypeError: argument 0 (`n`) is int: only float64 and float32 can be differentiated; ...
    """


class ShapeError(SpecError):
    """An argument has another number of dimensions or, under ``Config(fixed_sizes=True)``, other sizes.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_gradient_cache(np.sum, np.ones(2))
    >>> nt.value_and_gradient(cache, np.ones((2, 2)))
    Traceback (most recent call last):
    ...
    numbatape.errors.ShapeError: argument 0 (`a`): prepared for float64 with 1 dimension, got shape ...
    """


class PatternError(SpecError):
    """A sparsity pattern has another shape than the derivative, or misses one of its entries.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.sparse_jacobian(lambda x: x**2, pattern=np.eye(2))(np.ones(3))
    Traceback (most recent call last):
    ...
    numbatape.errors.PatternError: the pattern has shape (2, 2), the derivative (3, 3)
    """


class OutputError(SpecError, TypeError):
    """The function's result does not fit the verb: a gradient, for instance, needs one real scalar.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: x**2)(np.ones(2))
    Traceback (most recent call last):
    ...
    numbatape.errors.OutputError: a gradient needs a function that returns one real scalar, got an array ...
    """


def array_in_place_of_scalar(what: str, shape: tuple) -> str:
    """Return the message about a result that is an array; one entry was most likely meant as a number."""
    single = "; np.squeeze(result) is the number in it" if set(shape) == {1} else ""
    hint = single or "; perhaps you meant jacobian (or a pullback: nt.vjp)"
    return f"a {what} needs a function that returns one real scalar, got an array of shape {shape}{hint}"


def kind_of_result(result) -> str:
    """Return how messages call what a function has returned in place of a number."""
    return "None; perhaps a return is missing" if result is None else type(result).__name__


class BusyError(NumbatapeError, RuntimeError):
    """A cache, bound callable or pullback was called while another call of it was under way.

    The other call may be one of another thread, or the call whose hand-written rule makes this one.

    Examples
    --------
    >>> import numbatape as nt
    >>> def value(x):
    ...     return nt.value_and_gradient(cache, x)[0] if entered else x
    >>> entered = []
    >>> rule = nt.primitive(value, pullback=lambda ybar, y, x: (ybar,))
    >>> cache = nt.prepare_gradient_cache(lambda x: rule(x), 1.0)
    >>> entered.append("the rule calls the cache that calls the rule")
    >>> nt.value_and_gradient(cache, 2.0)
    Traceback (most recent call last):
    ...
    numbatape.errors.BusyError: this cache (...) is in the middle of another call: ...
    """


class UnforeseenShapeError(OutputError):
    """A rule returned another shape than followed from the shapes of its arguments and from earlier calls."""


class MissingBodyError(NumbatapeError, RuntimeError):
    """No known trace of a sub-tape holds for the numbers that it was called with.

    Who runs sweeps catches this error, lets the sub-tape be traced, and traces again what calls it.

    Attributes
    ----------
    record
        Traces the sub-tape for the numbers of the call, given what its caller captures; returns False if that
        gives no trace that is new, or none that a later trace of the caller meets.
    keep_in_place
        Lets later traces of callers record the sub-tape's function in place, as any other function; returns
        False where they do so already, or where no later trace meets this sub-tape.
    """

    def __init__(self, message: str, record: Callable[[Any], bool], keep_in_place: Callable[[], bool]):
        super().__init__(message)
        self.record, self.keep_in_place = record, keep_in_place

    def final(self) -> UnsupportedOperationError:
        """Return the error for a function that no further trace helps."""
        return UnsupportedOperationError(
            f"{self}. A function that is made while its caller is traced has the traces of that run only: "
            "define it outside of the function that is differentiated, or use nt.cond"
        )


class StepsError(NumbatapeError, RuntimeError):
    """`while_loop` ran past its ``max_steps``.

    Examples
    --------
    >>> import numbatape as nt
    >>> try:
    ...     nt.while_loop(lambda x: x > 0.0, lambda x: 0.5 * x, 1.0, max_steps=10)
    ... except nt.StepsError as error:
    ...     print(error)
    nt.while_loop: the condition still holds after max_steps=10 steps
    """


class UnsupportedOperationError(NumbatapeError, TypeError):
    """The function uses something that numbatape cannot differentiate; the message names it and the line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: x * np.random.rand())(1.0)
    Traceback (most recent call last):
    ...
    numbatape.errors.UnsupportedOperationError: the function draws random numbers ...
    """

    _noted: Callable[[UnsupportedOperationError], None] | None = None  # what hears of each one that is made

    def __init__(self, *args):
        super().__init__(*args)
        if self._noted is not None:
            self._noted()


class LeakError(UnsupportedOperationError):
    """A traced value would lose its derivative: ``float(x)``, ``np.asarray(x)``, ``a[0] = x``.

    Examples
    --------
    >>> import numbatape as nt
    >>> try:
    ...     nt.grad(lambda x: float(x) ** 2)(3.0)
    ... except nt.LeakError as error:
    ...     print("would drop the derivative of a traced value" in str(error))
    True
    """


class ForeignTraceError(LeakError):
    """Values of two traces meet: one was kept from an earlier call, or belongs to an enclosing function."""


class VerificationError(NumbatapeError):
    """A tape or a plan is not safe to run; the message names the instruction and the reason.

    Every plan is verified before it runs, so this error means that a tape was altered, or a bug in numbatape.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np, numbatape as nt
    >>> from numbatape.engine import make_plan
    >>> tape = nt.prepare_gradient_cache(np.sum, np.ones(2)).tape
    >>> try:
    ...     make_plan(dataclasses.replace(tape, prologue=len(tape) + 1), (2,))
    ... except nt.VerificationError as error:
    ...     print(error)
    the tape's prologue count is out of range
    """


class DebugError(NumbatapeError):
    """``Config(debug_mode=True)`` found an error; the message names instruction, source line and reason.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> config = nt.Config(debug_mode=True, silence_debug_messages=True)
    >>> cache = nt.prepare_gradient_cache(lambda x: np.log(x), 1.0, config=config)
    >>> with np.errstate(invalid="ignore"):
    ...     nt.value_and_gradient(cache, -1.0)
    Traceback (most recent call last):
    ...
    numbatape.errors.DebugError: instruction 0, log, at ...: the first NaN appears here
    """


class RetracingWarning(UserWarning):
    """A function is traced again and again for the same reason, which the message names with a cure.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, numbatape as nt
    >>> gradient = nt.grad(lambda x: sum(v * v for v in x))  # iteration: a trace for each length
    >>> with warnings.catch_warnings(record=True) as warned:
    ...     warnings.simplefilter("always")
    ...     for n in range(1, 60):
    ...         _ = gradient(np.ones(n))
    >>> [issubclass(each.category, nt.RetracingWarning) for each in warned]
    [True]
    """


class UnwatchedWarning(UserWarning):
    """The function reads something that cannot be watched for changes, so it is traced in every call.

    Examples
    --------
    >>> import warnings
    >>> import numbatape as nt
    >>> users = {}
    >>> exec("def f(x): return eval('2 * x')", users)  # what `eval` reads has no name in the code
    >>> with warnings.catch_warnings(record=True) as warned:
    ...     warnings.simplefilter("always")
    ...     gradient = nt.grad(users["f"])(1.0)
    >>> [issubclass(each.category, nt.UnwatchedWarning) for each in warned]
    [True]
    """
