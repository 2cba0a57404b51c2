"""`function`, `guarded` and `checkpoint`: functions that tapes call by one instruction."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..capture.holders import Wrapper
from ..errors import NumbatapeError, UnsupportedOperationError
from ..stand_ins.opened import Opened
from ..threads import survives_fork
from ..trace import operations, pytrees
from ..trace.array import TracedArray
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import sample_of, value_of
from ..trace.trace import Trace, current, failing
from .call_arguments import Arguments, StaticNames, kind_of
from .emitted_calls import call, inputs_of
from .known_bodies import KnownBodies

MOST_SIGNATURES = 64
MARK = "__numbatape_scope__"
IN_PLACE = object()
_all: weakref.WeakSet = weakref.WeakSet()


class Function:
    """A function that is traced once for each signature. Made by `function`, `guarded` and `checkpoint`."""

    def __init__(self, f: Callable, static_argnums=(), static_argnames=(), key=None, recompute: bool = False):
        if not callable(f):
            raise TypeError(f"a sub-tape is made of a function, got {f!r}")
        functools.update_wrapper(self, f)
        self._given = static_argnums, static_argnames, key, recompute
        self._static = StaticNames(f, static_argnums, static_argnames)
        self._key, self._recompute = key, recompute
        self._known: OrderedDict[tuple, KnownBodies] = OrderedDict()
        self._lock = survives_fork(threading.RLock())
        _all.add(self)

    def __call__(self, *args, **kwargs):
        trace = current()
        if trace is None:
            return self.__wrapped__(*args, **kwargs)
        with failing(trace):
            result = self._in_trace(trace, args, kwargs)
            if result is IN_PLACE and self._key is not None:
                return self._vouched(trace, args, kwargs)
        # What the function raises itself hangs on its branches, which have guards here.
        return self._in_place(args, kwargs) if result is IN_PLACE else result

    def __get__(self, instance, owner=None):
        """Bind to an instance, as a function that is an attribute of a class does."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<sub-tape {getattr(self, '__qualname__', repr(self.__wrapped__))}>"

    def __reduce__(self):
        return _made_again, (self.__wrapped__, *self._given)

    @property
    def functions(self) -> list:
        """The user's functions in it."""
        return [self.__wrapped__] if self._key is None else [self.__wrapped__, self._key]

    def of(self, f: Callable) -> Function:
        """Return the same of another function."""
        return Function(f, *self._given)

    def clear(self) -> None:
        """Forget all traces."""
        with self._lock:
            self._known.clear()

    # ---- while tracing

    def _in_trace(self, trace: Trace, args, kwargs):
        """Return the result of a call while tracing, one instruction; IN_PLACE where no sub-tape serves it.

        A call that no known trace of the sub-tape fits has it traced once more, and is then tried again.
        """
        arguments = self._static.arguments(args, kwargs)
        opened = self._opened()
        captured = [] if opened is None else [as_ndarrays(value) for value in opened.found]
        if opened is None or not (arguments.is_traced or any(type(x) is TracedArray for x in captured)):
            return IN_PLACE
        known = self._bodies(trace, arguments, opened)
        may_raise = known.raises and not trace.in_loop
        if known.in_place or may_raise or known.is_recording or _differs_in(trace, known):
            return IN_PLACE
        leaves = [*arguments.leaves, *captured]
        emitted = None
        for _ in range(2):
            if known.bodies:
                emitted = emitted or inputs_of(trace, leaves, known.kinds)
                try:
                    result = call(trace, known, emitted, self._recompute)
                except (ArithmeticError, LookupError, ValueError):  # LinAlgError is a ValueError
                    break  # the function raises it again, or catches it
                if result is not None:
                    return result[0]
                if known.in_place:
                    break
            given = [_number(leaf) for leaf in leaves]
            try:
                known.record_met(given, trace.capture.environment)
            except NumbatapeError:
                raise
            except Exception:
                if trace.in_loop:
                    raise
                break  # it raises again in place, behind guards that say when, and its caller may catch that
            if known.in_place:
                break
        return IN_PLACE

    def _in_place(self, args, kwargs):
        """Call the function as any other one."""
        return operations.rebind(self.__wrapped__)(*args, **kwargs)

    def _vouched(self, trace: Trace, args, kwargs):
        """Call the function as any other one, without guards on its branches."""
        function, key = operations.rebind(self.__wrapped__), operations.rebind(self._key)
        return _vouched(trace, function, key, args, kwargs)

    def _opened(self) -> Opened | None:
        """Return the traced values that the function captures; None if they cannot be arguments of it."""
        trace = current()
        assert trace is not None
        leak = trace.validity.leak
        try:
            return Opened(repr(self), self.functions if self._key else self.__wrapped__, arrays=True)
        except UnsupportedOperationError:
            trace.validity.leak = leak
            return None

    def _bodies(self, trace: Trace, arguments: Arguments, opened: Opened) -> KnownBodies:
        """Return the traces for a signature, as long as what the function captures is what it was."""
        kinds = [kind_of(as_ndarrays(value)) for value in opened.found]
        key = arguments.key, tuple(kinds), trace.strong, trace.values
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.is_stale:
                known = None
            if known is None:
                known = self._known[key] = KnownBodies(
                    getattr(self, "__qualname__", repr(self.__wrapped__)),
                    _runner(self.__wrapped__, self._key, opened),
                    opened,
                    self.functions,
                    arguments,
                    kinds,
                    (trace.strong, trace.values),
                    _is_local(self.__wrapped__) or bool(kinds),
                )
            self._known.move_to_end(key)
            while len(self._known) > MOST_SIGNATURES:
                self._known.popitem(last=False)
        return known


