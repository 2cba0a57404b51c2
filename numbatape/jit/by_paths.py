"""Builtins of steady calls by what guards see that come first on their tapes.

Where calls take turns on several paths, the builtin in front copied all arguments and swept until a guard
stopped it, and Python asked the next one. Here it runs the guards that come first before it copies an array,
with the few cells that these read. If one of them stops, it goes on with the words of the builtin for the
other path, which asks its own guards in the same way. What is found is checked in full by the sweep of the
builtin that serves in the end: a wrong entry of the table costs time, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .by_sizes import OFTEN
from .object_layout import DATA, WORD

# The head of a table: the address of the word that says where the guards have stopped; the words that were
# found last, and how often in a row; and how many rows there are.
PATHS = ("stopped", "last", "times", "count")
# What guards read of an array: the number of the leaf, bytes from its first, how many, and where these go.
PEEK = ("leaf", "place", "bytes", "cell")
PATH = ("stop", "cell", "seen", "words", "object")  # words of 0 are those of a builtin that has gone
STOP, SEEN, GOES_ON = map(PATH.index, ("stop", "seen", "words"))
MOST_PATHS = 16
MOST_HOPS = 64  # A call goes from builtin to builtin no more often than this.


class ByPaths:
    """A table of builtins by where the guards of one have stopped, and what they saw there.

    Attributes
    ----------
    address
        Of the table.
    """

    def __init__(self) -> None:
        self._words = np.zeros(len(PATHS) + MOST_PATHS * len(PATH), np.int64)
        self._rows = self._words[len(PATHS) :].reshape(MOST_PATHS, len(PATH))
        self.address = self._words.ctypes.data

    def watch(self, stopped: np.ndarray) -> None:
        """Let a word say where the guards have stopped."""
        self._words[PATHS.index("stopped")] = stopped.ctypes.data
        self._alive = stopped

    def put(self, stop: int, cell: int, seen: float, builtin) -> tuple[int, Callable] | None:
        """Go on with a builtin, which somebody keeps alive, where a guard sees a number in a cell.

        Returns
        -------
        row, end
            The number of a row of the table, and what ends that. None where calls go on already, or where
            the table is full.
        """
        bits, words = int(np.float64(seen).view(np.int64)), builtin.__self__
        known = [tuple(row) for row in self._rows[:, [STOP, SEEN]].tolist()]
        free = (self._rows[:, GOES_ON] == 0).nonzero()[0].tolist()
        same = [k for k, its in enumerate(known) if its == (stop, bits) and k not in free]
        if same or not free:
            return None
        rows, k = self._rows, free[0]
        rows[k] = stop, cell, bits, words, id(builtin)
        self._words[PATHS.index("count")] = max(int(self._words[PATHS.index("count")]), k + 1)

        def end(_=None) -> None:
            if rows[k, GOES_ON] == words:
                rows[k, GOES_ON] = 0

        return k, end


# ---- what a builtin does, as IR


def interrupt(text, head) -> None:
    """Write that a builtin has served a call itself, so that no other one serves many in a row."""
    text.builder.store(text.i64(0), _word(text, head, "times"))


def ask_first(text, w, words, arguments) -> None:
    """Write that the guards that come first are run, with what they read; go on if all of them hold.

    Parameters
    ----------
    w, words
        The words of the builtin by name, and their address, which is another one in the next turn.
    """
    builder, i64 = text.builder, text.i64
    number, end = text.each(w["peek_count"])
    peek = text.fields(text.address(w["peeks"]), number, PEEK)
    data = text.load(builder.load(builder.gep(arguments, [peek["leaf"]])), text.pointer, DATA)
    source = builder.gep(data, [peek["place"]])
    builder.call(text.memcpy, [text.address(peek["cell"]), source, peek["bytes"], text.i1(0)])
    end()
    leading = builder.inttoptr(w["leading"], text.ir.FunctionType(i64, [i64, i64]).as_pointer())
    outcome = builder.call(leading, [w["frame"], w["lead"]])
    hold, search = text.block(), text.block()
    builder.cbranch(text.equal(outcome, i64(0)), hold, search)
    text.at(search)
    _go_on(text, text.address(w["paths"]), words)
    text.at(hold)


def _go_on(text, head, words) -> None:
    """Write a search for the path that a guard has seen; with what it finds, the next turn begins."""
    builder, i64 = text.builder, text.i64
    stop = text.load(text.load(head, text.pointer), i64)
    rows = builder.gep(head, [i64(WORD * len(PATHS))])
    before, turn, used, found = builder.block, text.block(), text.block(), text.block()
    text.go(turn)
    text.at(turn)
    number = builder.phi(i64)
    number.add_incoming(i64(0), before)
    count = builder.load(_word(text, head, "count"))
    builder.cbranch(builder.icmp_signed("<", number, count), used, text.stopped)
    text.at(used)
    path = text.fields(rows, number, PATH)
    seen = text.load(text.address(path["cell"]), i64)
    known = builder.icmp_signed("!=", path["words"], i64(0))
    fits = builder.and_(text.equal(path["stop"], stop), text.equal(path["seen"], seen))
    number.add_incoming(builder.add(number, i64(1)), used)
    builder.cbranch(builder.and_(known, fits), found, turn)
    text.at(found)
    last, times = _word(text, head, "last"), _word(text, head, "times")
    more = builder.add(builder.load(times), i64(1))
    again = builder.select(text.equal(builder.load(last), path["words"]), more, i64(0))
    builder.store(path["words"], last)
    builder.store(again, times)
    hops = builder.add(builder.load(text.hops), i64(1))
    builder.store(hops, text.hops)
    few = builder.and_(
        builder.icmp_signed("<", again, i64(OFTEN)), builder.icmp_signed("<", hops, i64(MOST_HOPS))
    )
    text.go_on_if(few)
    text.let_go()
    its = text.address(path["object"])
    text.call("Py_IncRef", its)
    builder.store(its, text.held)
    words.add_incoming(text.address(path["words"]), builder.block)
    text.go(text.again)


def _word(text, head, name: str):
    """Return the address of a word of the head."""
    return text.builder.bitcast(text.builder.gep(head, [text.i64(WORD * PATHS.index(name))]), text.words)
