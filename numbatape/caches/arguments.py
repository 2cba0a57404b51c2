"""Arguments as pytrees: which leaves are differentiated, which are constants, which select a tape."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..errors import ArityError, DtypeError, ShapeError, SpecError, StructureError
from ..tape.tape import ACTIVE, CONSTANT
from ..trace.array import TracedArray
from ..trace.record import InputLeaf

NAMESPACE = "numbatape"
STATIC = -1  # the level of leaves that never reach a tape


@dataclass(frozen=True)
class Constant:
    """Data: an argument without a gradient whose values and sizes may change from call to call.

    Parameters
    ----------
    value
        Array, number, or pytree of them.
    frozen
        Promise that contents never change: they are then not compared in each call.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> f = lambda x, y: np.sum((x - y) ** 2)
    >>> cache = nt.prepare_gradient_cache(f, np.zeros(2), nt.Constant(np.ones(2)))
    >>> nt.value_and_gradient(cache, np.zeros(2))
    (np.float64(2.0), (array([-2., -2.]), None))
    """

    value: Any
    frozen: bool = False


@dataclass(frozen=True)
class Static:
    """A hashable Python value that selects the tape.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> f = lambda x, power: np.sum(x**power)
    >>> cache = nt.prepare_gradient_cache(f, np.ones(2), nt.Static(3))
    >>> nt.value_and_gradient(cache, np.ones(2), nt.Static(2))[0]
    np.float64(2.0)
    """

    value: Any


_registered: set[type] = set()


def _register_dataclasses(tree) -> None:
    """Make user dataclasses inner nodes of pytrees; NamedTuples and dicts are so already."""

    def visit(leaf):
        cls = type(leaf)
        if isinstance(leaf, (Constant, Static)):
            _register_dataclasses(leaf.value)
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type) and cls not in _registered:
            names = tuple(field.name for field in dataclasses.fields(cls) if field.init)
            optree.register_pytree_node(
                cls,
                lambda x, names=names: (tuple(getattr(x, n) for n in names), names, names),
                lambda names, children, cls=cls: cls(**dict(zip(names, children, strict=True))),
                namespace=NAMESPACE,
            )
            _registered.add(cls)
            _register_dataclasses(leaf)

    for leaf in optree.tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE):
        visit(leaf)


@dataclass(frozen=True)
class LeafSpec:
    """What is fixed about an argument leaf: where it is, its role, dtype and dimensions."""

    path: str
    argument: int
    level: int
    dtype: np.dtype | None = None
    ndim: int = 0
    kind: str = "array"  # "array", "float" (weakly typed), "scalar" (NumPy), or "static"

    def describe(self) -> str:
        if self.kind == "float":
            return "a Python float"
        return f"{self.dtype} with {self.ndim} dimension{'s' * (self.ndim != 1)}"


def is_differentiable(dtype: np.dtype) -> bool:
    return dtype in (np.float64, np.float32)


class Flattened:
    """Arguments taken apart.

    Attributes
    ----------
    specs
        One `LeafSpec` a leaf.
    leaves
        The leaves' values, static ones included.
    structure
        Hashable; equal for arguments of equal structure.
    """

    def __init__(self, args: tuple, kwargs: dict, names=()):
        _register_dataclasses((args, kwargs))
        self.count = len(args)
        self.outer_leaves, self.outer = _flatten((tuple(args), dict(kwargs)), marks=True)
        paths = _paths(self.outer, len(args), kwargs, names)
        self.inner: list = []
        self.leaves: list = []
        self.specs: list[LeafSpec] = []
        self.frozen: list[bool] = []
        for leaf, (argument, path) in zip(self.outer_leaves, paths, strict=True):
            if isinstance(leaf, Constant):
                inner_leaves, inner = _flatten(leaf.value)
                inner_paths = inner.paths()
                for part, tail in zip(inner_leaves, inner_paths, strict=True):
                    where = path + "".join(f"[{k!r}]" for k in tail)
                    self._add(part, argument, where, constant=True, frozen=leaf.frozen)
                self.inner.append(inner)
            elif isinstance(leaf, Static):
                self._static(leaf.value, argument, path)
                self.inner.append(None)
            else:
                self._add(leaf, argument, path, constant=False, frozen=False)
                self.inner.append(None)
        marks = tuple(
            ("constant", inner) if inner is not None else ("static",) if isinstance(leaf, Static) else ()
            for leaf, inner in zip(self.outer_leaves, self.inner, strict=True)
        )
        self.structure = (self.outer, marks)

    def _static(self, value, argument, path):
        try:
            hash(value)
        except TypeError:
            raise SpecError(
                f"{path}: {type(value).__name__} is not a number, an array or a container of them, and "
                "cannot be hashed to select a tape; pass arrays and numbers, or nt.Static(hashable)"
            ) from None
        self.leaves.append(value)
        self.specs.append(LeafSpec(path, argument, STATIC, kind="static"))
        self.frozen.append(True)

    def _add(self, value, argument, path, constant, frozen):
        if isinstance(value, (bool, int, str, type(None))) or not isinstance(
            value, (float, np.ndarray, np.generic)
        ):
            if isinstance(value, complex):
                raise DtypeError(f"{path}: complex numbers are not supported yet")
            if value.__class__ is TracedArray:
                raise SpecError(
                    f"{path} is a traced value: taking derivatives inside a function that is being "
                    "differentiated is not supported yet"
                )
            self._static(value, argument, path)
            return
        if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
            if isinstance(value, np.ma.MaskedArray):
                raise SpecError(f"{path}: masked arrays are not supported; pass data and mask apart")
            value = np.asarray(value)
        dtype = np.dtype(float) if type(value) is float else value.dtype
        if dtype.kind == "c":
            raise DtypeError(f"{path}: dtype {dtype} is not supported yet; pass real and imaginary parts")
        if dtype.kind not in "fiub" or dtype.itemsize > 8 or dtype == np.float16:
            raise DtypeError(f"{path}: dtype {dtype} is not supported; use float64 or float32")
        level = ACTIVE if not constant and is_differentiable(dtype) else CONSTANT
        kind = "float" if type(value) is float else "array" if isinstance(value, np.ndarray) else "scalar"
        self.leaves.append(value)
        self.specs.append(LeafSpec(path, argument, level, dtype, np.ndim(value), kind))
        self.frozen.append(frozen or not isinstance(value, np.ndarray) or not value.flags.writeable)

    @property
    def statics(self) -> tuple:
        """Values that select a tape, with their types (1 and True are different keys)."""
        return tuple(
            (type(v), v)
            for v, spec in zip(self.leaves, self.specs, strict=True)
            if spec.level == STATIC
        )

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of all traced leaves, one after the other."""
        return tuple(
            n
            for v, spec in zip(self.leaves, self.specs, strict=True)
            if spec.level != STATIC
            for n in np.shape(v)
        )

    def inputs(self) -> list[InputLeaf]:
        return [
            InputLeaf(v, spec.level)
            for v, spec in zip(self.leaves, self.specs, strict=True)
            if spec.level != STATIC
        ]

    def rebuild(self, traced: list) -> tuple[tuple, dict]:
        """Return ``(args, kwargs)`` with the traced leaves in their places."""
        replaced = iter(traced)
        parts = iter(
            v if spec.level == STATIC else next(replaced)
            for v, spec in zip(self.leaves, self.specs, strict=True)
        )
        return self.unflatten(parts)

    def unflatten(self, parts) -> tuple[tuple, dict]:
        parts = iter(parts)
        outer = []
        for inner in self.inner:
            if inner is None:
                outer.append(next(parts))
            else:
                outer.append(inner.unflatten([next(parts) for _ in range(inner.num_leaves)]))
        return self.outer.unflatten(outer)