def _made_again(f, static_argnums, static_argnames, key, recompute) -> Function:
    return Function(f, static_argnums, static_argnames, key, recompute)


Wrapper.register(Function)


def clear() -> None:
    """Forget the traces of all sub-tapes."""
    for each in list(_all):
        each.clear()


def _number(leaf):
    """Return the number of a leaf in this call, of the class that the function sees."""
    if type(leaf) is TracedInteger:
        return leaf._value
    value = value_of(leaf)
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_local(function) -> bool:
    """Whether a function was made while tracing, and will be made again in the next trace."""
    return MARK in getattr(function, "__globals__", ())


def _differs_in(trace: Trace, known: KnownBodies) -> bool:
    """Whether the function refers to something that is not what it was for the function that calls it.

    The trace of the caller has copies of captured containers, arrays and globals, to which the caller writes.
    """
    if trace.capture.copies is not None and known.reads(trace.capture.copies.assigned):
        return True
    changed = set() if trace.capture.arrays is None else trace.capture.arrays.written()
    for original, made, _, now, holder in trace.capture.containers:
        parts = holder.parts(made)
        if len(parts) != len(now) or any(a is not b for a, b in zip(parts, now, strict=True)):
            changed.add(id(original))
    return bool(changed) and known.refers_to(changed)


def _runner(function: Callable, key: Callable | None, opened: Opened) -> Callable:
    """Return ``run(captured, *args, **kwargs)``, which calls a function with other captured values."""

    def run(captured, *args, **kwargs):
        its, own = function, key
        if captured:
            filled = opened.filled(captured)
            its, own = filled if own is not None else (filled, None)
        its, own = operations.rebind(its), own and operations.rebind(own)
        if own is None:
            return its(*args, **kwargs)
        trace = current()
        assert trace is not None
        return _vouched(trace, its, own, args, kwargs)

    return run


def _vouched(trace: Trace, function: Callable, key: Callable, args, kwargs):
    """Call a function for which a user's key stands for its guards; the key's value becomes guards."""
    for leaf in pytrees.leaves(key(*args, **kwargs)):
        _rely_on(trace, leaf)
    around, trace.validity.vouched = trace.validity.vouched, True
    try:
        return function(*args, **kwargs)
    finally:
        trace.validity.vouched = around


def _rely_on(trace: Trace, leaf) -> None:
    """Record guards on all entries of a value."""
    if type(leaf) is TracedInteger:
        leaf.settled()
    elif type(leaf) is TracedArray:
        for entry in [leaf] if not leaf.ndim else [leaf.reshape(-1)[k] for k in range(sample_of(leaf).size)]:
            value = entry._value
            kind = {"b": "bool", "f": "float"}.get(np.asarray(value).dtype.kind, "int")
            trace.guard(entry, kind, {"bool": bool, "float": float, "int": int}[kind](value))


