"""``numbatape info`` and ``numbatape warmup``."""

from __future__ import annotations

import argparse
import contextlib
import platform
import time
from importlib import metadata
from typing import Any

import numbatape as nt

from .progress import Progress

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "optree", "rich")


def info(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Print versions, CPU, cache directory and compiled kernels."""
    versions = {"numbatape": nt.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    kernels = nt.kernel_info()
    compiled = [str(kernel) for kernel in kernels["kernels"]]
    summary = {
        "command": "info",
        "versions": versions,
        "platform": platform.platform(),
        "cpu": str(kernels["cpu"]),
        "cache_dir": str(kernels["cache_dir"]),
        "kernels": compiled,
        "kernel_bytes": int(kernels["bytes"]),
        "level": str(kernels["level"]),
        "shipped": int(kernels["shipped"]),
    }
    lines = [f"{name:<12}{version}" for name, version in versions.items()]
    lines += [f"{key:<12}{summary[key]}" for key in ("platform", "cpu", "cache_dir")]
    shipped = (
        f"{summary['shipped']} kernels for {summary['level']} processors" if summary["shipped"] else "none"
    )
    size = f"{len(compiled)} kernels, {summary['kernel_bytes'] / 1e6:.1f} MB: "
    lines.append(f"{'in wheel':<12}{shipped}")
    lines.append(f"{'in cache':<12}{size + ', '.join(compiled) if compiled else 'none compiled yet'}")
    return summary, "\n".join(lines), 0


def warmup(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Compile all kernels now, with a progress bar that says how long it will take."""
    started = time.perf_counter()
    dtypes, values = (("f64", "f32"), ("fast", "numpy")) if options.all else (("f64",), ("fast",))
    with contextlib.ExitStack() as bars:
        shown: list[Progress] = []

        def tell(done: int, total: int) -> None:
            if not shown:
                shown.append(bars.enter_context(Progress(total, "kernels")))
            shown[0].advance(1)

        kernels = nt.warmup(dtypes, values, tell)
    seconds = time.perf_counter() - started
    origins = nt.kernel_info()["origins"]
    counts = {origin: sum(o == origin for o in origins.values()) for origin in ("compiled", "cache", "wheel")}
    summary = {"command": "warmup", "kernels": kernels, "seconds": seconds, **counts}
    came = "{compiled} compiled now, {cache} from the cache, {wheel} from the wheel".format(**counts)
    return summary, f"{len(kernels)} kernels ready in {seconds:.1f} s ({came}): {', '.join(kernels)}", 0
