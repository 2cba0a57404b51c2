"""How objects of libraries can change, and how to check them.

A captured object of a library is checked by its parts: the arrays of a ``DataFrame``,
the memory of an ``array.array``, the value of a context variable. All other objects are opaque:
a tape that was recorded with one serves one call.

This never imports pandas or xarray; their objects are recognised by the names of their modules.
"""

from __future__ import annotations

import array
import contextvars
import ctypes
import io
import mmap
import pathlib
import random
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable

import numpy as np

from ..trace.library_kinds import package_of

# Objects of these modules never change, or no numbers depend on them.
_INERT = (
    *(
        "builtins",
        "collections",
        "_collections",
        "dataclasses",
        "copyreg",
        "re",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
        "zoneinfo",
        "pathlib",
        "numbers",
    ),
    *("_thread", "threading", "concurrent", "asyncio", "logging", "warnings", "weakref", "abc", "_abc"),
    *("functools", "_functools", "operator", "_operator", "types", "typing", "inspect", "enum", "_struct"),
    *(
        "numpy",
        "scipy",
        "numba",
        "numbatape",
        "llvmlite",
        "optree",
        "pydantic_core",
        "_pytest",
        "pytest",
        "tqdm",
    ),
)
UNSET = "<unset>"  # stands for the value of a context variable that has none
# Private parts of pandas' arrays: numbers, masks of missing entries, codes, categories.
_OF_ARRAYS = ("_ndarray", "_data", "_mask", "_pa_array", "_dtype", "_left", "_right", "_sparse_values")


def is_inert(value) -> bool:
    """Whether an object without attributes is known not to change."""
    module = type(value).__module__
    if package_of(value) == "pandas":  # time stamps, intervals, dtypes, engines of indexes
        return module.startswith(("pandas._libs", "pandas.core.dtypes", "pandas.tseries"))
    return package_of(value) in _INERT


def is_closed_off(value) -> bool:
    """Whether an object's attributes are not followed: machinery that refers to everything."""
    closed = ("logging", "_thread", "threading", "concurrent", "asyncio", "warnings", "tqdm")
    return package_of(value) in closed and not isinstance(value, threading.local)


def state_of_closed(value) -> Callable[[], tuple] | None:
    """Return a function that returns what a logger hands on and to whom, None for other objects."""
    if not hasattr(value, "getEffectiveLevel"):
        return None

    def read() -> tuple:
        found, logger = [value.manager.disable], value
        while logger is not None:
            found += [logger.level, logger.disabled, logger.propagate, *logger.handlers, *logger.filters]
            logger = logger.parent
        return tuple(found)

    return read


def _of_decimal() -> tuple:
    """Return the thread's context of decimal arithmetic, without the flags that each operation raises."""
    context = sys.modules["decimal"].getcontext()
    traps = ",".join(signal.__name__ for signal, on in context.traps.items() if on)
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps


def _of_time_zone() -> tuple:
    return time.timezone, time.altzone, *time.tzname


def _of_loggers() -> tuple:
    """Return the loggers whose level or switch somebody has set; one that code asks for is made without."""
    root = sys.modules["logging"].root
    known = [each for each in root.manager.loggerDict.values() if hasattr(each, "level")]
    chosen = [each for each in known if each.level or each.disabled]
    rows = (x for each in (root, *chosen) for x in (each, each.level, each.disabled))
    return root.manager.disable, *rows


# State of the process: the packages that have it, names that code uses to ask for it (all code, if there are
# none), and a function that returns it.
STATES: dict[str, tuple[tuple[str, ...], frozenset[str], Callable[[], tuple]]] = {
    "decimal context": (("decimal", "_decimal", "_pydecimal"), frozenset(), _of_decimal),
    "time zone": (
        ("time", "datetime"),
        frozenset(("timezone", "altzone", "tzname", "daylight", "localtime", "ctime", "mktime", "strftime"))
        | frozenset(("fromtimestamp", "timestamp", "astimezone", "timetuple")),
        _of_time_zone,
    ),
    "loggers": (("logging",), frozenset(("getLogger", "root", "getLevelName")), _of_loggers),
}


def parts_of(value) -> Callable[[], tuple] | None:
    """Return a function that returns the present parts of a library's object; None if it has none."""
    if isinstance(value, weakref.ref):
        return lambda: (value(),)
    if isinstance(value, contextvars.ContextVar):
        return lambda: (value.get(UNSET),)
    packages = {str(base.__module__).partition(".")[0] for base in type(value).__mro__}
    if "pandas" in packages:  # the user's class may derive from one of theirs
        return _of_pandas(value, sys.modules["pandas"])
    return _of_xarray(value) if "xarray" in packages else None


