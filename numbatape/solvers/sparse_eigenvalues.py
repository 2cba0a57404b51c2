"""``eigsh``, ``lobpcg`` and ``svds`` of SciPy: some eigenvalues or singular values of a sparse matrix.

For ``A v = w v`` with a vector of length one, ``dw = v' dA v``, and ``dv`` solves a system with ``A - w``
among the vectors that are orthogonal to v. It stays sparse with v as a further row and column:
``[[A - w, v], [v', 0]] [dv, s] = [-dA v, 0]``. So derivatives take one sparse factorisation for each
eigenvalue, and a multiple eigenvalue, whose vectors have no derivative, makes the system singular.

Singular values are eigenvalues of ``[[0, A], [A', 0]]``, and their vectors are eigenvectors of it.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.sparse

from ..numpy_api.function_tables import MAKERS
from ..rules.primitive import Primitive, Rule
from ..scipy_api.sparse.dense_products import entries, is_sparse, multiplied
from ..trace.operands import find_trace, lift_first
from ..trace.plain_arrays import as_ndarrays
from ..usercode.frames import not_supported
from .solver_calls import where_traced
from .sparse_solve import System

LINALG = "scipy.sparse.linalg"
INSTEAD = {  # functions that are not supported, and what is
    "eigs": "np.linalg.eig(A.toarray()), or eigsh if A is symmetric",
}


class EigenPairs:
    """Eigenvalues and vectors of symmetric matrices of one pattern, as a rule of the entries.

    The rule's result has one row for each pair: the eigenvalue, and the vector.

    Parameters
    ----------
    name : str
        What messages call it.
    find : callable
        ``find(entries)`` → the rows, of plain numbers.
    rows, cols : array
        The pattern; with an entry, its mirror image is given, too.
    size : int
        Of the matrix.
    """

    def __init__(self, name: str, find, rows, cols, size: int):
        self._rows, self._cols, self._size = rows, cols, size
        every, end = np.arange(size), np.full(size, size)
        bordered = [rows, every, every, end], [cols, every, end, every]
        self._system = System(*map(np.concatenate, bordered), (size + 1, size + 1), "COLAMD")
        rule = Rule(find, self._pullback, self._pushforward, None)
        rule.name = name
        self.of = Primitive(rule)

    def _across(self, w, v, data, x):
        """Return the vector y, orthogonal to v, with ``(A - w) y = x`` but for a multiple of v."""
        system = np.concatenate([data, -w * np.ones(self._size), v, v])
        return self._system.solve(system, np.append(x, 0.0))[: self._size]

    def _pullback(self, bars, pairs, data):
        total = 0.0
        for k in range(pairs.shape[0]):
            w, v = pairs[k, 0], pairs[k, 1:]
            moved = bars[k, 0] * v - self._across(w, v, data, bars[k, 1:])
            total = total + moved[self._rows] * v[self._cols]
        return (total,)

    def _pushforward(self, tangents, pairs, data):
        found = []
        for k in range(pairs.shape[0]):
            w, v = pairs[k, 0], pairs[k, 1:]
            product = multiplied(tangents[0], self._rows, self._cols, self._size, v)
            found.append(np.append(v @ product, -self._across(w, v, data, product)))
        return np.stack(found)


def _parts(name: str, A):
    """Return the entries, rows, columns and shape of a traced matrix, sparse or dense."""
    if is_sparse(A):
        A = A.tocsr()  # This adds up entries of one position.
        data, rows, cols, shape = entries(A)
    elif find_trace(A) is not None:
        shape = tuple(map(int, np.shape(A)))
        rows, cols = (index.ravel() for index in np.indices(shape))
        data = np.reshape(lift_first(A), (-1,))
    else:
        raise not_supported(f"{name} of a LinearOperator that uses traced values", "make it a sparse matrix")
    if data.dtype.kind == "c":
        raise not_supported(f"{name} of complex numbers", "use real ones")
    return data, rows, cols, shape


def _started(options: dict, size: int) -> dict:
    """Return options with a starting vector: SciPy would draw another one in each call."""
    if options.get("v0") is None:
        options["v0"] = np.random.default_rng(0).uniform(-1.0, 1.0, size)
    return options


def _matrix(data, rows, cols, shape):
    return scipy.sparse.csc_array((data, (rows, cols)), shape)


def _plain_options(name: str, call: dict) -> None:
    traced = [key for key, option in call.items() if find_trace(option) is not None]
    if traced:
        raise not_supported(f"{name} with a traced {' and '.join(traced)}", "the matrix may be traced")


def eigsh(original, *args, **kwargs):
    """Return the eigenvalues, and with ``return_eigenvectors`` the vectors, one a column."""
    call = inspect.signature(original).bind(*args, **kwargs).arguments
    A, wants_vectors = call.pop("A"), call.pop("return_eigenvectors", True)
    name = f"{LINALG}.eigsh"
    if any(call.get(key) is not None for key in ("M", "Minv", "OPinv")):
        raise not_supported(
            f"{name} with M, Minv or OPinv", "use scipy.linalg.eigh(a, b) of the whole matrices"
        )
    data, rows, cols, shape = _parts(name, A)
    _plain_options(name, call)
    options = _started(call, shape[0])

    def find(data):
        w, v = original(_matrix(data, rows, cols, shape), **options)
        return np.concatenate([w[:, None], v.T], 1)

    pairs = EigenPairs(name, find, rows, cols, shape[0]).of(data)
    return (pairs[:, 0], pairs[:, 1:].T) if wants_vectors else pairs[:, 0]


def svds(original, *args, **kwargs):
    """Return the left vectors, the singular values and the right vectors that were asked for."""
    signature = inspect.signature(original)
    call = signature.bind(*args, **kwargs).arguments
    A, wanted = call.pop("A"), call.pop("return_singular_vectors", True)
    name = f"{LINALG}.svds"
    data, rows, cols, shape = _parts(name, A)
    _plain_options(name, call)
    options = _started(call, shape[0] if call.get("solver") == "propack" else min(shape))
    m, n = shape
    draws = "rng" if "rng" in signature.parameters else "random_state"  # SciPy 1.15 renamed it
    unseeded = call.get(draws) is None

    def find(both):
        if unseeded:  # PROPACK draws also when it is given where to start: the same numbers in each call
            options[draws] = np.random.default_rng(0)
        u, s, vt = original(_matrix(both[: len(rows)], rows, cols, shape), **options)
        return np.concatenate([s[:, None], u.T / np.sqrt(2.0), vt / np.sqrt(2.0)], 1)

    mirrored = np.concatenate([rows, cols + m]), np.concatenate([cols + m, rows])
    triples = EigenPairs(name, find, *mirrored, m + n).of(np.concatenate([data, data]))
    left, s, right = triples[:, 1 : m + 1].T, triples[:, 0], triples[:, m + 1 :]
    if wanted is False:
        return s
    root = np.sqrt(2.0)
    return None if wanted == "vh" else root * left, s, None if wanted == "u" else root * right


def lobpcg(original, *args, **kwargs):
    """Return the eigenvalues that were asked for, and the vectors; where the search starts is data."""
    call = inspect.signature(original).bind(*args, **kwargs).arguments
    A, name = call.pop("A"), f"{LINALG}.lobpcg"
    if any(call.get(key) is not None for key in ("B", "Y")) or any("History" in key for key in call):
        raise not_supported(f"{name} with B, Y or histories of traced values", "use eigsh")
    data, rows, cols, shape = _parts(name, A)
    _plain_options(name, call)
    start = np.array(as_ndarrays(call.pop("X")))

    def find(data):
        w, v = original(_matrix(data, rows, cols, shape), start.copy(), **call)
        return np.concatenate([w[:, None], v.T], 1)

    pairs = EigenPairs(name, find, rows, cols, shape[0]).of(data)
    return pairs[:, 0], pairs[:, 1:].T


def _refuse(original, *args, **kwargs):
    raise not_supported(f"{LINALG}.{original.__name__} of traced values", f"use {INSTEAD[original.__name__]}")


MAKERS[LINALG].update(
    eigsh=where_traced(eigsh),
    svds=where_traced(svds),
    lobpcg=where_traced(lobpcg),
    **dict.fromkeys(INSTEAD, where_traced(_refuse)),
)