def _flatten(tree, marks: bool = False):
    def is_leaf(x):
        return marks and isinstance(x, (Constant, Static))

    return optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)


def _paths(treespec, count, kwargs, names):
    """Return (argument number, readable path) of each leaf."""
    result = []
    for path in treespec.paths():
        group, first, *rest = path
        if group == 0:
            label = f"argument {first}"
            if first < len(names):
                label += f" (`{names[first]}`)"
        else:
            label = f"keyword `{first}`"
        tail = "".join(f".{k}" if isinstance(k, str) and k.isidentifier() else f"[{k!r}]" for k in rest)
        result.append((first if group == 0 else -1, label + (f", leaf {tail}" if tail else "")))
    return result


def check_same(prepared: Flattened, given: Flattened, fixed_sizes: bool) -> None:
    """Raise a `SpecError` naming the argument path, what was prepared and what came."""
    if given.structure != prepared.structure:
        if given.count != prepared.count:
            raise ArityError(
                f"prepared for {prepared.count} argument{'s' * (prepared.count != 1)}, got {given.count}"
            )
        raise StructureError(
            f"the arguments' structure differs: prepared for {_shape_of(prepared)}, got {_shape_of(given)}; "
            "prepare a cache for this structure"
        )
    for old, new, was, now in zip(prepared.specs, given.specs, prepared.leaves, given.leaves, strict=True):
        if STATIC in (old.level, new.level):
            if old.level != new.level:
                raise DtypeError(
                    f"{new.path}: prepared for {_kind(was)}, got {_kind(now)}; prepare again"
                )
            continue
        if old.dtype != new.dtype:
            raise DtypeError(f"{new.path}: prepared for dtype {old.dtype}, got {new.dtype}; prepare again")
        if old.ndim != new.ndim:
            raise ShapeError(
                f"{new.path}: prepared for {old.describe()}, got shape {np.shape(now)}; prepare again"
            )
        if fixed_sizes and np.shape(was) != np.shape(now):
            raise ShapeError(
                f"{new.path}: prepared for shape {np.shape(was)} with fixed_sizes=True, "
                f"got {np.shape(now)}"
            )


def _kind(value) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, (int, str)) else type(value).__name__


def _shape_of(flat: Flattened) -> str:
    text = str(flat.outer)
    return text.removeprefix("PyTreeSpec(").removesuffix(")")[:200]
