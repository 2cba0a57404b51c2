"""Templates: functions that take arguments of a known structure apart and put results together.

What optree does for any structure in 6 µs (a dictionary of ten arrays) a function made for one structure
does in 1 µs: ``itemgetter`` fetches all values of a dictionary at once, and results are built by literals.
Its source is written here, node by node; containers that it does not know (ordered dictionaries, deques,
what a user has registered with optree) are taken apart by optree.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from operator import itemgetter

from ..capture.references import exact_key, key_orders
from ..programs.arguments import Flattened
from ..programs.roles import Constant, Static, bare, data_of, is_mark
from ..trace import pytrees
from .entry import REFUSED


class _Unknown(Exception):
    """A container that templates do not know."""


class _Writer:
    """The source text of a template, and the objects that its names refer to."""

    def __init__(self):
        self.lines: list[str] = []
        self.leaves: list[str] = []  # names of the leaves, in order
        self.scope: dict[str, object] = {"refused": REFUSED}
        self._numbers = itertools.count()

    def object(self, value) -> str:
        """Return a name under which the source refers to an object."""
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return refused")

    def require_keys(self, name: str, keys: list) -> None:
        """Require a dictionary's keys in their order, because a function may go through them.

        Of a single text the dictionary itself is asked, when its value is fetched.
        """
        if not {*map(type, keys)} <= {str}:  # the key 1 would fetch the value of True
            self.require(
                f"[*map({self.object(exact_key)}, {name})] == {self.object([*map(exact_key, keys)])}"
            )
        elif len(keys) > 1:
            self.require(f"[*{name}] == {self.object(keys)}")

    def argument(self, name: str, role) -> None:
        """Write the statements that take an argument of some role apart."""
        if not is_mark(role):
            self.take(name, pytrees.flatten(role, is_mark)[1], role)
            return
        if role.__class__ not in (Constant, Static):
            raise _Unknown
        self.lines.append(f"if {name}.__class__ is {self.object(role.__class__)}: {name} = {name}.value")
        if role.__class__ is Static:
            self.leaves.append(name)
        else:
            self.take(name, pytrees.flatten(role.value)[1], role.value)

    def take(self, name: str, structure, example) -> None:
        """Write the statements that take the object under a name apart, leaf by leaf."""
        if structure.is_leaf():
            if is_mark(example):
                raise _Unknown
            self.leaves.append(name)
            return
        cls, entries, children = structure.type, structure.entries(), structure.children()
        parts = [f"v{next(self._numbers)}" for _ in children]
        self.require(f"{name}.__class__ is {self.object(cls)}")
        if cls is dict or cls in (tuple, list) or _is_named_tuple(cls):
            self.require(f"len({name}) == {len(children)}")
            if cls is dict:
                self.require_keys(name, list(example))
            fetched = f"{self.object(itemgetter(*entries))}({name})" if cls is dict and entries else name
            if len(children) == 1 and cls is dict:
                self.lines.append(f"{parts[0]} = {fetched}")
            elif children:
                self.lines.append(f"{', '.join(parts)}, = {fetched}")
        elif pytrees.is_plain_dataclass(cls):
            self.lines += [f"{part} = {name}.{field}" for part, field in zip(parts, entries, strict=True)]
        else:
            raise _Unknown
        for part, child, entry in zip(parts, children, entries, strict=True):
            self.take(part, child, _child(example, entry))

    def build(self, structure, example, parts: Iterator[str]) -> str:
        """Return the expression that builds a result from its leaves, the next names of ``parts``."""
        if structure.is_leaf():
            return next(parts)
        cls, entries = structure.type, structure.entries()
        if not (cls in (dict, tuple, list) or _is_named_tuple(cls) or pytrees.is_plain_dataclass(cls)):
            raise _Unknown
        built = [
            self.build(child, _child(example, entry), parts)
            for child, entry in zip(structure.children(), entries, strict=True)
        ]
        if cls is dict:
            values = dict(zip(entries, built, strict=True))
            # The keys keep the order of the example, because optree goes through a dictionary by sorted keys.
            return "{" + ", ".join(f"{self.object(key)}: {values[key]}" for key in example) + "}"
        if cls is tuple:
            return "(" + "".join(f"{part}, " for part in built) + ")"
        if cls is list:
            return f"[{', '.join(built)}]"
        if _is_named_tuple(cls):
            return f"{self.object(cls)}({', '.join(built)})"
        given = ", ".join(f"{name}={part}" for name, part in zip(entries, built, strict=True))
        return f"{self.object(cls)}({given})"


def _is_named_tuple(cls) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_make")  # results of SciPy's have no such constructor


def _child(example, entry):
    return getattr(example, entry) if dataclasses.is_dataclass(example) else example[entry]


def roles_of(flat: Flattened, omitted=frozenset()) -> tuple[tuple, dict]:
    """Return ``(args, kwargs)`` in their roles, without the arguments that a call leaves out."""
    args, kwargs = pytrees.unflatten(flat.outer, flat.marks)
    return tuple(arg for k, arg in enumerate(args) if k not in omitted), {} if -1 in omitted else kwargs


def template(roles: tuple[tuple, dict], result) -> Callable:
    """Return a function ``(serve) -> call`` for calls with arguments like these and a result like this one.

    ``serve(*leaves)`` returns the leaves of the result, or `REFUSED`, which ``call`` then returns.
    """
    try:
        return _written(roles, result)
    except _Unknown:
        return _general(roles, result)


def _written(roles: tuple[tuple, dict], result) -> Callable:
    """Return a steady call that was written as Python source for arguments of one structure.

    It takes the arguments apart and builds the result without optree, which takes most of a call's time.
    """
    args, kwargs = roles
    writer = _Writer()
    writer.require(f"len(args) == {len(args)} and len(kwargs) == {len(kwargs)}")
    names = [f"a{k}" for k in range(len(args))]
    if names:
        writer.lines.append(f"{', '.join(names)}, = args")
    for name, role in zip(names, args, strict=True):
        writer.argument(name, role)
    if len(kwargs) > 1:  # a function may take them as one dictionary
        writer.require(f"[*kwargs] == {writer.object([*kwargs])}")
    for k, key in enumerate(sorted(kwargs)):  # optree goes through a dictionary by sorted keys
        writer.lines.append(f"b{k} = kwargs[{key!r}]")
        writer.argument(f"b{k}", kwargs[key])
    structure = pytrees.flatten(result)[1]
    parts = [f"r{k}" for k in range(structure.num_leaves)]
    built = writer.build(structure, result, iter(parts))
    taking = "".join(f"            {line}\n" for line in writer.lines)
    text = (
        "def made_for(serve):\n"
        "    def call(*args, **kwargs):\n"
        "        try:\n"
        f"{taking}"
        "        except (AttributeError, LookupError):\n"  # a key or a field is missing
        "            return refused\n"
        f"        made = serve({', '.join(writer.leaves)})\n"
        "        if made is refused:\n"
        "            return refused\n"
        f"        ({''.join(f'{part}, ' for part in parts)}) = made\n"
        f"        return {built}\n"
        "    return call\n"
    )
    exec(compile(text, "<numbatape template>", "exec"), writer.scope)
    return writer.scope["made_for"]  # type: ignore[return-value]


def _general(roles: tuple[tuple, dict], result) -> Callable:
    """Return a steady call that takes the arguments apart by optree, one by one."""
    args, keywords = roles
    names, count, order = sorted(keywords), len(args), [*keywords]
    takers = [_taker(role) for role in (*args, *[keywords[name] for name in names])]
    made_like = pytrees.flatten(result)[1]

    def made_for(serve):
        def call(*args, **kwargs):
            if len(args) != count or [*kwargs] != order:
                return REFUSED
            try:
                given = (*args, *[kwargs[name] for name in names])
            except KeyError:
                return REFUSED
            leaves: list = []
            for take, argument in zip(takers, given, strict=True):
                found = take(argument)
                if found is None:
                    return REFUSED
                leaves += found
            made = serve(*leaves)
            return made if made is REFUSED else pytrees.unflatten(made_like, made)

        return call

    return made_for


def _taker(role) -> Callable:
    """Return a function that gives the leaves of an argument like one in some role; None for another one.

    What is data may come without its mark, as in the general call.
    """
    if role.__class__ is Constant:
        known, order = pytrees.flatten(role.value)[1], key_orders(role.value)

        def take(given):
            given = data_of(given)
            leaves, structure = pytrees.flatten(given)
            return leaves if structure == known and key_orders(given) == order else None

        return take
    (examples, known), order = pytrees.flatten(role, is_mark), key_orders(role)
    marks = [leaf.__class__ if is_mark(leaf) else None for leaf in examples]

    def take_leaves(given):
        leaves, structure = pytrees.flatten(given, is_mark)
        if structure != known or key_orders(given) != order:
            return None
        if any(
            is_mark(leaf) and leaf.__class__ is not mark for leaf, mark in zip(leaves, marks, strict=True)
        ):
            return None
        return map(bare, leaves)

    return take_leaves
