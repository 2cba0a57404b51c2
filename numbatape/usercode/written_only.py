"""Which places the user's code writes to and never reads, except to count in them."""

from __future__ import annotations

import dis
import functools
import itertools
import types

from .bytecode import inner

REFLECTIVE = frozenset(
    (
        *("vars", "dir", "getattr", "__dict__", "__getstate__", "__reduce__", "__self__", "attrgetter"),
        *("copy", "deepcopy", "replace", "asdict", "astuple", "fields", "eval", "exec", "locals", "globals"),
        *("getmembers", "gc", "get_referrers", "inspect", "__getattribute__", "__closure__", "__globals__"),
    )
)


class WrittenOnly:
    """Names of places that the user's code writes to and never reads, except to add a constant.

    A name counts wherever it may be an attribute (of any object), a global, or a variable of a closure.

    Parameters
    ----------
    codes
        The code that may run.
    initialises_again
        Whether a variable holds an ``__init__``, so that it may run for an object that was there before.

    Attributes
    ----------
    reflects
        Whether code may read attributes without naming them.
    """

    def __init__(self, codes, initialises_again: bool = False):
        self._initialises_again = initialises_again
        self._codes: list[types.CodeType] = []
        self._listings: dict[int, tuple[dis.Instruction, ...]] = {}  # the keys are ids of code objects
        pending = list(codes)
        while pending:
            code = pending.pop()
            self._codes.append(code)
            pending += inner(code)
        self.reflects = any(map(self._may_reflect, self._codes))

    def _may_reflect(self, code: types.CodeType) -> bool:
        """Whether code may read attributes without naming them; ``x.copy()`` is a method of an array."""
        found = REFLECTIVE.intersection(code.co_names)
        if found != {"copy"}:
            return bool(found)
        instructions = self._instructions(code)
        return not all(
            instruction.opname in _READ_ATTRIBUTE and _calls_without_arguments(instructions, k + 1)
            for k, instruction in enumerate(instructions)
            if instruction.argval == "copy"
        )

    def assigned(self, name: str) -> bool:
        """Whether code only assigns to attributes of this name."""
        uses = self._uses(name)
        return uses is not None and all(code[k].opname == "STORE_ATTR" for code, k in uses)

    def unused(self, name: str) -> bool:
        """Whether code uses this name only for attributes of objects that it makes, in their ``__init__``."""
        uses = self._uses(name)
        return uses is not None and all(id(code[k]) in self._initial_values for code, k in uses)

    def appended_to(self, name: str) -> bool:
        """Whether code only looks up ``append`` or ``extend`` of the object with this name."""
        uses = self._uses(name)
        return uses is not None and all(
            code[k].opname == "STORE_ATTR"
            or (_opname(code, k + 1) in _READ_ATTRIBUTE and code[k + 1].argval in ("append", "extend"))
            for code, k in uses
        )

    def counted(self, name: str) -> bool:
        """Whether code only adds integers to what has this name: ``n += 1``, ``self.n = self.n + 1``."""
        uses = self._uses(name)
        if uses is None:
            return False
        ends = {(id(code), _end_of_count(code, k)) for code, k in uses}
        return all(
            (id(code), k) in ends or id(code[k]) in self._initial_values
            if code[k].opname.startswith("STORE")
            else _end_of_count(code, k) is not None
            for code, k in uses
        )

    @functools.cached_property
    def _initial_values(self) -> set[int]:
        """The instructions, by id, by which ``__init__`` assigns to attributes of the new object.

        They change no object that was there before, unless other code calls ``__init__`` itself, or
        ``__new__`` returns an object that was there.
        """
        if self._initialises_again or any(
            code.co_name == "__new__" or ("__init__" in code.co_names and code.co_name != "__init__")
            for code in self._codes
        ):
            return set()
        found = set()
        for code in self._codes:
            if code.co_name == "__init__" and code.co_argcount:
                new = code.co_varnames[0]
                for owner, instruction in itertools.pairwise(self._instructions(code)):
                    loads = owner.argval[-1] if isinstance(owner.argval, tuple) else owner.argval
                    if instruction.opname == "STORE_ATTR" and "LOAD_FAST" in owner.opname and loads == new:
                        found.add(id(instruction))
        return found

    def item_put(self, name: str, key) -> bool:
        """Whether code only assigns to an item of the object with this name; it may count in others."""
        uses = self._items(name)
        return uses is not None and all(not counts or (known and its != key) for counts, known, its in uses)

    def item_counted(self, name: str, key) -> bool:
        """Whether code only adds integers to an item of the object with this name, as in ``d["n"] += 1``."""
        uses = self._items(name)
        return uses is not None and all(known and (counts or its != key) for counts, known, its in uses)

    def only_filled(self, name: str) -> bool:
        """Whether code only appends to the object with this name, or counts in items and assigns to them."""
        return self.appended_to(name) or self._items(name) is not None

    def _items(self, name: str) -> list[tuple] | None:
        """Return, for each use, whether code counts in an item, whether its key is known, and the key.

        None if code does anything else with the object than to count in items and to assign to them.
        """
        uses = self._uses(name)
        if uses is None:
            return None
        found = []
        for code, k in uses:
            if code[k].opname == "STORE_ATTR":
                continue
            key = code[k + 1].argval if _opname(code, k + 1) in _CONSTANT else None
            # Minus one may be the key of a dictionary's item, or the last entry of a list.
            known = key is not None and not (type(key) is int and key < 0)
            counts = _counts_in_item(code, k)
            given = _opname(code, k + 1) in _CONSTANT or _opname(code, k + 1) in (
                "LOAD_FAST",
                "LOAD_FAST_BORROW",
            )
            if not counts and not (given and _opname(code, k + 2) == "STORE_SUBSCR"):
                return None
            found.append((counts, known, key))
        return found

    def _instructions(self, code: types.CodeType) -> tuple[dis.Instruction, ...]:
        found = self._listings.get(id(code))
        if found is None:
            every = dis.get_instructions(code)
            found = tuple(i for i in every if i.opname not in ("CACHE", "EXTENDED_ARG"))
            self._listings[id(code)] = found
        return found

    def _uses(self, name: str) -> list[tuple] | None:
        """Return code, as instructions, and the index of a use of the name in it, for each use.

        None if code may use the name in ways that it does not show.
        """
        found: list[tuple] = []
        if self.reflects:
            return None
        for code in self._codes:
            if _has_text(code.co_consts, name):
                return None
            seen_by_others = name in (*code.co_freevars, *code.co_cellvars)
            if not seen_by_others and name not in code.co_names:
                continue
            instructions = self._instructions(code)
            for k, instruction in enumerate(instructions):
                if instruction.argval != name or instruction.opname == "LOAD_CLOSURE":
                    continue
                if "FAST" in instruction.opname and not seen_by_others:
                    continue  # a variable that no other function sees
                found.append((instructions, k))
        return found


