"""Functions of NumPy and SciPy that nobody implemented for traced arrays run as copies, like the user's.

Many of these functions are Python over other functions: ``scipy.signal.bilinear``, or
``scipy.spatial.distance.mahalanobis``. What keeps them from running on traced arrays is what keeps the
user's functions from it: calls of ``np.asarray``, ``math.log`` or functions with an implementation of ours.
So a copy of such a function, in which these are replaced, runs where an argument is traced. Whatever converts
a traced value to a plain number still raises a `LeakError`: no derivative is lost without a word.
"""

from __future__ import annotations

import functools
import sys
import types

from ..errors import LeakError, UnsupportedOperationError
from ..late import imported
from ..numpy_api.registration import as_users_call
from ..trace import operations
from ..trace.library_kinds import Sparse
from ..trace.operands import find_trace, values_of
from ..trace.symbolic_sizes import has_size
from ..trace.trace import Trace, current, failing
from ..usercode.frames import where_in_user_code
from ..usercode.ownership import is_library_function, is_library_module, is_users_function
from .copies import Copies


class LibraryCopies(Copies):
    """The copies of a library's functions that are made for one trace."""

    def owns_function(self, function: types.FunctionType) -> bool:
        return is_library_function(function) or super().owns_function(function)

    def owns_module(self, module: types.ModuleType) -> bool:
        return is_library_module(module) or super().owns_module(module)

    def value(self, value, names=None):
        stand_in = super().value(value, names)
        if stand_in is value or not is_library_function(value) or hasattr(stand_in, "__numbatape_copy__"):
            return stand_in
        return _with_private_options(value, stand_in)


def _with_private_options(original, stand_in):
    """Return a stand-in that has an implementation of ours, and that takes a library's private keywords, too.

    A library calls its own functions with ``_no_deco=True``, say; then a copy of the function runs.
    """
    copy = library_copy(original)

    @functools.wraps(original)
    def call(*args, **kwargs):
        return (copy if any(name.startswith("_") for name in kwargs) else stand_in)(*args, **kwargs)

    return call


def _to_compute_with(found):
    """Return the stand-in for a module or a function that a library's function has chosen or made."""
    kind = type(found)
    if kind is not types.ModuleType and not (kind is types.FunctionType and is_library_function(found)):
        return found
    trace = current()
    copies = None if trace is None else trace.capture.library_copies
    return found if copies is None else copies.value(found)


def _with_copied_methods(result, trace, given):
    """Return what a copy has returned; if it is an object of the library, its methods run as copies, too.

    ``scipy.stats.pearsonr(x, y).confidence_interval()`` computes with what the object has kept. Objects that
    keep no traced value, and those that the caller gave, are left as they are: they live on after the trace.
    """
    kept, module = getattr(result, "__dict__", None), sys.modules.get(type(result).__module__)
    if type(kept) is not dict or module is None or not is_library_module(module):
        return result
    if find_trace(tuple(kept.values())) is None or any(result is x for x in given):
        return result
    for name, member in vars(type(result)).items():
        if type(member) is types.FunctionType and not name.startswith("_"):
            kept.setdefault(name, functools.partial(_call_method, member, trace, result))
    return result


def _call_method(member, trace, owner, *args, **kwargs):
    """Call the copy of a method."""
    trace.check_open()
    with failing(trace):
        return trace.capture.library_copies.function(member)(owner, *args, **kwargs)


def _around(given) -> Trace | None:
    """Return the trace whose values the user's functions among some arguments use; None if they use none."""
    trace, functions = current(), [x for x in given if type(x) is types.FunctionType]
    if trace is None or not functions:
        return None
    leak = trace.validity.leak
    try:
        used = imported(".opened", __package__).Opened("a library's function", functions).found
    except UnsupportedOperationError:  # the arguments use traced values in a way that is not followed further
        trace.validity.leak = leak
        return trace
    return trace if used else None


@functools.cache
def library_copy(original):
    """Return the stand-in for a library's function that has no other one, or None if it can't be copied.

    With a traced argument, the function's copy runs, else the function itself.
    """
    if type(original) is not types.FunctionType:
        return None  # a compiled function has no code that could be copied
    if not (is_library_function(original) or is_users_function(original)):
        return None
    call_original = as_users_call(original)

    @functools.wraps(original)
    def call(*args, **kwargs):
        """Call the original for plain arguments, and the library's copied code for traced ones."""
        given = (*args, *kwargs.values())
        sparse = next((x for x in given if isinstance(x, Sparse)), None)
        trace = find_trace(given) if sparse is None else sparse.values._trace
        if trace is None and has_size(given):
            trace = current()
        if trace is None:
            trace = _around(given)
        if trace is None:
            return _to_compute_with(call_original(*args, **kwargs))
        if trace.capture.library_copies is None:
            trace.capture.library_copies = LibraryCopies(*_tables())
        try:
            with failing(trace):
                found = trace.capture.library_copies.function(original)(*args, **kwargs)
                return _with_copied_methods(found, trace, given)
        except (LeakError, UnsupportedOperationError):
            raise
        except (TypeError, AttributeError) as error:
            # Compiled code that the copy calls has messages of its own for arguments that are no arrays.
            if sparse is None:
                call_original(*values_of(args), **values_of(kwargs))  # raises the function's own errors
            parts = f"{original.__module__}.{original.__name__}".split(".")
            name = ".".join(part for part in parts if not part.startswith("_"))
            raise UnsupportedOperationError(
                f"{name} of {'a traced array' if sparse is None else 'traced sparse entries'} at "
                f"{where_in_user_code()} is not supported: {error}"
            ) from error

    call.__numbatape_copy__ = True  # type: ignore[attr-defined]
    return call


def _tables():
    """Return the stand-ins that copies refer to, and what makes them again after an import."""
    again = functools.partial(operations.table, writes=True)
    return again(), again
