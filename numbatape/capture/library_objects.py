"""Objects of libraries: which of them can change, and how a call notices that.

`numbatape.capture.watching` knows the kinds of objects. What cannot be inspected (a connection, an open
file) is *opaque*: a tape that was recorded with it serves one call.
"""

from __future__ import annotations

import abc
import gc
import io
import threading
import types

import numpy as np

from ..trace.state import Outside
from ..usercode import ownership
from ..usercode.bytecode import LOOKUPS, line_of, names_of
from ..usercode.ownership import module_of
from . import watching
from .captured import Captured
from .noted import NotedArray, NotedIterator
from .randomness import generators
from .references import CLASS, FIELDS, MEMBER, SEQUENCES, SLOT, Reference, references

# Packages that only compute, and whose constants nobody changes. Their functions that read files have
# stand-ins, which note what was read.
_SETTLED = frozenset(
    (
        *("", "_thread", "abc", "builtins", "cmath", "collections", "contextlib", "contextvars", "copy"),
        *("dataclasses", "enum", "functools", "itertools", "logging", "math", "numba", "numbatape", "numpy"),
        *("operator", "random", "re", "scipy", "statistics", "threading", "time", "types", "typing"),
        *("warnings", "weakref"),
    )
)


class LibraryObjects(Captured):
    """The part of `numbatape.capture.environment.Environment` that notes objects of libraries.

    Those that numbatape itself has made are among them.

    Attributes
    ----------
    runs_later
        Whether it calls functions that are traced apart, or run in each sweep, and may read attributes there.
    has_sub_tapes
        Whether sub-tapes are among these functions, which are traced with variables as they are.
    libraries_hold
        What objects of libraries refer to: they may read the attributes of these without a stand-in.
    foreign
        Whether the function may call libraries other than NumPy and the like, which may read files.
    names_foreign
        Whether it does so by more than the bases of its classes: methods of those run where they are named.
    """

    def __init__(self):
        super().__init__()
        self.foreign = self.names_foreign = self.runs_later = self.has_sub_tapes = False
        self.libraries_hold: list[Reference] = []
        self._caches: list = []  # functions of functools.lru_cache
        self._abstract = False  # whether classes of the user's take others for their subclasses by `register`
        self._packages: set[str] = set()  # names of libraries whose code may be called
        self._states: set[str] = set()  # names of what is noted already, of `watching.STATES`
        # The keys are ids of values, the values (name, code that refers to it by this name).
        self._sites: dict[int, tuple] = {}
        self._codes: dict[int, types.CodeType] = {}  # the keys are ids of functions of the user's
        self._descriptors: list[Reference] = []  # those in classes that no code has named so far

    @property
    def keeps_results(self) -> bool:
        """Whether results of functions are kept by their arguments (`functools.lru_cache`)."""
        return bool(self._caches)

    @property
    def moves_on(self) -> bool:
        """Whether something was noted that cannot be set back with certainty once it was used."""
        return bool(self.iterators or self._generators or self.opaque)

    def _note_opaque(self, value, always=False):
        """Note a value as opaque if it may give other numbers in each call."""
        if always or watching.is_opaque(value):
            self.opaque.append(self.site_of(value))
            if isinstance(value, io.IOBase):
                self.iterators.append(NotedIterator(value, self.opaque[-1]))
        return []

    def _iterator(self, value):
        """Note an iterator: what it yields next can rarely be inspected."""
        self.iterators.append(NotedIterator(value, self.site_of(value)))
        return []

    def site_of(self, value) -> Outside:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        name, code = self._sites.get(id(value), ("", None))
        if code is None:
            return Outside(f"a {kind}", "<unknown>", 0)
        return Outside(f"`{name}` ({kind})", code.co_filename, line_of(code, name.rpartition(".")[2]))

    def _note_foreign(self, module, named: bool = True) -> bool:
        """Note that code of a module may be called; return whether it may do more than compute.

        With ``named=False``, only methods of a class are called, where code names them.
        """
        if not isinstance(module, str):  # a class of Cython's
            return False
        self._packages.add(ownership.top(module))
        found = ownership.top(module) not in _SETTLED
        self.foreign = self.foreign or found
        self.names_foreign = self.names_foreign or (found and named)
        return found

    def _but_descriptors(self, cls: type, found: list[Reference]) -> list[Reference]:
        """Return a class's references but for descriptors of the library that a base is from.

        Such a base puts them into each class that is derived from it; nothing runs them without naming them.
        """
        bases = [base for base in cls.__mro__ if not ownership.is_users_class(base)]
        packages = {ownership.top(str(base.__module__)) for base in bases} - _SETTLED
        if not packages:
            return found
        kept = []
        for part in found:
            kind = type(part.value)
            theirs = part.kind is MEMBER and hasattr(kind, "__get__")
            if (
                theirs
                and ownership.top(str(kind.__module__)) in packages
                and not ownership.is_users_class(kind)
            ):
                self._descriptors.append(part)
            else:
                kept.append(part)
        return kept

    def _of_descriptors(self) -> list[Reference]:
        """Return new references to descriptors of classes, those that code may name."""
        if not self._descriptors:
            return []
        names = frozenset().union(*map(names_of, self._codes.values()))
        every = not names.isdisjoint(LOOKUPS)
        named = [part for part in self._descriptors if every or part.name in names]
        self._descriptors = [part for part in self._descriptors if not (every or part.name in names)]
        return named

    def _note_states(self, names: frozenset[str]) -> None:
        """Note the state of the process that code asks for which uses these names."""
        if "cache_info" in names:
            self._parts += [(each.cache_info, each.cache_info(), each) for each in self._caches]
            self._caches.clear()
        for key, (packages, asking, read) in watching.STATES.items():
            used = not self._packages.isdisjoint(packages) and not (asking and names.isdisjoint(asking))
            if used and key not in self._states:
                self._states.add(key)
                self._parts.append((read, read(), None))
        if self._abstract and not names.isdisjoint(("isinstance", "issubclass")):
            self._abstract = False
            self._note_state(None, lambda: (abc.get_cache_token(),))

    def _note_state(self, value, read) -> None:
        if read is not None:
            self._parts.append((read, read(), value))

    def _numbers(self, value) -> tuple[list[Reference], bool]:
        """Note the numbers in an object of a known kind; return its parts, and whether that is all of it."""
        fixed = watching.fixed_parts_of(value)
        if fixed is not None:
            names = watching.names_of(value)
            if names is not None:
                self._parts.append((names, names(), value))
            return [*map(Reference, fixed)], True
        memory, parts = watching.memory_of(value), watching.parts_of(value)
        if memory is not None:
            self.arrays.append((memory, memory.copy()))
            return [], True
        if parts is not None:
            try:
                found = parts()
            except (AttributeError, KeyError):  # another version of the library names its parts differently
                self._note_opaque(value, always=True)
                return [], True
            self._parts.append((parts, found, value))
            columns = watching.columns_of(value)
            if columns is not None:
                self._frames[id(value)] = columns
            return [*map(Reference, found)], True
        read = watching.contents_of(value)
        if read is not None:
            self._contents.append((value, read, read()))
        return [], read is not None

    def _array(self, array):
        """Note an array's contents and layout; for an array of objects, their identities and the objects."""
        self._layouts.append(NotedArray(array))
        found = [] if type(array) is np.ndarray else self._of_subclass(array)
        if not watching.is_constant(array):
            # A subclass may refuse NumPy's methods: astropy's quantities give no bytes, for they have units.
            plain = array if type(array) is np.ndarray else array.view(np.ndarray)
            memory = watching.in_order(plain)
            self.arrays.append((memory, memory.copy()))
        return found + references(array) if array.dtype == object else found

    def _of_subclass(self, array) -> list[Reference]:
        """Return what an array of a subclass has beside its entries, such as the mask of a masked array."""
        fields = getattr(array, "__dict__", None)
        if ownership.is_users_class(type(array)):
            self._objects.append((array, type(array), fields))
            return [Reference(type(array), CLASS), *([] if fields is None else [Reference(fields, FIELDS)])]
        if not fields:
            return []

        def read():
            return tuple(fields.values())

        self._parts.append((read, read(), array))
        return [Reference(part) for part in read() if isinstance(part, (np.ndarray, np.generic))]

    def _ufunc(self, value):
        """Return the function that ``np.frompyfunc`` has made a ufunc of."""
        return [Reference(part) for part in gc.get_referents(value) if isinstance(part, types.FunctionType)]

    def _method_of_library(self, value):
        owner = value.__self__
        self._note_foreign(owner.__name__ if isinstance(owner, types.ModuleType) else "")
        return [] if isinstance(owner, (types.ModuleType, type)) else [Reference(owner)]

    def _partial(self, value):
        """Note the keywords, too, which are a dictionary that code can change."""
        return [Reference(part) for part in (value.func, value.args, value.keywords)]

    def _random_generator(self, value):
        self._generators.append(value)
        return []

    def _wrapper(self, value):
        """Return what numbatape has made a function of; the rest of what it made does not change."""
        self.runs_later = True
        return [Reference(value.__wrapped__)]

    def _sub_tape(self, value):
        """Return the function of a sub-tape, and what decides among its traces."""
        self.runs_later = self.has_sub_tapes = True
        return [Reference(part) for part in value.functions]

    def _of_library(self, value, fields, is_one_of_many: bool) -> list[Reference]:
        """Return what an object of a library's class refers to, and note how it can change."""
        if isinstance(value, types.SimpleNamespace):
            return [Reference(fields, FIELDS)]
        # The object is the dispatcher of a Numba function, or a C function that Numba has compiled.
        if isinstance(fields, dict) and not fields.keys().isdisjoint(("py_func", "_pyfunc")):
            return [Reference(fields.get("py_func", fields.get("_pyfunc")))]
        if isinstance(value, threading.local):  # each thread sees attributes of its own
            self._parts.append((lambda: tuple(vars(value)), tuple(vars(value)), value))
            return _slots_named(value, list(vars(value)))
        if is_one_of_many:
            self._note_opaque(value, always=True)
        elif watching.is_closed_off(value):
            self._note_state(value, watching.state_of_closed(value))
        else:
            return self._of_attributes(value, fields)
        return []

    def _of_attributes(self, value, fields) -> list[Reference]:
        self._note_foreign(module_of(value))
        found, known = self._numbers(value)
        if known and (watching.parts_of(value) or watching.fixed_parts_of(value)) is not None:
            return found
        slots = _slots_named(value, [name for base in type(value).__mro__ for name in _slot_names(base)])
        found += slots
        if isinstance(fields, dict):
            # Attributes of distributions and of numbatape's objects are not followed further.
            shallow = module_of(value).startswith(("numbatape.", "scipy.stats"))
            kinds = (np.ndarray, *SEQUENCES, dict, types.FunctionType, *generators())
            for name, part in list(fields.items()):
                self.bindings.append((fields, name, part))
                if not shallow or isinstance(part, kinds):
                    found.append(Reference(part))
            self.libraries_hold += found
        elif not known and not slots:
            self._note_opaque(value)
        return found


def _slots_named(value, names) -> list[Reference]:
    """Return references to those attributes of an object that exist."""
    return [Reference(getattr(value, name), SLOT, value, name) for name in names if hasattr(value, name)]


def _slot_names(cls) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))
