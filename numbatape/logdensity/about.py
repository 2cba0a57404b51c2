"""``numbatape info`` and ``numbatape warmup``."""

from __future__ import annotations

import argparse
import platform
import time
from importlib import metadata
from typing import Any

import numbatape as nt

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
    }
    lines = [f"{name:<12}{version}" for name, version in versions.items()]
    lines += [f"{key:<12}{summary[key]}" for key in ("platform", "cpu", "cache_dir")]
    size = f"{len(compiled)} kernels, {summary['kernel_bytes'] / 1e6:.1f} MB: "
    lines.append(f"{'kernels':<12}{size + ', '.join(compiled) if compiled else 'none compiled yet'}")
    return summary, "\n".join(lines), 0


def warmup(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Compile all kernels now."""
    started = time.perf_counter()
    kernels = [str(kernel) for kernel in nt.warmup()]
    seconds = time.perf_counter() - started
    origins = nt.kernel_info()["origins"]
    compiled = sum(origin == "compiled" for origin in origins.values())
    summary = {"command": "warmup", "kernels": kernels, "seconds": seconds, "compiled": compiled}
    came = f"{compiled} compiled now, {len(origins) - compiled} from the cache"
    return summary, f"{len(kernels)} kernels ready in {seconds:.1f} s ({came}): {', '.join(kernels)}", 0
