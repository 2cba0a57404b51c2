"""Steady times of several calls, taken in turn so that they share the machine's ups and downs.

They are CPU times of the process, all its threads together: on a machine that does other work as
well, the clock would mostly tell how often the process was put aside.
"""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable

# A call slower than this takes part in the first rounds only: its spread is small beside its time.
SLOW_CALL = 0.02
SLOW_ROUNDS = 3


def cpu_time(call: Callable, number: int) -> float:
    """Return the CPU time of a number of calls."""
    return timeit.Timer(call, timer=time.process_time).timeit(number)


def calls_per_round(call: Callable, seconds: float) -> int:
    """Return how many calls fill a round: by the least of two times, as one may have been held up."""
    number = 1
    while (spent := min(cpu_time(call, number), cpu_time(call, number))) < seconds:
        number = max(2 * number, int(1.1 * number * seconds / spent)) if spent else 10 * number
    return number


def interleave(calls: dict[str, Callable], rounds: int, seconds: float) -> dict[str, dict]:
    """Time each call in every round; return medians and quartiles over the rounds.

    Parameters
    ----------
    calls : dict
        Name to a function of no arguments.
    rounds : int
        How often each is timed; every round starts with another one.
    seconds : float
        Least duration of one timing.
    """
    names = list(calls)
    number = {name: calls_per_round(calls[name], seconds) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            slow = samples[name] and samples[name][0] > SLOW_CALL
            if slow and turn >= SLOW_ROUNDS:
                continue
            calls[name]()  # brings its code and data back into the caches
            samples[name].append(cpu_time(calls[name], number[name]) / number[name])
    return {name: {**summary(samples[name]), "calls": number[name]} for name in names}


def summary(samples: list[float]) -> dict:
    """Return median, quartiles and least of timings."""
    if len(samples) > 1:
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    else:
        low = median = high = samples[0]
    return {"median": median, "q1": low, "q3": high, "minimum": min(samples), "rounds": len(samples)}


def once(function: Callable):
    """Return the result of one call and its duration by the clock."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start
