"""The tables of blocks that run strip by strip, which `numbatape.engine.strips.strip_kernels` reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...tape.tape import FAMILY_DTYPE
from .. import segments
from ..frame import CELL_O, RECORD_WORD, STRIDE
from ..vectors import STRIP_OPCODE, vector_arms
from .strip_blocks import Block
from .strip_kernels import BLOCK
from .strip_rows import STRIP

# One instruction runs a whole block. The places of the block's other instructions hold this one, which copies
# no cells, so that the numbers of later instructions stay what they are.
_NOTHING = next(number for number, op, _ in vector_arms() if op.moves)
_NOTHING_AT_ALL = (_NOTHING, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Strips:
    """The blocks of a plan as tables.

    Attributes
    ----------
    blocks
        One row of words (`strip_kernels.BLOCK`) for each block; addresses are those of the tables below.
    first
        Instructions and records of each block, as they are for its first strip.
    moves, counts, totals
        Which words the kernel moves on from strip to strip, which are the number of cells (that of the last
        strip is smaller), and which totals of strips it adds up at the end.
    parts
        The rows of ``blocks`` that belong to each block: a block that takes long is cut into several, with
        some strips each, between which Python looks for signals.
    extents
        The first and the last instruction (exclusively) of each block.
    end
        The first cell behind the totals of strips.
    opcodes
        Those that occur in blocks only.
    spans
        The first strip of each row of ``blocks``, how many strips it has at most, and how many totals it adds
        up if it has the last one.
    work
        The work of all instructions over vectors that are worth strips, in blocks or not.
    """

    blocks: np.ndarray
    first: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    parts: tuple[range, ...]
    extents: tuple[tuple[int, int], ...]
    end: int
    opcodes: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    work: float = 0.0

    def words(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the blocks for one workspace, and the memory for the words that its sweeps change."""
        blocks, memory = self.blocks.copy(), [first.copy() for first in self.first]
        blocks[:, BLOCK.index("words")] = [words.ctypes.data for words in memory]
        return blocks, memory


class FirstStrip(NamedTuple):
    """The words of a block as they are for its first strip, and what changes from strip to strip.

    Attributes
    ----------
    words
        Instructions, and records behind them.
    moves
        Which words move on, and by how much.
    counts
        Which words are the number of cells.
    totals
        For each sum its cell, the first cell of the totals of strips, how many these are, and what they
        become (`strip_kernels.total_kind`).
    clears
        What is cleared before the first strip: the first cell, how many, and the bytes of one.
    end
        The first cell behind the totals of strips.
    """

    words: np.ndarray
    moves: list[tuple[int, int]]
    counts: list[int]
    totals: list[tuple[int, int, int, int]]
    clears: list[tuple[int, int, int]]
    end: int


