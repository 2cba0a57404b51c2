"""Which files may be loaded as machine code: the user's own and root's, where nobody else can write.

The check is of POSIX owners and permission bits; access control lists are not looked at. Elsewhere (Windows)
the cache directory is in the user's profile, which others cannot write to, and nothing is checked.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def refusal(directory: Path) -> str | None:
    """Return why files in a directory cannot be trusted; None where they can.

    Whoever can write to a directory above it can replace it, except where the sticky bit protects each user's
    entries, as in ``/tmp``. A symbolic link on the way must be the user's or root's, too.
    """
    if os.name != "posix":
        return None
    place = Path(os.path.abspath(directory))
    for path in (place, *place.parents):
        reason = _reason(path, place)
        if reason is not None:
            return reason
    real = Path(os.path.realpath(place))
    return None if real == place else refusal(real)


def _reason(path: Path, place: Path) -> str | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None  # we create it, for us only
    except OSError as error:
        return f"{path} cannot be looked at ({error.strerror})"
    if not _own(found):
        return f"{path} belongs to another user (number {found.st_uid})"
    if stat.S_ISLNK(found.st_mode) or not found.st_mode & OTHERS_WRITE:
        return None
    if path != place and found.st_mode & stat.S_ISVTX:
        return None
    return f"other users may write to {path} (`chmod go-w` ends that)"


def _own(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0)


def read_own(path: Path) -> bytes:
    """Return the content of a regular file that nobody else could have written.

    Raises
    ------
    OSError
        Where there is none, or it is another's, or a symbolic link.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if os.name == "posix" and not is_own_file(found):
            raise PermissionError(f"{path}: another user's, or others may write to it")
        return file.read()


def is_own_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and _own(found) and not found.st_mode & OTHERS_WRITE
