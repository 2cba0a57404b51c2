"""NumPy's functions of traced values and objects of pandas, xarray and polars.

The package defines what arithmetic with its objects means: they have labels, by which rows are aligned.
xarray computes with any array that follows NumPy's protocols, a traced one too. pandas keeps traced values
in columns of another class (`numbatape.trace.frames.traced_columns`). For a Series of polars, `TracedSeries`
stands.
"""

from __future__ import annotations

from ...errors import UnsupportedOperationError
from ...late import imported
from ...usercode.frames import where_in_user_code
from ..array import TracedArray
from ..library_kinds import COLUMN, LABELLED, is_column, is_frame, not_numpys, package_of
from .polars_series import TracedSeries, ufunc_of_polars


def ufunc_of_labelled(ufunc, inputs, kwargs):
    """Return the result of a ufunc with an object that has labels among its inputs."""
    if any(hasattr(type(x), COLUMN) for x in inputs):
        return NotImplemented  # NumPy asks the column next.
    labelled = (x for x in inputs if type(x) is TracedSeries or package_of(x) in LABELLED)
    owner = next(labelled, None)
    if owner is None:  # an operand's own class has computed something of its own kind
        foreign = [x for x in inputs if _is_foreign(x)]
        # A quantity with a unit, say: NumPy asks it next, and it computes with the array.
        if any(hasattr(type(x), "__array_ufunc__") for x in foreign):
            return NotImplemented
        kinds = ", ".join(sorted({f"a {package_of(x)}.{type(x).__name__}" for x in foreign}))
        raise UnsupportedOperationError(
            f"{kinds} meets a traced value at {where_in_user_code()}; float(...) makes a number of it"
        )
    if package_of(owner) == "pandas":
        return _pandas().ufunc_of_pandas(ufunc, inputs, kwargs)
    if package_of(owner) == "xarray":
        return owner.__array_ufunc__(ufunc, "__call__", *inputs, **kwargs)
    if type(owner) is TracedSeries or type(owner).__name__ == "Series":
        return ufunc_of_polars(ufunc, inputs, kwargs)
    raise not_numpys(owner)


def _is_foreign(x) -> bool:
    """Whether a value is neither traced, nor NumPy's, nor one of Python's own numbers."""
    return package_of(x) not in ("numbatape", "numpy", "builtins")


def product(left, right):
    """Return the product of a Series or a DataFrame of pandas and a traced vector or matrix."""
    return _pandas().product(left, right)


def _pandas():
    return imported(".pandas_calls", __package__)


def has_labels(args) -> bool:
    """Whether an object that depends on traced values by way of its own package is among the arguments."""
    return any(type(x) is TracedSeries or (package_of(x) in LABELLED and depends(x)) for x in args)


def depends(x) -> bool:
    """Whether an object of pandas or xarray depends on traced values."""
    if is_frame(x):
        return any(is_column(x.iloc[:, k]) for k in range(x.shape[1]))
    return is_column(x) or type(getattr(getattr(x, "variable", None), "_data", None)) is TracedArray


def array_in(x):
    """Return the array of an object that depends on traced values."""
    return x.variable._data if package_of(x) == "xarray" else _pandas().array_of(x)
