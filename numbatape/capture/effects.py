"""Side effects that a call repeats without a trace: ``self.history.append(loss)``, ``self.calls += 1``.

A function that stores values in containers has to do so in every call. The tape has these values as
additional outputs, and a call without a trace stores its own numbers in the same places. This needs two
conditions. First, only containers have changed: a list has become longer, or a dictionary or the attributes
of an object have other values. Second, the user's code only writes to these places, which is decided by the
names in it (`WrittenOnly`): then their contents cannot influence the result and need not be compared in each
call. The same is true of an attribute that each call assigns before it reads it (``self.state = x0``), for
which the next run is observed (`FirstUses`) where names do not show it.

A counter is a place, or a variable, of which the user's code only says that a constant is added to it. The
tape holds for one path through the code, on which the sum of these constants is always the same, so each call
adds what the traced call has added.

A variable that each call changes after it has read it (``self.state = step(self.state)``) is an input of
the tape (`numbatape.capture.moving_names`). What the function assigns to it is an output, which each call
assigns. A function that changes anything else is traced in every call.
`numbatape.capture.found_effects` finds out what a traced call has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import imported

if TYPE_CHECKING:
    from .moving_names import MovingName


class Effects:
    """What a function did to containers and variables that it captures.

    Attributes
    ----------
    appended
        (list, templates of what was added at its end).
    put
        (dictionary, key, template of what was put there).
    counted
        (dictionary or list, key, what was added to the item).
    counted_variables
        (cell of a closure, what was added to its content).
    moved
        (variable that is an input of the tape, template of what was assigned to it).
    """

    def __init__(self):
        self.appended: list[tuple] = []
        self.put: list[tuple] = []
        self.counted: list[tuple] = []
        self.counted_variables: list[tuple] = []
        self.moved: list[tuple[MovingName, object]] = []

    def __bool__(self) -> bool:
        return bool(self.appended or self.put or self.counts or self.moved)

    @property
    def counts(self) -> bool:
        """Whether something was counted."""
        return bool(self.counted or self.counted_variables)

    def replay(self, outputs) -> None:
        """Repeat the side effects with the numbers of another call.

        Parameters
        ----------
        outputs
            Views of the tape's outputs.
        """
        again = imported(".repeated_values", __package__).again  # few functions have side effects
        made: dict[int, object] = {}
        for container, parts in self.appended:
            container.extend([again(part, outputs, made) for part in parts])
        for container, key, part in self.put:
            container[key] = again(part, outputs, made)
        for container, key, step in self.counted:
            container[key] += step
        for cell, step in self.counted_variables:
            cell.cell_contents += step
        for name, part in self.moved:
            name.assign(again(part, outputs, made))

    @property
    def places(self) -> list[tuple]:
        """Pairs of a container or a cell and the keys that change; None for a list and a cell."""
        wholes = [(container, None) for container, _ in (*self.appended, *self.counted_variables)]
        items = [
            (container, frozenset((key,)) if type(container) is dict else None)
            for container, key, _ in (*self.put, *self.counted)
        ]
        moved = [(name.holder, name.keys) for name, _ in self.moved]
        return union(wholes + items + moved)


def union(places: list[tuple]) -> list[tuple]:
    """Return places with one pair per container."""
    found: dict[int, tuple] = {}
    for container, keys in places:
        _, known = found.get(id(container), (None, keys))
        found[id(container)] = container, keys if keys is None else keys | known
    return list(found.values())


def covers(places: list[tuple], others: list[tuple]) -> bool:
    """Whether places contain all others."""
    known = {id(container): keys for container, keys in places}
    missing: frozenset = frozenset()
    return all((keys or frozenset()) <= (known.get(id(c), missing) or frozenset()) for c, keys in others)
