"""Names, for messages, of what a function refers to, and of the part of it that has changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .captured import Captured, is_empty

_NOTHING = object()


def name_of_container(noted: Captured, container) -> str:
    """Return what messages call a list, a dictionary or a set."""
    for _, name, value in noted.names():
        if value is container:
            return f"`{name}`"
    for mapping, before in noted.dictionaries().values():
        for key, value in before.items():
            if value is container and isinstance(key, str):
                return name_of_entry(noted, mapping, key)
    return f"a {type(container).__name__}"


def owner_of(noted: Captured, mapping):
    """Return the object whose attributes a dictionary holds; None if it is a dictionary like others."""
    return next((x for x in noted.reached() if getattr(x, "__dict__", None) is mapping), None)


def name_of_entry(noted: Captured, mapping, key) -> str:
    """Return what messages call an entry of a container, or an attribute of the object that has it."""
    owner = owner_of(noted, mapping)
    if owner is not None:
        return f"`{type(owner).__name__}.{key}`"
    name = name_of_container(noted, mapping)
    return f"{name[:-1]}[{key!r}]`" if name.endswith("`") else f"{name}[{key!r}]"


def name_of_change(noted: Captured) -> str | None:
    """Return the name of something that has another value than before; None where none is known."""
    for mapping, key, value in noted.bindings():
        if mapping.get(key, _NOTHING) is not value:
            return f"`{key}`"
    for cell, name, value in noted.variables():
        if is_empty(cell) or cell.cell_contents is not value:
            return f"`{name}`"
    for mapping, before in noted.dictionaries().values():
        for key, value in before.items():
            if mapping.get(key, _NOTHING) is not value:
                return name_of_entry(noted, mapping, key)
    for container, entries in noted.sequences():
        changed = len(container) != len(entries) or any(
            a is not b for a, b in zip(container, entries, strict=True)
        )
        if changed and isinstance(container, (list, dict)):
            return name_of_container(noted, container)
    return next((name_of_container(noted, array) for array in written_arrays(noted)), None)


def written_arrays(noted: Captured) -> Iterator[np.ndarray]:
    """Yield arrays that have other contents or another shape than before."""
    for array, copy in noted.arrays:
        if array.shape != copy.shape or array.tobytes() != copy.tobytes():
            yield array
