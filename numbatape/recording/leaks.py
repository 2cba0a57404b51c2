"""Messages for traced values that would lose their derivatives: the cause, and what to do instead.

Code that calls ``float(x)`` or ``np.asarray(x)`` has got a traced value where only plain numbers work. The
stack and the source tell which code that is: a solver that calls back, a function of a library, a function
of the user that runs without being copied, or the user's own ``float(x)``.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import linecache
import re
import sys
import types

from ..capture.conversions import CALLS, as_numpys
from ..capture.reach import MARK
from ..errors import LeakError, UnsupportedOperationError
from ..numpy_api.function_tables import REAL
from ..numpy_api.stand_ins import STAND_INS
from ..stand_ins.rebinding import table
from ..tape.tape import ACTIVE, shown_name
from ..trace.methods import MASKED
from ..trace.pytrees import LABELLED
from ..usercode.frames import user_frame, where_in_user_code
from ..usercode.ownership import PACKAGE, is_core, is_users_file
from ..usercode.running_solver import RULES, SOLVERS, implicit, public_name, solver_above

INTERPOLATORS = tuple(
    f"scipy.interpolate.{name}" for name in ("CubicSpline", "make_interp_spline", "RegularGridInterpolator")
)
# What to use in place of an unsupported function, class or module, where its name does not suggest it.
INSTEAD = {
    "astropy.units": "compute with numbers: factors such as u.km.to(u.m), and q.to_value(u.m) of data",
    "scipy.differentiate.derivative": "use nt.derivative",
    "scipy.differentiate.hessian": "use nt.hessian",
    "scipy.differentiate.jacobian": "use nt.jacobian",
    "scipy.integrate.nsum": "use np.sum of the terms that count, and scipy.integrate.quad for the rest",
    "scipy.integrate.tanhsinh": "use scipy.integrate.quad",
    "scipy.interpolate.BPoly": "use scipy.interpolate.PPoly, or a spline such as CubicHermiteSpline",
    "scipy.interpolate.CloughTocher2DInterpolator": "use LinearNDInterpolator or RBFInterpolator",
    "scipy.interpolate.NdPPoly": "use scipy.interpolate.PPoly along each axis, or RegularGridInterpolator",
    "scipy.interpolate.insert": "use splev of the spline as it is: it has the same values",
    "scipy.interpolate.splprep": "use scipy.interpolate.splrep of each coordinate over a parameter",
    "scipy.ndimage.generic_filter": "use np.pad and np.lib.stride_tricks.sliding_window_view",
    "scipy.ndimage.generic_filter1d": "use np.pad and np.lib.stride_tricks.sliding_window_view",
    "scipy.ndimage.geometric_transform": "use map_coordinates at the places that the mapping finds",
    "scipy.optimize.approx_fprime": "use nt.grad, or nt.jacobian",
    "scipy.optimize.check_grad": "use nt.grad",
    "scipy.signal.symiirorder1": "use scipy.signal.lfilter or filtfilt",
    "scipy.signal.symiirorder2": "use scipy.signal.lfilter or filtfilt",
}
# What compiled code says when it is given a traced value: messages of Python, NumPy, pybind11, JAX and
# PyTorch.
TAKES_PLAIN = "bytes-like object|ndarray|incompatible function arguments|JAX (type|value)|Tensor"
OF_CYTHON = "No matching signature found"  # what a function of fused types says, without a name
CONVERSIONS = (float, int, complex, bool, hash)
# The codes of what stands for ``float`` and ``np.float64`` in the user's code.
STAND_FOR_CALLS = {function.__code__ for function in (*CALLS.values(), as_numpys)}


def leak(x, what: str, hint: str) -> LeakError:
    """Return the error for a traced value where plain numbers are needed.

    Parameters
    ----------
    x
        The traced value.
    what
        What was done with it, as a user would write it.
    hint
        What to do instead, where the user's own code did it.
    """
    # Frame 0 is this function. Frames 1 and 2 are the traced array's methods that lead here (`_leak` and
    # `__array__`, say), so frame 3 is what converts.
    before, trial = x._trace.validity.leak, _is_trial(sys._getframe(3))
    error = LeakError(_cause(x, what, hint))
    x._trace.validity.leak = before or (None if trial else error)
    return error


def _is_trial(frame) -> bool:
    """Whether numbatape itself tried the conversion to see what happens, perhaps by way of NumPy."""
    while frame is not None and is_core[frame.f_code.co_filename]:
        if frame.f_code in STAND_FOR_CALLS:
            return False
        if frame.f_code.co_filename.startswith(PACKAGE):
            return True
        if MARK in frame.f_globals:
            return False  # a library's function that runs as a copy
        frame = frame.f_back
    return False


def _cause(x, what: str, hint: str) -> str:
    """Return what made plain numbers of a traced value, where, and what to do instead.

    The first case that applies is the most specific one: a function that is known not to work, numbers
    without a derivative, a solver, a library's function, and last any conversion.
    """
    user, place = user_frame(), where_in_user_code()
    plain = f"computes with plain numbers, which would drop the derivative of a traced value ({what})"
    own_way = f"give its derivative by nt.primitive ({RULES}), or pass nt.stop_gradient(x) if none is needed"
    text, function = _call_at(user)
    library = _library_below(user)
    for name in (_full_name(function), library):
        for refused in INSTEAD:
            if f"{name}.".startswith(f"{refused}."):
                return f"{refused} at {place} is not supported: it {plain}; {INSTEAD[refused]}"
    if x._level != ACTIVE and "asarray" in what:
        return (
            f"{library or what} at {place} reads numbers that depend on the arguments, such as indices: no "
            f"derivative is lost, but the tape would keep these numbers ({what}); take them out one by one "
            "(int(k) becomes a guard), or stay with NumPy's functions"
        )
    solver = solver_above()
    if solver:
        return f"{solver} at {place} {plain}; {implicit(solver)}"
    if MARK not in user.f_globals and (_has_stand_in(function) or _is_scipys(library)):
        return (
            f"{text or library} at {place} {plain}, for {user.f_code.co_qualname} runs as it is: the trace "
            f"does not reach it{_way_to(user)}. `import numbatape.numpy as np` in its module (and use "
            "np.log(x) for math.log(x)), or refer to it by a name, an attribute or a container"
        )
    if library and (package := _labelled_below(user)):
        return (
            f"{library} at {place} {plain}; use the arrays of {package}'s objects (`.to_numpy()`), or pass "
            f"these to the function as arguments; {own_way}"
        )
    if library:
        hidden = library.endswith(".__call__") or "<locals>" in library  # a decorator's function
        name = text if text and hidden else library.removesuffix(".__init__")
        return (
            f"{name} at {place} is a function of a library that numbatape does not know; it {plain}"
            f"{_close_to(library)}; {own_way}"
        )
    if text and function not in CONVERSIONS and not isinstance(function, types.FunctionType):
        # Compiled code, which takes plain floats whatever the user writes.
        advice = own_way if what == "float(x)" else f"{hint}; {own_way}"
        name = text if function is None else _full_name(function) or text
        return f"{text} at {place} {plain}{_close_to(name)}; {advice}"
    return f"{what} at {place} would drop the derivative of a traced value; {hint}"


def explained(trace, error):
    """Return the error for a trace that an exception ended: the leak that caused it, if there was one.

    Code in C raises errors of its own instead. The message names the solver in which an error occurred.
    """
    cause = error
    while cause is not None and not isinstance(cause, LeakError):
        cause = cause.__cause__
    if cause is not None:
        return cause  # NumPy's own error for ``a[0] = x``, and errors of pandas
    if trace.validity.leak is not None and error is not trace.validity.leak:
        return trace.validity.leak
    compiled = _of_unbound_method(error) or _of_compiled_code(error) or _of_array_method(error)
    compiled = compiled or _of_numbers_method(error)
    if compiled is not None:
        return compiled
    step, solver = error.__traceback__, ""
    while step is not None and not solver:
        if step.tb_frame.f_globals.get("__name__", "").startswith(SOLVERS):
            solver = public_name(step.tb_frame)
        step = step.tb_next
    if solver and isinstance(error, UnsupportedOperationError) and "Implicit functions" not in str(error):
        error.add_note(f"this is inside of {solver}; {implicit(solver)}")
    return error


def _of_unbound_method(error) -> UnsupportedOperationError | None:
    """Return the error for ``np.ndarray.dot(x, y)``, which takes arrays of NumPy's own class only."""
    found = re.match(r"descriptor '(\w+)' for 'numpy.ndarray' objects doesn't apply to a '(\w+)'", str(error))
    if type(error) is not TypeError or found is None or found[2] not in ("TracedArray", "PlainArray"):
        return None
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    code, name = step.tb_frame.f_code, found[1]
    unsupported = UnsupportedOperationError(
        f"np.ndarray.{name} of a traced array at {shown_name(code.co_filename)}:{step.tb_lineno} in "
        f"{code.co_qualname} is not supported; call the array's own method, x.{name}(...)"
    )
    unsupported.__cause__ = error
    return unsupported


