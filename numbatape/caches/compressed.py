"""Dense Hessians from few Hessian-vector products, where the sparsity pattern needs few colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..jit.steady import CALLED
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.results import cells_of
from ..recording.recorded import Output
from ..steady_calls.outs import Out, result_outs
from ..trace import pytrees
from .dense_jacobian import samples_of
from .derived import Derived

if TYPE_CHECKING:
    from ..programs.variant import VariantWorkspace
    from .sparse_hessian import SparseHessianCache
    from .sparse_products import KnownPattern

# Where the argument has fewer entries, computing all columns takes no longer than computing some of them.
LEAST = 24
PAYS = 3  # compression is used when it needs this many times fewer products than columns


class Compressed:
    """The Hessians of a function of one array by compressed products.

    Parameters
    ----------
    cache
        The Hessian cache.
    wide
        Its derivative in lanes.
    """

    def __init__(self, cache, wide: Derived):
        sparse_hessian = imported(".sparse_hessian", __package__)  # scipy.sparse takes 0.2 s to import
        parts = cache._program, cache._prepared, cache._given, cache._kwargs, cache._names
        self.sparse: SparseHessianCache = sparse_hessian.SparseHessianCache(*parts, cache._first)
        self.sparse._shared = wide

    def known_for(self, flat: Flattened) -> tuple[VariantWorkspace, KnownPattern | None]:
        """Return a sweep of the function, and pattern and colours for its path; None if these do not pay."""
        primal = self.sparse._evaluator.forward(flat)
        if primal.variant.is_more_than_sweeps:
            return primal, None
        known = self.sparse._known_for(flat, primal)
        size = int(np.size(flat.leaves[0]))
        return primal, known if 0 < known.compression.lanes * PAYS <= size else None

    def hessian(self, flat: Flattened, known: KnownPattern) -> np.ndarray:
        """Return the Hessian as a matrix."""
        shapes = [np.shape(flat.leaves[0])]
        return self.sparse._matrix(flat, None, known, samples_of(flat), shapes, 2).toarray()


def places(known: KnownPattern, products: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (products in memory order, where each entry is in them, where it goes in the matrix)."""
    made = known.compression
    rows = np.repeat(np.arange(made.shape[0]), np.diff(made.indptr))
    return *made.in_memory(products), rows * made.shape[1] + made.indices


def views_of(known: KnownPattern):
    """Return (value's leaf, gradient, products) in the workspace, None where one is no traced array."""
    space = known.derived.last
    if space is None:
        return None
    result, grads, products = space.variant.recording.result
    leaves = pytrees.leaves((grads, products))
    if any(leaf.__class__ is not Output for leaf in (result, *leaves)) or len(leaves) != 2:
        return None
    gradient, product = cells_of(space, leaves[0]), space.outputs[leaves[1].number]
    return (result, gradient, product) if product.ndim > gradient.ndim else None


def outs_of(known: KnownPattern) -> list[Out] | None:
    """Return the outs of ``(value, gradient, Hessian)`` by compressed products, or None."""
    views, space = views_of(known), known.derived.last
    if views is None or space is None:
        return None
    result, gradient, products = views
    flat_products, place, target = places(known, products)
    shape, size = gradient.shape, gradient.size

    def whole():
        hessian = np.zeros(size * size)
        hessian[target] = flat_products.take(place)
        return hessian.reshape(shape + shape)

    return [*result_outs(space, result), Out(CALLED, gradient.copy), Out(CALLED, whole)]
