"""What a code object tells: the names that it uses and where, its imports, whether it writes to arrays."""

from __future__ import annotations

import dis
import functools
import importlib.util
import itertools
import types

DYNAMIC = frozenset(("eval", "exec", "globals", "__dict__"))  # code may use names that it does not show
LOOKUPS = frozenset(("getattr", "vars", "__dict__", "attrgetter"))  # code may compute names of attributes
_CACHE = dis.opmap.get("CACHE", 0)
IMPORT_NAME = dis.opmap["IMPORT_NAME"]
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
LOADS = {
    dis.opmap[name]: kind
    for name, kind in {
        "LOAD_GLOBAL": "global",
        **dict.fromkeys(("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"), "name"),
        **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), "cell"),
    }.items()
    if name in dis.opmap
}
ATTRIBUTES = {dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap}
STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}
STORE_ATTR = dis.opmap["STORE_ATTR"]
PARTS = frozenset(("real", "imag", "flat"))  # attributes of arrays that may be assigned to
IN_PLACE = {k for k, (name, _) in enumerate(dis._nb_ops) if "INPLACE" in name}  # type: ignore[attr-defined]
WRITERS = frozenset(
    ("at", "copyto", "fill", "fill_diagonal", "itemset", "place", "put", "put_along_axis", "putmask", "sort")
)

OUTPUTS = frozenset(("out", "output"))  # options by which functions of NumPy and SciPy write to an array


def inner(code: types.CodeType):
    """Yield the code objects of the functions that code defines."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


@functools.lru_cache(maxsize=10_000)
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the global and attribute names of code and of the functions inside it."""
    return frozenset(code.co_names).union(*map(names_of, inner(code)))


def texts_of(code: types.CodeType) -> set[str]:
    """Return the texts that code and the functions inside it have as constants."""
    return {part for part in code.co_consts if isinstance(part, str)}.union(*map(texts_of, inner(code)))


@functools.lru_cache(maxsize=10_000)
def globals_read(code: types.CodeType) -> frozenset[str]:
    """Return the names that code and the functions inside it look up as globals, not as attributes."""
    own = set()
    for op, arg in operations(code):
        kind = LOADS.get(op)
        if kind is not None and kind != "cell":
            own.add(_loaded(code, kind, arg))
    return frozenset(own).union(*map(globals_read, inner(code)))


