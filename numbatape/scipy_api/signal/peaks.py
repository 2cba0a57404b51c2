"""``scipy.signal.find_peaks`` and its like: positions are data, heights and widths have derivatives.

SciPy's functions run as copies. What stands in here is the compiled code that they call, which searches for
positions among plain numbers.
"""

from __future__ import annotations

import functools

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import with_original
from ...rules.searches import Search
from ...trace.operands import find_trace, lift, lift_first

MODULE = "scipy.signal._peak_finding_utils"


def _whole(x):
    return np.asarray(x).astype(np.intp)


def _local_maxima_1d(original, x):
    search = Search("scipy.signal.find_peaks", original, (lift_first(x),))
    peaks = search.counted("peaks", functools.partial(_part, 0))
    left = search.positions("left edges", functools.partial(_part, 1))
    return peaks, left, search.positions("right edges", functools.partial(_part, 2))


def _part(k: int, found):
    return found[k]


def _select_by_peak_distance(original, peaks, priority, distance):
    trace = find_trace(peaks, priority)

    def run(peaks, priority):
        return original(_whole(peaks), np.ascontiguousarray(priority), distance)

    search = Search("scipy.signal.find_peaks", run, (_numbers(trace, peaks), lift(trace, priority)))
    return np.greater(search.numbers("peaks that are far enough from others", np.asarray), 0.5)


def _numbers(trace, positions):
    """Return positions, traced or plain, as traced floats."""
    return np.astype(lift(trace, positions), np.float64)


def _peak_prominences(original, x, peaks, wlen):
    trace = find_trace(x, peaks)
    x = lift(trace, x)

    def run(x, peaks):
        return original(x, _whole(peaks), wlen)

    search = Search("scipy.signal.peak_prominences", run, (x, _numbers(trace, peaks)))
    left = search.positions("left bases", functools.partial(_part, 1))
    right = search.positions("right bases", functools.partial(_part, 2))
    return x[peaks] - np.maximum(x[left], x[right]), left, right


def _peak_widths(original, x, peaks, rel_height, prominences, left_bases, right_bases):
    trace = find_trace(x, peaks, rel_height, prominences, left_bases, right_bases)
    x = lift(trace, x)
    rel_height, prominences = lift(trace, rel_height), lift(trace, prominences)
    heights = x[peaks] - prominences * rel_height

    def run(x, peaks, rel_height, prominences, left, right):
        found = original(x, _whole(peaks), float(rel_height), prominences, _whole(left), _whole(right))
        return np.floor(found[2]), np.ceil(found[3])

    positions = [_numbers(trace, one) for one in (peaks, left_bases, right_bases)]
    given = (x, positions[0], rel_height, prominences, *positions[1:])
    search = Search("scipy.signal.peak_widths", run, given)
    left = search.positions("left crossings", functools.partial(_part, 0))
    right = search.positions("right crossings", functools.partial(_part, 1))
    left_points = left + _crossing(x[left], x[np.minimum(left + 1, len(x) - 1)], heights)
    right_points = right - _crossing(x[right], x[np.maximum(right - 1, 0)], heights)
    return right_points - left_points, heights, left_points, right_points


def _crossing(low, high, height):
    """Return where, between an entry and the next, a line through both has a height; 0 if it starts above.

    If it starts at the height, the crossing moves along this line.
    """
    rises = np.less_equal(low, height) & np.less(height, high)
    return np.where(rises, (height - low) / np.where(rises, high - low, 1.0), 0.0)


for _implementation in (_local_maxima_1d, _select_by_peak_distance, _peak_prominences, _peak_widths):
    MAKERS[MODULE][_implementation.__name__] = with_original(_implementation)
