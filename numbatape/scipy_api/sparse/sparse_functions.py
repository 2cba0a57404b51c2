"""Functions of ``scipy.sparse`` and ``scipy.sparse.linalg`` of one matrix with traced entries."""

from __future__ import annotations

import inspect

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...trace import operations
from ...trace.trace import failing
from ..linalg.matrix_functions import exponential
from .sparse_matrices import TracedSparse


def _of_matrix(implementation):
    """Return what makes a stand-in, which calls SciPy's function where the matrix has no traced entries."""

    def make(original):
        first = next(iter(inspect.signature(original).parameters))

        def call(*args, **kwargs):
            matrix, *rest = args if args else (kwargs.pop(first, None),)
            if type(matrix) is not TracedSparse:
                return operations.library_copy(original)(*args, **kwargs)
            with failing(matrix.values._trace):
                return implementation(matrix, *rest, **kwargs)

        return call

    return make


def _norm(x, ord=None, axis=None):
    if axis is None and ord in (None, "f", "fro"):
        return np.linalg.norm(x._deduped_data())
    return np.linalg.norm(x.toarray(), ord, axis)


def _inverse(A):
    return TracedSparse.of_dense(np.linalg.inv(A.toarray()), A.is_matrix, "csc")


def _exponential(A):
    return TracedSparse.of_dense(exponential(A.toarray()), A.is_matrix, A.format)


def _found(A):
    kept = A.stored._summed_up("coo")
    kept.whole = True
    kept = kept.stored
    return kept.rows, kept.cols, kept.values


def _permuted(A, axes=None, copy=False):
    turned = axes is None or [axis % 2 for axis in axes] == [1, 0]
    return A.T if turned else A


def _swapped(A, axis1, axis2):
    return A.T if axis1 % 2 != axis2 % 2 else A


MAKERS["scipy.sparse"].update(
    find=_of_matrix(_found), permute_dims=_of_matrix(_permuted), swapaxes=_of_matrix(_swapped)
)
MAKERS["scipy.sparse.linalg"].update(
    expm=_of_matrix(_exponential), inv=_of_matrix(_inverse), norm=_of_matrix(_norm)
)
