"""`Front`: what serves the next call of a cache or a verb. It learns the steady call from a general one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..capture.references import key_orders
from ..jit.steady import ALONE, PAIR, TUPLE
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.roles import bare, is_mark
from ..programs.variant import VariantWorkspace
from ..tape.tape import CONSTANT
from ..threads import Turn
from ..trace import pytrees
from .argument_rows import omitted_data, rows_of, watched_memory
from .entry import REFUSED, Entry, refuse
from .leaf_rows import Row
from .outs import Out
from .steady import SteadyCalls
from .templates import roles_of, template

if TYPE_CHECKING:
    from ..caches.lane_calls import LaneEntry
    from ..programs.variant import Variant


# Structures of containers whose calls are known; each call of another structure is tried with all of them.
MOST_STRUCTURES = 16
OFTEN = 8  # a table that serves so many calls which the one in front refuses goes to the front


class Front:
    """The steady calls of one cache or verb.

    It owns its tables and the builtins that may serve next, which own the tables that they fall back to.
    Nothing of this refers to the front, or to the cache, but weakly: a cache that is dropped is freed at
    once, with its workspaces.

    Parameters
    ----------
    turn
        Taken by each steady call.
    general
        The general call, a method which takes the same arguments, and its turn itself; None where the caller
        makes the general call itself when it gets `REFUSED`.
    owner
        An object whose attribute ``served`` is kept equal to ``call``: looking up one attribute instead of
        two saves 20 ns of 600.

    Attributes
    ----------
    call
        Serves the next call.
    keywords
        Whether ``call`` takes keyword arguments.
    """

    def __init__(self, turn: Turn, general: Callable | None = None, owner=None):
        self._turn = turn
        self._general = None if general is None else weakref.WeakMethod(general)
        self._owner = None if owner is None else weakref.ref(owner)
        self._last_resort = refuse if general is None else _last_resort_of(weakref.ref(self))
        self._tables: dict[Any, SteadyCalls] = {}
        # There is one entry per table: its call, and whether that takes keywords.
        self._known: list[tuple[SteadyCalls, Callable, bool]] = []
        # What makes a table's calls of its leaves, for tables whose arguments or results are containers.
        self._made_for: dict[SteadyCalls, Callable] = {}
        # What serves when an entry is in front: its builtin, which hands on to the table what it refuses.
        self._firsts: dict[Entry | LaneEntry, Callable] = {}
        self._beside: tuple[SteadyCalls | None, int] = None, 0  # what served last in place of it, how often
        self._install(None, self._last_resort, False)

    def learn(
        self,
        flat: Flattened,
        evaluator: Evaluator,
        space: VariantWorkspace,
        result,
        outs: list[Out],
        sweep: str,
        omitted: frozenset[int] | None = frozenset(),
        extras: tuple = (),
        more: Sequence[Row] = (),
    ) -> None:
        """Serve calls like one that has just been served.

        Parameters
        ----------
        flat
            The function's arguments in that call, including those that it left out.
        result, outs
            What the call returned, and how each leaf of that is made.
        sweep
            Name of the sweeps' entry point.
        omitted
            The arguments that the call left out, -1 for keywords; None if no steady call can serve it.
        extras, more
            Further arguments behind those of the function (directions, cotangents), and a row for each leaf.
        """
        if omitted is None or len(pytrees.leaves(extras)) != len(more):
            return
        if len(pytrees.leaves(result)) != len(outs):  # a DataFrame without its columns of integers is one
            return

        def made(form: int, turn: Turn):
            return entry_for(evaluator, flat, space, outs, form, sweep, omitted, more, turn=turn)

        self.keep(flat, result, made, omitted, extras, space.variant)

    def keep(
        self,
        flat: Flattened,
        result,
        made: Callable,
        omitted: frozenset[int] = frozenset(),
        extras: tuple = (),
        variant: Variant | None = None,
    ) -> None:
        """Keep the entry of calls like one that has just been served, see `learn`.

        ``made(form, turn)`` makes it; None if it would serve none. ``variant`` is the only trace that it has.
        """
        form = _form(result)
        given, keywords = roles_of(flat, omitted)
        given = (*given, *extras)
        contained = form is None or bool(keywords) or not all(map(_is_leaf, given))
        shape = pytrees.flatten((given, keywords), is_mark)[1], pytrees.flatten(result)[1]
        key = flat.signature, flat.orders, contained, *shape, key_orders(result)
        table = self._tables.get(key)
        if table is not None and not table.wants(variant):
            return
        entry = made(TUPLE if contained or form is None else form, self._turn)
        if entry is None:
            return
        if table is None:
            table = self._tables[key] = self._table((given, keywords), result, contained)
        table.learn(entry)

    def forget(self) -> None:
        """Forget all steady calls; the next call is a general one."""
        for known in self._tables, self._known, self._made_for, self._firsts:
            known.clear()
        self._install(None, self._last_resort, False)

    def elsewhere_or_general(self, *args, **kwargs):
        """Serve a call that the table in front does not serve: by another one, or by the general call."""
        result = self.elsewhere(*args, **kwargs)
        general = None if self._general is None else self._general()
        return general(*args, **kwargs) if result is REFUSED and general is not None else result

    def elsewhere(self, *args, **kwargs):
        """Serve a call of another structure than the last one had, if one is known; else `REFUSED`."""
        for known in reversed(self._known.copy()):
            table, call, keywords = known
            if table is not self._current and (keywords or not kwargs):
                result = call(*args, **kwargs)
                if result is not REFUSED:
                    if known in self._known:  # the last that served is the last to be forgotten
                        self._known.remove(known)
                        self._known.append(known)
                    self._note(table)
                    return result
        return REFUSED

    def beside(self, table: SteadyCalls, leaves: tuple, sizes: tuple):
        """Serve leaves that a table's builtins refuse by those of another one: numbers of another class.

        Python looks at many things before it says that a table cannot serve a call.
        """
        if len(self._known) > 1 and table not in self._made_for:
            for other, _, contained in self._known:
                if other is not table and not contained:
                    result = other.served_by_builtin(leaves, sizes)
                    if result is not REFUSED:
                        self._note(other)
                        return result
        return REFUSED

    def _note(self, table: SteadyCalls) -> None:
        """Put a table in front that has served several calls which the one in front has refused."""
        last, times = self._beside
        times = times + 1 if last is table else 1
        self._beside = table, times
        if times == OFTEN:
            self._beside = None, 0
            table.come_to_front()

    def _forget_oldest(self) -> None:
        """Forget the table that has served no call for longest."""
        known = next(each for each in self._known if each[0] is not self._current)
        self._known.remove(known)
        table = known[0]
        table.clear()
        self._made_for.pop(table, None)
        for key in [key for key, its in self._tables.items() if its is table]:
            del self._tables[key]

    def _table(self, roles, result, contained: bool) -> SteadyCalls:
        """Return a new table, whose entries install themselves in front."""
        # A table for containers gets their leaves, and the general call the containers: see `_either`.
        if len(self._known) >= MOST_STRUCTURES:
            self._forget_oldest()
        table = SteadyCalls(self, refuse if contained else self._last_resort)
        known: Callable = table.known
        if contained:
            made_for = self._made_for[table] = template(roles, result)
            known = made_for(known)
        self._known.append((table, known, contained))
        return table

    def show(self, table: SteadyCalls, entry: Entry | LaneEntry) -> None:
        """Let an entry of a table serve the next call."""
        first = self._firsts.get(entry)
        if first is None:
            first = self._firsts[entry] = entry.native(table.again, table.others) or table.again
        made_for = self._made_for.get(table)
        if made_for is None:
            self._install(table, first, False)
            return
        call = made_for(first)
        self._install(table, call if self._general is None else _either(call, self._last_resort), True)

    def release(self, entry: Entry | LaneEntry) -> None:
        """Forget what serves when an entry is in front, because it needs another one, or none."""
        self._firsts.pop(entry, None)

    def _install(self, table: SteadyCalls | None, call: Callable, keywords: bool) -> None:
        """Let a table's call serve the next one."""
        self._current = table
        self.call, self.keywords = call, keywords
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            owner.served = call


