"""What counts as a sparse matrix, as a Series and as a DataFrame. This imports neither SciPy nor pandas."""

from __future__ import annotations

import sys


class Sparse:
    """The base class of sparse matrices with traced entries (`numbatape.scipy_api.sparse_matrices`)."""

    __slots__ = ()


def is_sparse(x) -> bool:
    """Whether something is sparse: SciPy's, or with traced entries."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and (module.issparse(x) or issubclass(type(x), Sparse))


def is_series(value) -> bool:
    """Whether a value is a Series of pandas."""
    return type(value).__name__ == "Series" and type(value).__module__.partition(".")[0] == "pandas"


def is_frame(value) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return type(value).__name__ == "DataFrame" and type(value).__module__.partition(".")[0] == "pandas"
