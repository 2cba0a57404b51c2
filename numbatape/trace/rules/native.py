"""A call of a rule that Numba has compiled, as `numbatape.jit.rules` calls it: by pointer, without Python."""

from __future__ import annotations

import functools
import inspect
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np

from ...jit.rules import Leaf, Signature, compiled, is_dispatcher
from ...tape.tape import FAMILY_DTYPE

KINDS = {"float64", "float32", "bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}
NUMBERS = (bool, int, float, np.bool_, np.int64, np.float64, np.float32)


@functools.cache
def workspace_class(names: tuple[str, ...]) -> type:
    """Return the named tuple of some names: one class, as Numba compiles for each one that it meets."""
    return namedtuple("Workspace", names)  # type: ignore[misc]


@dataclass
class Native:
    """What `numbatape.engine.calls` asks for; see there."""

    forward: int
    reverse: int
    names: tuple[str, ...]
    fields: dict[str, int]
    memory: list[tuple]
    buffers: list[tuple[str, int]]
    alive: tuple


@dataclass
class _State:
    """Leaves, and what is to stand in a call's state for them."""

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
        # Twice: of a result there is a cotangent too.
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


def native(site, reverse: bool) -> Native | None:
    """Return how to call a rule at a site without Python; None where it is not compiled."""
    rule = site.rule
    forward, reverse_too = is_dispatcher(rule.value), reverse and is_dispatcher(rule.pullback)
    if not (forward or reverse_too):
        return None
    memory = {} if rule.workspace is None else rule.workspace(*site.specs)
    if memory and not (forward and takes_workspace_last(rule.value)):
        return None
    if memory and reverse and not (reverse_too and takes_workspace_last(rule.pullback)):
        return None  # what `value` leaves in the workspace `pullback` finds: both here, or both in Python
    state = _State()
    names: list[str | None] = [
        None if k in site.traced else state.constant(f"k{k}", value) for k, value in enumerate(site.args)
    ]
    places = ["first"] * len(site.first) + ["rest"] * len(site.rest)
    for k, place, port in zip(site.traced, places, (*site.first, *site.rest), strict=True):
        names[k] = state.port(f"x{k}", place, port)
    results = [state.port(f"y{k}", "result", port) for k, port in enumerate(site.results)]
    if None in names or None in results:
        return None
    kept = []
    for name, (shape, dtype) in memory.items():
        array = np.empty(shape, dtype)
        state.leaf(Leaf(f"m_{name}", "memory", array.ndim, array.dtype.name), 0, array.shape)
        kept.append((f"m_{name}", array.shape, array.dtype))
    workspace = workspace_class(tuple(memory)) if memory else None
    given = (*names, "workspace") if memory else tuple(names)
    first = site.traced[: len(site.first)]
    cells = FAMILY_DTYPE[site.family].name

    def entry(function, arguments, produced, single, back):
        signature = Signature(tuple(state.leaves), arguments, produced, single, back, cells)
        if signature not in rule.compiled:
            rule.compiled[signature] = compiled(signature, function, workspace)
        return rule.compiled[signature] or (0, None)

    entries = [(0, None), (0, None)]
    if forward:
        entries[0] = entry(rule.value, given, tuple(results), site.single, False)
    if reverse_too:
        bars = site.packed([f"bar_{name}" for name in results])
        cotangents = tuple(f"x{k}" if k in first else None for k in range(len(site.args)))
        entries[1] = entry(rule.pullback, (bars, site.packed(results), *given), cotangents, False, True)
    if memory and not all(address for address, _ in entries[: 1 + reverse]):
        return None
    names_ = Signature(tuple(state.leaves), (), (), True, False, cells).fields
    addresses = [address for address, _ in entries]
    return Native(*addresses, names_, state.fields, kept, state.buffers, (*state.alive, entries))
