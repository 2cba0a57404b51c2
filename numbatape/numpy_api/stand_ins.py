"""Stand-ins, while tracing, for functions that do not use NumPy's protocols.

`numbatape.stand_ins.rebinding` hands these out. This does not import SciPy: implementations are registered
by name, and a stand-in is made when the user's code first refers to the original. Only then the file that
registers it is imported, so that a function of NumPy only does not wait for a hundred distributions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np

from ..late import imported
from ..tape.tape import F64
from ..trace import integers, operations
from ..trace import symbolic_sizes as sizes
from ..trace.array import TracedArray
from ..trace.complex_array import meets
from ..trace.operands import adopt, find_trace
from ..trace.plain_arrays import as_ndarrays, trace_of_plain, unflattened, wrap_result
from ..trace.trace import current, failing
from ..usercode.ownership import is_users_object_class, module_of
from .function_tables import MAKERS, OBJECTS, STAND_INS
from .registration import as_users_call, evaluated, run_composition

# NumPy gets arguments of these classes as they are.
USUAL = frozenset((TracedArray, np.ndarray, int, float, bool, str, tuple, type(None)))


# An array of another class in a list that is joined may have a say in what happens.
ENTRIES = frozenset((TracedArray, np.ndarray, np.float64, float, int))
# Functions that ask an object for its array, before anything else.
OF_OBJECTS = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
JOINING = (np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack)


def named_like(stand_in: Callable, original) -> Callable:
    """Return a stand-in with the name and the docstring of what it stands for."""
    # In SciPy 1.15 and 1.16 spherical harmonics and Legendre functions are callables without a name.
    stand_in.__name__ = stand_in.__qualname__ = getattr(original, "__name__", type(original).__name__)
    stand_in.__doc__ = original.__doc__
    return stand_in


def with_original(implementation: Callable, thawed: Callable | None = None) -> Callable:
    """Return what makes a stand-in whose implementation needs the original, such as a search or a class.

    Parameters
    ----------
    implementation
        ``implementation(original, *args, **kwargs)`` serves calls with a traced argument.
    thawed
        Returns the stand-in for what the original has returned in other calls, or None if it has none.
    """

    def make(original):
        def call(*args, **kwargs):
            args, kwargs = as_ndarrays(args), as_ndarrays(kwargs)
            trace = find_trace(args, tuple(kwargs.values()))
            if trace is None:
                found = original(*args, **kwargs)
                stand_in = None if thawed is None else thawed(found)
                return found if stand_in is None else stand_in
            with failing(trace):
                return implementation(original, *args, **kwargs)

        return named_like(call, original)

    return make


def without_protocol(original):
    """Return a function of a call's arguments that does what NumPy's protocol would do, in less time.

    The protocol gives a call to the first traced array among the arguments. If an argument of another class
    may have a say, the function returns NotImplemented: then NumPy has to be asked.
    """
    if original in (np.array, np.asarray):
        return lambda args, kwargs: NotImplemented if kwargs else operations.array_of_numbers(args)
    if not hasattr(original, "_implementation"):  # the function does not use NumPy's protocol
        return lambda args, kwargs: NotImplemented

    def of_arrays(args, kwargs):
        usual = args and type(args[0]) is TracedArray and USUAL.issuperset(map(type, args))
        if usual and not any([type(x) is tuple and find_trace(x) is not None for x in args]):
            return args[0].__array_function__(original, (), args, kwargs)
        return NotImplemented

    def of_lists(args, kwargs):
        if not args or type(args[0]) not in (list, tuple) or not USUAL.issuperset(map(type, args[1:])):
            return NotImplemented
        kinds = set(map(type, args[0]))
        if TracedArray not in kinds or not ENTRIES.issuperset(kinds):
            return NotImplemented
        traced = next(x for x in args[0] if type(x) is TracedArray)
        return traced.__array_function__(original, (), args, kwargs)

    return of_lists if original in JOINING else of_arrays


def with_own_array(original, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Return the arguments with the array that an object of the user's has, which may be a traced one.

    NumPy takes no other arrays than its own from ``__array__``. As in NumPy, an object that is asked for a
    copy is believed to have made one.
    """
    if not args or not is_users_object_class(kind := type(args[0])):
        return args, kwargs
    if not hasattr(kind, "__array__") or issubclass(kind, (np.ndarray, np.generic)):
        return args, kwargs
    if original is np.array and kwargs.get("copy", True):
        try:
            own = args[0].__array__(copy=True)
            kwargs = {**kwargs, "copy": None}
        except TypeError as error:
            if "copy" not in str(error):
                raise
            own = args[0].__array__()
    else:
        own = args[0].__array__()
    return (own, *args[1:]), kwargs


def stands_for(
    module: str, *names: str, run=run_composition, for_lists: bool = False, knows_sizes: bool = False
):
    """Register an implementation for functions of a module, by name.

    Parameters
    ----------
    run
        `run_composition`, `run_record`, or None for one that does not call the original first.
    for_lists
        Whether a traced array as the first argument may go to the original, which has NumPy's protocol.
    knows_sizes
        Whether the implementation takes sizes as they are; others get ints, which the tape relies on.
    """
    options = {"run": run, "for_lists": for_lists, "knows_sizes": knows_sizes}

    def register(implementation):
        for name in names:
            MAKERS[module][name] = functools.partial(stand_in, implementation=implementation, **options)
        return implementation

    return register