_READ_ATTRIBUTE = ("LOAD_METHOD", "LOAD_ATTR")
_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT")
_ADDS = ("+", "+=", "-", "-=")
# The instructions of ``d["n"] += 1`` between the key and the constant that is added, and those behind the
# addition.
_ITEM_READ, _ITEM_WRITTEN = (("COPY", "COPY"), ("SWAP", "SWAP", "STORE_SUBSCR"))


def _calls_without_arguments(code, k: int) -> bool:
    """Whether instruction ``k`` calls what was loaded last, with no argument."""
    k += _opname(code, k) == "PRECALL"
    return _opname(code, k) == "CALL" and code[k].arg == 0


def _opname(code, k: int) -> str:
    return code[k].opname if k < len(code) else ""


def _adds_constant(code, k: int) -> bool:
    """Whether instructions from ``k`` on add an integer to what was loaded before, or subtract it."""
    if k + 1 >= len(code):
        return False
    constant = code[k].opname in _CONSTANT and type(code[k].argval) is int
    return constant and code[k + 1].opname == "BINARY_OP" and code[k + 1].argrepr in _ADDS


def _end_of_count(code, k: int) -> int | None:
    """Return where the number that instruction ``k`` loads is stored again after an addition; None if not."""
    loaded = code[k]
    if not loaded.opname.startswith("LOAD") or not _adds_constant(code, k + 1):
        return None
    if loaded.opname not in _READ_ATTRIBUTE:
        end, stores = k + 3, ("STORE_GLOBAL", "STORE_DEREF")
        same_owner = True
    else:
        end, stores = k + 4, ("STORE_ATTR",)
        owner, again = code[k - 1], _opname(code, k + 3)
        same_owner = (
            again == "SWAP"
            if owner.opname == "COPY"  # An augmented assignment copies its owner.
            else (owner.opname, owner.argval) == (again, code[k + 3].argval if again else None)
        )
    stored = same_owner and _opname(code, end) in stores and code[end].argval == loaded.argval
    return end if stored else None


def _counts_in_item(code, k: int) -> bool:
    """Whether the object that instruction ``k`` loads is used to add an integer to one of its items."""
    names = [_opname(code, j) for j in range(k, k + 10)]
    subscript = k + 4 < len(code) and (names[4] == "BINARY_SUBSCR" or code[k + 4].argrepr == "[]")
    return (
        (names[1] in _CONSTANT and subscript and _adds_constant(code, k + 5))
        and tuple(names[2:4]) == _ITEM_READ
        and tuple(names[7:10]) == _ITEM_WRITTEN
    )


def _has_text(constants, name: str) -> bool:
    return any(
        c == name if isinstance(c, str) else isinstance(c, tuple) and _has_text(c, name) for c in constants
    )
