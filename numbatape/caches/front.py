"""`Front`: what serves the next call of a cache or a verb. It learns the steady call from a general one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..jit.steady import ALONE, PAIR, TUPLE
from ..threads import Turn
from ..trace import pytrees
from .arguments import Flattened, bare, is_mark
from .entry import REFUSED, entry_for, refuse
from .evaluator import Evaluator
from .leaf_rows import Row
from .outs import Out
from .steady import SteadyCalls
from .templates import roles_of, template
from .variant import VariantWorkspace


class Front:
    """The steady calls of one cache.

    Parameters
    ----------
    turn
        Taken by each steady call.
    general
        The general call, which takes the same arguments, and its turn itself; None where the caller makes the
        general call itself when it gets `REFUSED`.
    owner
        An object whose attribute ``call`` is kept equal to this one's: looking up one attribute instead of
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
        self._general = general
        self._owner = owner
        self._tables: dict[Any, SteadyCalls] = {}
        # One entry per table: its call, and whether that takes keywords.
        self._known: list[tuple[SteadyCalls, Callable, bool]] = []
        self._install(None, self._first, False)

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

        def made(form: int, turn: Turn):
            return entry_for(evaluator, flat, space, outs, form, sweep, omitted, more, turn=turn)

        self.keep(flat, result, made, omitted, extras)

    def keep(
        self,
        flat: Flattened,
        result,
        made: Callable,
        omitted: frozenset[int] = frozenset(),
        extras: tuple = (),
    ) -> None:
        """Keep the entry of calls like one that has just been served, see `learn`.

        ``made(form, turn)`` makes it; None if it would serve none.
        """
        form = _form(result)
        given, keywords = roles_of(flat, omitted)
        given = (*given, *extras)
        contained = form is None or bool(keywords) or not all(map(_is_leaf, given))
        shape = pytrees.flatten((given, keywords), is_mark)[1], pytrees.flatten(result)[1]
        key = flat.signature, contained, *shape
        table = self._tables.get(key)
        if table is not None and not table.welcome:
            return
        entry = made(TUPLE if contained or form is None else form, self._turn)
        if entry is None:
            return
        if table is None:
            table = self._tables[key] = self._table((given, keywords), result, contained)
        table.learn(entry)

    @property
    def _first(self) -> Callable:
        """Return what serves while no steady call is known."""
        return refuse if self._general is None else self._general

    def forget(self) -> None:
        """Forget all steady calls; the next call is a general one."""
        self._tables.clear()
        self._known.clear()
        self._install(None, self._first, False)

    def elsewhere(self, *args, **kwargs):
        """Serve a call of another structure than the last one had, if one is known; else `REFUSED`."""
        for table, call, keywords in self._known:
            if table is not self._current and (keywords or not kwargs):
                result = call(*args, **kwargs)
                if result is not REFUSED:
                    return result
        return REFUSED

    def _elsewhere_or_general(self, *args):
        result = self.elsewhere(*args)
        return self._general(*args) if result is REFUSED else result

    def _table(self, roles, result, contained: bool) -> SteadyCalls:
        """Return a new table, whose entries install themselves in front."""
        last_resort = refuse if self._general is None else self._elsewhere_or_general
        if not contained:
            table = SteadyCalls(last_resort, lambda call: self._install(table, call, False))
            self._known.append((table, table.known, False))
            return table
        made_for = template(roles, result)

        def install(serve):
            call = made_for(serve)
            self._install(table, call if self._general is None else self._or_last_resort(call), True)

        table = SteadyCalls(refuse, install)
        self._known.append((table, made_for(table.known), True))
        return table

    def _or_last_resort(self, call: Callable) -> Callable:
        def served(*args):
            result = call(*args)
            return self._elsewhere_or_general(*args) if result is REFUSED else result

        return served

    def _install(self, table: SteadyCalls | None, call: Callable, keywords: bool) -> None:
        """Let a table's call serve the next one, here and at the owner's."""
        self._current = table
        self.call, self.keywords = call, keywords
        if self._owner is not None:
            self._owner.call = call


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
