"""What counts as a sparse matrix."""

from __future__ import annotations

import sys


class Sparse:
    """The base class of sparse matrices with traced entries (`numbatape.scipy_api.sparse_matrices`)."""

    __slots__ = ()


def is_sparse(x) -> bool:
    """Whether something is sparse: SciPy's, or with traced entries."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and (module.issparse(x) or issubclass(type(x), Sparse))
