"""What the verbs share: which arguments are differentiated, and a call taken apart."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from ..caches.registry import Caller, shelf_of
from ..capture.moving_names import Moving
from ..errors import ForeignTraceError, SpecError
from ..programs.arguments import Flattened
from ..programs.contract import require_complex, require_floats
from ..programs.roles import Constant, Static, as_constant, as_constants, is_mark
from ..steady_calls.entry import REFUSED
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import wrap
from ..trace.trace import Trace, current, failing
from ..usercode.ownership import parameter_names, traced_function
from .made import is_argnums, with_moving

if TYPE_CHECKING:
    from ..caches.derived import Derived
    from ..programs.evaluator import Evaluator


class Served:
    """A function as the calls of one verb use it: its shelf, the names of its parameters, its static ones.

    Parameters
    ----------
    f : callable
        The function that the verb was given.
    what : tuple
        The verb with its options: the key of its callers on the shelf.
    static_argnums, static_argnames : int, str, tuple of them or None
        As the verb takes them.

    Attributes
    ----------
    function : callable
        What is traced: ``f``, or what a bound method or a partial stands for.
    """

    def __init__(self, f: Callable, what: tuple, static_argnums=None, static_argnames=None):
        self.function, self.names = traced_function(f), parameter_names(f)
        self._static = StaticArguments(static_argnums, static_argnames, self.names)
        if self._static.key:
            _require_parameters(f, *self._static.key)
        self.shelf, self.what = shelf_of(self.function), (*what, *self._static.key)

    def flatten(self, args, kwargs, chosen, holomorphic: bool = False) -> Flattened:
        """Take the arguments of a call apart; all but the chosen ones are constants."""
        args, kwargs = self._static.mark(args, kwargs, chosen)
        roles = tuple(arg if k in chosen else as_constant(arg) for k, arg in enumerate(args))
        flat = Flattened(roles, as_constants(kwargs), self.names, holomorphic)
        require_floats(flat, chosen)
        if holomorphic:
            require_complex(flat)
        return flat

    def caller(self) -> contextlib.AbstractContextManager[Caller]:
        """Lend a caller of the verb that no other call uses."""
        return self.shelf.lent(self.what, Caller)

    def evaluator(self, caller: Caller, flat: Flattened, **options: bool) -> Evaluator:
        """Return a caller's workspaces for the function, see `Shelf.evaluator`."""
        return self.shelf.evaluator(caller, self.function, flat, **options)

    def derived(self, caller: Caller, flat: Flattened, transform, lanes: bool) -> Derived:
        """Return a caller's workspaces for a derivative of the function, see `Shelf.derived`."""
        return self.shelf.derived(caller, self.function, flat, transform, lanes)

    def by(self, general: Callable, shares: bool = True) -> Callable:
        """Return what serves the verb's calls; ``general(args, kwargs)`` serves those that are not steady.

        ``shares`` says whether these take keywords, by which the values of variables are passed.
        """
        return one_shot(self.shelf.moving if shares else Moving(), self.shelf.idle(self.what), general)


def with_variables(moving: Moving, call: Callable) -> Callable:
    """Return a function that calls another one with the values of moving variables among its keywords."""

    def serve(*args, **kwargs):
        if moving.names and moving.names[0] not in kwargs and current() is None:
            return with_moving(moving, moving.keywords(), serve, lambda: call(*args, **kwargs), args, kwargs)
        return call(*args, **kwargs)

    return serve


def one_shot(moving: Moving, idle: list[Caller], general: Callable) -> Callable:
    """Return what serves a verb's calls: it tries an idle caller's steady call, then the general one.

    Parameters
    ----------
    moving
        Variables of the function that are inputs.
    idle
        The verb's callers that no call uses.
    general
        Called as ``general(args, kwargs)``.
    """

    def call(*args, **kwargs):
        if moving.names and moving.names[0] not in kwargs and current() is None:
            return with_moving(moving, moving.keywords(), call, lambda: general(args, kwargs), args, kwargs)
        if idle and current() is None:  # inside of a trace an argument may be a traced value
            try:
                caller = idle.pop()
            except IndexError:  # another thread took the last one
                return general(args, kwargs)
            result = REFUSED
            try:
                front = caller.front
                if not kwargs or front.keywords:
                    result = front.call(*args, **kwargs)
                if result is REFUSED:
                    result = front.elsewhere(*args, **kwargs)
            finally:
                idle.append(caller)
            if result is not REFUSED:
                return result
        return general(args, kwargs)

    return call


