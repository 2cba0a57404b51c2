"""Sparse matrices of traced entries, made inside of a traced function; parts and combinations of them.

SciPy decides where each entry goes: it gets the entries' numbers in the place of the entries, and its result
says which entry is where. Numbers count from 1, because SciPy may drop zeros.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import class_that_makes
from ...tape.tape import CONSTANT
from ...trace.complex_array import TracedComplex
from ...trace.operands import find_trace
from ...trace.plain_arrays import as_ndarrays
from ...trace.primitives import value_of
from ...trace.trace import Trace, failing
from ...usercode.frames import UsersLine, not_supported
from .dense_products import entries, stands_for_matrix
from .sparse_matrices import TracedSparse, is_sparse, summed_up

FORMATS = ("bsr", "coo", "csc", "csr", "dia")
JOINS = ("block_array", "block_diag", "bmat", "diags", "diags_array", "hstack", "tril", "triu", "vstack")


def _scipy():
    return sys.modules["scipy.sparse"]


def trace_of(*trees) -> Trace | None:
    """Return the trace of the first traced array or sparse matrix in arguments."""
    for tree in trees:
        if type(tree) is TracedSparse:
            found = trace_of(tree.values)
        elif isinstance(tree, (list, tuple)):
            found = trace_of(*tree)
        else:
            found = find_trace(tree)
        if found is not None:
            return found
    return None


class Numbered:
    """The entries of a call's operands in one order, and the numbers that stand for them in SciPy's call."""

    def __init__(self):
        self._parts: list = []
        self._count = 0
        self.whole = False  # whether an operand has entries that SciPy would not store if they are zero

    def of_array(self, values) -> np.ndarray:
        """Return the numbers of new entries, in the shape of these."""
        if type(values) is TracedComplex or np.asarray(value_of(values)).dtype.kind == "c":
            raise not_supported("a sparse matrix of traced and complex entries", "use real ones")
        shape = np.shape(value_of(values))
        size = int(np.prod(shape, dtype=int))
        self._parts.append(np.reshape(values, (size,)))
        self._count += size
        return np.arange(self._count - size + 1.0, self._count + 1.0).reshape(shape)

    def of(self, tree):
        """Return operands with numbers for their entries; lists and tuples of operands too."""
        if isinstance(tree, (list, tuple)) and not _is_list_of_numbers(tree):
            return type(tree)(map(self.of, tree))
        if tree is None:
            return None
        if not is_sparse(tree):
            self.whole = True
            return self.of_array(np.stack(tree) if isinstance(tree, (list, tuple)) else tree)
        self.whole = self.whole or getattr(tree, "whole", False)
        matrix = summed_up(*entries(tree), is_matrix=stands_for_matrix(tree))
        make = _scipy().coo_matrix if matrix.is_matrix else _scipy().coo_array
        return make((self.of_array(matrix.values), (matrix.rows, matrix.cols)), matrix.shape)

    def taken(self, numbers):
        """Return the entries of the given numbers; all of them must be there."""
        return np.concatenate(self._parts)[np.asarray(numbers, np.int64) - 1]

    def matrix(self, found, order: str | None = None) -> TracedSparse:
        """Return the matrix that SciPy has made of numbers."""
        if found.ndim != 2:
            raise not_supported("a one-dimensional sparse array of traced entries", "use A[[i]] for a row")
        order = order or found.format
        if order not in ("coo", "csc", "csr"):
            order = "csr"
        is_matrix, found = isinstance(found, _scipy().spmatrix), found.tocoo()
        (here,) = np.nonzero(found.data)
        parts = self.taken(found.data[here]), found.row[here], found.col[here], found.shape, is_matrix
        make = TracedSparse if order == "coo" else summed_up
        return make(*parts, order, self.whole)


def _is_list_of_numbers(tree) -> bool:
    def is_number(x):
        return not (x is None or is_sparse(x) or isinstance(x, (list, tuple))) and np.ndim(value_of(x)) == 0

    return bool(tree) and all(map(is_number, tree))


def plain(what: str, places):
    """Return positions as plain arrays; raise if they depend on the function's arguments."""
    if isinstance(places, (list, tuple)):
        return type(places)(plain(what, each) for each in places)
    if find_trace(places) is None:
        return places
    if type(places) is TracedComplex or places._level != CONSTANT:
        raise not_supported(f"{what} with traced positions", "the entries' positions must be plain")
    places._trace.pin_constants()
    return value_of(places)


