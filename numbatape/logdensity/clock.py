"""Wall-clock seconds of the steps of a command."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock seconds of the steps of a run."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Add the time since the last lap to the step `name`."""
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        """Return the laps and the total."""
        return {**self._laps, "total": self._last - self._started}
