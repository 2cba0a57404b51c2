"""Parameters that are labelled arrays: what remains of them, and their labels."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import SpecError
from ..trace import pytrees
from ..verbs.structures import path_of


def without_labels(tree, dims=None, coords=None) -> tuple:
    """Return a tree with plain arrays, names of axes by path, and labels by axis.

    Those of arrays of xarray are added to what is given.
    """
    for name, given in (("dims", dims), ("coords", coords)):
        if given is not None and not isinstance(given, Mapping):
            raise SpecError(f"{name} must be a dictionary, got {type(given).__name__}")
    dims, coords = dict(dims or {}), dict(coords or {})
    leaves, structure = pytrees.flatten(tree, _is_data_array)
    plain = []
    for leaf, keys in zip(leaves, structure.paths(), strict=True):
        if _is_data_array(leaf):
            dims.setdefault(path_of(keys) or "x", tuple(map(str, leaf.dims)))
            for name, labels in leaf.coords.items():
                if labels.dims == (name,):
                    coords.setdefault(str(name), labels.to_numpy())
            leaf = leaf.to_numpy()
        plain.append(leaf)
    return pytrees.unflatten(structure, plain), dims, coords


def _is_data_array(x) -> bool:
    return type(x).__name__ == "DataArray" and type(x).__module__.startswith("xarray.")