def _made(original, arg, shape) -> TracedSparse:
    """Return a sparse matrix of traced entries, as a class of SciPy's makes it."""
    name, numbered = original.__name__, Numbered()
    form, is_matrix = name[:3], name.endswith("matrix")
    if is_sparse(arg):
        made = TracedSparse(*entries(arg), is_matrix, arg.format, getattr(arg, "whole", False))
        return made.asformat(form if form in ("csr", "csc", "coo") else "csr")
    if isinstance(arg, tuple) and len(arg) in (2, 3):
        data, places = arg[0], plain(f"scipy.sparse.{name}", arg[1:])
        data = np.stack(data) if isinstance(data, (list, tuple)) else data
        numbers = numbered.of_array(data)
        numbered.whole = form == "dia"
        if form != "dia" and len(arg) == 2 and isinstance(places[0], (list, tuple)):
            # A `coo_array` keeps several entries at equal positions.
            found = _scipy().coo_array((numbers, places[0]), shape)
        else:
            found = original((numbers, *places), shape)
        found = (_scipy().coo_matrix if is_matrix else _scipy().coo_array)(found)
    else:
        dense = np.stack(arg) if isinstance(arg, (list, tuple)) else arg
        found = original(numbered.of(dense), shape)
    return numbered.matrix(found, form)


def _class(original):
    """Return what stands for one of SciPy's classes of sparse matrices while tracing."""

    def make(arg1, shape=None, dtype=None, copy=False, **options):
        trace = trace_of(arg1)
        if trace is None:
            return UsersLine().call(original, as_ndarrays(arg1), shape, dtype, copy, **options)
        if dtype is not None:
            raise not_supported(
                f"scipy.sparse.{original.__name__}(dtype=...) of traced entries", "leave dtype out"
            )
        with failing(trace):
            return _made(original, arg1, shape)

    return class_that_makes(original, make)


def _join(original) -> Callable:
    """Return what runs in place of a function that puts entries of its first argument elsewhere."""
    name = f"scipy.sparse.{original.__name__}"

    def join(first, *args, **options):
        trace = trace_of(first)
        if trace is None:
            return UsersLine().call(original, as_ndarrays(first), *args, **options)
        if options.pop("dtype", None) is not None:
            raise not_supported(f"{name}(dtype=...) of traced entries", "leave dtype out")
        with failing(trace):
            numbered = Numbered()
            rest = plain(name, args), {key: plain(name, value) for key, value in options.items()}
            return numbered.matrix(original(numbered.of(first), *rest[0], **rest[1]))

    return join


def _no_number(x):
    """Return a factor; a number is a matrix of one entry."""
    return [[x]] if isinstance(x, (int, float, complex)) or getattr(x, "ndim", None) == 0 else x


def _kron(original) -> Callable:
    """Return the implementation of the Kronecker product of two sparse matrices."""

    def kron(A, B, format=None):
        """Multiply all pairs of entries; positions follow from those of the factors."""
        trace = trace_of(A, B)
        if trace is None:
            return UsersLine().call(original, as_ndarrays(A), as_ndarrays(B), format)
        with failing(trace):
            numbered = [Numbered() for _ in "AB"]
            (a, rows, cols, shape), (b, others, ends, block) = (
                entries(numbered.matrix(_scipy().coo_array(numbered.of(x))))
                for x, numbered in zip(map(_no_number, (A, B)), numbered, strict=True)
            )
            arrays = [x for x in (A, B) if is_sparse(x)]
            found = summed_up(
                np.ravel(np.outer(a, b)),
                np.ravel(rows[:, None] * block[0] + others),
                np.ravel(cols[:, None] * block[1] + ends),
                (shape[0] * block[0], shape[1] * block[1]),
                all(map(stands_for_matrix, arrays)),
                whole=any(each.whole for each in numbered),
            )
            return found.asformat(format)

    return kron


def part_of_sparse(matrix: TracedSparse, key):
    """Return ``matrix[key]``: a sparse matrix, or one entry."""
    numbered = Numbered()
    whole = numbered.of(matrix).asformat("csc" if matrix.format == "csc" else "csr")
    found = whole[plain("a part of a sparse matrix", key)]
    if np.ndim(found) == 0:
        return numbered.taken(found) if found else matrix.dtype.type(0)
    if not is_sparse(found):
        raise not_supported(
            "M[rows, columns] of a sparse matrix, which is dense", "use sparse arrays (csr_array)"
        )
    return numbered.matrix(found)


MAKERS["scipy.sparse"].update(
    {f"{form}_{kind}": _class for form in FORMATS for kind in ("array", "matrix")}
    | dict.fromkeys(JOINS, _join)
    | {"kron": _kron}
)


def _is_sparse(original):
    """Return what tests for sparse matrices, and arrays or not, while tracing."""

    def test(x):
        name = original.__name__
        if type(x) is not TracedSparse:
            return original(x)
        return name == "issparse" or (x.is_matrix and name in ("isspmatrix", f"isspmatrix_{x.format}"))

    return test


MAKERS["scipy.sparse"].update(
    {f"isspmatrix_{form}": _is_sparse for form in (*FORMATS, "dok", "lil")},
    issparse=_is_sparse,
    isspmatrix=_is_sparse,
)
