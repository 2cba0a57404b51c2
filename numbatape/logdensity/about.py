"""``numbatape info``: versions, and the kernels in the cache with their sizes and ages."""

from __future__ import annotations

import argparse
import platform
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import numbatape as nt
from numbatape.jit import store

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "optree")
OPTIONAL = ("rich", "nutpie", "arviz", "xarray", "h5netcdf", "zarr", "matplotlib", "dask")


def info(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Print versions, CPU, cache directory and a table of compiled kernels; with --prune, delete old ones."""
    versions = {"numbatape": nt.__version__, "python": platform.python_version()}
    for name in (*LIBRARIES, *OPTIONAL):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    pruned = None
    if options.prune is not None:
        count, freed = store.prune(Path(nt.kernel_info()["cache_dir"]), days=options.prune)
        pruned = {"days": options.prune, "kernels": count, "bytes": freed}
    kernels = nt.kernel_info()
    rows = _rows(kernels["stored"])
    summary = {
        "command": "info",
        "versions": versions,
        "platform": platform.platform(),
        "cpu": str(kernels["cpu"]),
        "cache_dir": str(kernels["cache_dir"]),
        "kernels": [str(kernel) for kernel in kernels["kernels"]],
        "kernel_bytes": int(kernels["bytes"]),
        "table": rows,
        "tiers": _tiers(kernels["stored"]),
        "level": str(kernels["level"]),
        "shipped": int(kernels["shipped"]),
        "pruned": pruned,
    }
    return summary, _text(summary), 0


def _rows(kernels: list[store.Stored]) -> list[dict[str, Any]]:
    """Return one row for each name: how many files of it there are, their bytes, and when they were used."""
    by_name: dict[str, list[store.Stored]] = {}
    for kernel in kernels:
        by_name.setdefault(kernel.name, []).append(kernel)
    return [
        {
            "name": name,
            "versions": len(files),
            "tiers": _tiers(files),
            "bytes": sum(file.bytes for file in files),
            "last_used": min(file.days for file in files),
            "oldest": max(file.days for file in files),
        }
        for name, files in by_name.items()
    ]


def _tiers(kernels: list[store.Stored]) -> dict[str, int]:
    """Return how many kernels are of each tier, without tiers that none is of."""
    return dict(sorted(Counter(kernel.tier for kernel in kernels if kernel.tier).items()))


def _text(summary: dict[str, Any]) -> str:
    """Return the summary as lines for the terminal."""
    lines = [f"{name:<12}{version}" for name, version in summary["versions"].items()]
    lines += [f"{key:<12}{summary[key]}" for key in ("platform", "cpu", "cache_dir")]
    shipped = (
        f"{summary['shipped']} kernels for {summary['level']} processors, none of the baseline tier"
        if summary["shipped"]
        else "none"
    )
    lines.append(f"{'in wheel':<12}{shipped}")
    count, rows = len(summary["kernels"]), summary["table"]
    size = f"{count} kernels, {summary['kernel_bytes'] / 1e6:.1f} MB"
    lines.append(f"{'in cache':<12}{size if count else 'none compiled yet'}")
    if summary["tiers"]:
        lines.append(f"{'tiers':<12}{_words(summary['tiers'])}")
    if summary["pruned"]:
        pruned = summary["pruned"]
        lines.append(
            f"{'pruned':<12}{pruned['kernels']} kernels not used for {pruned['days']:g} days, "
            f"{pruned['bytes'] / 1e6:.1f} MB"
        )
    if rows:
        width = max(len(row["name"]) for row in rows)
        lines += [
            "",
            f"{'kernel':<{width}}  {'versions':>8} {'kB':>9} {'last used':>10} {'oldest':>10}  tier",
        ]
        lines += [
            f"{row['name']:<{width}}  {row['versions']:>8} {row['bytes'] / 1e3:>9.1f} "
            f"{_age(row['last_used']):>10} {_age(row['oldest']):>10}  {_words(row['tiers'])}"
            for row in rows
        ]
    return "\n".join(lines)


def _words(tiers: dict[str, int]) -> str:
    """Return counts of tiers in words."""
    forms = {store.ONLY: "with one form", store.BASELINE: "baseline", store.OPTIMISED: "optimised"}
    return ", ".join(f"{count} {forms[tier]}" for tier, count in tiers.items())


def _age(days: float) -> str:
    return "today" if days < 1 else f"{int(days)} d ago"
