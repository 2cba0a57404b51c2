"""What the methods of traced values do, by name: indexing, writing, NumPy's functions.

The classes of traced values are below all files that compute with them: indexing makes traced arrays, and
so does every function of NumPy. So that imports point one way, the methods look such operations up here
when they run, as ``operations.getitem(x, key)``. The file that defines an operation is imported when the
operation is first needed; `numbatape.recording.contents` announces which file that is.
"""

from __future__ import annotations

from ..late import imported

_files: dict[str, str] = {}


def announce(file: str, *names: str) -> None:
    """Say that a file defines operations of these names."""
    for name in names:
        assert name not in _files, f"{name} is announced twice"
        _files[name] = file


def announced() -> dict[str, str]:
    """Return the file of each operation."""
    return dict(_files)


def __getattr__(name: str):
    file = _files.get(name)
    if file is None:
        raise AttributeError(f"no file has announced an operation {name!r}")
    # Kept as an attribute of this module, which the interpreter looks up as fast as an imported name.
    found = globals()[name] = getattr(imported(file), name)
    return found
