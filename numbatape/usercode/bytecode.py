"""What a code object tells: the names that it uses and where, its imports, whether it writes to arrays."""

from __future__ import annotations

import builtins
import dis
import functools
import importlib.util
import sys
import types
from collections.abc import Container
from itertools import pairwise

DYNAMIC = frozenset(("eval", "exec", "globals", "__dict__"))  # code may use names that it does not show
LOOKUPS = frozenset(("getattr", "vars", "__dict__", "attrgetter"))  # code may compute names of attributes
_CACHE = dis.opmap.get("CACHE", 0)
IMPORT_NAME, IS_OP = dis.opmap["IMPORT_NAME"], dis.opmap["IS_OP"]
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
# Instructions that load a variable or a global by its name.
NAMES = {k for k in (*dis.hasname, *dis.haslocal, *dis.hasfree) if dis.opname[k].startswith("LOAD_")}
ATTRIBUTES = {dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap}
STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}
STORE_ATTR = dis.opmap["STORE_ATTR"]
TO_ATTRIBUTES = frozenset((STORE_ATTR, dis.opmap["DELETE_ATTR"]))
TO_GLOBALS = frozenset((dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]))
TO_VARIABLES = TO_GLOBALS.union(dis.opmap[name] for name in ("STORE_DEREF", "DELETE_DEREF"))
# How many bits of the argument of an instruction with a name are flags.
_FLAGS = {dis.opmap["LOAD_GLOBAL"]: 1}
if sys.version_info >= (3, 12):
    _FLAGS |= {dis.opmap["LOAD_ATTR"]: 1, dis.opmap["LOAD_SUPER_ATTR"]: 2}
_NAMED, _CONSTANT = frozenset(dis.hasname), frozenset(dis.hasconst)
# Some instructions load or store two variables; they have no one name.
_VARIABLES = frozenset(op for op in (*dis.haslocal, *dis.hasfree) if dis.opname[op].count("FAST") < 2)
PARTS = frozenset(("real", "imag", "flat"))  # attributes of arrays that may be assigned to
IN_PLACE = {k for k, (name, _) in enumerate(dis._nb_ops) if "INPLACE" in name}  # type: ignore[attr-defined]
WRITERS = frozenset(
    ("at", "copyto", "fill", "fill_diagonal", "itemset", "place", "put", "put_along_axis", "putmask", "sort")
)

OUTPUTS = frozenset(("out", "output"))  # options by which functions of NumPy and SciPy write to an array


_FORMATS = frozenset(
    dis.opmap[name]
    for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING")
    if name in dis.opmap
)
_MAKE_TEXT = frozenset(
    (
        *("print", "str", "repr", "ascii", "format", "pprint", "join", "write", "warn"),
        *("log", "debug", "info", "warning", "error", "exception", "critical"),
    )
)


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


def reads_builtin(name: str, code: types.CodeType) -> bool:
    """Whether code uses a builtin of this name, and not a method with the same name."""
    return hasattr(builtins, name) and name in globals_read(code)


@functools.lru_cache(maxsize=10_000)
def only_passes_to(name: str, code: types.CodeType) -> bool:
    """Whether code only loads a global to call it with arguments, of which the first is loaded next."""
    found = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PUSH_NULL")]
    return all(
        following.opname.startswith("LOAD_")
        for this, following in pairwise(found)
        if this.opname in ("LOAD_GLOBAL", "LOAD_NAME") and this.argval == name
    ) and all(only_passes_to(name, each) for each in inner(code))


@functools.lru_cache(maxsize=10_000)
def passes_on(code: types.CodeType, names: frozenset[str]) -> bool:
    """Whether code uses variables of some names for more than their attributes, such as an argument."""
    if _is_made_comparison(code):
        return False
    found = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    for this, following in pairwise(found):
        if this.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):  # Python 3.13 loads two variables at once
            loaded = this.argval if type(this.argval) is tuple else (this.argval,)
            of_attribute = "_ATTR" in following.opname or following.opname == "LOAD_METHOD"
            if not names.isdisjoint(loaded[:-1] if of_attribute else loaded):
                return True
    return any(passes_on(each, names) for each in inner(code))


@functools.lru_cache(maxsize=10_000)
def identity_tests(code: types.CodeType) -> int:
    """Return what code and functions in it compare by identity: 2 anything, 1 truth values, 0 only None.

    Neither do the methods that are made for a dataclass count: they compare objects of it, their classes, and
    arguments with what stands for a default.
    """
    found, previous = 0, None
    made = _is_made_comparison(code)
    for instruction in dis.get_instructions(code) if IS_OP in code.co_code[::2] and not made else ():
        if instruction.opname == "IS_OP" and previous is not None and not _is_of_dataclass(previous):
            loaded = previous.argval if previous.opname.startswith("LOAD_CO") else previous
            found = max(found, 0 if loaded is None else 1 if isinstance(loaded, bool) else 2)
        if instruction.opname != "CACHE":
            previous = instruction
    return max([found, *map(identity_tests, inner(code))])


