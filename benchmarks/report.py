"""Tables from results: a table is a list of rows of text, the first its header."""

from __future__ import annotations

import math

VALUE = "numpy"
OWN = "numbatape"
OWN_PATHS = (OWN, "numbatape reuse", "numbatape bound")


def time_text(seconds: float | None) -> str:
    """Write a time with three digits and a unit; a dash for none."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def ratio_text(ratio: float | None) -> str:
    """Write a ratio with two or three digits; a dash for none."""
    return "-" if ratio is None else _three_digits(ratio)


def _three_digits(number: float) -> str:
    decimals = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:.{decimals}f}"


def geometric_mean(numbers: list[float]) -> float | None:
    """Return the geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else None


def median(results: dict, workload: str, engine: str) -> float | None:
    """Return a steady time in seconds, or None when the engine did not run."""
    return results["workloads"][workload]["engines"].get(engine, {}).get("median")


def engine_names(results: dict) -> list[str]:
    """Return the engines of a run in the order they were given."""
    names: dict[str, None] = {}
    for workload in results["workloads"].values():
        names.update(dict.fromkeys(workload["engines"]))
    return list(names)


def peers(results: dict) -> list[str]:
    """Return the engines that are neither NumPy's value nor numbatape."""
    return [e for e in engine_names(results) if e != VALUE and e not in OWN_PATHS]


def steady_table(results: dict) -> list[list[str]]:
    """Median times of one call; for numbatape with quartiles."""
    engines = engine_names(results)
    rows = [["workload", *engines]]
    for name, workload in results["workloads"].items():
        row = [name]
        for engine in engines:
            timing = workload["engines"].get(engine, {})
            text = time_text(timing.get("median"))
            if engine == OWN and "median" in timing:
                text += f" ({time_text(timing['q1'])} to {time_text(timing['q3'])})"
            row.append(text)
        rows.append(row)
    return rows


def ratio_table(results: dict) -> list[list[str]]:
    """numbatape's time over each other's: below 1, numbatape is faster.

    In-place calls are compared with in-place calls, all else with fresh results. The last row
    is the geometric mean over the workloads that both ran.
    """
    others = [VALUE, *peers(results)]
    rows = [["workload", *(f"/ {other}" for other in others), "/ fastest peer"]]
    columns: list[list[float]] = [[] for _ in range(len(others) + 1)]
    for name in results["workloads"]:
        ratios = []
        for other in others:
            ours = "numbatape bound" if other.endswith(" bound") else OWN
            ratios.append(_ratio(median(results, name, ours), median(results, name, other)))
        fresh = [r for r, o in zip(ratios[1:], others[1:], strict=True) if not o.endswith(" bound")]
        ratios.append(max((r for r in fresh if r is not None), default=None))
        for column, ratio in zip(columns, ratios, strict=True):
            column += [] if ratio is None else [ratio]
        rows.append([name, *map(ratio_text, ratios)])
    rows.append(["geometric mean", *(ratio_text(geometric_mean(c)) for c in columns)])
    return rows


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours / theirs


def first_call_table(results: dict) -> list[list[str]]:
    """Time to prepare and call once, compilation included where kernels were not there yet."""
    engines = [e for e in engine_names(results) if e != VALUE]
    rows = [["workload", *engines]]
    for name, workload in results["workloads"].items():
        timings = [workload["engines"].get(engine, {}) for engine in engines]
        rows.append([name, *(time_text(t.get("first_call")) for t in timings)])
    return rows


def call_path_table(results: dict) -> list[list[str]] | None:
    """Fresh results, reused buffers and bound buffers of two small functions."""
    chosen = [w for w in ("sum_10", "eight_schools_nc") if w in results["workloads"]]
    if not chosen or median(results, chosen[0], OWN) is None:
        return None
    rows = [["workload", "fresh result", "reuse_buffers", "bound"]]
    for name in chosen:
        rows.append([name, *(time_text(median(results, name, path)) for path in OWN_PATHS)])
    return rows