def _of_compiled_code(error) -> UnsupportedOperationError | None:
    """Return the error for compiled code that takes arrays of NumPy's own class only, and says so itself."""
    said = str(error).strip()
    # Python says other things of its operators and functions, such as that an array is not callable.
    named = said == OF_CYTHON or (
        re.search(r"\b(Traced|Plain)(Array|Complex)\b", said) and re.search(TAKES_PLAIN, said)
    )
    if type(error) not in (TypeError, ValueError) or not (named or said.endswith("has no len()")):
        return None
    step, called = error.__traceback__, None
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_core[file] and file.endswith(".py"):
            called = step
        step = step.tb_next
    if called is None or not (named or _takes_sequences(called.tb_frame)):
        return None
    place = f"{shown_name(called.tb_frame.f_code.co_filename)}:{called.tb_lineno}"
    unsupported = UnsupportedOperationError(
        f"compiled code that {public_name(called.tb_frame)} calls at {place} takes plain arrays only, and "
        f"would drop the derivative of a traced one ({said}); give its derivative by nt.primitive "
        f"({RULES}), or use NumPy's functions"
    )
    unsupported.__cause__ = error
    return unsupported


def _place_of(error) -> str:
    """Return the last place in the user's code that an error came through."""
    step, place = error.__traceback__, ""
    while step is not None:
        frame = step.tb_frame
        if is_users_file(frame.f_code.co_filename, frame.f_globals.get("__name__")):
            place = f"{shown_name(frame.f_code.co_filename)}:{step.tb_lineno} in {frame.f_code.co_qualname}"
        step = step.tb_next
    return place