def _is_made_comparison(code: types.CodeType) -> bool:
    """Whether code is the ``__eq__`` of a dataclass, which since Python 3.13 asks whether self is other."""
    return code.co_name == "__eq__" and code.co_filename == "<string>"


def _is_of_dataclass(loads: dis.Instruction) -> bool:
    """Whether an instruction loads a class, or what stands for a default that each object makes."""
    return loads.argval == "__class__" or "HAS_DEFAULT_FACTORY" in str(loads.argval)


@functools.lru_cache(maxsize=10_000)
def compared_by_identity(code: types.CodeType) -> tuple[tuple[str, int], ...]:
    """Return the names in operands of ``is``, in code and in functions inside it, each with its line."""
    steps = list(dis.get_instructions(code)) if IS_OP in code.co_code[::2] else []
    tests = [step.positions for step in steps if step.opname == "IS_OP"]
    found = [
        (str(step.argval), step.positions.lineno)
        for step in steps
        if step.opname.startswith("LOAD_") and any(_is_within(step.positions, test) for test in tests)
    ]
    return (*found, *(row for code_inside in inner(code) for row in compared_by_identity(code_inside)))


def _is_within(inner: dis.Positions, outer: dis.Positions) -> bool:
    """Whether one place in a file is in another one; where Python was told to forget columns, none is."""
    if None in inner or None in outer:
        return False
    begins = (outer.lineno, outer.col_offset) <= (inner.lineno, inner.col_offset)
    return begins and (inner.end_lineno, inner.end_col_offset) <= (outer.end_lineno, outer.end_col_offset)


@functools.lru_cache(maxsize=10_000)
def imported(code: types.CodeType, package: str) -> tuple[str, ...]:
    """Return the full names of the modules that code imports when it runs, its own package being known."""
    found: list[str] = []
    instructions = list(dis.get_instructions(code)) if IMPORT_NAME in code.co_code[::2] else []
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


def names_read(code: types.CodeType, but: Container[types.CodeType] = ()) -> set[str]:
    """Return the names of globals, cells and attributes that code reads.

    Parameters
    ----------
    but
        Code of functions inside it whose reads do not count.
    """
    found = set()
    for op, arg in operations(code):
        kind = LOADS.get(op)
        if kind is not None:
            found.add(_loaded(code, kind, arg))
        elif op in ATTRIBUTES:
            found.add(text_of(code, op, arg))
    return found.union(*(names_read(c, but) for c in inner(code) if c not in but))


def operations(code: types.CodeType):
    """Yield the number and the argument of each instruction, without inline caches."""
    extended = 0
    for op, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if op == dis.EXTENDED_ARG:
            extended = (extended | arg) << 8
        elif op != _CACHE:
            yield op, arg | extended
            extended = 0


def text_of(code: types.CodeType, op: int, arg: int) -> str:
    """Return the name, or the text, that an instruction loads or stores; otherwise an empty text.

    `dis.get_instructions` knows more, and takes twenty times as long.
    """
    if op in _NAMED:
        return code.co_names[arg >> _FLAGS.get(op, 0)]
    if op in _VARIABLES:
        return code._varname_from_oparg(arg)  # type: ignore[attr-defined]
    constant = code.co_consts[arg] if op in _CONSTANT else None
    return constant if isinstance(constant, str) else ""


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
    return tuple(_targets(code, TO_GLOBALS).union(*map(globals_assigned, inner(code))))


@functools.lru_cache(maxsize=10_000)
def stored_names(code: types.CodeType) -> frozenset[str]:
    """Return the names of globals, and of variables shared with other functions, that code assigns to."""
    return _targets(code, TO_VARIABLES).union(*map(stored_names, inner(code)))


def _targets(code: types.CodeType, stores: frozenset[int]) -> frozenset[str]:
    """Return the names that some instructions of code store to; most code has none of them."""
    own = operations(code) if not stores.isdisjoint(code.co_code[::2]) else ()
    return frozenset(text_of(code, op, arg) for op, arg in own if op in stores)


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
    return _targets(code, TO_ATTRIBUTES).union(*map(attributes_assigned, inner(code)))


@functools.lru_cache(maxsize=10_000)
def assigns_items(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, assigns to items or slices of an object."""
    return any(op in STORES for op, _ in operations(code)) or any(map(assigns_items, inner(code)))


@functools.lru_cache(maxsize=10_000)
def assigns_attributes(code: types.CodeType) -> bool:
    """Whether code may assign to attributes of its own function."""
    names = (*code.co_names, *code.co_freevars)
    return code.co_name in names and any(op == STORE_ATTR for op, _ in operations(code))


def makes_text(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, may make text of an object without naming a method of it."""
    if not names_of(code).isdisjoint(_MAKE_TEXT) or any("%" in text for text in texts_of(code)):
        return True
    if any(op in _FORMATS for op, _ in operations(code)):
        return True
    return any(map(makes_text, inner(code)))
