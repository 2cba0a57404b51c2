"""What is sparse, masked, an object of pandas, xarray or polars, or no array. This imports no package."""

from __future__ import annotations

import numbers
import sys
import types

import numpy as np

from ..errors import SpecError, UnsupportedOperationError
from ..usercode.frames import where_in_user_code

# Packages of arrays with labels.
LABELLED = frozenset(("pandas", "polars", "xarray"))
COLUMN = "_is_traced_column"  # an attribute of `numbatape.trace.frames.traced_columns.TracedColumn`
FRAME = "_is_traced_frame"  # an attribute of `numbatape.trace.frames.data_frames.Frame`
DECIDES = "_decides_before_traced_arrays"  # an attribute of classes whose operators come before arrays' own
# A class that has one of these is an array for NumPy, or becomes one.
_ARRAYS = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__", "__buffer__")


class Sparse:
    """The base of matrices with traced entries (`numbatape.scipy_api.sparse.sparse_matrices`)."""

    __slots__ = ()


def not_numpys(data) -> UnsupportedOperationError:
    """Return the error for an operand whose own class defines what arithmetic with it means."""
    return UnsupportedOperationError(
        f"a {type(data).__module__}.{type(data).__qualname__} meets a traced value at "
        f"{where_in_user_code()}: arithmetic with it is not NumPy's; use its array (`.to_numpy()`)"
    )


def is_sparse(x) -> bool:
    """Whether something is sparse: SciPy's, or with traced entries."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and (module.issparse(x) or issubclass(type(x), Sparse))


def is_masked(x) -> bool:
    """Whether something is a masked array of NumPy's."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(x, module.MaskedArray)


def is_series(value) -> bool:
    """Whether a value is a Series of pandas."""
    return type(value).__name__ == "Series" and type(value).__module__.partition(".")[0] == "pandas"


def is_frame(value) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return type(value).__name__ == "DataFrame" and type(value).__module__.partition(".")[0] == "pandas"


def is_column(value) -> bool:
    """Whether a value is a Series of pandas that depends on traced values, or the column of one."""
    return hasattr(type(value.array if is_series(value) else value), COLUMN)


def package_of(value) -> str:
    """Return the package that a value's class comes from."""
    return str(type(value).__module__).partition(".")[0]


def own_array(value, path: str) -> np.ndarray | None:
    """Return NumPy's array of an argument of JAX's; None for what is no number to the function.

    Raises
    ------
    SpecError
        For a quantity with a unit: equal ones (3 km, 3000 m) do not have equal numbers, so none can select
        a tape, and a derivative has another unit.
    """
    if package_of(value) in ("jax", "jaxlib"):
        return np.array(value)  # a read-only view would be a constant by identity, another one in each call
    if hasattr(type(value), "__array_ufunc__"):
        raise SpecError(
            f"{path}: {type(value).__name__} has units or labels beside its numbers; pass the numbers, and "
            "make it of them inside of the function"
        )
    return None


def is_no_array(value) -> bool:
    """Whether an operand is an object that NumPy takes as a whole, of the user's class or another package's.

    A number of NumPy's hands it on to Python's own operator, which asks the object.
    """
    kind = type(value)
    if package_of(value) in ("numbatape", "numpy", "builtins") or issubclass(kind, numbers.Number):
        return False
    is_sequence = hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
    return not is_sequence and not any(hasattr(kind, name) for name in _ARRAYS)


def lending_package(value) -> str | None:
    """Return the package whose methods get stand-ins in a function that refers to something of the package's.

    It is "scipy" for sparse matrices, and for the module of which they are.
    """
    kind = type(value)
    name = value.__name__ if kind is types.ModuleType else kind.__module__
    return "scipy" if str(name).startswith("scipy.sparse") else labelled_package(value)


def labelled_package(value) -> str | None:
    """Return the package of labelled arrays that something belongs to, which may be a module or a class."""
    kind = type(value)
    if kind is types.ModuleType:
        name = value.__name__
    else:
        name = (value if kind is types.FunctionType or issubclass(kind, type) else kind).__module__
    package = name.partition(".")[0] if isinstance(name, str) else ""
    return package if package in LABELLED else None
