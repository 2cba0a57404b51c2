"""Many calls of one function: as a sub-tape, as a checkpoint, and recorded operation by operation.

Run it as ``python -m benchmarks.subtapes [CALLS]`` (1 000). Times are processor time. Each result is compared
with the one recorded in full before it is timed.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import numbatape as nt
from benchmarks.timing import interleave


def steps(x):
    """Do 100 operations on a number."""
    for _ in range(50):
        x = 1.001 * np.sin(x)
    return x


def branching(x):
    """Do the same, by one of two ways."""
    return steps(x) if x > 0.5 else steps(-x) * x


def layer(x):
    """Do some operations on a vector."""
    return np.tanh(np.sin(x) * np.exp(-(x**2)) + x)


CASES = {
    "numbers": (steps, np.float64(0.7)),
    "branches": (branching, np.float64(0.7)),
    "vectors": (layer, np.linspace(0.1, 1.0, 100)),
}


def repeated(f, count: int):
    """Return a function that calls another one many times."""

    def run(x):
        for _ in range(count):
            x = f(x)
        return np.sum(x)

    return run


def main(count: int) -> None:
    """Print a table: preparation, tape and steady gradient of each way."""
    for name, (f, x) in CASES.items():
        calls, texts, values = {}, {}, {}
        for way, make in (("in full", lambda f: f), ("sub-tape", nt.function), ("checkpoint", nt.checkpoint)):
            start = time.process_time()
            cache = nt.prepare_gradient_cache(repeated(make(f), count), x)
            calls[way] = lambda cache=cache, x=x: nt.value_and_gradient(cache, x)
            values[way] = np.ravel(calls[way]()[1][0])
            first = time.process_time() - start
            texts[way] = f"{way}: first {first:6.3f} s, {len(cache.tape):6d} instructions"
            np.testing.assert_allclose(values[way], values["in full"], rtol=1e-9, atol=1e-300)
        steady = interleave(calls, 5, 0.1)
        for way, text in texts.items():
            print(f"{name:9s} {text}, steady {steady[way]['median'] / count * 1e6:7.2f} us a call")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1000)