def _of_numbers_method(error) -> UnsupportedOperationError | None:
    """Return the error for ``(0.3).__lt__(x)``, whose answer says that it knows Python's numbers only."""
    if not re.search(
        r"\bNotImplemented(Type)?\b|^descriptor '__\w+__' requires a '(int|float)' object", str(error)
    ):
        return None
    place = _place_of(error)
    unsupported = UnsupportedOperationError(
        f"a method of Python's numbers at {place} knows no traced values ({error}); write the operator: "
        "0.3 < x in place of (0.3).__lt__(x)"
    )
    unsupported.__cause__ = error
    return unsupported


def _of_array_method(error) -> UnsupportedOperationError | None:
    """Return the error for ``np.exp(obj)`` where ``obj.__array__`` gives a traced array."""
    if type(error) is not ValueError or "object __array__ method not producing an array" not in str(error):
        return None
    place = _place_of(error)
    unsupported = UnsupportedOperationError(
        f"NumPy converts an object by its __array__ at {place}, and takes no traced array from that method; "
        "write np.asarray(obj) there"
    )
    unsupported.__cause__ = error
    return unsupported


def _takes_sequences(frame) -> bool:
    """Whether a frame called a library's compiled function, which took a traced number for a sequence.

    PyTorch's ``torch.tensor(x)`` asks for the length of each entry, because it has the class of an array.
    """
    function = _call_at(frame)[1]
    return isinstance(function, types.BuiltinFunctionType) and function is not len


