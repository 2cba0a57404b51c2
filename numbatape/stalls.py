"""Announcing stalls: work that takes more than a second says so in one line on stderr.

This happens at a terminal or in a notebook only, so that logs and pipes stay clean, and
``NUMBATAPE_QUIET=1`` turns it off. It needs neither a thread nor a timer: the work itself reads the clock at
points where that costs nothing. So the line appears at the first such point after a second, is updated
while the work goes on, and in the end says what was done.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

LONG = 1.0  # seconds; shorter work is not announced
# A trace looks at the clock where none of these bits is set: at every 4096th number, at every 64th array.
LOOKS, ARRAY_LOOKS = 0xFFF, 0x3F
REDRAW = 0.2
PAUSE = 0.5  # seconds at most between pieces of work that count as one


class Work(threading.local):
    """A kind of work, in each thread.

    Parameters
    ----------
    doing, done
        The words for it while it goes on and at its end: "compiling", "compiled".
    unit
        The unit that is counted.
    linked
        Whether pieces that follow one another within `PAUSE` count as one.

    Attributes
    ----------
    count
        How many units are done.
    note
        Text that is added at the end.
    """

    def __init__(self, doing: str, done: str, unit: str, linked: bool = False):
        self.doing, self.done, self.unit, self.linked = doing, done, unit, linked
        self.purpose = self.note = ""
        self.count = 0
        self.quiet = False
        self._depth = 0
        self._began = self._ended = self._drawn = -math.inf
        self._width = 0  # the width of the line that is shown

    @contextlib.contextmanager
    def piece(self, purpose: str = "", quiet: bool = False) -> Iterator[None]:
        """Mark a piece of the work; a piece inside of another one is part of it.

        Parameters
        ----------
        purpose
            What the work is for: the name of the user's function, say.
        quiet
            Whether other code informs the user.
        """
        self._depth += 1
        if self._depth == 1:
            now = time.monotonic()
            if not self.linked or now - self._ended > PAUSE:
                self._began, self.count, self.note = now, 0, ""
            self.purpose, self.quiet, self._drawn = purpose, quiet, -math.inf
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._end()

    def step(self, count: int, where: Callable[[], object] | None = None) -> None:
        """Note how many units are done.

        Parameters
        ----------
        where
            Returns the user's line that the work has come to. It is called if the line is shown.
        """
        self.count = count
        now = time.monotonic()
        if self._depth and now - self._began > LONG and now - self._drawn > REDRAW:
            self._drawn = now
            self._draw(f"{self.doing} {self._what()}{f', now at {where()}' if where else ''} ...")

    def _end(self) -> None:
        self._ended = now = time.monotonic()
        if self.count and now - self._began > LONG:
            note = f" ({self.note})" if self.note else ""
            self._draw(f"{self.done} {self._what()} in {now - self._began:.1f} s{note}", "\n")
            self._ended = -math.inf  # later pieces do not continue this one

    def _what(self) -> str:
        unit = self.unit.removesuffix("s") if self.count == 1 else self.unit
        return f"{self.count} {unit}{self.purpose and ' for ' + self.purpose}"

    def _draw(self, text: str, end: str = "") -> None:
        if self.quiet or not is_seen():
            return
        text = f"numbatape: {text}"
        with contextlib.suppress(OSError, ValueError):  # stderr was closed meanwhile
            sys.stderr.write("\r" + text.ljust(self._width) + end)
            sys.stderr.flush()
        self._width = 0 if end else len(text)


def is_seen() -> bool:
    """Return whether a person sees stderr: whether it is a terminal or a notebook's cell."""
    stream = sys.stderr
    if stream is None or os.environ.get("NUMBATAPE_QUIET", "0") not in ("", "0"):
        return False
    try:
        return stream.isatty() or type(stream).__module__.startswith("ipykernel.")
    except (AttributeError, ValueError):  # an unusual stream, or a closed one
        return False


TRACING = Work("tracing", "traced", "operations")
COMPILING = Work("compiling", "compiled", "kernels", linked=True)
