"""The tables of NumPy's functions: the implementations that run where an argument is traced.

A function is registered once, by the decorators of this file and of `registration`; the same registration
says what serves complex numbers. A topic's file is imported when one of its functions is first called;
`numbatape.recording.contents` announces the names that each file registers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from ..late import imported

PARTS = ("linalg", "fft", "scimath")  # modules of NumPy whose functions are announced with the module's name


def name_of(function) -> str:
    """Return the name under which a function of NumPy's is announced: ``sum``, ``linalg.solve``."""
    # NumPy 2.0 names modules like numpy.lib._scimath_impl, later versions the public ones.
    module = (getattr(function, "__module__", None) or "").replace("_impl", "").replace("._", ".")
    modules = module.split(".")
    name = getattr(function, "__name__", "")
    return next((f"{part}.{name}" for part in PARTS if part in modules), name)


def full_name(function) -> str:
    """Return ``np.linalg.solve`` for a function of NumPy's."""
    module = getattr(function, "__module__", "") or ""
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"


class Table:
    """Implementations of NumPy's functions, of which some are not imported yet.

    An implementation is used only after the whole file that registers it has been imported, because another
    thread may be importing it.

    Attributes
    ----------
    registered
        Implementation by function, of the files imported so far.
    files
        The file that registers a function, by the function's name.
    """

    def __init__(self, files: dict[str, str] | None = None):
        self.registered: dict[Callable, Callable] = {}
        self.files: dict[str, str] = {} if files is None else files
        self._ready: dict[Callable, Callable] = {}

    def announce(self, file: str, names: Iterable[str]) -> None:
        """Say that a file registers the functions of these names."""
        for name in names:
            assert name not in self.files, f"{name} is announced twice"
            self.files[name] = file

    def register(self, functions: Iterable[Callable], implementation: Callable) -> None:
        """Put an implementation into the table, for some functions that have none yet."""
        for function in functions:
            assert function not in self.registered, f"{name_of(function)} is registered twice"
            self.registered[function] = implementation

    def registering(self, *functions: Callable):
        """Return a decorator that registers an implementation for some functions."""

        def decorate(implementation):
            self.register(functions, implementation)
            return implementation

        return decorate

    def find(self, function) -> Callable | None:
        """Return the implementation of a function, or None if there is none."""
        found = self._ready.get(function)
        return self._import(function) if found is None else found

    def _import(self, function) -> Callable | None:
        file = self.files.get(name_of(function))
        if file is None:
            return None
        imported(file)  # this waits for another thread that is importing it
        found = self.registered.get(function)
        if found is not None:
            self._ready[function] = found
        return found


REAL = Table()  # the implementations for real arrays
COMPLEX = Table(REAL.files)  # where an argument is complex; filled by the same registrations
WRITERS = Table()  # functions that write into their first argument, for real and complex arrays
# The implementations of ufuncs of complex numbers take one (real, imaginary) pair an operand, a part that is
# None being zero, and return such a pair, or one array where the result is real.
COMPLEX_UFUNCS = Table()
FORMS: dict[str, Callable] = {}  # name of a complex form -> what makes the implementation of a function

# What a registration may name for complex arguments, and the files that define it.
HOLDS = "holds"  # the composition for real arrays holds as it stands
FORM_FILES: dict[str, str] = {}


def implements(*functions: Callable, complex: str | None = None):
    """Register an implementation for real arrays, and name the one for complex arrays.

    Parameters
    ----------
    complex
        `HOLDS`; the name of a form (`form`) that makes the implementation from the function;
        ``"complex_linalg.solve"`` for a function in a file of `complex_numbers`; None if there is none.
    """

    def decorate(implementation):
        REAL.register(functions, implementation)
        register_form(functions, complex)
        return implementation

    return decorate


def register_form(functions: Iterable[Callable], name: str | None) -> None:
    """Register the complex form of functions that are registered for real arrays."""
    if name is None:
        return
    # The forms are announced when a tracer is first imported; whoever imports a file here alone has none yet.
    assert name == HOLDS or not FORM_FILES or name in FORM_FILES or "." in name, name
    for function in functions:
        if name == HOLDS:
            COMPLEX.register((function,), REAL.registered[function])
        else:
            COMPLEX.register((function,), _Later(function, name))


class _Later:
    """What serves a function of complex arrays, found when it is first called.

    So programs with real numbers only import nothing complex.
    """

    def __init__(self, function: Callable, name: str):
        self._function, self._name = function, name
        self._made: Callable | None = None

    def implementation(self) -> Callable:
        """Return the function that the registration names, or what the form makes."""
        file, _, name = self._name.rpartition(".")
        if file:
            return getattr(imported(f".complex_numbers.{file}", __package__), name)
        imported(FORM_FILES[name])
        return FORMS[name](self._function)

    def __call__(self, *args, **kwargs):
        if self._made is None:
            self._made = self.implementation()
        return self._made(*args, **kwargs)


def form(maker: Callable) -> Callable:
    """Register what makes the complex implementations of functions, under its own name."""
    FORMS[maker.__name__] = maker
    return maker


in_place = WRITERS.registering
complex_ufunc = COMPLEX_UFUNCS.registering


# ---- functions that never reach a protocol: while tracing, others stand for them

STAND_INS: dict[str, dict[str, tuple[str, ...]]] = {}  # module -> name -> the files that define its stand-in
OBJECTS: dict[str, str] = {}  # first part of a module's name -> the file that knows objects of its classes
# Module -> name -> what makes the stand-in from the original.
MAKERS: defaultdict[str, dict[str, Callable]] = defaultdict(dict)


def announce(module: str, file: str, names: Iterable[str]) -> None:
    """Say that a file defines stand-ins for names of a module; where several do, all are imported."""
    files = STAND_INS.setdefault(module, {})
    for name in names:
        files[name] = (*files.get(name, ()), file)