def grid(measured: dict[str, dict[str, float | str | None]], corner: str) -> list[list[str]] | None:
    """Table of times from a dictionary of rows of columns; text is shown as it is."""
    if not measured:
        return None
    columns: dict[str, None] = {}
    for row in measured.values():
        columns.update(dict.fromkeys(row))
    rows = [[corner, *columns]]
    for name, row in measured.items():
        cells = (row.get(column) for column in columns)
        rows.append([name, *(cell if isinstance(cell, str) else time_text(cell) for cell in cells)])
    return rows


def memory_table(results: dict) -> list[list[str]] | None:
    """Bytes that a recorded operation on numbers takes at most."""
    found = results.get("bytes_traced")
    return None if found is None else [["function", "an operation"], ["scalar chain", f"{found:.0f} bytes"]]


def linalg_table(results: dict) -> list[list[str]] | None:
    """NumPy's value, value and gradient, and the ratio of these."""
    found = results.get("linalg")
    if not found:
        return None
    rows = [["function", VALUE, OWN, f"/ {VALUE}"]]
    for name, times in found.items():
        ratio = _ratio(times[OWN], times[VALUE])
        rows.append([name, time_text(times[VALUE]), time_text(times[OWN]), ratio_text(ratio)])
    return rows


def markdown_table(rows: list[list[str]]) -> str:
    """Render a table as Markdown that is also aligned in a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *rest = (cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        rest = [cell.strip().rjust(w) for cell, w in zip(rest, widths[1:], strict=True)]
        lines.append("| " + " | ".join([first, *rest]) + " |")
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join(lines)


def report(results: dict) -> str:
    """Return the whole report as Markdown."""
    machine = ", ".join(f"{k} {v}" for k, v in results["machine"].items())
    sections = [
        ("Call paths", call_path_table(results)),
        ("One call of value and gradient", steady_table(results)),
        ("numbatape relative to the others (below 1: numbatape is faster)", ratio_table(results)),
        ("First call: prepare, then one gradient", first_call_table(results)),
    ]
    sections = sections if results["workloads"] else []
    sections += [
        (
            "First gradient of a new function, warm process",
            grid(results.get("warm", {}), "function"),
        ),
        ("First gradient an operation, least times", grid(results.get("tracing", {}), "function")),
        ("Memory of a first gradient", memory_table(results)),
        ("Process start to first gradient", grid(results.get("process", {}), "program")),
        (
            "First run, processor time by where kernels come from",
            grid(results.get("first_run", {}), "program"),
        ),
        ("One more scalar operation of a loop", grid(results.get("scalar_cost", {}), "loop")),
        ("Jacobians, Hessians, batches", grid(results.get("second_order", {}), "task")),
        ("Dense linear algebra, least times", linalg_table(results)),
        ("Maps over 1 024 rows, least times", grid(results.get("vmap", {}), "each row")),
        ("What a call costs, least times", grid(results.get("calls", {}), "call")),
        ("Lengths and paths that change, processor time of a call", grid(results.get("sizes", {}), "calls")),
        *((title, grid(table, "")) for title, table in results.get("costs", {}).items()),
    ]
    parts = [f"Measured with {machine}; one thread; medians, in brackets quartiles."]
    if "costs" in results:
        parts = [f"Least processor times, one thread, measured with {machine}."]
    parts += [f"## {title}\n\n{markdown_table(rows)}" for title, rows in sections if rows]
    return "\n\n".join(parts) + "\n"


def in_page(page: str, text: str) -> str:
    """Return a page of the docs with other tables between its two marks."""
    before, _, rest = page.partition("<!-- tables -->")
    _, end, after = rest.partition("<!-- /tables -->")
    if not end:
        raise ValueError("the page has no place for tables: <!-- tables --> ... <!-- /tables -->")
    return f"{before}<!-- tables -->\n\n{text}\n{end}{after}"
