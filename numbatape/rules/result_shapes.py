"""How the shapes of a rule's results follow from those of its arguments.

A rule is a function that nobody looks into, so the shapes that its results have at other sizes are not
known. What its results have had so far suggests a law: an axis of the result is as long as an axis of an
argument, or has always the same length. The tape is recorded as if the law held. Each call of the rule
compares the shapes that come with those that the law says, and where they differ, the function is traced
again for the sizes of that call. By then the rule has been seen at two sizes, and the law fits both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..tape.sizes import Sizes

Shape = tuple[int, ...]
# The shapes of this many calls are kept; a law that fits all of these is not going to be refuted.
MOST_SAMPLES = 16
MOST_KINDS = 64


@dataclass(frozen=True)
class _Sample:
    """The shapes in one call."""

    arguments: tuple[Shape, ...]
    results: tuple[Shape, ...]


@dataclass
class ObservedShapes:
    """The shapes that a rule's results have had.

    Attributes
    ----------
    samples
        Lists of calls, by what tells calls apart whose laws may differ.
    """

    samples: dict[tuple, list[_Sample]] = field(default_factory=dict)

    def laws(self, sizes: Sizes, kind, arguments: Sequence[Shape], results: Sequence[Shape]):
        """Return the shapes of the results as size codes, by laws that fit all calls so far.

        None if an axis of a result has no such law.

        Parameters
        ----------
        sizes
            The size expressions of the tape.
        kind
            What besides the numbers of axes tells calls apart.
        arguments
            Shapes of all arguments, as size codes.
        results
            Shapes of the results of this call, as numbers.
        """
        shapes = tuple(tuple(map(sizes.value, shape)) for shape in arguments)
        # The results of a tall and of a wide matrix often follow different laws (`scipy.linalg.lu`).
        forms = tuple(_compared(*shape[-2:]) if len(shape) > 1 else 0 for shape in shapes)
        key = kind, tuple(map(len, shapes)), forms, tuple(map(len, results))
        if len(self.samples) > MOST_KINDS:
            self.samples.clear()
        known = self.samples.setdefault(key, [])
        sample = _Sample(shapes, tuple(results))
        if sample not in known:
            known.append(sample)
            del known[:-MOST_SAMPLES]
        known = known.copy()  # another thread may add to it
        axes = [(part, axis) for part, shape in enumerate(results) for axis in range(len(shape))]
        found = {place: _law(sizes, known, sample, arguments, *place) for place in axes}
        if None in found.values():
            return None
        return [tuple(found[part, axis] for axis in range(len(shape))) for part, shape in enumerate(results)]


def _compared(m: int, n: int) -> int:
    return (m > n) - (m < n)


def _law(sizes: Sizes, known: list[_Sample], now: _Sample, arguments, part: int, axis: int) -> int | None:
    """Return the length of one axis of a result as a size code; None if no law fits all calls."""
    own, rank = now.results[part][axis], len(now.results[part])
    lengths = [sample.results[part][axis] for sample in known]
    places = [(k, j) for k, shape in enumerate(arguments) for j in range(len(shape))]
    # The same axis of an argument with as many axes is the likeliest one.
    places.sort(key=lambda place: (len(arguments[place[0]]) != rank, place[1] != axis))
    # Each axis of the arguments as a size code, its length now, and its lengths in all calls.
    axes = [
        (arguments[k][j], now.arguments[k][j], [sample.arguments[k][j] for sample in known])
        for k, j in places
    ]
    for code, _, seen in axes:
        if lengths == seen:
            return code
    if len(set(lengths)) == 1:
        return own
    for code, present, seen in axes:
        more = own - present
        if lengths == [n + more for n in seen]:
            return _at_least_none(sizes, code, more)
    for (code, _, seen), (other, _, beside) in itertools.permutations(axes, 2):
        if lengths == [m - n for m, n in zip(seen, beside, strict=True)]:
            return _not_negative(sizes, sizes.sub(code, other))
        if lengths == [m + n for m, n in zip(seen, beside, strict=True)]:
            return sizes.add(code, other)
    for code, present, seen in axes:
        times = own // max(present, 1)
        if lengths == [times * n for n in seen]:
            return sizes.product((times, code))
    for k, shape in enumerate(arguments):
        if lengths == [math.prod(sample.arguments[k]) for sample in known]:
            return sizes.product(shape)
    return None


def _at_least_none(sizes: Sizes, code: int, more: int) -> int:
    """Return the code of a length that is a size and a number more."""
    return _not_negative(sizes, sizes.add(code, more) if more >= 0 else sizes.sub(code, -more))


def _not_negative(sizes: Sizes, length: int) -> int:
    """Return the code of a length, and guard that there can be an array as long."""
    sizes.guard(length, ">=", 0)
    return length
