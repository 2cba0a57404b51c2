"""The texts of the C functions that call a rule: from the words of a call to arguments, and back to cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from .call_words import (
    CALL_A,
    CALL_B,
    CALL_COPY,
    CALL_FAILED,
    CALL_NUMBER,
    CALL_OUT,
    CALL_RAISED,
    CALL_STATUS,
)

HEAD = ("v", "g", "first", "size", "lane", "memory")  # the first words of the state


@dataclass(frozen=True)
class Leaf:
    """What is fixed about an array or a number, all but its sizes.

    Attributes
    ----------
    name
        Its name in the generated text.
    place
        Where it stands: "first" or "rest" among the operands, "result", "constant" or "memory".
    ndim
        None for a number.
    dtype
        NumPy's name of the dtype.
    """

    name: str
    place: str
    ndim: int | None
    dtype: str

    @property
    def sizes(self) -> list[str]:
        return [f"{self.name}_n{k}" for k in range(self.ndim or 0)]

    @property
    def shape(self) -> str:
        return "(" + "".join(f"{size}, " for size in self.sizes) + ")"

    @property
    def count(self) -> str:
        return " * ".join(self.sizes) or "1"

    @property
    def numpy(self) -> str:
        return f"np.{'bool_' if self.dtype == 'bool' else self.dtype}"

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Signature:
    """What a C function is compiled for.

    Attributes
    ----------
    leaves
        All arguments, results and arrays of a workspace.
    arguments
        The arguments of each of the functions that are called in turn: names, and tuples of names.
    produced
        What each part of the last function's result is: the name of a result (forward), of the argument
        that it is a cotangent of (reverse), or None for a part that is not used.
    single
        Whether that is one part, not a tuple.
    reverse
        Whether parts are added to adjoints.
    cells
        The dtype of the cells.
    """

    leaves: tuple[Leaf, ...]
    arguments: tuple[tuple, ...]
    produced: tuple[str | None, ...]
    single: bool
    reverse: bool
    cells: str
    fields: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self):
        names = list(HEAD)
        for leaf in self.leaves:
            names += [f"{leaf.name}_at", f"{leaf.name}_buffer", *leaf.sizes]
        object.__setattr__(self, "fields", tuple(names))

    def leaf(self, name: str) -> Leaf:
        """Return the leaf of a name, or of what a name is the cotangent of."""
        return next(leaf for leaf in self.leaves if leaf.name == name.removeprefix("bar_"))


TEXT = f'''"""Written by numbatape: calls a function of a rule that Numba has compiled."""


def call(words, state):
    o = load_i64(words, {CALL_OUT})
    a = load_i64(words, {CALL_A})
    b = load_i64(words, {CALL_B})
{{body}}
    return 0
'''


def used(lines: list[str]) -> list[str]:
    """Leave out the assignments of names that no later line has: Numba takes 2 ms for each of them."""
    kept: list[str] = []
    names: set[str] = set()
    for line in reversed(lines):
        found = re.findall(r"[A-Za-z_]\w*", line)
        assigned = re.match(r"[A-Za-z_]\w*(?= = )", line)
        if assigned is None or assigned[0] in names:
            kept.append(line)
            names.update(found)
    return kept[::-1]


def loads(signature: Signature) -> list[str]:
    """Return the lines that make the arguments."""
    lines = [f"{name} = load_i64(state, {k})" for k, name in enumerate(HEAD)]
    lines.append("turn = (o - first) // size if size > 0 else 0")
    wanted = set()
    for arguments in signature.arguments:
        for name in arguments:
            wanted.update(name if isinstance(name, tuple) else (name,))
    for leaf in signature.leaves:
        lines += [f"{size} = load_i64(state, {signature.fields.index(size)})" for size in leaf.sizes]
        lines += _load(signature, leaf, wanted)
    if "workspace" in wanted:
        arrays = ", ".join(leaf.name for leaf in signature.leaves if leaf.place == "memory")
        lines.append(f"workspace = Workspace({arrays})")
    return lines


def _load(signature: Signature, leaf: Leaf, wanted: set[str]) -> list[str]:
    """Return the lines that make a leaf, and its cotangent, where they are wanted."""
    name, at = leaf.name, signature.fields.index(f"{leaf.name}_at")
    if leaf.place == "memory":
        address = f"memory + lane * turn + load_i64(state, {at})"
        return [f"{name} = array_at({address}, {leaf.shape}, {leaf.numpy})"]
    if leaf.place == "constant":
        if leaf.ndim is not None:
            return [f"{name} = array_at(load_i64(state, {at}), {leaf.shape}, {leaf.numpy})"]
        load = "load_f64" if leaf.dtype.startswith("float") else "load_i64"
        return [f"{name} = {leaf.numpy}({load}(state, {at}))"]
    start = {"first": "a", "rest": "b", "result": "o"}[leaf.place]
    first = f"({start} + load_i64(state, {at})) * {np.dtype(signature.cells).itemsize}"
    lines = [f"{name}_v = v + {first}", f"{name}_g = g + {first}"]
    for half, (whose, cells) in enumerate(((name, f"{name}_v"), (f"bar_{name}", f"{name}_g"))):
        if whose in wanted:
            lines += _read(signature, leaf, whose, cells, half)
    return lines


def _read(signature: Signature, leaf: Leaf, name: str, cells: str, half: int) -> list[str]:
    """Return the lines that make a number or an array from cells."""
    load = "load_f64" if signature.cells == "float64" else "load_f32"
    number = f"{leaf.numpy}({load}({cells}, {{}}))"
    if leaf.ndim is None:
        return [f"{name} = {number.format(0)}"]
    if leaf.dtype == signature.cells:
        return [f"{name} = array_at({cells}, {leaf.shape}, {leaf.numpy})"]
    buffer = f"load_i64(state, {signature.fields.index(f'{leaf.name}_buffer')})"
    address = f"{buffer} + {half * leaf.itemsize} * {leaf.count}"
    return [
        f"{name}_line = array_at({address}, ({leaf.count},), {leaf.numpy})",
        f"for k in range({leaf.count}):",
        f"    {name}_line[k] = {number.format('k')}",
        f"{name} = array_at(address_of({name}_line), {leaf.shape}, {leaf.numpy})",
    ]


def stores(signature: Signature, result) -> list[str] | None:
    """Return the lines that call the function and store its result; None for an unexpected type of result."""
    from numba import types

    failed = _FAILED.format(direction=1 + signature.reverse).split("\n")
    lines, last = [], len(signature.arguments) - 1
    for k, arguments in enumerate(signature.arguments):
        names = [x if isinstance(x, str) else f"({', '.join(x)},)" for x in arguments]
        lines += [
            f"raised, {'parts' if k == last else '_'} = attempt(function{k}, ({', '.join(names)},))",
            "if raised != 0:",
            *failed,
        ]
    if signature.single:
        kinds, texts = [result], ["parts"]
    elif isinstance(result, types.BaseTuple) and len(result) == len(signature.produced):
        kinds, texts = list(result), [f"parts[{k}]" for k in range(len(result))]
    else:
        return None
    checks, stores = [], []
    for name, kind, part in zip(signature.produced, kinds, texts, strict=True):
        if name is None:
            continue
        leaf = signature.leaf(name)
        if isinstance(kind, types.NoneType):  # None is a zero cotangent
            stores += [] if signature.reverse else _zeros(signature, leaf)
            continue
        ndim = kind.ndim if isinstance(kind, types.Array) else None
        number = isinstance(kind, (types.Integer, types.Float, types.Boolean))
        if not (number or ndim is not None) or (ndim or 0) != (leaf.ndim or 0):
            return None
        if ndim is not None and not isinstance(kind.dtype, (types.Integer, types.Float, types.Boolean)):
            return None
        checks += [f"{part}.shape[{k}] != {size}" for k, size in enumerate(leaf.sizes)]
        stores += _store(signature, leaf, part, kind)
    if checks:
        lines += [f"if {' or '.join(checks)}:", *failed]
    return lines + stores


def _zeros(signature: Signature, leaf: Leaf) -> list[str]:
    """Return the lines that write zeros to a result."""
    suffix = "f64" if signature.cells == "float64" else "f32"
    return [f"for k in range({leaf.count}):", f"    store_{suffix}({leaf.name}_v, k, 0.0)"]


_FAILED = f"""\
    raised_at = load_i64(words, {CALL_RAISED})
    if load_i64(raised_at, 0) == 0:
        store_i64(raised_at, 0, load_i64(words, {CALL_STATUS}))
        store_i64(words, {CALL_FAILED}, {{direction}})
        copy_bytes(words + {8 * CALL_COPY}, words, {8 * (CALL_NUMBER + 1)})
    return load_i64(words, {CALL_STATUS})"""


def _store(signature: Signature, leaf: Leaf, part: str, kind) -> list[str]:
    """Return the lines that write a part of a result to cells, or add it to adjoints."""
    from numba import types

    suffix = "f64" if signature.cells == "float64" else "f32"
    cells = f"{leaf.name}_g" if signature.reverse else f"{leaf.name}_v"
    old = f"load_{suffix}({cells}, {{0}}) + " if signature.reverse else ""
    store = f"store_{suffix}({cells}, {{0}}, {old}np.float64({{1}}))"
    if not isinstance(kind, types.Array):
        return [store.format(0, part)]
    if kind.ndim == 0:
        return [store.format(0, f"{part}[()]")]
    if kind.layout == "C" and kind.dtype.name == signature.cells:
        if not signature.reverse:
            return [f"copy_bytes({cells}, address_of({part}), {leaf.count} * {leaf.itemsize})"]
        entry = f"load_{suffix}(address_of({part}), k)"
        return [f"for k in range({leaf.count}):", "    " + store.format("k", entry)]
    return [
        "k = 0",
        f"for entry in {part}.flat:",
        "    " + store.format("k", "entry"),
        "    k += 1",
    ]