def _last_resort_of(front: Callable[[], Front | None]) -> Callable:
    """Return what serves a call that the table in front does not serve; the front itself keeps it."""

    def serve(*args, **kwargs):
        its = front()
        return REFUSED if its is None else its.elsewhere_or_general(*args, **kwargs)

    return serve


def _either(call: Callable, other: Callable) -> Callable:
    """Return what serves calls by the second function if the first one refuses them."""

    def serve(*args, **kwargs):
        result = call(*args, **kwargs)
        return other(*args, **kwargs) if result is REFUSED else result

    return serve


def _is_leaf(role) -> bool:
    return pytrees.flatten(bare(role))[1].is_leaf()


def _form(result) -> int | None:
    """Return the form in which the builtin makes a result, None if it can only make a tuple of the leaves."""
    leaf = lambda part: pytrees.flatten(part)[1].is_leaf()  # noqa: E731
    if leaf(result):
        return ALONE
    if type(result) is not tuple:
        return None
    if len(result) == 2 and leaf(result[0]) and type(result[1]) is tuple and all(map(leaf, result[1])):
        return PAIR
    return TUPLE if all(map(leaf, result)) else None


def entry_for(
    evaluator: Evaluator,
    flat: Flattened,
    space: VariantWorkspace,
    outs: list[Out],
    form: int,
    sweep: str,
    omitted: frozenset[int] = frozenset(),
    more: Sequence[Row] = (),
    lanes: frozenset[int] = frozenset(),
    *,
    turn: Turn,
) -> Entry | None:
    """Return the entry for calls like one that a workspace has just served; None if it would serve none.

    Parameters
    ----------
    flat
        The arguments of that call.
    omitted
        Arguments that calls leave out; their contents are watched where they were at preparation.
    more
        As of `rows_of`.
    lanes
        Numbers of the tape's inputs that have a point in each lane.
    """
    config = evaluator.program.config
    if config.debug_mode or space.variant.single_use or space.variant.memory is not None:
        return None
    if any(spec.part and spec.level == CONSTANT and spec.kind != "array" for spec in flat.specs):
        return None  # the parts of a complex constant number are not compared one by one
    rows = rows_of(flat, space, omitted, lanes, more)
    watched = watched_memory(flat, omitted)
    if any(array is None for array in watched) or not evaluator.watch(space, watched):
        return None
    environment = evaluator.program.environment
    captured = None if environment.empty else environment
    entry = Entry(space, rows, outs, form, sweep, captured, turn)
    usual = not config.fixed_sizes and not config.reuse_buffers and not space.variant.apart
    entry.follows_sizes = usual and not evaluator.levels
    entry.has_room, entry.values = evaluator.has_room, evaluator.values
    entry.omitted = omitted_data(flat, space, omitted)
    if space.variant.recording.factors and not environment.empty:
        entry.factors = imported(".steady_data", __package__).factors_of(space.variant, evaluator.program)
    return entry