@functools.lru_cache(maxsize=10_000)
def tests_identity(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, compares identities other than with None, True or False."""
    previous = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and previous is not None:
            constant = previous.opname.startswith("LOAD_CO") and previous.argval in (None, True, False)
            if not constant or (isinstance(previous.argval, int) and not isinstance(previous.argval, bool)):
                return True
        if instruction.opname != "CACHE":
            previous = instruction
    return any(map(tests_identity, inner(code)))


@functools.lru_cache(maxsize=10_000)
def imported(code: types.CodeType, package: str) -> tuple[str, ...]:
    """Return the full names of the modules that code imports when it runs, its own package being known."""
    found: list[str] = []
    instructions = list(dis.get_instructions(code))
    for k, instruction in enumerate(instructions):
        if instruction.opname != "IMPORT_NAME":
            continue
        # The level is loaded first, then the imported names, and then comes this instruction.
        level, name = instructions[k - 2].argval, instruction.argval
        if not level:
            found.append(name)
        elif package:
            found.append(importlib.util.resolve_name("." * level + name, package))
    for code_inside in inner(code):
        found += imported(code_inside, package)
    return tuple(dict.fromkeys(found))


def line_of(code: types.CodeType, name: str) -> int:
    """Return the line where code, or a function inside it, uses a name first; its own line if none does."""
    for part in (code, *inner(code)):
        for instruction in dis.get_instructions(part):
            if instruction.argval == name and instruction.positions and instruction.positions.lineno:
                return instruction.positions.lineno
    return code.co_firstlineno


@functools.lru_cache(maxsize=10_000)
def passed_on(code: types.CodeType) -> frozenset[str]:
    """Return the names of globals and cells that code uses for more than reading an attribute.

    A module of which code only reads attributes, as in ``np.sin``, is passed to nothing else.
    """
    found = set()
    name = None
    for op, arg in operations(code):
        if name is not None and op not in ATTRIBUTES:
            found.add(name)
        kind = LOADS.get(op)
        name = None if kind is None else _loaded(code, kind, arg)
    return frozenset(found).union(*(passed_on(c) for c in inner(code)))


def operations(code: types.CodeType):
    """Yield the number and the argument of each instruction, without inline caches."""
    extended = 0
    for op, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if op == dis.EXTENDED_ARG:
            extended = (extended | arg) << 8
        elif op != _CACHE:
            yield op, arg | extended
            extended = 0


def _loaded(code: types.CodeType, kind: str, arg: int) -> str:
    if kind == "cell":
        return code._varname_from_oparg(arg)  # type: ignore[attr-defined]
    return code.co_names[arg >> 1 if kind == "global" else arg]


@functools.lru_cache(maxsize=10_000)
def writes(code: types.CodeType) -> bool:
    """Whether code may write to an array: by stores, augmented assignments, ``out=``, or known functions."""
    operations = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    binary = dis.opmap["BINARY_OP"]
    return (
        any(op in STORES or (op == binary and arg in IN_PLACE) for op, arg in operations)
        or not WRITERS.isdisjoint(code.co_names)
        or (STORE_ATTR in code.co_code[::2] and not PARTS.isdisjoint(code.co_names))
        or any(isinstance(c, tuple) and not OUTPUTS.isdisjoint(c) for c in code.co_consts)
        or any(writes(c) for c in inner(code))
    )


@functools.lru_cache(maxsize=10_000)
def imports(code: types.CodeType) -> bool:
    """Whether code imports something when it runs."""
    return IMPORT_NAME in code.co_code[::2] or "__import__" in code.co_names or any(map(imports, inner(code)))


@functools.lru_cache(maxsize=10_000)
def globals_assigned(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of the globals that code assigns to."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
    return tuple(found.union(*(globals_assigned(c) for c in inner(code))))


def assigns_any_global(code: types.CodeType) -> bool:
    """Whether code may assign to globals whose names it does not show."""
    return not names_of(code).isdisjoint(("eval", "exec", "globals"))


@functools.lru_cache(maxsize=10_000)
def globals_used(code: types.CodeType) -> frozenset[str]:
    """Return the names of the globals that code reads or assigns to."""
    return globals_read(code).union(globals_assigned(code))


@functools.lru_cache(maxsize=10_000)
def attributes_assigned(code: types.CodeType) -> frozenset[str]:
    """Return the names of the attributes that code, or a function inside it, assigns to."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_ATTR", "DELETE_ATTR")}
    return frozenset(found).union(*map(attributes_assigned, inner(code)))


@functools.lru_cache(maxsize=10_000)
def assigns_items(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, assigns to items or slices of an object."""
    return any(op in STORES for op, _ in operations(code)) or any(map(assigns_items, inner(code)))


@functools.lru_cache(maxsize=10_000)
def assigns_attributes(code: types.CodeType) -> bool:
    """Whether code may assign to attributes of its own function."""
    names = (*code.co_names, *code.co_freevars)
    return code.co_name in names and any(i.opname == "STORE_ATTR" for i in dis.get_instructions(code))


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
    """

    def __init__(self, codes, initialises_again: bool = False):
        self._initialises_again = initialises_again
        self._codes: list[types.CodeType] = []
        self._listings: dict[int, tuple[dis.Instruction, ...]] = {}  # by the id of a code
        pending = list(codes)
        while pending:
            code = pending.pop()
            self._codes.append(code)
            pending += inner(code)
        self._reflects = any(not REFLECTIVE.isdisjoint(code.co_names) for code in self._codes)

    def assigned(self, name: str) -> bool:
        """Whether code only assigns to attributes of this name."""
        uses = self._uses(name)
        return uses is not None and all(code[k].opname == "STORE_ATTR" for code, k in uses)

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
        if self._reflects:
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
# ``d["n"] += 1`` between the key and the constant that is added, and after the addition
_ITEM_READ, _ITEM_WRITTEN = (("COPY", "COPY"), ("SWAP", "SWAP", "STORE_SUBSCR"))


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
            if owner.opname == "COPY"  # of an augmented assignment
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
