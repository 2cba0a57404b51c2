"""Levels of processors: a release build compiles for each, and a process loads from the best it has."""

from __future__ import annotations

import functools
import platform
import sys
from pathlib import Path
from typing import NamedTuple

FEATURES = Path("/proc/cpuinfo")  # what the processor has and the system lets programs use


class Level(NamedTuple):
    """Processors that one set of object files serves.

    Attributes
    ----------
    name
        The name of its files in the wheel.
    cpu, triple
        LLVM's names of the processor and of the system.
    architecture
        What `platform.machine` calls it.
    needs
        Features of the level that those below it lack, as Linux names them.
    """

    name: str
    cpu: str
    triple: str
    architecture: str
    needs: tuple[str, ...]


_X86 = "x86_64-unknown-linux-gnu", "x86_64"
_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = ("abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_V4 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# Those of an architecture from the lowest to the highest, which has what the lower ones have.
LEVELS = (
    Level("x86-64-v2", "x86-64-v2", *_X86, _V2),
    Level("x86-64-v3", "x86-64-v3", *_X86, _V3),
    Level("x86-64-v4", "x86-64-v4", *_X86, _V4),
    Level("aarch64", "generic", "aarch64-unknown-linux-gnu", "aarch64", ()),
)


@functools.cache
def here() -> tuple[Level, ...]:
    """Return the levels whose object files run on this machine, the highest first."""
    if sys.platform != "linux":  # object files of other systems have other formats, and other conventions
        return ()
    found: list[Level] = []
    for level in (level for level in LEVELS if level.architecture == platform.machine()):
        if not features().issuperset(level.needs):
            break
        found.insert(0, level)
    return tuple(found)


@functools.cache
def features() -> frozenset[str]:
    """Return the features of the first processor, as Linux names them; none where it does not say."""
    try:
        with FEATURES.open() as lines:
            for line in lines:
                what, _, names = line.partition(":")
                if what.strip() in ("flags", "Features"):
                    return frozenset(names.split())
    except OSError:
        pass
    return frozenset()