def _first_strip(
    block: Block, rows: np.ndarray, aux: np.ndarray, moving: Callable[[int], bool], end: int, spare: float
) -> FirstStrip:
    """Return the words of a block for its first strip.

    Parameters
    ----------
    rows
        Its instructions, which are changed.
    moving
        Whether a value has all of its cells, so that each strip has others.
    """
    records: list[int] = []
    moves, counts, totals, clears = [], [], [], []
    for k, row in enumerate(block.rows):
        if row.done:
            rows[k] = _NOTHING_AT_ALL
            continue
        record = STRIDE * len(rows) + len(records)
        words = [STRIDE * k + place for place in range(STRIDE)]
        count, its_record = row.in_block
        words += [record + place for place in range(len(its_record))]
        if its_record:
            rows[k, RECORD_WORD] = len(records)
            records += aux[its_record.start : its_record.stop].tolist()
        if row.single is not None:
            rows[k, 0] = row.single
        counts.append(words[count])
        for operand in row.operands:
            if operand.step and moving(operand.value):
                moves.append((words[operand.place], STRIP * operand.step))
        if row.adds:
            strips = -(-row.cells // STRIP)
            totals.append((row.out.cell, end, strips, row.total))
            rows[k, CELL_O] = end
            moves.append((words[CELL_O], 1))
            end += int(spare * strips) + 1
        if row.clears:
            clears.append((row.out.cell, row.clears, FAMILY_DTYPE[row.family].itemsize))
        for result in (row.out, row.second):
            if result is not None and not row.gathers_all and moving(result.value):
                moves.append((words[result.place], STRIP))
        if row.second is not None:
            rows[k, row.second.place] = row.second.cell
    first = np.concatenate([rows.reshape(-1), np.array(records, np.int32)]).astype(np.int32)
    first[counts] = STRIP
    return FirstStrip(first, moves, counts, totals, clears, end)


def with_strips(
    code: np.ndarray,
    aux: np.ndarray,
    storage: np.ndarray,
    blocks: list[Block],
    narrow: np.ndarray,
    end: int,
    pieces: list[int],
    spare: float = 1.0,
) -> tuple[np.ndarray, Strips]:
    """Return a plan's instructions in which each block is run by one instruction, and the blocks' tables.

    Parameters
    ----------
    storage
        The storage of each value.
    narrow
        The storages that have the cells of one strip.
    end
        The float64 cell from which on totals of strips are kept.
    pieces
        Into how many parts each block is to be cut.
    spare
        There is room for more totals than these blocks have, by this factor.
    """

    def moving(value: int) -> bool:
        return not narrow[storage[value]]

    code, table, firsts, tables, parts = code.copy(), [], [], [], []
    spans: list[tuple[int, int, int]] = []
    for block, wanted in zip(blocks, pieces, strict=True):
        its = _first_strip(block, code[block.start : block.stop].copy(), aux, moving, end, spare)
        end = its.end
        arrays = [np.array(each or [0], np.int32) for each in its[1:5]]
        tables += arrays
        many = -(-block.cells // STRIP)
        most = -(-int(spare * block.cells) // STRIP)
        span = -(-most // wanted)
        begins = range(0, most, span)
        for begin in begins:
            here = its.words.copy()
            for place, step in its.moves:
                here[place] += begin * step
            words = {
                "first": here.ctypes.data,
                "bytes": here.nbytes,
                "rows": len(block.rows),
                "strip": STRIP,
                "cells": max(0, min(STRIP * span, block.cells - STRIP * begin)),
                "moves": arrays[0].ctypes.data,
                "move_count": len(its.moves),
                "counts": arrays[1].ctypes.data,
                "count_count": len(its.counts),
                "totals": arrays[2].ctypes.data,
                "total_count": len(its.totals) if begin < many <= begin + span else 0,
                "clears": arrays[3].ctypes.data,
                "clear_count": len(its.clears) if begin == 0 else 0,
                "begin": STRIP * begin,
            }
            table.append([words.get(name, 0) for name in BLOCK])
            firsts.append(here)
            spans.append((begin, span, len(its.totals)))
        parts.append(range(len(table) - len(begins), len(table)))
        code[block.start : block.stop] = _NOTHING_AT_ALL
        code[block.start] = strip_instruction(parts[-1][0])
    extents = tuple((block.start, block.stop) for block in blocks)
    opcodes = {row.single for block in blocks for row in block.rows if row.single is not None}
    words = np.array(table, np.int64).reshape(-1, len(BLOCK))
    arrays = tuple(firsts), tuple(tables), tuple(parts)
    return code, Strips(words, *arrays, extents, end, tuple(opcodes), tuple(spans))


def strip_instruction(number: int) -> tuple[int, ...]:
    """Return the instruction that runs a block, or a part of one."""
    return (STRIP_OPCODE, 0, number, 0, 0, 0)


def pieces_of(work: np.ndarray, blocks: list[Block], spare: float = 1.0) -> list[int]:
    """Return into how many parts each block has to be cut, so that none takes longer than a segment.

    The vectors may be longer, by the factor ``spare``, than those for which the work was estimated.
    """
    works = (spare * work[block.start : block.stop].sum() for block in blocks)
    return [max(1, int(np.ceil(its / segments.MOST))) for its in works]


def cuts_of_blocks(cuts: segments.Cuts, blocks: list[Block], strips: Strips) -> segments.Cuts:
    """Return the cuts of a plan after its blocks have become single instructions."""
    stops, parts = set(cuts.stops), dict(cuts.parts)
    for block, numbers in zip(blocks, strips.parts, strict=True):
        for k in range(block.start, block.stop):
            parts.pop(k, None)
        if len(numbers) > 1:
            stops |= {block.start, block.start + 1} - {0}
            parts[block.start] = (
                np.array([strip_instruction(k) for k in numbers], np.int32),
                np.zeros(1, np.int32),
            )
    return segments.Cuts(sorted(stops), parts)