def class_that_makes(original: type, make):
    """Return the stand-in for a library's class: a class whose call makes stand-ins for its objects.

    It may stand in tests of types. A stand-in with an attribute ``_original`` counts as that object.
    """

    class Standing(type):
        def __call__(cls, *args, **kwargs):
            return make(*args, **kwargs)

        def __instancecheck__(cls, instance):
            return isinstance(getattr(instance, "_original", instance), original)

    return Standing(original.__name__, (), {"__doc__": original.__doc__, "__module__": original.__module__})


def made(module: str, name: str, original):
    """Return the stand-in for a function or an object of a module; import the file that defines it."""
    for file in STAND_INS[module][name]:
        imported(file)
    return MAKERS[module][name](original)


def stand_in_of_object(value):
    """Return the stand-in for an object that a library's class has made, or for such a class, or None."""
    module = value.__module__ if isinstance(value, type) else module_of(value)
    if module == "builtins" and (compiled := OBJECTS.get(f"builtins.{type(value).__name__}")) is not None:
        return imported(compiled).stand_in_of(value)  # SciPy's compiled classes do not all name a module
    if not isinstance(module, str) or not module.startswith("scipy."):
        return operations.users_distribution(value) if is_users_distribution(value) else None
    files = [file for start, file in OBJECTS.items() if module.startswith(start)]
    return imported(files[0]).stand_in_of(value) if files else None


def is_users_distribution(value) -> bool:
    """Whether a value is a distribution of a class of the user's, which extends one of ``scipy.stats``."""
    infrastructure = sys.modules.get("scipy.stats._distn_infrastructure")
    if infrastructure is None or not issubclass(type(value), infrastructure.rv_generic):
        return False
    return not module_of(value).startswith("scipy.")


def _number(x):
    """Return an argument of a function of ``math``, where a traced truth value is a number."""
    x = integers.lifted(x)
    if type(x) is TracedArray:
        if x._value.__class__ is bool:
            return operations.as_integer(x)
        if x._value.__class__ is np.bool_:
            return np.astype(x, np.float64)
    return x


def _of_floats(original, implementation):
    """Return what calls a function of ``math`` with floats in a third of the time, or returns NotImplemented.

    Programs with loops over numbers consist of such calls. Arguments of other kinds go the general way.
    """

    def call(args):
        values = []
        for x in args:
            kind = type(x)
            if kind is TracedArray:
                value = x._value
                if (value.__class__ is not float and value.__class__ is not np.float64) or x._family != F64:
                    return NotImplemented
                values.append(value)
            elif kind is float or kind is int:
                values.append(x)
            else:
                return NotImplemented
        trace = find_trace(args)
        if trace is None or trace.integers.met:
            return NotImplemented
        with failing(trace):
            try:
                value = original(*values)
            except (ValueError, OverflowError) as error:
                imported(".caught_errors", __package__).note_raised(original, implementation, args, {}, error)
                raise
            with np.errstate(all="ignore"):
                return adopt(implementation(*args), value)

    return call


def stand_in(
    original, implementation, run=run_composition, for_lists: bool = False, knows_sizes: bool = False
):
    """Return a function that calls the implementation for traced arguments, else the original.

    NumPy's own functions get plain arrays as ndarrays, so that results share memory where NumPy's do. Sizes
    are traced arguments for an implementation that knows them; others get ints, which the tape relies on.
    """
    traced = implementation if run is None else evaluated(original, implementation, run)
    of_numbers = original.__module__ == "math"
    iterates = original.__module__ in ("math", "statistics")

    of_floats = _of_floats(original, implementation) if of_numbers and run is run_composition else None
    call_original = as_users_call(original)
    protocol = for_lists or original in JOINING or original in (np.array, np.asarray)
    short_way = without_protocol(original) if protocol else None
    takes_objects = original in OF_OBJECTS
    numpys = (getattr(original, "__module__", None) or "numpy").partition(".")[0] == "numpy"

    def call(*args, **kwargs):
        """Call the implementation if an argument is traced, else the original; frequent cases come first."""
        if short_way is not None:
            found = short_way(args, kwargs)
            if found is not NotImplemented:
                return found
        if of_floats is not None and not kwargs:
            found = of_floats(args)
            if found is not NotImplemented:
                return found
        if of_numbers:
            if original.__name__ != "prod" and meets(args):
                raise TypeError("must be real number, not complex")
            args = tuple(map(_number, args))
        if iterates:
            args = tuple([list(x) if hasattr(type(x), "__next__") else x for x in args])
        args = unflattened(args)
        if takes_objects:
            args, kwargs = with_own_array(original, args, kwargs)
        if not USUAL.issuperset(map(type, (*args, *kwargs.values()))):
            if numpys and operations.has_labels(args):
                # The function reaches our implementation by NumPy's protocol.
                return original(*args, **kwargs)
            args, kwargs = operations.arrays_of(args), operations.arrays_of(kwargs)
        trace = find_trace(args, tuple(kwargs.values()))
        if trace is None and knows_sizes and sizes.has_size((*args, *kwargs.values())):
            trace = current()
        if trace is None:
            inner = trace_of_plain(args, kwargs) if numpys else None
            if inner is None:
                return call_original(*args, **kwargs)
            return wrap_result(inner, original(*as_ndarrays(args), **as_ndarrays(kwargs)), args, kwargs)
        # Functions that only read a plain array get the ndarray.
        if trace.integers.met:
            args, kwargs = operations.arguments(original, args, kwargs, knows_sizes)
        args, kwargs = as_ndarrays(args), {k: v if k == "out" else as_ndarrays(v) for k, v in kwargs.items()}
        with failing(trace):
            return traced(*args, **kwargs)

    return named_like(call, original)
