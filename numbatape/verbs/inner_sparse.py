"""Sparse derivatives inside of a function that is being traced: plain positions, traced entries.

Positions are those on the path that is traced. A product of the derivative with the
seed of each colour is recorded, and the entries are taken from the products.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ..nested.transforms import Linearised, or_zeros
from ..programs.roles import is_mark
from ..scipy_api.sparse.sparse_matrices import TracedSparse
from ..sparse.compression import (
    ROWS,
    Compression,
    compress_hessian,
    compress_jacobian,
    known_pattern,
    refuse_complex,
)
from ..sparse.pattern import among_rows
from ..sparse.stretch import pattern_of
from ..trace.array import TracedArray
from ..trace.primitives import value_of
from .inner import Call, has_floats
from .verb_calls import bare_arguments


def sparsity(function, args, order: int) -> scipy.sparse.csr_array:
    """Return where a derivative may have entries."""
    chosen = [k for k, arg in enumerate(args) if not is_mark(arg) and has_floats(arg)]
    run = _call(function, args, chosen or [0]).linearised().require_numbers()
    return _jacobian_pattern(run) if order == 1 else _hessian_pattern(run)


def jacobian(function, args, chosen, pattern, has_aux: bool):
    """Return the Jacobian with respect to the chosen argument; ``(Jacobian, aux)`` with ``has_aux``."""
    call = _call(function, args, chosen, has_aux)
    run = call.linearised().require_numbers()
    count, rows = _rows(run)
    if pattern is None:
        matrix = _jacobian_pattern(run)
    else:
        matrix = known_pattern(pattern, (count, _size(run.marks)))
    compression = compress_jacobian(matrix[rows])
    if compression.kind == ROWS:
        parts = _split(compression.seeds(), run.outputs)
        products = [_joined(run.pull(seeds), run.marks) for seeds in parts]
    else:
        parts = _split(compression.seeds(), run.marks)
        products = [_joined(run.push(seeds), run.outputs) for seeds in parts]
    matrix = _matrix(compression, products, among_rows(compression.indptr, count, rows))
    return (matrix, *call.aux) if has_aux else matrix


def hessian(function, args, chosen, pattern, has_aux: bool):
    """Return the Hessian with respect to the chosen argument; ``(Hessian, aux)`` with ``has_aux``."""
    call = _call(function, args, chosen, has_aux)
    call.require_real("a sparse derivative")
    runs: list[Linearised] = []

    def gradient(leaves):
        run = Linearised(call.trace, call.run, leaves, marked=True)
        runs.append(run)
        grads = run.gradient(run.scalar(what="Hessian"))
        return [or_zeros(part, leaf) for part, leaf in zip(grads, leaves, strict=True)]

    outer = Linearised(call.trace, gradient, call.leaves)
    if pattern is None:
        matrix = _hessian_pattern(runs[0])
    else:
        matrix = known_pattern(pattern, (_size(call.leaves),) * 2, symmetric=True)
    compression = compress_hessian(matrix)
    products = []
    for seeds in _split(compression.seeds(), outer.marks):
        pushed = iter(outer.push(seeds))
        parts = [next(pushed) if type(part) is TracedArray else None for part in outer.parts]
        products.append(_joined(parts, outer.marks))
    found = _matrix(compression, products, compression.indptr)
    return (found, *call.aux) if has_aux else found


def _call(function, args, chosen, has_aux: bool = False) -> Call:
    call = Call(function, bare_arguments(args), {}, chosen, has_aux)
    for slot in call.trace.tape.inputs:
        for dim in slot.dims:
            call.trace.tape.sizes.pin(dim)  # seeds and positions hold for these sizes only
    call.require_real("a sparse derivative")
    return call


def _jacobian_pattern(run: Linearised) -> scipy.sparse.csr_array:
    """Return the pattern of all entries of a result, also of those that are constant."""
    count, rows = _rows(run)
    own = pattern_of(run, run.results, 1).matrix
    return scipy.sparse.csr_array(
        (own.data, own.indices, among_rows(own.indptr, count, rows)), shape=(count, own.shape[1])
    )


def _hessian_pattern(run: Linearised) -> scipy.sparse.csr_array:
    output = run.scalar(what="Hessian")
    return pattern_of(run, () if output is None else (output._id,), 2).matrix


def _size(values) -> int:
    return sum(int(np.size(value_of(x))) for x in values)


def _rows(run: Linearised) -> tuple[int, np.ndarray]:
    """Return how many entries a result has, and the numbers of those of its traced floats."""
    refuse_complex(run.result)
    outputs = {id(y) for y in run.outputs}
    first, rows = 0, [np.zeros(0, np.intp)]
    for part in run.parts:
        size = 0 if part is None else int(np.size(value_of(part)))
        if id(part) in outputs:
            rows.append(np.arange(first, first + size))
        first += size
    return first, np.concatenate(rows)


def _split(seeds: np.ndarray, likes) -> list[list]:
    """Return, for each seed, one part of it per leaf, in the leaf's shape and dtype."""
    shapes = [np.shape(value_of(x)) for x in likes]
    edges = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [
        [
            part.reshape(shape).astype(np.asarray(value_of(x)).dtype)[()]
            for part, shape, x in zip(np.split(seed, edges), shapes, likes, strict=True)
        ]
        for seed in seeds
    ]


def _joined(parts, likes):
    """Return derivatives as one vector, zeros for None."""
    return np.concatenate([np.reshape(or_zeros(p, x), (-1,)) for p, x in zip(parts, likes, strict=True)])


def _matrix(compression: Compression, products: list, indptr: np.ndarray):
    """Return the matrix of entries in products: sparse with traced entries, SciPy's if they are plain."""
    data = np.zeros(0) if not products else np.take(np.concatenate(products), compression.place)
    if type(data) is not TracedArray:
        return compression.matrix(data, indptr)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    shape = len(indptr) - 1, compression.shape[1]
    return TracedSparse(data, rows, compression.indices, shape, is_matrix=False)