def function(
    f: Callable | None = None,
    *,
    static_argnums: int | Sequence[int] | None = (),
    static_argnames: str | Sequence[str] | None = (),
) -> Any:
    """Make a function a sub-tape: traced once for each signature, and called by one instruction.

    Tapes grow with the number of operations that a function does. A sub-tape is recorded apart, once for each
    structure, shapes and dtypes of its arguments, and every tape that calls it has one instruction for the
    call: a thousand calls hold its operations once. Derivatives of any order are sub-tapes, too. Outside of
    any trace it is the function itself.

    Parameters
    ----------
    f : callable
        The function. It may use traced values and arrays from outside, call other sub-tapes, contain loops,
        and branch: each path that it takes is traced once, and a call runs the one that its numbers take.
    static_argnums : int or sequence of int
        Positions of arguments that select a trace by their value, which is hashable. Text, None, booleans,
        functions and other objects that are neither numbers nor arrays do so without being named.
    static_argnames : str or sequence of str
        The same, by names.

    Returns
    -------
    callable
        The function; without ``f``, a decorator.

    Raises
    ------
    SpecError
        If there is no argument of a given position or name. From a call: a static argument is traced, or has
        no hash.
    TypeError
        If ``f`` is not callable.

    Notes
    ----- What the function captures (arrays, numbers, objects) is part of a signature: when it changes, the
    function is traced again. Side effects such as an entry appended to a list happen when it is traced. Where
    one trace cannot stand for all calls (the function writes to its arguments, returns one of them, or stores
    traced values), each call is recorded in place, as that of any other function.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> @nt.function
    ... def step(x, rate):
    ...     return x - rate * np.sin(x) if x > 0 else x
    >>> def f(x):
    ...     for _ in range(100):
    ...         x = step(x, 0.1)
    ...     return x
    >>> float(nt.grad(f)(-2.0)), len(nt.prepare_gradient_cache(f, 1.0).tape.calls)
    (1.0, 100)
    """
    if f is None:
        return functools.partial(function, static_argnums=static_argnums, static_argnames=static_argnames)
    return Function(f, static_argnums, static_argnames)


def guarded(f: Callable, key: Callable) -> Function:
    """Make a function a sub-tape whose traces are chosen by a key of the user's.

    A trace holds for all arguments with the same ``key(*args)``. The branches of ``f`` are not checked
    otherwise: the key says which path it takes.

    Parameters
    ----------
    f : callable
        The function, as for `function`.
    key : callable
        ``key(*args)`` → a truth value, a number, or a container of them. It gets the same arguments as ``f``.

    Returns
    -------
    callable
        The function.

    Raises
    ------
    TypeError
        If the function or the key is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> f = nt.guarded(lambda x: x[0] ** 3 if x[0] > 1 else x[0] ** 2, key=lambda x: x[0] > 1)
    >>> [float(nt.grad(f)(np.array([x]))[0]) for x in (0.5, 2.0)]
    [1.0, 12.0]
    """
    if not callable(key):
        raise TypeError(f"nt.guarded: the key must be callable, got {key!r}")
    return Function(f, key=key)


def checkpoint(f: Callable) -> Function:
    """Make a function a sub-tape that a reverse sweep computes again, instead of keeping what is inside.

    The sweep keeps the arguments and the result of each call only, and computes the rest once more when it
    needs it: less memory, for the time of one more forward sweep.

    Parameters
    ----------
    f : callable
        The function, as for `function`.

    Returns
    -------
    callable
        The function.

    Raises
    ------
    ForeignTraceError, LeakError, UnsupportedOperationError
        From a call, while it is traced: what `function` raises.
    TypeError
        If ``f`` is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> import numbatape as nt
    >>> layer = nt.checkpoint(lambda x: np.tanh(np.exp(-x)))
    >>> nt.grad(lambda x: np.sum(layer(layer(x))))(np.zeros(2)).round(4)
    array([0.1589, 0.1589])
    """
    return Function(f, recompute=True)
