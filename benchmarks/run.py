"""Time numbatape, NumPy and whichever peers are installed on the same workloads.

python benchmarks/run.py [--peers jax,casadi] [--filter REGEX] [--quick]
                         [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

OWN = "numbatape"
PARTS = (
    *("workloads", "warm", "tracing", "process", "first_run"),
    *("scalar_cost", "second_order", "linalg", "vmap", "calls", "sizes", "costs"),
)


def one_thread():
    """Keep every library to one thread and the process on one core; before NumPy is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1 " + os.environ.get("XLA_FLAGS", "")
    )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="comma-separated, '' for none; unless given, all installed")
    parser.add_argument("--filter", default="", help="regular expression: workloads to run")
    parser.add_argument("--only", choices=PARTS, help="one part of the measurements")
    parser.add_argument("--quick", action="store_true", help="few short rounds: a smoke test")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    parser.add_argument(
        "--page", type=Path, help="write them into this page, between its marks <!-- tables -->"
    )
    return parser.parse_args(argv)


def machine(libraries: list[str]) -> dict[str, str]:
    """Return what the numbers depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"Python": platform.python_version()}
    for name in ("numpy", "scipy", "numba", *libraries):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "machine": cpu()}


def cpu() -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def attempt(measure, *args):
    """Return a measurement, or why there is none.

    Peers fail in ways of their own (recursion limits, missing operations, compiler errors); any
    of them costs one cell of a table, whose reason the JSON keeps, and never the run.
    """
    try:
        return measure(*args), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def time_workload(workload, engines: dict, rounds: int, seconds: float) -> dict:
    """Prepare, check and time one workload with every engine."""
    from benchmarks.check import check
    from benchmarks.timing import interleave, once

    def first(prepare):
        def run():
            call, read = prepare(workload)
            return call, read, call()

        (call, read, result), spent = once(run)
        return call, {"first_call": spent, "error": check(workload, *read(result))}

    calls, found = {"numpy": workload.value}, {"numpy": {}}
    for name, prepare in engines.items():
        done, reason = attempt(first, prepare)
        if done:
            calls[name], found[name] = done
        else:
            found[name] = {"skipped": reason}
    for name, times in interleave(calls, rounds, seconds).items():
        found[name].update(times)
    return {"what": workload.what, "engines": found}


def main(argv: list[str] | None = None) -> int:
    """Measure, print the tables, write the files; 1 when numbatape failed anywhere."""
    from benchmarks import (
        calls,
        costs,
        first_gradient,
        linalg,
        report,
        scalar_cost,
        second_order,
        sizes,
        tracing,
        vmap,
    )
    from benchmarks.peers import engines, installed
    from benchmarks.workloads import catalogue

    options = arguments(argv)
    rounds, seconds, repeats = (3, 2e-4, 1) if options.quick else (15, 2e-3, 5)
    peers = installed() if options.peers is None else filter(None, options.peers.split(","))
    libraries = [OWN, *peers]
    by_library, failed = {}, []
    for library in libraries:
        by_library[library], reason = attempt(engines, library)
        if reason:
            failed.append(f"{library}: {reason}")
    every = {name: f for group in by_library.values() if group for name, f in group.items()}

    def progress(text):
        print(text, file=sys.stderr, flush=True)

    def wanted(part):
        return options.only in (None, part)

    results = {"machine": machine(libraries), "quick": options.quick, "workloads": {}}
    chosen = [w for w in catalogue() if re.search(options.filter, w.name)]
    for workload in chosen if wanted("workloads") else []:
        progress(workload.name)
        found = results["workloads"][workload.name] = time_workload(workload, every, rounds, seconds)
        for name, timing in found["engines"].items():
            if name.startswith(OWN) and "skipped" in timing:
                failed.append(f"{workload.name}, {name}: {timing['skipped']}")

    # A filter asks for workloads; the other parts have no workload names to match.
    if wanted("warm") and not options.filter:
        results["warm"] = {}
        for label, function in first_gradient.FUNCTIONS.items():
            progress(f"first gradient, {label}")
            results["warm"][label] = {
                name: attempt(first_gradient.warm, prepare, function, repeats)[0]
                for name, prepare in every.items()
                if name in by_library
            }
    if wanted("tracing") and not options.filter:
        results["tracing"] = tracing.measure(repeats, progress)
        results["bytes_traced"] = tracing.bytes_an_operation()
    if wanted("process") and not options.filter:
        results["process"] = {}
        for name in ("numpy (value only)", *(n for n in libraries if by_library[n])):
            progress(f"process, {name}")
            spent, _ = attempt(first_gradient.process, name, repeats)
            results["process"][name] = {"wall time": spent}
    if wanted("first_run") and not options.filter and by_library[OWN] and not options.quick:
        progress("first runs")
        results["first_run"] = first_gradient.first_runs(repeats)
    if wanted("scalar_cost") and not options.filter:
        results["scalar_cost"] = {}
        loops = [name for name in ("numbatape bound", "casadi bound") if name in every]
        for function in scalar_cost.LOOPS:
            progress(f"scalar cost, {function.__doc__}")
            results["scalar_cost"][function.__doc__] = {
                name: attempt(scalar_cost.cost, every[name], function, rounds, seconds)[0] for name in loops
            }

    if wanted("second_order") and not options.filter:
        results["second_order"] = second_order.measure(libraries, rounds, seconds, progress)
    if wanted("linalg") and not options.filter:
        results["linalg"] = linalg.measure(rounds, seconds, progress)
    if wanted("vmap") and not options.filter:
        results["vmap"] = vmap.measure(rounds, seconds, progress)
    if wanted("calls") and not options.filter:
        results["calls"] = calls.measure(rounds, seconds, progress)
    if wanted("sizes") and not options.filter:
        results["sizes"] = sizes.measure(10 * seconds, libraries, progress)

    if options.only == "costs":
        results["costs"] = costs.measure(rounds, seconds, progress)

    text = report.report(results)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(text)
    if options.page:
        options.page.write_text(report.in_page(options.page.read_text(), text))
    for line in failed:
        progress(f"failed: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    one_thread()
    sys.path[0] = str(ROOT)  # the checkout's numbatape, and this directory as a package
    sys.exit(main())