def dispatch(trees, outer: Callable, inner: Callable):
    """Return ``outer()``, or ``inner()`` inside of a function that is being traced.

    Inside, a derivative at plain arguments is computed at once, unless the function turns out to use traced
    values of the outer trace, or may read variables that are inputs of it. What comes out belongs to the
    function, which may write to it.
    """
    trace = current()
    if trace is None:
        return outer()
    return _made_in(trace, _dispatched(trace, trees, outer, inner))


def _dispatched(trace: Trace, trees, outer: Callable, inner: Callable):
    copies = trace.capture.copies
    is_plain = not any(type(leaf) in (TracedArray, TracedInteger) for leaf in pytrees.leaves(trees))
    if is_plain and (copies is None or not copies.has_inputs):
        failed = trace.validity.failed
        try:
            return outer()
        except ForeignTraceError:
            trace.validity.failed = failed  # No code of the user's has caught this error.
    with failing(trace):
        return inner()


def _made_in(trace: Trace, result):
    """Return a result with its ndarrays as arrays that a traced function has made, if that writes to any.

    They are copies: a verb's results share no memory with what its function refers to.
    """
    if not trace.memory.writes:
        return result
    leaves, structure = pytrees.flatten(result)
    if not any(type(leaf) is np.ndarray for leaf in leaves):
        return result
    made = [wrap(trace, leaf.copy()) if type(leaf) is np.ndarray else leaf for leaf in leaves]
    return pytrees.unflatten(structure, made)


def bare_arguments(args) -> list:
    """Return arguments as the function gets them, without the marks of their roles."""
    return [arg.value if type(arg) in (Constant, Static) else arg for arg in args]


def chosen_arguments(argnums, count: int, least: int = 0) -> tuple[int, ...]:
    """Return the argument numbers that ``argnums`` names; raise if there are fewer than ``least``."""
    if not is_argnums(argnums):
        raise SpecError(f"argnums={argnums!r}: must be an int or a tuple of ints")
    chosen = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    if len(chosen) < least:
        raise SpecError(f"argnums={argnums!r} names no argument")
    for k in chosen:
        if not -count <= k < count:
            number = f"{count} positional argument{'s' * (count != 1)}"
            raise SpecError(
                f"argnums={argnums!r} names argument {k}, but the call has {number}; what is passed by name "
                "is a constant"
            )
    return tuple(int(k) % count for k in chosen)


class StaticArguments:
    """The arguments that ``static_argnums`` and ``static_argnames`` name: each value selects a tape."""

    def __init__(self, numbers, labels, names):
        if numbers is None or isinstance(numbers, (int, np.integer)):
            numbers = () if numbers is None else (numbers,)
        labels = () if labels is None else (labels,) if isinstance(labels, str) else labels
        if not isinstance(numbers, (tuple, list)) or not all(
            isinstance(k, (int, np.integer)) for k in numbers
        ):
            raise SpecError(f"static_argnums={numbers!r}: must be an int or a tuple of ints")
        if not isinstance(labels, Collection) or not all(isinstance(name, str) for name in labels):
            raise SpecError(f"static_argnames={labels!r}: must be a string or a tuple of strings")
        self.key = (tuple(numbers), tuple(labels)) if numbers or labels else ()
        self._numbers = {*numbers, *(names.index(name) for name in labels if name in names)}
        self._labels = {*labels, *(names[k] for k in numbers if -len(names) <= k < len(names))}

    def mark(self, args, kwargs, chosen) -> tuple[tuple, dict]:
        """Return the arguments of a call, the static ones as `Static`."""
        if not self._numbers and not self._labels:
            return args, kwargs
        places = {k % len(args) for k in self._numbers if -len(args) <= k < len(args)}
        both = places.intersection(chosen)
        if both:
            raise SpecError(f"argument {min(both)} is static, and argnums names it")
        args = tuple(_static(arg) if k in places else arg for k, arg in enumerate(args))
        return args, {k: _static(v) if k in self._labels else v for k, v in kwargs.items()}


def _require_parameters(f, numbers, labels) -> None:
    """Raise if a function has no argument of a number or a name that is said to be static."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return  # A function that is written in C may have no signature.
    kinds = {each.kind for each in parameters}
    names = [
        each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for k in numbers:
            if not -len(names) <= k < len(names):
                raise SpecError(f"static_argnums={k}: the function has {len(names)} positional arguments")
    missing = sorted({*labels}.difference(each.name for each in parameters))
    if missing and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise SpecError(f"static_argnames={missing[0]!r}: the function has no argument of this name")


def with_statics(f, args: tuple, static_argnums, static_argnames) -> tuple:
    """Return positional arguments, the static ones as `Static`."""
    if static_argnums is None and static_argnames is None:
        return args
    return StaticArguments(static_argnums, static_argnames, parameter_names(f)).mark(args, {}, ())[0]


def _static(value):
    return value if is_mark(value) else Static(value)
