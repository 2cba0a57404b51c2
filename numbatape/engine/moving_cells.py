"""`MovingCells`: the memory of a workspace that follows plans of further sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..tape.families import FAMILIES, FAMILY_DTYPE
from .frame import WORD
from .workspace import aligned

ROOM = 1.25  # memory grows by this factor beyond what a plan needs
ITEMSIZE = tuple(dtype.itemsize for dtype in FAMILY_DTYPE)
# Words of the frame, by family.
_V, _G = (WORD["V64"], WORD["V32"]), (WORD["G64"], WORD["G32"])
_FIRST = WORD["FIRST64"], WORD["FIRST32"]


class MovingCells:
    """Value cells and adjoints, and the words of a frame that say where they are. Memory never shrinks.

    Parameters
    ----------
    frame
        The frame's words.
    v, g
        The arrays that there are, by family.
    families
        The numbers of the families that have cells.

    Attributes
    ----------
    v, g
        Value cells and adjoints by family: lists that stay the same, with arrays that do not.
    at_v, at_g
        The addresses of these arrays, in lists that stay the same.
    """

    def __init__(
        self,
        frame: memoryview,
        v: Sequence[np.ndarray],
        g: Sequence[np.ndarray],
        families: Iterable[int] = range(len(FAMILIES)),
    ):
        self._frame, self._families = frame, families
        self.v, self.g = list(v), list(g)
        self.at_v, self.at_g = ([array.ctypes.data for array in arrays] for arrays in (v, g))
        for word, address in zip(_V, self.at_v, strict=True):
            frame[word] = address

    def follow(self, ends: memoryview) -> bool:
        """Make room for a plan, and let the frame say where its cells are; return whether values moved.

        Parameters
        ----------
        ends
            Where the constant, the varying and the active cells of each family end.
        """
        frame, moved = self._frame, False
        for family in self._families:
            end, total = ends[3 * family + 1], ends[3 * family + 2]
            if total > len(self.v[family]):
                self.v[family] = aligned(int(ROOM * total), FAMILY_DTYPE[family])
                self.at_v[family] = frame[_V[family]] = self.v[family].ctypes.data
                moved = True
            if total - end > len(self.g[family]):
                self.g[family] = aligned(int(ROOM * (total - end)), FAMILY_DTYPE[family])
                self.at_g[family] = self.g[family].ctypes.data
            frame[_G[family]] = self.at_g[family] - ITEMSIZE[family] * end
            frame[_FIRST[family]] = end
        return moved
