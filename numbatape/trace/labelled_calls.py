"""NumPy's functions of traced values and objects of pandas, xarray and polars.

The package defines what arithmetic with its objects means: they have labels, by which rows are aligned.
xarray computes with any array that follows NumPy's protocols, a traced one too. pandas keeps traced values
in columns of another class (`numbatape.trace.traced_columns`). For a Series of polars, `TracedSeries` stands.
"""

from __future__ import annotations

from ..errors import UnsupportedOperationError
from ..late import imported
from ..usercode.frames import where_in_user_code
from .array import TracedArray
from .labels import Labels
from .library_kinds import COLUMN, LABELLED, is_column, is_frame, not_numpys, package_of
from .polars_series import TracedSeries, ufunc_of_polars

ROWS = "rows of pandas"  # the package of labels that only say which rows an array has


def ufunc_of_labelled(ufunc, inputs, kwargs):
    """Return the result of a ufunc with an object that has labels among its inputs."""
    if any(hasattr(type(x), COLUMN) for x in inputs):
        return NotImplemented  # NumPy asks the column next
    labelled = (x for x in inputs if type(x) is TracedSeries or package_of(x) in LABELLED)
    owner = next(labelled, None)
    if owner is None:  # an operand whose own class has computed something of its own kind
        foreign = [x for x in inputs if _is_foreign(x)]
        if any(hasattr(type(x), "__array_ufunc__") for x in foreign):
            return (
                NotImplemented  # a quantity with a unit: NumPy asks it next, and it computes with the array
            )
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


def with_rows(labels: dict, inputs, result):
    """Note which rows the result of a ufunc has; raise if pandas would first align those of the operands.

    Parameters
    ----------
    labels
        Those of the trace, by value number.
    inputs
        Operands, as arrays.
    result
        What was recorded for them.
    """
    rows = [found for x in inputs if (found := _rows_of(labels, x)) is not None]
    if rows and not all(same_rows(found.parts[0], rows[0].parts[0]) for found in rows[1:]):
        raise rows_differ()
    if rows and type(result) is TracedArray and result.ndim == 1:
        labels.setdefault(result._id, rows[0])
    return result


def _rows_of(labels: dict, x) -> Labels | None:
    """Return the labels of the rows of a Series that is an argument, or of what was computed of it."""
    found = labels.get(x._id) if type(x) is TracedArray and x.ndim == 1 else None
    if found is None or found.package == ROWS:
        return found
    return Labels(ROWS, (found.parts[0],)) if found.package == "pandas" else None


def same_rows(one, other) -> bool:
    """Whether two indexes of pandas are equal; None is 0, 1, 2, ..., of any length."""
    if one is None or other is None:
        known = other if one is None else one
        return known is None or list(known) == list(range(len(known)))
    return one is other or bool(one.equals(other))


def rows_differ() -> UnsupportedOperationError:
    """Return the error for operands whose rows pandas would align."""
    return UnsupportedOperationError(
        f"rows with different labels meet at {where_in_user_code()}: pandas aligns them, but of what is an "
        "argument a traced function gets arrays; align them before the call (a.align(b)), or take "
        "`.to_numpy()` of both"
    )


def require_divisor_of_rows(x, name: str) -> None:
    """Raise if an array has rows of a Series, whose ``std()`` divides by another number than an array's."""
    found = x._trace.arguments.labels.get(x._id)
    if found is not None and x.ndim == 1 and found.package in (ROWS, "pandas", "polars"):
        raise UnsupportedOperationError(
            f".{name}() at {where_in_user_code()}: a Series divides by n - 1, and an array by n; a traced "
            f"function gets arrays, so say which: {name}(ddof=1) or {name}(ddof=0)"
        )


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
