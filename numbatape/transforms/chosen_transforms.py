"""Which transform of a given tree belongs to which parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import SpecError, StructureError
from ..verbs.structures import path_of
from .transform import Transform, real


def transform_of(transforms, keys: tuple, done: tuple) -> Transform:
    """Return the transform of the parameter at ``keys`` below a part of the given tree of transforms."""
    if transforms is None:
        return real
    if isinstance(transforms, Transform):
        return transforms
    if not isinstance(transforms, (Mapping, list, tuple)):
        raise SpecError(f"transforms of {path_of(done) or 'the parameters'}: {transforms!r} is no transform")
    if not keys:
        raise StructureError(f"{path_of(done) or 'the parameters'}: a single array takes one transform")
    key = keys[0]
    if isinstance(transforms, Mapping):
        found = transforms.get(key)
    else:
        found = transforms[key] if isinstance(key, int) and key < len(transforms) else None
    return transform_of(found, keys[1:], (*done, key))


def require_known(transforms, paths: Sequence[tuple], done: tuple) -> None:
    """Raise if a tree of transforms names what is no parameter."""
    if isinstance(transforms, Mapping):
        items = transforms.items()
    elif isinstance(transforms, (list, tuple)):
        items = enumerate(transforms)
    else:
        return
    for key, part in items:
        below = [keys[1:] for keys in paths if keys and keys[0] == key]
        if not below:
            known = ", ".join(sorted({path_of((*done, *keys)) for keys in paths}))
            raise StructureError(
                f"transforms: {path_of((*done, key))} is no parameter; the parameters are {known}"
            )
        require_known(part, below, (*done, key))
