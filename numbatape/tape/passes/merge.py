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
from ..instruction import chosen, copied


def merge_common(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Drop repeated instructions, and let their readers read the first one's result."""
    repeats, alias = _repeated(draft, code, np.ones(len(code), bool))
    return _dropped(draft, code, repeats, alias) if repeats.any() else code


def merge_arrays(draft: Draft, code: np.ndarray, start: int = 0, read_later: bool = False) -> np.ndarray:
    """Drop repeated instructions that make arrays, such as the second ``np.exp(x)`` of a function.

    Loops over numbers stay as they are. An iteration without the instructions that it shares with an earlier
    one would not be like the others any more.

    Parameters
    ----------
    start
        The first instruction that is looked at.
    read_later
        Whether instructions that are not recorded yet may read the cells of any result. Then repeated
        instructions stay, but no value names their results any more.
    """
    arrays = draft.is_array(draft.fields(code).out)
    arrays[:start] = False
    if np.count_nonzero(arrays) < 2:
        return code
    repeats, alias = _repeated(draft, code, arrays, start)
    if not repeats.any():
        return code
    return (_passed_over if read_later else _dropped)(draft, code, repeats, alias)


def _repeated(draft: Draft, code: np.ndarray, wanted: np.ndarray, start: int = 0):
    """Return which of the wanted instructions repeat an earlier one, and what replaces each group."""
    several = draft.uses(code).writes > 1
    pooled = draft.storage < len(POOLS)
    offset = np.where(pooled, np.int32(0), draft.offset)  # the group of a value in a pool is its cell
    homes, storages = draft.groups()[0], draft.storage_columns().T.copy()
    found, alias = repeated(code[start:], draft.group, offset, draft.layout, several, homes, storages)
    repeats = np.append(np.zeros(start, bool), found)
    kept = draft.group[code["out"][repeats & ~wanted]]
    alias[kept] = kept
    return repeats & wanted, alias


def _dropped(draft: Draft, code: np.ndarray, repeats: np.ndarray, alias: np.ndarray) -> np.ndarray:
    draft.redirect(alias)
    return chosen(code, ~repeats)


def _passed_over(draft: Draft, code: np.ndarray, repeats: np.ndarray, alias: np.ndarray) -> np.ndarray:
    """Let values refer to the first results; repeated instructions write to values of their own."""
    again = draft.views_again(code["out"][repeats])
    draft.redirect(alias, again)
    # A repeated instruction can fail only where the first one has failed before.
    draft.builder.spare.update(again)
    code = copied(code)
    code["out"][repeats] = again
    return code
