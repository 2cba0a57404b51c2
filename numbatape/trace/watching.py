"""What of a library's object can change, and where to look for it.

A captured object of a library is looked at through what it is made of: the arrays behind a ``DataFrame``,
the memory of an ``array.array``, the value of a context variable. What none of this holds for is opaque:
a tape that was recorded with it serves one call.

Pandas and xarray are never imported here; their objects are known by the names of their modules.
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
import types
import weakref
from collections.abc import Callable

import numpy as np

# Objects of these modules never change, or nothing that ends up in a number is read from them.
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
    *("numpy", "scipy", "numba", "numbatape", "llvmlite", "optree", "_pytest", "pytest", "tqdm"),
)
# Private parts of pandas' arrays: numbers, what is missing, codes, and what they stand for.
_OF_ARRAYS = ("_ndarray", "_data", "_mask", "_pa_array", "_dtype", "_left", "_right", "_sparse_values")


def package_of(value) -> str:
    """Return the name of the package that a value's class comes from."""
    name = type(value).__module__
    return name.partition(".")[0] if isinstance(name, str) else ""


def is_inert(value) -> bool:
    """Whether an object without attributes is known not to change."""
    module = type(value).__module__
    if package_of(value) == "pandas":  # time stamps, intervals, dtypes, what finds places in an index
        return module.startswith(("pandas._libs", "pandas.core.dtypes", "pandas.tseries"))
    return package_of(value) in _INERT


def is_closed_off(value) -> bool:
    """Whether an object's attributes are not looked at: machinery that leads everywhere."""
    closed = ("logging", "_thread", "threading", "concurrent", "asyncio", "warnings", "tqdm")
    return package_of(value) in closed and not isinstance(value, threading.local)


def parts_of(value) -> Callable[[], tuple] | None:
    """Return what gives the objects that a library's object is made of at the time; None: nothing does."""
    if isinstance(value, weakref.ref):
        return lambda: (value(),)
    if isinstance(value, contextvars.ContextVar):
        return lambda: (value.get(None),)
    packages = {str(base.__module__).partition(".")[0] for base in type(value).__mro__}
    if "pandas" in packages:  # the user's class may be derived from one of these
        return _of_pandas(value, sys.modules["pandas"])
    return _of_xarray(value) if "xarray" in packages else None


def fixed_parts_of(value) -> tuple | None:
    """Return what an object of pandas is made of that never gets other parts; None for anything else."""
    pd = sys.modules.get("pandas")
    if pd is None or not str(type(value).__module__).startswith("pandas"):
        return None
    if isinstance(value, pd.Index):
        kept = ("_range",) if isinstance(value, pd.RangeIndex) else ("_levels", "_codes")
        names = kept if hasattr(value, kept[0]) else ("_data",)
        return tuple(getattr(value, name) for name in names)
    if isinstance(value, pd.api.extensions.ExtensionDtype):  # it keeps what it was asked before
        return (getattr(value, "categories", None),)
    # Of a manager its owner gives the blocks.
    return () if type(value).__module__.startswith("pandas.core.internals") else None


def _of_pandas(value, pd):
    if isinstance(value, pd.DataFrame):

        def parts():
            manager = value._mgr
            return (manager, *manager.axes, *[block.values for block in manager.blocks])

        return parts
    if isinstance(value, pd.Series):
        return lambda: (value._name, *value._mgr.axes, *[block.values for block in value._mgr.blocks])
    if isinstance(value, pd.api.extensions.ExtensionArray):
        found = [name for name in _OF_ARRAYS if hasattr(value, name)]
        return (lambda: tuple([getattr(value, name) for name in found])) if found else None
    if hasattr(value, "obj") and not hasattr(value, "__next__"):  # df.loc, df.groupby(...)
        fields = vars(value) if hasattr(value, "__dict__") else {}
        return lambda: (value.obj, *(fields[k] for k in ("_grouper", "grouper") if k in fields))
    return None


def _of_xarray(value):
    if hasattr(value, "_variables"):  # a Dataset
        return lambda: tuple(value._variables.values())
    if hasattr(value, "_variable"):  # a DataArray
        return lambda: (value._variable, *value._coords.values())
    if hasattr(value, "_data"):  # a Variable
        return lambda: (value._data,)
    if type(value).__name__.startswith("PandasIndexingAdapter"):
        return lambda: (value.array,)
    return None


def memory_of(value) -> np.ndarray | None:
    """Return the memory of an object that cannot get another: it is compared where the sweeps run."""
    if isinstance(value, memoryview):
        return np.frombuffer(value.cast("B"), np.uint8) if value.c_contiguous and value.nbytes else None
    if isinstance(value, (ctypes.Array, ctypes.Structure, ctypes._SimpleCData)):
        return np.frombuffer(memoryview(value).cast("B"), np.uint8) if ctypes.sizeof(value) else None
    return None


def contents_of(value) -> Callable[[], bytes] | None:
    """Return what gives an object's numbers as bytes, of one that has memory of its own."""
    if isinstance(value, (array.array, bytearray, memoryview, mmap.mmap)):
        # Asked for in each call: who holds on to the memory would keep its owner from growing.
        return lambda: memoryview(value).tobytes()
    if hasattr(type(value), "__array__") and package_of(value) != "numbatape":  # no traced value is watched

        def read():
            plain = value.detach() if hasattr(value, "detach") else value  # Torch keeps gradients beside
            return np.asarray(plain)

        try:
            shared = np.shares_memory(read(), read())
        except Exception:  # whatever another library raises: there is no array to look at
            return None
        return (lambda: repr(read().shape).encode() + read().tobytes()) if shared else None
    return None


def is_opaque(value) -> bool:
    """Whether an object without attributes may give other numbers in each call, and nothing tells."""
    if isinstance(value, io.IOBase):
        return not value.closed and value.readable()
    return not is_inert(value) or isinstance(value, weakref.ProxyTypes)


def can_change(value) -> bool:
    """Whether a module's attribute is state rather than code or a number."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, pathlib.PurePath)
    return not callable(value) and not isinstance(value, kinds) and value is not None


def is_constant(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory: who owns it may make it writeable again."""
    while isinstance(array, np.ndarray):
        array = array.base  # type: ignore[assignment]
    return isinstance(array, bytes)


def in_order(array: np.ndarray) -> np.ndarray:
    """Return the memory of an array in its own order, where that is one block: kernels compare it."""
    if array.flags.c_contiguous:
        return array
    if array.flags.f_contiguous:
        return array.T
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    whole = root if root.flags.c_contiguous else root.T
    return whole if whole.flags.c_contiguous and whole.nbytes <= 4 * array.nbytes else array


def state_of(generator) -> str:
    """Return what tells whether a random generator has been drawn from."""
    if isinstance(generator, random.Random):
        return str(hash(generator.getstate()))
    if hasattr(generator, "get_state"):  # np.random.RandomState
        return repr(generator.get_state(legacy=False))
    if hasattr(generator, "num_generated"):  # one of scipy.stats.qmc
        return repr(generator.num_generated)
    return repr(getattr(generator, "bit_generator", generator).state)
