"""Addresses of functions that kernels call: NumPy's and SciPy's ufunc inner loops, BLAS and LAPACK.

External symbols of an object file carry their meaning in their name: ``nt_loop_sc.psi_d-d`` is the
inner loop of ``scipy.special.psi`` for float64, ``nt_data_...`` its data pointer, ``nt_blas_dgemm``
a function of ``scipy.linalg.cython_blas``, ``nt_numpy_PyArray_Empty`` one of NumPy's C API,
``nt_threads_get`` and ``nt_threads_set`` OpenBLAS's number of threads. SciPy is imported when the first such
symbol is needed. ``nt_shared_...`` is a function of our own, which `numbatape.jit.loader` has loaded before
the kernels that call it.

A formula names a loop as ``sc.psi(x)``; one of several results, or of other types than float64, in
full: ``sc.airy__d_dddd_1(x)`` is the second result, ``sc.wofz__D_D_1(x, y)`` the imaginary part.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys

import numpy as np

_TYPED = re.compile(r"(\w+?)__([dlD]+)_([dD]+)(?:_(\d))?")
_NO_DATA = (ctypes.c_byte * 64)()
_ARRAY_API = {"PyArray_Scalar": 60, "PyArray_Empty": 184}  # numbers of functions, as in NumPy's headers
SHARED: dict[str, int] = {}  # addresses of the functions that are loaded for several kernels, by symbol


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

        # The ufuncs that only SciPy's own functions call begin with an underscore, and are in another module.
        return getattr(scipy.special if name[3] != "_" else scipy.special._ufuncs, name[3:])
    return getattr(np, name)


def scalar_loop(name: str) -> tuple[str, str, int]:
    """Return what the formula's ``sc.name`` means: ``(ufunc, types, which float64 of the results)``.

    >>> scalar_loop("airy__d_dddd_1")
    ('sc.airy', 'd-dddd', 1)
    """
    found = _TYPED.fullmatch(name)
    if found is None:
        return f"sc.{name}", "d" * ufunc(f"sc.{name}").nin + "-d", 0
    short, inputs, outputs, which = found.groups()
    return f"sc.{short}", f"{inputs}-{outputs}", int(which or 0)


@functools.cache
def scalar_function(name: str):
    """Return the formula's ``sc.name`` as a function of Python's numbers."""
    function, types, which = scalar_loop(name)
    inputs, _, outputs = types.partition("-")
    its = ufunc(function)
    if types == "d" * len(inputs) + "-d":
        return its

    def call(*operands):
        rest = iter(operands)
        given = [complex(next(rest), next(rest)) if t == "D" else _KINDS[t](next(rest)) for t in inputs]
        results = its(*given)
        results = results if isinstance(results, tuple) else (results,)
        parts = [(r.real, r.imag) if t == "D" else (r,) for r, t in zip(results, outputs, strict=True)]
        return np.float64([part for pair in parts for part in pair][which])

    return call


_KINDS = {"d": np.float64, "l": lambda x: int(x) if x == x and abs(x) < 2.0**62 else -(2**63)}


@functools.cache
def _loop(name: str, signature: str) -> tuple[int, int]:
    function = ufunc(name)
    head = _UFunc.from_address(id(function))
    if head.name != function.__name__.encode() or head.nargs != function.nargs:
        raise ImportError(f"this NumPy lays out ufunc objects in a way that is not known ({name})")
    types = signature.replace("-", "->")
    # Where a C long has 32 bits, NumPy's letter for 64-bit integers is q.
    index = function.types.index(types if types in function.types else types.replace("l", "q"))
    data = head.data[index] if head.data else None
    # A symbol at address 0 counts as unresolved; loops without data do not read it.
    return head.functions[index], data or ctypes.addressof(_NO_DATA)


@functools.cache
def _scipys(name: str):
    """Return ``scipy.linalg.cython_blas`` or ``cython_lapack``, without importing the package around them.

    The whole of `scipy.linalg` takes 0.2 s, these two 0.03. They are not left in `sys.modules`: who imports
    them by name gets the same modules, and with them the package that they are attributes of.
    """
    import importlib.util
    from importlib.machinery import ExtensionFileLoader, PathFinder

    full = f"scipy.linalg.{name}"
    if "scipy.linalg" not in sys.modules:
        import scipy

        spec = PathFinder.find_spec(full, [os.path.join(path, "linalg") for path in scipy.__path__])
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules.pop(full, None)
            return module
    return importlib.import_module(full)


def _pointer_in(capsule) -> int:
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return pointer(("PyCapsule_GetPointer", api))(capsule, get_name(capsule))


@functools.cache
def _capsule(module: str, name: str) -> int:
    return _pointer_in(_scipys(f"cython_{module}").__pyx_capi__[name])


@functools.cache
def _of_openblas(name: str) -> int | None:
    """Return the address of OpenBLAS's function that gets or sets the number of threads.

    The library that SciPy calls is found among those that ``cython_blas`` is linked with, under the names
    that SciPy's wheels and other distributions give to its functions. Where it is another BLAS, and on
    Windows, which does not search like that, a function of Python's answers: ``Py_IsInitialized`` returns 1,
    after which kernels do not set the number.
    """
    library = ctypes.CDLL(_scipys("cython_blas").__file__)
    for prefix in ("scipy_", ""):
        for suffix in ("_", "_64_"):
            function = getattr(library, f"{prefix}openblas_{name}_num_threads{suffix}", None)
            if function is not None:
                return ctypes.cast(function, ctypes.c_void_p).value
    return ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value


@functools.cache
def _of_the_process(symbol: str) -> int | None:
    """Return the address of a function of the C library."""
    if os.name != "posix":
        import llvmlite.binding as llvm

        return llvm.address_of_symbol(symbol)
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    except AttributeError:
        return None


def _of_numpy(name: str) -> int:
    """Return the address of a function of NumPy's C API, whose number is part of NumPy's ABI."""
    from numpy._core import _multiarray_umath

    table = (ctypes.c_void_p * (max(_ARRAY_API.values()) + 1)).from_address(
        _pointer_in(_multiarray_umath._ARRAY_API)
    )
    return table[_ARRAY_API[name]]


def address_of(symbol: str) -> int | None:
    """Return the address behind a symbol that an object file needs, or None where there is none."""
    if not symbol.startswith("nt_"):
        return _of_the_process(symbol)
    _, kind, name = symbol.split("_", 2)
    if kind == "python":
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    if kind == "numpy":
        return _of_numpy(name)
    if kind == "shared":
        return SHARED.get(symbol)
    try:
        if kind in ("loop", "data"):
            function, _, signature = name.rpartition("_")
            return _loop(function, signature)[kind == "data"]
        if kind in ("blas", "lapack"):
            return _capsule(kind, name)
        if kind == "threads":
            return _of_openblas(name)
    except (AttributeError, KeyError, ValueError):
        pass  # this NumPy or SciPy has no such function
    return None
