"""`MadeFunction`: what a verb returns. It pickles, by the verb and the function that it was made of."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..caches.registry import known_shelf, may_share, shelf_of
from ..capture.holders import Wrapper
from ..capture.moving_names import Moving
from ..errors import SpecError
from ..late import imported
from ..tape.tape import shown_name
from ..trace.trace import current
from ..usercode.ownership import traced_function

if TYPE_CHECKING:
    from ..caches.function_families import Family
    from ..caches.shipping import Shipped


NAMED = "named"


class MadeFunction:
    """A derivative of a function, or a batch of it: called as the function is.

    ``nt.grad(f)`` may be sent to another process, where it is made again and traced.

    Parameters
    ----------
    verb : callable
        The public verb, ``nt.grad`` say.
    f : callable
        The function.
    options : dict
        What else the verb was given.
    call : callable
        Serves the calls.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(np.sum)
    <grad of sum>
    """

    # ``__call__`` is a slot that holds the verb: a method that passes arguments on would take 0.2 µs more.
    __slots__ = ("__call__", "__dict__", "__weakref__", "_options", "_verb")

    __wrapped__: Callable

    def __init__(self, verb: Callable, f: Callable, options: dict, call: Callable):
        functools.update_wrapper(self, f)
        # Programs that keep results by name, as joblib does, keep those of different derivatives apart.
        argnums = options.get("argnums") or ()
        of = "_".join(map(str, argnums)) if isinstance(argnums, tuple) else str(argnums)
        for name in ("__name__", "__qualname__"):
            kind = verb.__name__ + (f"_wrt_{of}" if of else "")
            setattr(self, name, f"{kind}_of_{getattr(f, name, 'function')}")
        self._verb, self._options = verb, options
        self.__call__ = call

    def __get__(self, instance, owner=None):
        """Bind to an instance, as a function that is an attribute of a class does."""
        return self if instance is None else types.MethodType(self, instance)

    def of(self, f: Callable) -> Any:
        """Return what the verb makes of another function, with the same options."""
        return self._verb(f, **self._options)

    def __reduce__(self):
        shipped = imported("..caches.shipping", __package__).Shipped(self.__wrapped__)
        return _made_again, (self._verb, shipped, self._options)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        f = copy.deepcopy(self.__wrapped__, memo)  # a method of an object that is copied is one of the copy
        return self if f is self.__wrapped__ else self.of(f)

    def _how(self) -> str:
        """Return what ``repr`` says behind the function's name."""
        return ""

    def __repr__(self) -> str:
        name = getattr(self.__wrapped__, "__qualname__", repr(self.__wrapped__))
        code = getattr(self.__wrapped__, "__code__", None)
        if code is not None and name.endswith("<lambda>"):
            name += f" at {shown_name(code.co_filename)}:{code.co_firstlineno}"
        return f"<{self._verb.__name__} of {name}{self._how()}>"


def made_by(
    verb: Callable,
    f: Callable,
    make: Callable[..., Callable],
    kind: type = MadeFunction,
    shares: bool | str = True,
    **options,
) -> Any:
    """Return what a verb makes of a function: the same object each time, if the options can be hashed.

    Parameters
    ----------
    make
        Called as ``make(f, *options)``, in their order; returns what serves the calls.
    kind
        The class of what is returned.
    shares
        As of `_shared`.
    """
    return made_with(verb, f, make, tuple(options), tuple(options.values()), kind, shares)


def made_with(
    verb: Callable,
    f: Callable,
    make: Callable[..., Callable],
    names: tuple[str, ...],
    given: tuple,
    kind: type = MadeFunction,
    shares: bool | str = True,
) -> Any:
    """Do what `made_by` does, with the options' names and values apart: a call takes 0.3 µs less."""
    # 0, 0.0 and False are equal, and only one of them is an argument's number.
    kinds = (*map(type, given),)
    if tuple in kinds:
        kinds = *kinds, *(type(number) for value in given if value.__class__ is tuple for number in value)
    key, target = (verb, given, kinds), traced_function(f)
    made = (_made, f, verb, names, given, make, kind)
    shelf = known_shelf(target)
    if shelf is not None:
        return shelf.verb(key, *made)
    found = _shared(target, key, shares, *made)
    if found is None:
        return shelf_of(target).verb(key, *made)
    return found if type(found) is kind else kind(verb, f, dict(zip(names, given, strict=True)), found)