def fixed_parts_of(value) -> tuple | None:
    """Return the parts of an object of pandas or Arrow that keeps them for ever; None for other objects."""
    if package_of(value) == "pyarrow":
        return _of_arrow(value)
    pd = sys.modules.get("pandas")
    if pd is None or not str(type(value).__module__).startswith("pandas"):
        return None
    if isinstance(value, pd.Index):
        kept = ("_range",) if isinstance(value, pd.RangeIndex) else ("_levels", "_codes")
        names = kept if hasattr(value, kept[0]) else ("_data",)
        return tuple(getattr(value, name) for name in names)
    # A dtype's other attributes only cache earlier answers.
    if isinstance(value, pd.api.extensions.ExtensionDtype):
        return (getattr(value, "categories", None),)
    # The blocks of a manager are parts of its owner.
    return () if type(value).__module__.startswith("pandas.core.internals") else None


def names_of(value) -> Callable[[], tuple] | None:
    """Return a function that returns the names of an index, which keeps its labels for ever; else None."""
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(value, pd.Index):
        return None
    return lambda: (getattr(value, "_name", None), *(getattr(value, "_names", None) or ()))


def _of_pandas(value, pd):
    """Return what lists the parts whose identities tell whether a pandas object has changed; or None."""
    if isinstance(value, pd.DataFrame):

        def parts():
            manager = value._mgr
            blocks = [block.values for block in manager.blocks]
            return (manager, *manager.axes, *blocks, *_notes_of_pandas(value))

        return parts
    if isinstance(value, pd.Series):

        def parts():
            manager = value._mgr
            blocks = [block.values for block in manager.blocks]
            return (value._name, *manager.axes, *blocks, *_notes_of_pandas(value))

        return parts
    if isinstance(value, pd.api.extensions.ExtensionArray):
        found = [name for name in _OF_ARRAYS if hasattr(value, name)]
        return (lambda: tuple([getattr(value, name) for name in found])) if found else None
    if hasattr(value, "obj") and not hasattr(value, "__next__"):  # df.loc, df.groupby(...)
        fields = vars(value) if hasattr(value, "__dict__") else {}
        return lambda: (value.obj, *(fields[k] for k in ("_grouper", "grouper") if k in fields))
    return None


def columns_of(value) -> list[tuple] | None:
    """Return the blocks of a frame of pandas with the places of their columns; None for other objects."""
    manager = getattr(value, "_mgr", None) if package_of(value) == "pandas" else None
    if manager is None or len(getattr(manager, "axes", ())) != 2:
        return None
    return [(block.values, block.mgr_locs.as_array.copy()) for block in manager.blocks]


def has_columns(value, before: list[tuple] | None) -> bool:
    """Whether a frame has the labels and columns that it had, maybe in other blocks."""
    now = None if before is None else columns_of(value)
    if before is None or now is None:
        return False
    columns: list[dict] = [{}, {}]
    for found, blocks in zip(columns, (before, now), strict=True):
        for values, places in blocks:
            if not isinstance(values, np.ndarray):
                return False
            for row, place in zip(values, places.tolist(), strict=True):
                found[place] = row.dtype, row.tobytes()
    return columns[0] == columns[1]


def _notes_of_pandas(value) -> tuple:
    """Return what the user notes beside the numbers: attributes, and whether labels may come twice."""
    flags = getattr(value, "_flags", None)
    return getattr(value, "_attrs", None), getattr(flags, "_allows_duplicate_labels", None)


def _of_arrow(value) -> tuple | None:
    """Return the buffers of an array of Arrow's, or its chunks; pandas keeps columns of text in these.

    Arrow's arrays keep their buffers, but a buffer may be the memory of an array that NumPy can write to.
    """
    if hasattr(value, "chunks"):
        return tuple(value.chunks)
    if hasattr(value, "buffers"):
        return tuple(buffer for buffer in value.buffers() if buffer is not None)
    return None


def _of_xarray(value):
    if hasattr(value, "_variables"):  # a Dataset
        return lambda: (*value._variables.values(), *_notes_of_xarray(value))
    if hasattr(value, "_variable"):  # a DataArray
        return lambda: (value._variable, value._name, *value._coords.values())
    if hasattr(value, "_data"):  # a Variable
        return lambda: (value._data, *_notes_of_xarray(value))
    if type(value).__name__.startswith("PandasIndexingAdapter"):
        return lambda: (value.array,)
    return None