def _library_below(user) -> str:
    """Return the name of the library's function that the user's code called and that did it, or ""."""
    frame, found = sys._getframe(1), ""
    while frame is not None and frame is not user:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            found = public_name(frame)
        frame = frame.f_back
    return found


def _labelled_below(user) -> str:
    """Return the package of arrays with labels that the user's code called, or ""."""
    frame = sys._getframe(1)
    while frame is not None and frame is not user:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in LABELLED:
            return package
        frame = frame.f_back
    return ""


def _call_at(frame) -> tuple[str, object]:
    """Return what a frame is calling, as text of its source, and the function if its names tell."""
    code = frame.f_code
    # CPython has a position for each unit of bytecode, of two bytes; ``f_lasti`` counts bytes.
    position = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, start, end = position
    if None in position:
        return "", None
    lines = [linecache.getline(code.co_filename, k, frame.f_globals).encode() for k in range(first, last + 1)]
    if not all(lines):
        return "", None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        tree = ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except SyntaxError:
        return "", None
    if not isinstance(tree, ast.Call):
        return "", None
    return ast.unparse(tree.func), _value_of(tree.func, frame)


def _value_of(node, frame):
    """Return the value of a dotted name of modules and functions in a frame; None for other expressions."""
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
    if isinstance(node, ast.Attribute):
        owner = _value_of(node.value, frame)
        if isinstance(owner, types.ModuleType):
            return getattr(owner, node.attr, None)
    return None


def _has_stand_in(function) -> bool:
    return function is not None and table(writes=True).stand_in(function) is not None


def _full_name(function) -> str:
    """Return the public name of a function or class, or of an object's class."""
    owner = function if hasattr(function, "__qualname__") else type(function)
    module = [part for part in (owner.__module__ or "").split(".") if not part.startswith("_")]
    return ".".join([*module, owner.__qualname__]) if module else ""


def _is_scipys(library: str | None) -> bool:
    """Whether a function of SciPy was met, which is known where the trace reaches the call."""
    return bool(library) and library.startswith("scipy.")  # type: ignore[union-attr]


def _way_to(frame) -> str:
    """Return how code that is not copied was called by code that is."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    if caller is None:
        return ""
    if not is_users_file(caller.f_code.co_filename, caller.f_globals.get("__name__")):
        return f" through {public_name(caller)}"
    text, _ = _call_at(caller)
    place = f"{shown_name(caller.f_code.co_filename)}:{caller.f_lineno} in {caller.f_code.co_qualname}"
    return f" through {text or 'what'} at {place}"


def _close_to(name: str) -> str:
    """Return supported functions that may do the same: those with similar names."""
    if name.startswith("scipy.interpolate."):  # a name says little about what an interpolator can do
        return "; supported and close, for traced points and traced values: " + ", ".join(INTERPOLATORS)
    if name.startswith("numpy.ma."):
        return f"; {MASKED}"
    import difflib  # Only an error needs this import.

    known = {f"{module}.{each}" for module, names in STAND_INS.items() for each in names}
    known |= {f"numpy.{each}" for each in REAL.files}
    near = [each for each in difflib.get_close_matches(name, sorted(known), 3, 0.75) if each != name]
    return f"; supported and close: {', '.join(near)}" if near else ""
