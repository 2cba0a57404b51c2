"""Time against size: vectors of 10 to 10⁷ entries, loops of 10² to 10⁶ operations on numbers.

    python -m benchmarks.growth --json growth.json --page docs/benchmarks.md --charts docs/charts

measures (some minutes), writes what was measured, puts the tables between the marks of the page, and draws
the charts. Only the drawing needs matplotlib. ``--from growth.json`` draws what was measured before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import grid, in_page, markdown_table
from benchmarks.timing import interleave

LENGTHS = [10**k for k in range(1, 8)]
OPERATIONS = [10**k for k in range(2, 7)]
A_TURN = 10  # operations of the loops below

Column = dict[str, float]
Rows = dict[str, Column]  # by size


def chain(x):
    return np.sum(np.sin(np.cos(np.exp(x))))


def likelihood(theta, data):
    z = (data - theta[0]) * np.exp(-theta[1])
    return -0.5 * np.sum(z * z) - len(data) * theta[1]


def summed(turns: int) -> Callable:
    """Return a loop that adds up terms, which becomes instructions on vectors."""

    def f(x):
        total = 0.0
        for k in range(turns):
            z = (x[k % 7] * 0.3 + 0.1 * k) * x[8]
            total = total + np.sin(z) * x[9] - z * z * 0.5 + z
        return total

    return f


def coupled(turns: int) -> Callable:
    """Return a loop each turn of which needs two numbers of the one before."""

    def f(x):
        a, b = x[0], x[1]
        for _ in range(turns):
            c = a * b
            a, b = a + 0.01 * (x[2] - c * x[3]), b + 0.01 * (c * x[4] - b * x[2])  # it has a steady state
        return a * b

    return f


VECTORS = {"sum(sin(cos(exp(x))))": chain, "a normal log-likelihood of n data": likelihood}
LOOPS = {"a sum of terms": summed, "a coupled recurrence": coupled}


def vectors(rounds: int, seconds: float, progress: Callable) -> dict[str, Rows]:
    """Return median times by function and length."""
    import numbatape as nt

    found: dict[str, Rows] = {name: {} for name in VECTORS}
    for name, function in VECTORS.items():
        for n in LENGTHS:
            progress(f"{name}, {n}")
            x = np.linspace(0.1, 1.0, n)
            active, data = (x, ()) if function is chain else (np.array([0.3, 0.2]), (x,))
            constants = [nt.Constant(each, frozen=True) for each in data]
            config = nt.Config(reuse_buffers=True)
            cache = nt.prepare_gradient_cache(function, active, *constants, config=config)
            calls = {
                "NumPy's value": lambda f=function, args=(active, *data): f(*args),
                "value and gradient": lambda c=cache, x=active: nt.value_and_gradient(c, x),
            }
            times = interleave(calls, rounds, seconds)
            found[name][str(n)] = {column: times[column]["median"] for column in calls}
    return found


def one_loop(name: str, operations: int) -> Column:
    """Return the processor times of a loop, and the bytes by which this process grows with its trace."""
    import numbatape as nt

    x = np.linspace(0.5, 0.9, 10)
    warm = nt.prepare_gradient_cache(LOOPS[name](3 * A_TURN), x)  # imports, and kernels
    nt.value_and_gradient(warm, x)
    before, function = peak(), LOOPS[name](operations // A_TURN)
    start = time.process_time()
    cache = nt.prepare_gradient_cache(function, x)
    nt.value_and_gradient(cache, x)
    first = time.process_time() - start
    grown = peak() - before
    value, later = (
        min(processor_time(call) for _ in range(9))
        for call in (lambda: function(x), lambda: nt.value_and_gradient(cache, x))
    )
    return {"Python's value": value, "first call": first, "later calls": later, "memory": grown}


def peak() -> int:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor_time(call: Callable) -> float:
    start = time.process_time_ns()
    call()
    return 1e-9 * (time.process_time_ns() - start)


def loops(progress: Callable) -> dict[str, Rows]:
    """Return what `one_loop` does by loop and number of operations, each from a process of its own."""
    found: dict[str, Rows] = {name: {} for name in LOOPS}
    for name in LOOPS:
        for operations in OPERATIONS:
            progress(f"{name}, {operations}")
            command = [sys.executable, "-m", "benchmarks.growth", "--loop", name, str(operations)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[name][str(operations)] = json.loads(output)
    return found


def tables(results: dict[str, dict[str, Rows]]) -> str:
    """Return what was measured as tables in Markdown."""
    parts = []
    for part, what in (("vectors", "entries"), ("loops", "operations")):
        for name, rows in results[part].items():
            measured = {
                f"{int(size):,}".replace(",", " "): {
                    column: f"{number / 1e6:.0f} MB" if column == "memory" else number
                    for column, number in row.items()
                }
                for size, row in rows.items()
            }
            cells = grid(measured, f"{name}: {what}")
            assert cells is not None
            parts.append(markdown_table(cells))
    return "\n\n".join(parts) + "\n"


def draw(results: dict[str, dict[str, Rows]], folder: Path) -> None:
    """Write one chart for vectors and one for loops, whose axes are logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "growth"  # the same file for the same numbers
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text, which takes a tenth of the space
    from matplotlib import pyplot as plt

    folder.mkdir(exist_ok=True)
    for part, label in (("vectors", "entries"), ("loops", "operations")):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
        for axis, (name, rows) in zip(axes, results[part].items(), strict=True):
            sizes = [int(size) for size in rows]
            columns = [column for column in next(iter(rows.values())) if column != "memory"]
            for column in columns:
                times = [row[column] for row in rows.values()]
                axis.loglog(sizes, times, marker="o", markersize=3, label=column)
            axis.set(title=name, xlabel=label)
            axis.minorticks_off()
            axis.grid(visible=True, linewidth=0.3)
            axis.legend(frameon=False)
        axes[0].set_ylabel("seconds")
        figure.savefig(folder / f"{part}.svg", metadata={"Date": None})
        plt.close(figure)


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--from", type=Path, dest="known", help="take it from this file instead")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    parser.add_argument("--charts", type=Path, help="draw the charts into this folder")
    parser.add_argument("--loop", nargs=2, help=argparse.SUPPRESS)  # one loop, in this process
    options = parser.parse_args(argv)
    if options.loop:
        print(json.dumps(one_loop(options.loop[0], int(options.loop[1]))))
        return

    def progress(text):
        print(text, file=sys.stderr, flush=True)

    if options.known:
        results = json.loads(options.known.read_text())
    else:
        # Loops come first: the peak memory of a process begins with that of the one that starts it.
        results = {"loops": loops(progress), "vectors": vectors(5, 2e-3, progress)}
    print(tables(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.page:
        options.page.write_text(in_page(options.page.read_text(), tables(results)))
    if options.charts:
        draw(results, options.charts)


if __name__ == "__main__":
    main()
