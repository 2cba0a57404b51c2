"""`PreparedCache.profile`: how long each instruction of a cache's tape takes, and how much memory it has.

The sweeps run one instruction at a time, between stops of the clock, as a long sweep runs in segments
(`numbatape.engine.segments`). What entering a kernel takes by itself is measured, and subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

import numpy as np

from ..engine.frame import WORD
from ..engine.segments import Cuts, Segments
from ..programs.trace_log import source_of
from ..tape.html_tables import bar, table
from ..tape.tape import FAMILY_DTYPE

MOST_ROWS = 25


class Profile(list):
    """Time and bytes of each instruction of a tape: a list with a dictionary for each.

    It prints as two tables, of the lines that cost most and of the passes; a notebook shows them with bars.

    Parameters
    ----------
    rows : list of dict
        The instructions, in their order.
    passes : sequence
        What passes did when the tape was recorded (`numbatape.tape.tape.Rewrite`).

    Attributes
    ----------
    seconds : float
        Of all instructions, in both sweeps.
    """

    def __init__(self, rows=(), passes=()):
        super().__init__(rows)
        self._passes = tuple(passes)

    @property
    def seconds(self) -> float:
        return sum(row["forward"] + row["reverse"] for row in self)

    def by_line(self) -> list[dict]:
        """Return one dictionary for each source line, those that cost most first.

        Returns
        -------
        list of dict
            ``line`` (file and number), ``source`` (its text), ``instructions`` (how many it has recorded),
            ``ops`` (how many of each op), ``forward`` and ``reverse`` (seconds), ``bytes`` (of all results).

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x)), np.ones(1000))
        >>> [(each["instructions"], each["ops"], each["bytes"]) for each in cache.profile().by_line()]
        [(2, {'exp': 1, 'sum': 1}, 8008)]
        """
        found: dict[str, dict] = {}
        for row in self:
            empty = {"line": row["line"], "source": row["source"], "instructions": 0, "ops": {}}
            entry = found.setdefault(row["line"], empty | {"forward": 0.0, "reverse": 0.0, "bytes": 0})
            entry["instructions"] += 1
            entry["ops"][row["op"]] = entry["ops"].get(row["op"], 0) + 1
            for name in ("forward", "reverse", "bytes"):
                entry[name] += row[name]
        return sorted(found.values(), key=lambda entry: -entry["forward"] - entry["reverse"])

    def by_pass(self) -> list[dict]:
        """Return one dictionary for each pass that ran when the tape was recorded, in their order.

        Returns
        -------
        list of dict
            ``pass`` (its name in `nt.Config`), ``seconds`` (when the tape was recorded; the first use in a
            process includes the import of its file), ``before`` and ``after`` (instructions), ``ops`` (by
            how many there are more or fewer instructions of an op).

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(x * np.sin(x)), np.ones(3))
        >>> [(each["pass"], each["before"], each["after"], each["ops"]) for each in cache.profile().by_pass()]
        [('merge', 3, 3, {}), ('columns', 3, 3, {}), ('fuse', 3, 2, {'mul': -1, 'sum': -1, 'dot': 1})]
        """
        return [
            {
                "pass": each.name,
                "seconds": each.seconds,
                "before": each.before,
                "after": each.after,
                "ops": dict(each.ops),
            }
            for each in self._passes
        ]

    def _pass_rows(self) -> list[tuple]:
        total, rows = sum(each.seconds for each in self._passes) or 1.0, []
        for each in self._passes:
            ops = ", ".join(f"{difference:+d} {op}" for op, difference in each.ops)
            time = f"{1e6 * each.seconds:.0f}"
            rows.append((each.seconds / total, time, each.before, each.after, each.name, ops[:60]))
        return rows

    def _rows(self) -> list[tuple]:
        total = self.seconds or 1.0
        rows = []
        for entry in self.by_line()[:MOST_ROWS]:
            seconds = entry["forward"] + entry["reverse"]
            ops = ", ".join(f"{count} {op}" if count > 1 else op for op, count in entry["ops"].items())
            times = f"{1e6 * entry['forward']:.2f}", f"{1e6 * entry['reverse']:.2f}"
            place = entry["line"] or "?"
            rows.append((seconds / total, *times, entry["bytes"], place, entry["source"], ops[:60]))
        return rows

    def __str__(self) -> str:
        lines = [f"{1e6 * self.seconds:.2f} us in {len(self)} instructions; by source line:"]
        lines.append(f"{'share':>6} {'forward us':>10} {'reverse us':>10} {'bytes':>10}  line")
        for share, forward, reverse, size, place, source, ops in self._rows():
            numbers = f"{share:6.1%} {forward:>10} {reverse:>10} {size:10d}"
            lines.append(f"{numbers}  {place}  {source}  [{ops}]")
        if self._passes:
            lines.append("passes, when the tape was recorded:")
            lines.append(f"{'share':>6} {'us':>10} {'before':>10} {'after':>10}  pass")
        for share, time, before, after, name, ops in self._pass_rows():
            lines.append(f"{share:6.1%} {time:>10} {before:>10} {after:>10}  {name}  [{ops}]")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = ("", "share", "forward µs", "reverse µs", "bytes", "line", "source", "ops")
        rows = [(bar(share), f"{share:.1%}", *rest) for share, *rest in self._rows()]
        lines = table(f"{1e6 * self.seconds:.2f} µs in {len(self)} instructions", head, rows)
        passes = [(bar(share), f"{share:.1%}", *rest) for share, *rest in self._pass_rows()]
        titles = ("", "share", "µs", "instructions before", "after", "pass", "ops")
        return lines + table("Passes, when the tape was recorded", titles, passes)


class _Clock:
    """The entry points of the sweeps, with the time that each instruction takes.

    Parameters
    ----------
    sweep : callable
        Returns an entry point by its name.
    frame : array
    count : int
        Instructions of the plan.
    """

    def __init__(self, sweep: Callable[[str], Callable], frame: np.ndarray, count: int):
        self._sweep, self._frame = sweep, frame
        self.forward, self.reverse = np.zeros(count), np.zeros(count)

    def __call__(self, name: str):
        sweep, frame = self._sweep(name), self._frame

        def timed(address, start):
            begun = perf_counter_ns()
            outcome = sweep(address, start)
            taken = perf_counter_ns() - begun
            if name == "resume":
                self.forward[start] = taken
            elif name == "pullback" and frame[WORD["COUNT"]] == frame[WORD["SPLIT"]] + 1:
                self.reverse[int(frame[WORD["SPLIT"]])] = taken
            return outcome

        return timed


def profile(space, sweep: Callable[[str], Callable], repeats: int) -> Profile:
    """Run the sweeps of a workspace one instruction at a time, and return the least times."""
    plan, tape = space.plan, space.plan.tape
    count = len(tape)
    cuts = Cuts(list(range(1, count + 1)), {})
    usual, frame = space.segments, space.frame
    both = not tape.forward and bool(tape.outputs)
    forward, reverse = np.full(count, np.inf), np.full(count, np.inf)
    idle = _entering(sweep("resume"), frame)
    try:
        for _ in range(max(1, repeats)):
            clock = _Clock(sweep, frame, count)
            space.segments = Segments(frame, cuts, clock)
            space.prologue_done = False
            space.forward()
            if both:
                space.reverse()
            forward, reverse = np.minimum(forward, clock.forward), np.minimum(reverse, clock.reverse)
    finally:
        space.segments = usual
    forward, reverse = (1e-9 * np.maximum(times - idle, 0.0) for times in (forward, reverse))
    rows = []
    for number, row in enumerate(tape.instructions()):
        line = tape.line_of(number)
        size = 0
        if not row.is_guard:
            size = int(np.prod(plan.shape(row.out))) * FAMILY_DTYPE[row.op & 1].itemsize
        rows.append({
            "instruction": number,
            "op": tape.name_of(number),
            "line": "" if line is None else line.short,
            "source": source_of(line),
            "forward": float(forward[number]),
            "reverse": float(reverse[number]) if both else 0.0,
            "bytes": size,
        })  # fmt: skip
    return Profile(rows, tape.rewrites)


def _entering(sweep: Callable, frame: np.ndarray) -> float:
    """Return how many nanoseconds it takes to enter a kernel that has nothing to do."""
    kept, address, least = frame[WORD["COUNT"]], frame.ctypes.data, np.inf
    frame[WORD["COUNT"]] = 0
    for _ in range(50):
        begun = perf_counter_ns()
        sweep(address, 0)
        least = min(least, perf_counter_ns() - begun)
    frame[WORD["COUNT"]] = kept
    return float(least)
