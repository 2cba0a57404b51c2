"""Addresses of what kernels call: NumPy's and SciPy's ufunc inner loops, BLAS and LAPACK.

External symbols of an object file carry their meaning in their name: ``nt_loop_sc.psi_dd`` is the
inner loop of ``scipy.special.psi`` for float64, ``nt_data_...`` its data pointer, ``nt_blas_dgemm``
a function of ``scipy.linalg.cython_blas``. SciPy is imported when the first such symbol is needed.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

_NO_DATA = (ctypes.c_byte * 64)()


class _UFunc(ctypes.Structure):
    """The public head of ``PyUFuncObject`` (numpy/ufuncobject.h)."""

    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved1", ctypes.c_int),
        ("name", ctypes.c_char_p),
    ]


def ufunc(name: str) -> np.ufunc:
    """Return the ufunc called ``exp`` (NumPy) or ``sc.psi`` (SciPy)."""
    if name.startswith("sc."):
        import scipy.special

        return getattr(scipy.special, name[3:])
    return getattr(np, name)


@functools.cache
def _loop(name: str, signature: str) -> tuple[int, int]:
    function = ufunc(name)
    head = _UFunc.from_address(id(function))
    if head.name != function.__name__.encode() or head.nargs != function.nargs:
        raise ImportError(f"this NumPy lays out ufunc objects in a way that is not known ({name})")
    index = function.types.index(f"{signature[:-1]}->{signature[-1]}")
    data = head.data[index] if head.data else None
    # A symbol at address 0 counts as unresolved; loops without data do not read it.
    return head.functions[index], data or ctypes.addressof(_NO_DATA)


@functools.cache
def _capsule(module: str, name: str) -> int:
    import importlib

    capsule = importlib.import_module(f"scipy.linalg.cython_{module}").__pyx_capi__[name]
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return pointer(("PyCapsule_GetPointer", api))(capsule, get_name(capsule))


def address_of(symbol: str) -> int | None:
    """Return the address behind an external symbol, or None for a name that says none."""
    if not symbol.startswith("nt_"):
        return None
    _, kind, name = symbol.split("_", 2)
    if kind == "python":
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    try:
        if kind in ("loop", "data"):
            function, _, signature = name.rpartition("_")
            return _loop(function, signature)[kind == "data"]
        if kind in ("blas", "lapack"):
            return _capsule(kind, name)
    except (AttributeError, KeyError, ValueError):
        pass  # this NumPy or SciPy has no such function
    return None
