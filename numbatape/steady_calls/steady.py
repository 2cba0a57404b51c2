"""`SteadyCalls`: what happens when a cache or a verb is called again with specs and sizes that it knows.

It finds the `Entry` for the sizes of a call, or a workspace that follows sizes; what neither serves goes to
the general call, which takes all arguments apart, checks them and explains what is wrong.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..jit.builtin import OTHERS
from ..late import imported
from .entry import REFUSED, Entry, refuse
from .leaf_rows import key_of, opened_leaves, sizes_of

if TYPE_CHECKING:
    from ..caches.lane_calls import LaneEntry
    from ..jit.by_sizes import BySizes
    from ..programs.variant import Variant
    from .elastic import ElasticEntry
    from .front import Front
    from .paths import Paths

ndarray = np.ndarray
AT_ONCE = 2  # this many sizes get an entry at their first call; further ones when they come again
RARE = 32  # Where there is no room, a size that came more often than this gets another entry's place.
MOST_MET = 4096  # so many sizes without an entry are counted; then counting begins again
MOST_ALIKE = 4  # so many entries are asked that differ in sizes that data decide
# Where more entries than this have the same sizes, those that hold for other values of names are dropped: a
# function that what it captures changes for each call gets a new one each time, and asks all of them before.
MOST_KEPT = 8
MOST_ELASTIC = 8  # elastic entries; each new size asks all of them until one serves it
# Of more entries with one key than FEW, what guards have seen says which one is next; so many are asked.
FEW, MOST_TRIED = 2, 32
# Two entries are joined, if they can be, when one has served so many calls that the other one stopped at.
# Where sweeps are brief, it takes as many more as there are instructions to compare, at some 5 µs each. Where
# they cannot be joined, this is tried again after so many times as many calls: quotients and remainders.
MISSED, JOINING = 16, ((1, 0), (16, 0), (256, 0))


class SteadyCalls:
    """The entries of one cache, by the sizes of its arguments.

    Parameters
    ----------
    general
        Serves leaves that no entry serves.
    its_front
        Learns which entry serves the next call, whenever that changes. It owns this table, hence the weak
        reference.
    """

    def __init__(self, its_front: Front, general: Callable):
        self._general = general
        self._its_front = weakref.ref(its_front)
        self._entries: dict[tuple, list[Entry | LaneEntry]] = {}
        self._alone: BySizes | None = None  # the builtins that are the only ones to ask for some sizes
        self.others = np.zeros(len(OTHERS), np.int64)  # where the one in front finds them
        # Those whose trace has sizes that data decide, by the trace and the dimensions of all inputs.
        self._by_counts: dict[tuple, Any] = {}
        self._paths: Paths | None = None  # there is one where some sizes have many paths
        self._wanted: tuple | None = None  # the key of the one that the last call would have needed
        self._elastic: list[ElasticEntry] = []  # what serves new sizes, the last used first
        self._untried: list[Entry] = []  # entries of traces that may have no elastic entry yet
        self._variants: weakref.WeakSet = weakref.WeakSet()  # the traces that entries have been made for
        self._met: dict[tuple, int] = {}  # how often sizes came that no entry is for
        self._learned = 0  # how many entries there have been; those of large workspaces soon go again
        self.welcome = True  # whether an entry for the present call would pay
        self._front: Entry | LaneEntry | None = None  # the entry whose builtin is installed
        self._last: Entry | LaneEntry | None = None  # what served the last call that the front did not
        self._stopped: Entry | LaneEntry | None = None  # where the present call has stopped

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def wants(self, variant: Variant | None) -> bool:
        """Whether an entry for a call that was just served would pay.

        The first entry of each trace always pays: what serves its other sizes is made from it.
        """
        if self.welcome or variant is None:
            return self.welcome
        return len(self._variants) < MOST_ELASTIC and variant not in self._variants

    def learn(self, entry: Any) -> None:
        """Keep an entry for calls with leaves of its sizes."""
        entry.occupy()
        entry.belongs_to(self)
        self._learned += 1
        if isinstance(entry, Entry):
            self._variants.add(entry.space.variant)
            if entry.follows_sizes and len(self._untried) < MOST_ELASTIC:
                self._untried.append(entry)
        sizes = key_of(tuple(row.size for row in entry.rows))
        entries: Sequence = self._entries.get(sizes, ())
        if entries and entries[0].counted is not None and entries[0].counted.are_enough(len(entries)):
            entries[-1].retire()
        if len(entries) >= MOST_KEPT:
            for each in [e for e in entries if e.__class__ is Entry and e.rebound and e.rebound()]:
                self.drop(each)
        self._entries.setdefault(sizes, []).insert(0, entry)
        entry.key = sizes
        self._note_path(sizes, entry)
        if entry.counted is not None:
            self._by_counts[entry.counted.key_of(entry.space, entry.space.dimensions)] = entry
        self._let_ask(sizes, None)
        self._put_in_front(entry)

    def _note_path(self, sizes: tuple, entry: Any) -> None:
        """Note which trace an entry has, if what guards have seen is asked for."""
        new = [entry]
        if self._paths is None:
            if len(self._entries[sizes]) <= FEW:
                return
            self._paths = imported(".paths", __package__).Paths()
            new = [each for entries in self._entries.values() for each in reversed(entries)]
        for each in new:
            if each.__class__ is Entry:
                self._paths.add(each)

    def _put_in_front(self, entry: Entry | LaneEntry) -> None:
        self._front = entry
        its_front = self._its_front()
        if its_front is not None:  # The front is gone where a call that is under way outlives its cache.
            its_front.show(self, entry)

    def _release(self, entry: Entry | LaneEntry) -> None:
        its_front = self._its_front()
        if its_front is not None:
            its_front.release(entry)

    def drop(self, entry: Any) -> None:
        """Forget an entry."""
        entry.belongs_to(None)
        entry.leave()
        if self._paths is not None and entry.__class__ is Entry:
            self._paths.remove(entry)
        if entry.counted is not None:
            self._by_counts.pop(entry.counted.key_of(entry.space, entry.space.dimensions), None)
        self._release(entry)
        for key, entries in list(self._entries.items()):
            if entry in entries:
                entries.remove(entry)
                if not entries:
                    del self._entries[key]
                self._let_ask(key, None)
        if entry is self._last:
            self._last = None
        if entry is self._front:
            self._front = None  # its builtin hands every call on to the fallback

    def clear(self) -> None:
        """Forget all calls."""
        for entries in list(self._entries.values()):
            for entry in list(entries):
                self.drop(entry)

    def renew(self, entry: Entry) -> None:
        """Ask an entry for another builtin when it serves the next time."""
        self._let_ask(entry.key, None)
        self._release(entry)
        if entry is self._front:
            self._front = None

    def again(self, *leaves):
        """Serve leaves that the entry in front does not serve: of other sizes, or on another path."""
        # This is what `sizes_of` returns, 0.05 µs faster.
        sizes = leaves[0].shape if len(leaves) == 1 and leaves[0].__class__ is ndarray else sizes_of(leaves)
        result = self.served_by_builtin(leaves, sizes, self._front)
        its_front = self._its_front()
        if result is REFUSED and its_front is not None:
            result = its_front.beside(self, leaves, sizes)
        if result is not REFUSED:
            return result
        opened, sizes = opened_leaves(leaves, sizes)
        if opened is not leaves and (result := self.served_by_builtin(opened, sizes)) is not REFUSED:
            return result
        if sizes in self._entries:
            # If no entry for these sizes serves the call, something else about it is new, and
            # an entry for that would pay.
            self.welcome = True
            wanted, self._wanted = self._wanted, None
            result = self._served_in_python(opened, sizes)
            if result is REFUSED and self._elastic and not self._has_room():
                result = self._served_elastically(opened, sizes)  # such as the other path at these sizes
            elif result is REFUSED and self._learned >= MOST_ALIKE:
                result = self._served_for_other_counts(opened, sizes, wanted)
        else:
            result = self._served_elastically(opened, sizes)
        return self._general(*leaves) if result is REFUSED else result

    def _served_elastically(self, leaves: tuple, sizes: tuple):
        """Serve leaves of sizes that are new, by a workspace that follows sizes."""
        if len(self._met) >= MOST_MET:
            self._met.clear()
        times = self._met[sizes] = self._met.get(sizes, 0) + 1
        self.welcome = self._learned < AT_ONCE or times > RARE or (times > 1 and self._has_room())
        if self.welcome:
            if times > RARE:
                # Counting starts again, because the new entry may soon lose its place to another one.
                del self._met[sizes]
            return REFUSED
        if self._untried:
            self._make_elastic_entries()
        for elastic in self._elastic:
            result = elastic.serve(leaves, REFUSED)
            if result is not REFUSED:
                if elastic is not self._elastic[0]:
                    self._elastic.remove(elastic)
                    self._elastic.insert(0, elastic)
                return result
        # The first of these sizes gets an entry, from which an elastic one can be made.
        self.welcome = any(elastic.deferred == 1 for elastic in self._elastic)
        return REFUSED

    def _served_for_other_counts(self, leaves: tuple, sizes: tuple, before: tuple | None):
        """Serve leaves of known sizes whose data decide on others (`numbatape.programs.counted_sizes`).

        Not if they are those that the call before wanted: data may stay what they are, and get an entry.
        """
        entries: Sequence = self._entries.get(sizes, ())
        counted = entries[0].counted if entries else None
        if counted is None or not (counted.in_prologue or counted.are_enough(len(entries))):
            return REFUSED
        if counted.in_prologue and (self._wanted is None or self._wanted == before):
            return REFUSED
        if self._untried and any(entry.counted is not None for entry in self._untried):
            self._make_elastic_entries()
        for elastic in self._elastic:
            if elastic.variant.counted is not None:
                result = elastic.serve(leaves, REFUSED)
                if result is not REFUSED:
                    return result
        return REFUSED

    def _has_room(self) -> bool:
        return self._front is None or self._front.has_room()

    def _make_elastic_entries(self) -> None:
        """Make an `ElasticEntry` for each trace that has got an entry, as far as that can have one."""
        made_elastic = imported(".elastic", __package__).elastic_entry_of  # needed once sizes change
        while self._untried:
            entry = self._untried.pop()
            variant, tape = entry.space.variant, entry.space.plan.tape
            known = any(its.variant is variant and its.tape.digest == tape.digest for its in self._elastic)
            if entry.owner() is not self or known:
                continue
            elastic = made_elastic(entry, refuse)
            if elastic is not None:
                self._elastic.insert(0, elastic)
                del self._elastic[MOST_ELASTIC:]

    def known(self, *leaves):
        """Serve leaves by one of the entries, or return `REFUSED`: for when another table is in front."""
        sizes = key_of(sizes_of(leaves))
        result = self.served_by_builtin(leaves, sizes)
        return self._served_in_python(*opened_leaves(leaves, sizes)) if result is REFUSED else result

    def come_to_front(self) -> None:
        """Put in front what has served a call while another table was there."""
        if self._last is not None and self._last.owner() is self:
            self._put_in_front(self._last)

    def served_by_builtin(self, leaves: tuple, sizes: tuple, front: Entry | LaneEntry | None = None):
        """Serve leaves by the builtin of an entry for their sizes; ``front`` has been asked already."""
        entries: Sequence = self._entries.get(sizes, ())
        if len(entries) > 1 and entries[0].counted is not None:
            first = front if front in entries else entries[0]
            return self._served_along(leaves, first, front, MOST_ALIKE, self._with_other_count)
        self._stopped = front = _reached(front, entries)
        if self._paths is not None and len(entries) > FEW and entries[0].__class__ is Entry:
            first = front if front is not None and front.key == sizes else entries[0]
            result = self._served_along(leaves, first, front, MOST_TRIED, self._paths.after)
            if result is not REFUSED:
                return result
        for entry in entries:
            if entry is not front and entry.builtin is not None:
                result = entry.builtin(*leaves)
                if result is not REFUSED:
                    self._note(entry)
                    self._serves_alone(entry, sizes, len(entries))
                    return result
                self._stopped = _reached(entry, entries)
        return REFUSED

    def _served_along(self, leaves: tuple, entry: Any, front: Any, most: int, following: Callable):
        """Serve leaves by an entry or, where one stops, by the next: what it saw says which one that is."""
        for _ in range(most):
            if entry is not front and entry.builtin is not None:
                result = entry.builtin(*leaves)
                if result is not REFUSED:
                    self._note(entry)
                    self._serves_alone(entry, entry.key, MOST_ALIKE)
                    return result
                entry = self._stopped = _reached(entry, self._entries.get(entry.key, ()))
            entry = following(entry)
            if entry is None:
                break
        return REFUSED

    def _serves_alone(self, entry: Any, sizes: tuple, count: int) -> None:
        """Ask an entry first from now on if it is the only one for some sizes, or goes on in others."""
        leads = entry.__class__ is Entry and entry.leading is not None and entry.leading.is_asked
        if count == 1 or leads or (entry.__class__ is Entry and entry.space.continued is not None):
            self._let_ask(sizes, entry.builtin)

    def _let_ask(self, key: tuple, builtin: Callable | None) -> None:
        """Let the builtin in front ask another one for some sizes from now on, or no other one."""
        if self._alone is None:
            if builtin is None:
                return
            self._alone = imported("..jit.by_sizes", __package__).BySizes(
                self.others
            )  # needed once sizes change
        self._alone.put((key,) if all(size.__class__ is int for size in key) else key, builtin)

    def _with_other_count(self, entry: Any):
        """Return the entry of the same trace for the count that the last sweep of one has seen."""
        sizes = entry.counted and entry.counted.following(entry.space)
        return sizes and self._by_counts.get(entry.counted.key_of(entry.space, sizes))

    def _served_in_python(self, opened: tuple, sizes: tuple):
        """Serve what builtins refuse: data that changed, complex numbers, other memory layouts, constants.

        Parameters
        ----------
        opened, sizes
            The leaves without the marks of constants, and their sizes.
        """
        asked: set[int] = set()
        for entry in self._in_order(self._entries.get(sizes, ())):
            counted = entry.counted
            if counted is None:
                result = entry.serve(opened)
                if result is not REFUSED:
                    self._note(entry)
            elif id(counted) in asked:
                continue
            else:
                asked.add(id(counted))
                result = self._served_in_python_by_count(opened, entry)
            if result is not REFUSED:
                return result
        return REFUSED

    def _in_order(self, entries: Sequence):
        """Return entries as they are asked in turn: first the one that served twice in a row."""
        if self._paths is not None and len(entries) > FEW and entries[0].counted is None:
            return self._paths.in_order(entries, self._front)
        return sorted(entries, key=lambda entry: entry is not self._front)

    def _served_in_python_by_count(self, opened: tuple, entry: Any):
        """Do what `_served_along` does where data changed, from one entry of a trace on."""
        for _ in range(MOST_ALIKE):
            result = entry.serve(opened)
            if result is not REFUSED:
                self._note(entry)
                return result
            wanted = entry.counted.key_of(entry.space, entry.counted.following(entry.space))
            entry = self._by_counts.get(wanted)
            if entry is None:
                self._wanted = wanted
                break
        return REFUSED

    def _note(self, entry: Entry | LaneEntry) -> None:
        """Put an entry in front that served twice in a row; sizes that alternate leave the front alone."""
        stopped, self._stopped = self._stopped, None
        if (
            stopped is not entry
            and stopped.__class__ is entry.__class__ is Entry
            and stopped.key == entry.key
        ):
            self._note_path_beside(stopped, entry)
        if entry is not self._last:
            self._last = entry
        elif entry is not self._front and entry.owner() is self:
            self._put_in_front(entry)

    def _note_path_beside(self, stopped: Entry, entry: Entry) -> None:
        """Note that an entry has served what another one stopped at; join them if that comes often."""
        stop: tuple[int, float] = imported(".paths", __package__).last_stop(stopped)
        if stopped.leading is not None and stopped.leading.leads_to(*stop, entry):
            return
        missed = stopped.missed[stop] = stopped.missed.get(stop, 0) + 1
        plan = stopped.space.plan
        if divmod(missed, MISSED + (len(plan.code) if plan.is_brief else 0)) in JOINING:
            imported(".continuing", __package__).join_in_turn(stopped, entry)


def _reached(entry: Any, entries: Sequence) -> Any:
    """Return the entry in whose workspace a call has stopped that an entry has refused."""
    if entry.__class__ is Entry and entry.space.continued is not None:
        return entry.space.continued.reached_of(entries) or entry
    return entry
