"""How implementations are registered: NumPy is called first, then instructions are recorded."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..tape.tape import CONSTANT, F32
from ..trace.array import TracedArray, new_traced
from ..trace.axes import count_of
from ..trace.complex_array import TracedComplex
from ..trace.operands import adopt, find_trace, values_of
from ..trace.plain_arrays import wrap
from ..trace.trace import CURRENT
from ..usercode.frames import UsersLine, not_supported
from .function_tables import REAL, full_name, register_form


def unsupported_argument(function, name: str, hint: str = "") -> UnsupportedOperationError:
    """Return the error for an argument, or for the value of one, that no implementation takes."""
    name_of = function if isinstance(function, str) else full_name(function)
    return not_supported(f"{name_of}(..., {name}) of a traced array", hint)


# ---- registration


def composes(*functions: Callable, complex: str | None = None, usual: Callable | None = None):
    """Register a composition of other functions.

    NumPy is called first: it raises its own errors, and its result is the value that the
    composition's result carries (they may differ in the last bits).

    Parameters
    ----------
    complex
        The implementation for complex arguments, see `function_tables.implements`.
    usual
        What serves most calls in less time, by the operations that NumPy's own function consists of: it gets
        the arguments first, and returns None for those that it is not made for.
    """
    return _registrar(functions, run_composition, complex, usual)


def records(*functions: Callable, complex: str | None = None, several: bool = False):
    """Register an implementation whose first argument is NumPy's own result.

    Parameters
    ----------
    several
        Whether it consists of many operations, so that it pays to repeat what it has recorded before.
    """
    return _registrar(functions, run_long_record if several else run_record, complex)


def at_first(usual: Callable) -> Callable:
    """Return what serves the first calls of a trace by ``usual``, and no later ones; see `composes`.

    What the composition has recorded before serves these in less time (`numbatape.numpy_api.repeated`).
    """

    @functools.wraps(usual)
    def call(*args, **kwargs):
        trace = CURRENT.get()
        if trace is None:
            return usual(*args, **kwargs)
        seen = trace.reused.compositions
        count = seen[usual] = seen.get(usual, 0) + 1
        return usual(*args, **kwargs) if count <= FIRST_CALLS else None

    return call


CONTAINERS = (list, tuple, dict)
FIRST_CALLS = 8  # For this many first calls of a trace, `at_first` avoids composing.
FLOAT64 = np.dtype(np.float64)


def run_composition(implementation, value, args, kwargs):
    """Run an implementation of NumPy's function, and return its result with NumPy's own value.

    Results without entries are constants, and small integers and float32 are computed as NumPy does.
    """
    kind = value.__class__
    if kind is np.ndarray:
        empty = not value.size and _has_no_entries(value)
    else:
        empty = kind in CONTAINERS and _has_no_entries(value)
    if empty and _reads_no_entries((*args, *kwargs.values())):
        return _constant(find_trace(*args, *kwargs.values()), value)
    if reads_small(args) or (kwargs and reads_small(kwargs.values())):
        with np.errstate(all="ignore"):
            return imported(".small_integers", __package__).composed(implementation, value, args, kwargs)
    if _reads_float32(args) or (kwargs and _reads_float32(kwargs.values())):
        if value.__class__ is float or getattr(value, "dtype", None) == np.float64:
            for narrow in (np.float16, np.float32):
                args, kwargs = (converted(tree, narrow, np.float64) for tree in (args, kwargs))
        # NumPy computes functions of float16 in float32, and rounds at the end.
        args, kwargs = (converted(tree, np.float16, np.float32) for tree in (args, kwargs))

    def run():
        with np.errstate(all="ignore"):  # NumPy's own call has given the warnings already
            return adopt(implementation(*args, **kwargs), value)

    return recurring(implementation, value, args, kwargs, run)


def recurring(implementation, value, args, kwargs, run: Callable):
    """Return what ``run()`` returns, perhaps without running it: see `numbatape.numpy_api.repeated`."""
    trace = CURRENT.get()
    if trace is None:
        return run()
    if implementation not in trace.reused.compositions:  # the first call is only noted
        trace.reused.compositions[implementation] = 0
        return run()
    return imported(".repeated", __package__).call(trace, implementation, value, args, kwargs, run)


def reads_small(args) -> bool:
    """Whether some argument, or a part of one, has integers beside int64, or constant truth values."""
    for x in args:
        kind = type(x)
        if kind is TracedArray:
            dtype = getattr(x._value, "dtype", FLOAT64)
            if dtype is FLOAT64 or dtype.kind not in "biu" or dtype == np.int64:
                continue
            if dtype.kind != "b" or x._level == CONSTANT:
                return True
        elif (kind is tuple or kind is list) and reads_small(x):
            return True
    return False


def _reads_float32(args) -> bool:
    """Whether some argument, or a part of one, is traced with cells of float32, which float16 has, too."""
    for x in args:
        kind = type(x)
        if kind is TracedArray:
            if x._family == F32:
                return True
        elif kind is tuple or kind is list:
            if _reads_float32(x):
                return True
        elif kind is dict and _reads_float32(x.values()):
            return True
    return False


def _has_no_entries(value) -> bool:
    """Whether a result of NumPy's is an array without entries, or consists of such arrays.

    Read-only views do not count (``np.broadcast_to``): a constant could be written to.
    """
    if value.__class__ is np.ndarray:
        return value.size == 0 and value.dtype.kind in "fc" and value.flags.writeable
    return value.__class__ in CONTAINERS and bool(value) and all(map(_has_no_entries, value))


def _reads_no_entries(args) -> bool:
    """Whether no traced argument has an entry; their sizes are then pinned.

    A result without entries is a constant then, and needs no implementation: many of them combine entries in
    ways that have no meaning without any (mirroring an image at its border, stacking the results of rows).
    """
    found = []
    for x in args:
        if x.__class__ is list or x.__class__ is tuple:
            if not _reads_no_entries(x):
                return False
        elif type(x) is TracedArray or type(x) is TracedComplex:
            found.append(x)
        elif hasattr(x, "_trace") or (np.size(x) and getattr(x, "dtype", None) in _INTEGERS):
            return False  # an integer may decide the shape of the result
    if any([np.size(values_of(x)) for x in found]):
        return False
    for x in found:
        count_of(x, range(x.ndim))
    return True


_INTEGERS = tuple(map(np.dtype, np.typecodes["AllInteger"]))


def _constant(trace, value):
    if value.__class__ is np.ndarray:
        return wrap(trace, value.copy())._as_traced()  # a copy, because the function may write to it
    return value.__class__([_constant(trace, part) for part in value])


def converted(tree, old, new):
    """Return arguments with traced numbers of one dtype cast to another, in which NumPy computes."""
    kind = type(tree)
    if kind is TracedArray:
        return np.astype(tree, new) if tree._family == F32 and tree.dtype == old else tree
    if kind is list or kind is tuple:
        return kind([converted(item, old, new) for item in tree])
    if kind is dict:
        return {key: converted(item, old, new) for key, item in tree.items()}
    return tree


def run_record(implementation, value, args, kwargs):
    return implementation(value, *args, **kwargs)


def run_long_record(implementation, value, args, kwargs):
    return recurring(implementation, value, args, kwargs, lambda: implementation(value, *args, **kwargs))


def sees(*functions: Callable, complex: str | None = None):
    """Register a composition whose result is a view, of which the layout follows from that of the argument.

    The layout is worked out once for all arrays that have one layout. Where NumPy makes a copy, the
    composition may do so, too.
    """

    def decorate(implementation):
        for function in functions:
            usual = _by_layout(function, implementation)
            _registrar((function,), run_composition, complex, usual)(implementation)
        return implementation

    return decorate


def _by_layout(function, implementation):
    """Return what serves arrays and options that consist of ints, None and "C"; see `composes` and `sees`."""

    def view(a, *options, **named):
        """Return the view, by the layout that was worked out before; None for what this is not made for."""
        if named or type(a) is not TracedArray or a._value.__class__ is not np.ndarray or not a._value.size:
            return None
        for option in options:
            kind = type(option)
            if kind is tuple:
                if not INTS.issuperset(map(type, option)):
                    return None
            elif kind is not int and option is not None and not (kind is str and option == "C"):
                return None
        value = function(a._value, *options)
        trace, number = a._trace, a._id
        storage, offset, layout = trace.tape.values[number]
        place = function, layout, options
        seen_as = trace.tape.rearranged.get(place)
        if seen_as is None or seen_as < 0:
            made = adopt(implementation(a, *options), value)
            if seen_as is None:
                *same, found = trace.tape.values[made._id]
                trace.tape.rearranged[place] = found if same == [storage, offset] else -1
            return made
        if seen_as != layout:
            number = trace.tape.seen_as(storage, offset, seen_as)
        return new_traced(trace, value, number, a._level, a._family)

    return view


INTS = frozenset((int,))


def _registrar(functions, run, complex, usual=None):
    def decorate(implementation):
        for function in functions:
            REAL.register((function,), evaluated(function, implementation, run, usual))
        register_form(functions, complex)
        return implementation

    return decorate


def as_users_call(function):
    """Return a library's function that is called from the user's line, which SciPy's warnings then name."""
    if not (getattr(function, "__module__", None) or "").startswith("scipy."):
        return function
    return lambda *args, **kwargs: UsersLine().call(function, *args, **kwargs)


