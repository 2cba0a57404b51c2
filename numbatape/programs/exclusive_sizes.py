"""For any sizes at most one trace of each path holds, so that equal calls have equal bits.

A trace that was made because another one relied on sizes (`n == 1`, of which nothing is broadcast) often
holds for those sizes, too: what it records is right there, but its sums may be added up in another order.
Which of the two served a call would then depend on the calls before. So the later trace gets the negation of
what the earlier one relied on, unless it relies on something that excludes that anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..derive.loop_bodies import SizeCodes
from ..recording.recorded import Recording
from ..tape import Tape
from ..tape.size_tables import INPUT, SizeGuard
from ..tape.sizes import Sizes
from .arguments import Flattened
from .variant import Variant


def excluding(recording: Recording, flat: Flattened, others: Iterable[Variant]) -> Recording:
    """Return a recording whose tape refuses the sizes that other traces of the same path hold for."""
    tape, dimensions = recording.tape, list(flat.dimensions)
    for _, count in recording.counted:
        dimensions += [count, 0]  # see `numbatape.programs.counted_sizes`
    sizes = Sizes.resume(tape.sizes, [*range(len(dimensions))], dimensions)
    before = len(sizes.guards)
    for other in others:
        if other.statics == flat.statics and other.orders == flat.orders and not _diverge(other.tape, tape):
            _exclude(sizes, other, len(flat.dimensions))
    if len(sizes.guards) == before:
        return recording
    return replace(recording, tape=replace(tape, sizes=sizes.freeze()))


def _diverge(tape: Tape, other: Tape) -> bool:
    """Whether a guard on numbers, to which two traces came in the same way, had different outcomes."""
    for mine, its in zip(tape.guards, other.guards, strict=False):
        lines = [t.lines[g.position] if g.position >= 0 else None for t, g in ((tape, mine), (other, its))]
        if mine.kind != its.kind or lines[0] != lines[1]:
            return False
        if mine.kind != "count" and mine.outcome != its.outcome:
            return True
    return False


def _exclude(sizes: Sizes, other: Variant, count: int) -> None:
    """Rely on the contrary of the first relation of another trace that does not hold here."""
    table = other.tape.sizes
    # Which sizes data decided is not known before a sweep.
    inputs = [sizes.input(row[1], 0) for row in table.rows if row[0] == INPUT and row[1] < count]
    codes = SizeCodes(table.rows, dict(enumerate(inputs)), sizes)
    broken = []
    for guard in table.guards:
        try:
            left, right = codes.of(guard.left), codes.of(guard.right)
        except (KeyError, ZeroDivisionError):
            continue
        if not guard.holds(sizes.value(left), sizes.value(right)):
            if sizes.excludes(left, guard.relation, right):
                return
            broken.append((guard, left, right))
    if broken:
        guard, left, right = broken[0]
        _negate(sizes, guard, left, right)


def _negate(sizes: Sizes, guard: SizeGuard, left: int, right: int) -> None:
    if guard.relation == "==":
        sizes.guard(left, "!=", right)
    elif guard.relation == "!=":
        sizes.guard(left, "==", right)
    else:
        sizes.guard(right, ">=", sizes.add(left, 1))
