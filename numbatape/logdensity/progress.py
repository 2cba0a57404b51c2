"""A progress bar on a terminal's stderr: rich's when installed, a plain one otherwise."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from typing import Any, Protocol

DELAY = 0.5  # seconds; shorter runs show no bar, and need not import rich
INTERVAL = 0.1
WIDTH = 30


def counted(number: int, unit: str) -> str:
    """Return a number with its unit, which has an s unless there is one: "1 draw"."""
    return f"{number} {unit}{'s' * (number != 1)}"


class Bar(Protocol):
    """The methods of a bar."""

    def show(self, done: int) -> None: ...
    def close(self) -> None: ...


class Progress:
    """Counts finished draws, or other units, from any thread; silent unless stderr is a terminal."""

    def __init__(self, total: int, unit: str = "draws") -> None:
        self.total, self.unit = total, unit
        self.done = 0
        self._lock = threading.Lock()
        self._bar: Bar | None = None
        self._silent = not sys.stderr.isatty()
        self._next = time.monotonic() + DELAY

    def __enter__(self) -> Progress:
        return self

    def advance(self, count: int) -> None:
        """Count `count` more."""
        with self._lock:
            self.done += count
            if self._silent or time.monotonic() < self._next:
                return
            if self._bar is None:
                has_rich = importlib.util.find_spec("rich") is not None
                self._bar = (RichBar if has_rich else PlainBar)(self.total, self.unit)
            self._bar.show(self.done)
            self._next = time.monotonic() + INTERVAL

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.show(self.done)
            self._bar.close()


class PlainBar:
    """A bar of text on one line, which is overwritten."""

    def __init__(self, total: int, unit: str) -> None:
        self.total, self.unit = total, unit
        self._started = time.monotonic() - DELAY

    def show(self, done: int) -> None:
        """Draw the bar with `done` units finished."""
        filled = WIDTH * done // self.total
        left = (time.monotonic() - self._started) * (self.total - done) / max(done, 1)
        bar = "#" * filled + "." * (WIDTH - filled)
        sys.stderr.write(f"\r[{bar}] {done}/{self.total} {self.unit}, {left:.0f} s left ")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        sys.stderr.write("\n")


class RichBar:
    """The progress bar of rich, which is imported only here."""

    def __init__(self, total: int, unit: str) -> None:
        from rich.console import Console
        from rich.progress import Progress as Rich

        self._rich: Any = Rich(console=Console(stderr=True))
        self._task = self._rich.add_task(unit, total=total)
        self._rich.start()

    def show(self, done: int) -> None:
        """Draw the bar with `done` units finished."""
        self._rich.update(self._task, completed=done)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._rich.stop()