def evaluated(function, implementation, run, usual=None):
    """Return a function of traced arguments that calls NumPy's ``function`` on their values first.

    Parameters
    ----------
    usual
        See `composes`.
    """
    accepted, takes_any = _keywords(implementation)
    call_function = as_users_call(function)

    @functools.wraps(implementation)
    def call(*args, **kwargs):
        if usual is not None:
            found = usual(*args, **kwargs)
            if found is not None:
                return found
        if kwargs:
            # The option allows NumPy to work in the argument's memory, which nothing here does.
            kwargs.pop("overwrite_input", None)
        values = [x._value if type(x) is TracedArray else values_of(x) for x in args]
        try:
            value = call_function(*values, **(values_of(kwargs) if kwargs else kwargs))
        except (ValueError, OverflowError) as error:  # `LinAlgError` is a `ValueError`
            imported(".caught_errors", __package__).note_raised(function, implementation, args, kwargs, error)
            raise
        for name in kwargs:
            if name not in accepted and not takes_any:
                raise unsupported_argument(function, name)
        return run(implementation, value, args, kwargs)

    call.recorder = implementation if run is run_record else None  # type: ignore[attr-defined]
    return call


def recorder_of(implementation) -> Callable | None:
    """Return the function of NumPy's value and of traced operands that a registered one ends in, or None."""
    return getattr(implementation, "recorder", None)


def _keywords(implementation) -> tuple[frozenset[str], bool]:
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(names), bool(code.co_flags & inspect.CO_VARKEYWORDS)