def _notes_of_xarray(value) -> tuple:
    """Return the attributes that the user notes; those that nobody has asked for are None or empty."""
    return getattr(value, "_attrs", None) or None, getattr(value, "_encoding", None) or None


def memory_of(value) -> np.ndarray | None:
    """Return the memory of an object that always keeps its memory, which sweeps compare; else None."""
    if isinstance(value, memoryview):
        return np.frombuffer(value.cast("B"), np.uint8) if value.c_contiguous and value.nbytes else None
    if package_of(value) == "pyarrow" and hasattr(value, "is_mutable"):  # a Buffer
        return np.frombuffer(value, np.uint8) if value.size else None
    if isinstance(value, (ctypes.Array, ctypes.Structure, ctypes._SimpleCData)):
        return np.frombuffer(memoryview(value).cast("B"), np.uint8) if ctypes.sizeof(value) else None
    return None


def contents_of(value) -> Callable[[], bytes] | None:
    """Return a function that returns the numbers of an object with memory of its own as bytes, or None."""
    if isinstance(value, (array.array, bytearray, memoryview, mmap.mmap)):
        # The view is made in each call, because an object cannot grow while its memory is exported.
        return lambda: memoryview(value).tobytes()
    if package_of(value) == "polars":
        return _of_polars(value)
    # Traced values are not watched.
    if hasattr(type(value), "__array__") and package_of(value) != "numbatape":

        def read():
            # Torch's tensors may need gradients.
            plain = value.detach() if hasattr(value, "detach") else value
            return np.asarray(plain)

        try:
            shared = np.shares_memory(read(), read())
        except Exception:
            # A library's `__array__` may raise anything. Then there are no numbers here that could be
            # compared.
            return None
        return (lambda: repr(read().shape).encode() + read().tobytes()) if shared else None
    return None


def put_back(value, contents: bytes) -> None:
    """Give an object of Python's with memory of its own the bytes again that `contents_of` has read."""
    if isinstance(value, array.array):
        del value[:]
        value.frombytes(contents)
    elif isinstance(value, bytearray) or (isinstance(value, mmap.mmap) and len(value) == len(contents)):
        value[:] = contents
    elif isinstance(value, memoryview):
        value.cast("B")[:] = contents


def _of_polars(value) -> Callable[[], bytes] | None:
    """Return a function that returns what a Series or a DataFrame of polars holds as bytes, or None."""
    if type(value).__name__ not in ("Series", "DataFrame"):
        return None

    def read() -> bytes:
        columns = value.get_columns() if hasattr(value, "get_columns") else [value]
        numbers = [one.to_numpy() if one.dtype.is_numeric() else one.hash().to_numpy() for one in columns]
        names = repr([(one.name, one.dtype, len(one)) for one in columns])
        return names.encode() + b"".join(part.tobytes() for part in numbers)

    return read


def is_opaque(value) -> bool:
    """Whether an object without attributes may give other numbers in each call, without any sign."""
    # By the type: ``np.load(file).f`` takes every attribute for a name in the file, also `__class__`.
    if issubclass(type(value), io.IOBase):
        return not value.closed and value.readable()
    return not is_inert(value) or issubclass(type(value), weakref.ProxyTypes)


def can_change(value) -> bool:
    """Whether a module's attribute is state rather than code or a number."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, pathlib.PurePath)
    return not callable(value) and not isinstance(value, kinds) and value is not None


def is_constant(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory, not even by making its owner writeable again."""
    while isinstance(array, np.ndarray):
        array = array.base  # type: ignore[assignment]
    return isinstance(array, bytes)


def in_order(array: np.ndarray) -> np.ndarray:
    """Return an array's memory in its own order, if it is one block, so that kernels can compare it."""
    if array.flags.c_contiguous:
        return array
    if array.flags.f_contiguous:
        return array.T
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    # The whole of the owner's memory is compared only if the array is a large part of it.
    whole = root if root.flags.c_contiguous else root.T
    return whole if whole.flags.c_contiguous and whole.nbytes <= 4 * array.nbytes else array


def state_of(generator) -> object:
    """Return the state of a random generator, which each draw changes, as something that can be compared."""
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    if hasattr(generator, "get_state"):  # np.random.RandomState
        return _comparable(generator.get_state(legacy=False))
    if hasattr(generator, "num_generated"):  # The generator is one of scipy.stats.qmc.
        return generator.num_generated
    return _comparable(getattr(generator, "bit_generator", generator).state)


def _comparable(state):
    """Return a generator's state with the bytes of its arrays; writing 624 words as text would take 7 ms."""
    if isinstance(state, dict):
        return {name: _comparable(part) for name, part in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