def serving(f: Callable, key: tuple, make: Callable[..., Callable], *rest) -> Callable:
    """Return what serves a verb's calls of a function: ``make(f, *rest)``, kept under the key."""
    target = traced_function(f)
    shelf = known_shelf(target)
    if shelf is not None:
        return shelf.verb(key, make, f, *rest)
    return _shared(target, key, True, make, f, *rest) or shelf_of(target).verb(key, make, f, *rest)


def _shared(target, key: tuple, shares: bool | str, make: Callable, f: Callable, *rest) -> Callable | None:
    """Return what serves a function's calls by the traces of another one; None if there is none.

    Parameters
    ----------
    target
        What is traced.
    key, make, rest
        As of `serving`.
    shares
        Whether the verb's calls take keywords, by which the values of variables are passed: `NAMED` for one
        that maps over other keywords.
    """
    if not shares or current() is not None or not may_share(target):
        return None
    family_of = imported("..caches.function_families", __package__).family_of
    found = family_of(target)
    if found is None:
        return None
    made: Any = shelf_of(found[1].function).verb(key, make, found[1].function, *rest)
    if found[1].is_whole:
        return made

    own = None  # what serves the function's calls once it has traces of its own

    def call(*args, **kwargs):
        nonlocal own
        if own is not None:
            return own(*args, **kwargs)

        def itself():
            return shelf_of(target).verb(key, make, f, *rest)(*args, **kwargs)

        # What the function refers to may have changed since the verb was given it.
        found = None if current() is not None else family_of(target)
        if found is None:
            return itself()
        family, model = found
        if shares == NAMED and model.has_parameters:
            return itself()
        if model.parts_with(target):
            own = shelf_of(target).verb(key, make, f, *rest)
            return own(*args, **kwargs)
        its = shelf_of(model.function).verb(key, make, model.function, *rest)
        return with_moving(family, model.keywords(target, kwargs), its, itself, args, kwargs)

    call.__dict__ = getattr(made.__call__, "__dict__", call.__dict__)  # what its calls have noted
    return call


def _made(f: Callable, verb: Callable, names, given, make: Callable[..., Callable], kind: type):
    """Return what a verb makes of a function, after a look at the options."""
    options = dict(zip(names, given, strict=True))
    _check_options(options)
    return kind(verb, f, options, make(f, *given))


def _check_options(options: dict) -> None:
    if not is_argnums(numbers := options.get("argnums", 0)):
        raise SpecError(f"argnums={numbers!r}: must be an int or a tuple of ints")
    for name in ("has_aux", "holomorphic"):
        if not isinstance(options.get(name, False), (int, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {options[name]!r}")


def with_moving(moving: Moving | Family, values: dict | None, call: Callable, plain: Callable, args, kwargs):
    """Serve a call with the values of variables among its keywords; by ``plain()`` where that fails.

    The function may do with a number what it cannot do with a traced one. If it has run when the call fails,
    as it has where its result is no number, what it did to what it refers to is undone.
    """
    if values is None:
        return plain()
    moving.undo = None
    try:
        return call(*args, **kwargs, **values)
    except Exception:
        moving.set_back(values)
        result = plain()  # raises what the function itself raises
        moving.refuse()
        return result


def is_argnums(numbers) -> bool:
    """Whether something is the number of an argument, or a tuple or list of such."""
    every = numbers if isinstance(numbers, (tuple, list)) else (numbers,)
    return all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in every)


Wrapper.register(MadeFunction)


def _made_again(verb: Callable, shipped: Shipped, options: dict):
    return verb(shipped.function, **options)
