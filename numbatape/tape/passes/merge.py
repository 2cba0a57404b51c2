"""Common subexpressions: an instruction that repeats an earlier one is dropped.

This is value numbering: two instructions with the same op on the same cells have the same value, provided
that nothing writes to those cells twice (a buffer that cotangents are added to, an array filled part by
part).
"""

from __future__ import annotations

import numpy as np

from ..column_scans import repeated
from ..draft import Draft
from ..families import POOLS


def merge_common(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Drop repeated instructions, and let their readers read the first one's result."""
    return _merged(draft, code, np.ones(len(code), bool))


def merge_arrays(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Drop repeated instructions that make arrays, such as the second ``np.exp(x)`` of a function.

    Loops over numbers stay as they are: without what it shares with an earlier one, an iteration would
    not be like the others any more.
    """
    arrays = draft.is_array(code["out"])
    return _merged(draft, code, arrays) if np.count_nonzero(arrays) > 1 else code


def _merged(draft: Draft, code: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Drop those of the chosen instructions that repeat an earlier one."""
    several = draft.uses(code).writes > 1
    pooled = draft.storage < len(POOLS)
    offset = np.where(pooled, np.int32(0), draft.offset)  # in a pool, the group says it
    repeats, alias = repeated(
        code, draft.group, offset, draft.layout, several, draft.groups()[0], draft.storage_columns().T.copy()
    )
    kept = draft.group[code["out"][repeats & ~chosen]]
    alias[kept] = kept
    repeats &= chosen
    if not repeats.any():
        return code
    draft.redirect(alias)
    return code[~repeats]
