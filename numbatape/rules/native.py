"""A call of a rule that Numba has compiled, as `numbatape.jit.rules` calls it: by pointer, without Python."""

from __future__ import annotations

import functools
import inspect
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np

from ..jit.rule_signatures import Leaf, Signature
from ..jit.rules import Native, compiled, is_dispatcher
from ..tape.tape import FAMILY_DTYPE

KINDS = {"float64", "float32", "bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}
NUMBERS = (bool, int, float, np.bool_, np.int64, np.float64, np.float32)


@functools.cache
def workspace_class(names: tuple[str, ...]) -> type:
    """Return the named tuple with some names; always the same class, because Numba compiles per class."""
    return namedtuple("Workspace", names)  # type: ignore[misc]


@dataclass(frozen=True)
class Entry:
    """A function that a C function calls.

    Attributes
    ----------
    function
        A function that Numba has compiled; if it is not, Python calls the rule.
    arguments, produced, single
        As in `Signature`, by name.
    before
        The arguments of ``value``, if that is called first for what it leaves in the workspace.
    """

    function: object
    arguments: tuple
    produced: tuple
    single: bool
    before: tuple = ()


@dataclass
class _State:
    """Leaves, and the words for them in a call's state."""

    leaves: list[Leaf] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    buffers: list[tuple[str, int]] = field(default_factory=list)
    alive: list = field(default_factory=list)

    def leaf(self, leaf: Leaf, at: int, shape) -> str:
        self.leaves.append(leaf)
        self.fields |= {f"{leaf.name}_at": at, **dict(zip(leaf.sizes, shape, strict=True))}
        return leaf.name

    def port(self, name: str, place: str, port) -> str | None:
        """Note an argument or a result; None where its kind is not known."""
        if port.dtype.name not in KINDS:
            return None
        # Results take twice their size, because each has a cotangent, too.
        self.buffers.append((name, 2 * (port.stop - port.start) * port.dtype.itemsize))
        ndim = None if port.scalar is not None else len(port.shape)
        return self.leaf(Leaf(name, place, ndim, port.dtype.name), port.start, port.shape)

    def constant(self, name: str, value) -> str | None:
        """Note an argument that is not traced; None where its kind is not known."""
        if value is None:
            return "None"
        if value.__class__ in NUMBERS:
            floating = isinstance(value, (float, np.floating))
            bits = int(np.array(float(value)).view(np.int64)) if floating else int(value)
            return self.leaf(Leaf(name, "constant", None, np.asarray(value).dtype.name), bits, ())
        if value.__class__ is not np.ndarray or value.dtype.name not in KINDS | {"complex64", "complex128"}:
            return None
        if not value.flags.c_contiguous or not value.dtype.isnative:
            return None
        self.alive.append(value)
        leaf = Leaf(name, "constant", value.ndim, value.dtype.name)
        return self.leaf(leaf, value.ctypes.data, value.shape)


def takes_workspace_last(function) -> bool:
    """Whether the last parameter of a compiled function is ``workspace``."""
    return list(inspect.signature(function.py_func).parameters)[-1] == "workspace"


def native(symbolic, size, reverse: bool) -> Native | None:
    """Return how to call a compiled rule at a site without Python; None where that is not possible.

    ``symbolic`` is the site, whose size codes have the values that ``size`` returns.
    """
    site = symbolic.at(size)
    rule = site.rule
    state = _State()
    names: list[str | None] = [
        None if k in site.traced else state.constant(f"k{k}", value) for k, value in enumerate(site.args)
    ]
    places = ["first"] * len(site.first) + ["rest"] * len(site.rest)
    for k, place, port in zip(site.traced, places, (*site.first, *site.rest), strict=True):
        names[k] = state.port(f"x{k}", place, port)
    results = [state.port(f"y{k}", "result", port) for k, port in enumerate(site.results)]
    entries = rule.entries(site, names, results, state)[: 1 + reverse]
    if None in names or None in results or any(None in entry.arguments for entry in entries):
        return None
    kept = []
    for name, (shape, dtype) in ({} if rule.workspace is None else rule.workspace(*site.specs)).items():
        array = np.empty(shape, dtype)
        state.leaf(Leaf(f"m_{name}", "memory", array.ndim, array.dtype.name), 0, array.shape)
        kept.append((f"m_{name}", array.shape, array.dtype))
    workspace = workspace_class(tuple(name.removeprefix("m_") for name, _, _ in kept)) if kept else None
    leaves, cells = tuple(state.leaves), FAMILY_DTYPE[site.family].name
    made = []
    for back, entry in enumerate(entries):
        calls = [(rule.first_value, entry.before)] if kept and entry.before else []
        calls.append((entry.function, entry.arguments))
        good = all(is_dispatcher(f) and (not kept or takes_workspace_last(f)) for f, _ in calls)
        if not good:
            made.append((0, None))
            continue
        functions = tuple(function for function, _ in calls)
        given = tuple((*arguments, "workspace") if kept else arguments for _, arguments in calls)
        signature = Signature(leaves, given, entry.produced, entry.single, bool(back), cells)
        key = signature, functions
        if key not in rule.compiled:
            rule.compiled[key] = compiled(signature, functions, workspace)
        made.append(rule.compiled[key] or (0, None))
    addresses = [address for address, _ in made]
    # `pullback` reads what `value` leaves in the workspace, so either both are compiled, or Python calls
    # both.
    if not any(addresses) or (kept and not all(addresses)):
        return None
    forward, back = (*addresses, 0)[:2]
    fields = Signature(leaves, (), (), True, False, cells).fields
    found = Native(forward, back, fields, state.fields, kept, state.buffers, (*state.alive, made))
    if rule.follows_sizes and not kept:
        found.follows = True
        _note_codes(found, symbolic)
    return found


def _note_codes(found: Native, site) -> None:
    """Note which words of the state are sizes, for other sizes than these."""
    traced = zip(site.traced, (*site.first, *site.rest), strict=True)
    ports = [(f"x{k}", port) for k, port in traced] + [(f"y{k}", port) for k, port in enumerate(site.results)]
    for name, port in ports:
        found.codes[f"{name}_at"] = port.start
        if port.scalar is None:
            found.codes |= {f"{name}_n{axis}": code for axis, code in enumerate(port.shape)}
        found.rooms[name] = port.start, port.stop, 2 * port.dtype.itemsize
