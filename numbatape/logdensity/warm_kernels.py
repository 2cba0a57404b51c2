"""``numbatape warmup``: compile kernels ahead of time."""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

import numbatape as nt

from .progress import Progress


def warmup(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Compile all kernels now, with a progress bar that says how long it will take."""
    started = time.perf_counter()
    dtypes, values = (("f64", "f32"), ("fast", "numpy")) if options.all else (("f64",), ("fast",))
    with contextlib.ExitStack() as bars:
        shown: list[Progress] = []
        ready = 0

        def tell(done: int, total: int) -> None:
            nonlocal ready
            ready = done
            if not shown:
                shown.append(bars.enter_context(Progress(total, "kernels")))
            shown[0].advance(1)

        kernels = nt.warmup(dtypes, values, tell)
    seconds = time.perf_counter() - started
    origins = nt.kernel_info()["counts"]
    counts = {origin: origins.get(origin, 0) for origin in ("compiled", "cache", "wheel")}
    summary = {"command": "warmup", "kernels": kernels, "ready": ready, "seconds": seconds, **counts}
    came = "{compiled} compiled now, {cache} from the cache, {wheel} from the wheel".format(**counts)
    # Their names would fill several screens; `numbatape info` lists them.
    return summary, f"{ready} kernels ready in {seconds:.1f} s ({came})", 0
