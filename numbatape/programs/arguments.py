"""Arguments as pytrees: which leaves are differentiated, which are constants, which select a tape."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..capture.moving_names import moving_names
from ..capture.references import exact_key, key_orders
from ..errors import DtypeError, ShapeError, SpecError
from ..recording.recorded import InputLeaf
from ..tape.tape import ACTIVE, CONSTANT, MOST_DIMENSIONS, VARYING
from ..trace import pytrees
from ..trace.aliasing import immutable
from ..trace.array import TracedArray
from ..trace.complex_pairs import join, split
from ..trace.constants import as_base
from ..trace.integer_arithmetic import LARGEST
from ..trace.integers import TracedInteger
from ..trace.library_kinds import is_masked, own_array
from ..trace.plain_arrays import Scratch, as_ndarrays, scratch
from .roles import Cache, Constant, Static, data_of, is_mark

STATIC = -1  # the level of leaves that never reach a tape
KEYWORDS = -1  # stands for the position of an argument that was given by name


class LeafSpec(NamedTuple):
    """What is fixed about an argument leaf: where it is, its role, dtype and dimensions."""

    path: str
    argument: int  # the position of the argument that the leaf belongs to, or KEYWORDS
    level: int
    dtype: np.dtype | None = None
    ndim: int = 0
    # The kind is "array"; "float" or "int" for Python's numbers, which adapt their dtype; "scalar" for
    # NumPy's; or "static".
    kind: str = "static"
    part: str = ""  # "real" or "imag": a complex leaf counts as two leaves in a row

    def describe(self) -> str:
        if self.kind == "int":
            return "a Python int"
        if self.kind == "float":
            return "a Python complex" if self.part else "a Python float"
        return f"{self.whole_dtype} with {self.ndim} dimension{'s' * (self.ndim != 1)}"

    @property
    def whole_dtype(self) -> np.dtype | None:
        """The dtype of the argument's leaf, of which this may be a part."""
        return np.result_type(self.dtype, np.complex64) if self.part and self.dtype else self.dtype


class Flattened:
    """Arguments taken apart; a complex leaf counts as two, its real and its imaginary part.

    Parameters
    ----------
    holomorphic
        Whether derivatives of complex arguments are f': directions lie along the real parts only.

    Attributes
    ----------
    specs, leaves
        One `LeafSpec` and one value per leaf, including static ones.
    by_identity
        For each leaf, whether comparing identities is enough, because nobody can change its contents.
    outer
        The structure of ``(args, kwargs)``; `Constant` and `Static` are leaves of it.
    structure
        Hashable; equal for arguments of equal structure.
    moving
        Variables that the function refers to, and whose values are among the keywords.
    orders
        The keys of dictionaries in their order, in which the function may go through them.
    """

    def __init__(self, args: tuple, kwargs: dict, names: tuple[str, ...] = (), holomorphic: bool = False):
        self.holomorphic = holomorphic
        self.count = len(args)
        self.directions: int | None = (
            None  # the argument that has directions, which the function does not see
        )
        self.names = names
        self.marks, self.outer = pytrees.flatten((tuple(args), dict(kwargs)), is_mark)
        self.inner: list = []  # the structure in a Constant, None for other leaves of `outer`
        self.leaves: list = []
        self.specs: list[LeafSpec] = []
        self.by_identity: list[bool] = []
        for leaf, (argument, path) in zip(self.marks, pytrees.paths_of(self.outer, names), strict=True):
            if leaf.__class__ is Constant:
                self._constant(leaf, argument, path)
            elif leaf.__class__ is Static:
                self._static(leaf.value, argument, path)
                self.inner.append(None)
            elif leaf.__class__ is Cache:
                buffer = _as_base_array(as_array(leaf.buffer, f"the nt.Cache of {path}"), path)
                _require_supported(buffer.dtype, path)
                self._static(Scratch(buffer.shape, buffer.dtype), argument, path)
                self.inner.append(None)
            else:
                self._add(leaf, argument, path)
                self.inner.append(None)
        roles = tuple(
            inner if inner is not None else leaf.__class__ in (Static, Cache)
            for leaf, inner in zip(self.marks, self.inner, strict=True)
        )
        named = {name: data_of(arg) for name, arg in kwargs.items()}
        self.orders = key_orders([*map(data_of, args), named])
        self.structure = (self.outer, roles)
        self.moving = moving_names(kwargs)

    def _constant(self, mark: Constant, argument: int, path: str) -> None:
        if mark.value.__class__ is np.ndarray:
            self._add(mark.value, argument, path, mark)
            self.inner.append(pytrees.LEAF)
            return
        parts, inner = pytrees.flatten(mark.value)
        for part, tail in zip(parts, inner.paths(), strict=True):
            self._add(part, argument, path + "".join(f"[{k!r}]" for k in tail), mark)
        self.inner.append(inner)

    def _static(self, value, argument: int, path: str) -> None:
        try:
            hash(value)
        except (TypeError, ValueError):  # a memory view that may be written to raises ValueError
            raise SpecError(
                f"{path}: {type(value).__name__} is not a number, an array or a container of them, and "
                "cannot be hashed to select a tape; pass arrays and numbers, or nt.Static(hashable)"
            ) from None
        self._append(value, True, LeafSpec(path, argument, STATIC))

    def _add(self, value, argument: int, path: str, mark: Constant | None = None) -> None:
        """Add an array or a number, which becomes an input of the tape; anything else becomes static."""
        if isinstance(value, np.ndarray):
            value = _as_base_array(value, path)
            kind, dtype = "array", value.dtype
        elif isinstance(value, np.generic) and not isinstance(value, str):
            kind, dtype = "scalar", value.dtype
        elif isinstance(value, float):
            kind, dtype = "float", np.dtype(float)
        elif type(value) is int and abs(value) <= LARGEST:
            kind, dtype = "int", np.dtype(int)
        elif type(value) in (TracedArray, TracedInteger):
            raise SpecError(
                f"{path} is a traced value: a prepared cache takes plain arrays; inside of a function "
                "that is being differentiated call nt.grad, nt.jvp, nt.hessian, ..."
            )
        elif isinstance(value, complex):
            kind, dtype = "float", np.dtype(complex)
        elif hasattr(type(value), "__array__") and (own := own_array(value, path)) is not None:
            value, kind, dtype = own, "array", own.dtype
        else:
            self._static(value, argument, path)
            return
        _require_supported(dtype, path)
        if dtype.kind == "c":
            self._complex(value, kind, argument, path, mark)
            return
        level = ACTIVE if mark is None and dtype.kind == "f" else CONSTANT
        fixed = kind == "array" and ((mark is not None and mark.frozen) or immutable(value))
        self._append(value, fixed, LeafSpec(path, argument, level, dtype, np.ndim(value), kind))

    def _complex(self, value, kind: str, argument: int, path: str, mark: Constant | None) -> None:
        """Add both parts of a complex leaf; those of an array are views, which show shared memory."""
        parts = (value.real, value.imag) if isinstance(value, np.ndarray) else split(value)
        for part, data in zip(("real", "imag"), parts, strict=True):
            level = ACTIVE if mark is None else CONSTANT
            if level == ACTIVE and self.holomorphic and part == "imag":
                level = VARYING  # its numbers differ between calls, and it takes no gradient
            dtype = np.asarray(data).dtype
            self._append(data, False, LeafSpec(path, argument, level, dtype, np.ndim(value), kind, part))

    def _append(self, value, by_identity: bool, spec: LeafSpec) -> None:
        self.leaves.append(value)
        self.by_identity.append(by_identity)
        self.specs.append(spec)

    # ---- what a program asks

    @property
    def signature(self) -> tuple:
        """Hashable; arguments of equal signature can be served by one program."""
        return self.structure, tuple(spec[2:] for spec in self.specs)

    @property
    def statics(self) -> tuple:
        """What selects a tape, one entry per leaf.

        For a static leaf this is its `exact_key`, for a constant its kind, because Python's own numbers are
        weakly typed.
        """
        return tuple(
            exact_key(v) if spec.level == STATIC else spec.kind if spec.level == CONSTANT else None
            for v, spec in zip(self.leaves, self.specs, strict=True)
        )

    def traced(self) -> list[tuple[Any, LeafSpec, bool]]:
        """Return ``(value, spec, by identity)`` of the leaves that become inputs of a tape."""
        return self._traced

    @functools.cached_property
    def _traced(self) -> list[tuple[Any, LeafSpec, bool]]:
        rows = zip(self.leaves, self.specs, self.by_identity, strict=True)
        return [row for row in rows if row[1].level != STATIC]

    @functools.cached_property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of all traced leaves, one after the other."""
        return tuple([n for value, _, _ in self.traced() for n in np.shape(value)])

    def inputs(self) -> list[InputLeaf]:
        return [InputLeaf(value, spec.level) for value, spec, _ in self.traced()]

    def rebuild(self, traced: list) -> tuple[tuple, dict]:
        """Return ``(args, kwargs)`` with the traced leaves in their places."""
        replaced = iter(traced)
        return self.unflatten(
            (scratch(leaf) if leaf.__class__ is Scratch else leaf) if spec.level == STATIC else next(replaced)
            for leaf, spec in zip(self.leaves, self.specs, strict=True)
        )

    def unflatten(self, parts: Iterable) -> tuple[tuple, dict]:
        """Return ``(args, kwargs)`` with the given parts, one per spec, in place of the leaves."""
        parts = iter(self._joined(parts))
        outer = [
            next(parts)
            if inner is None
            else pytrees.unflatten(inner, [next(parts) for _ in range(inner.num_leaves)])
            for inner in self.inner
        ]
        return pytrees.unflatten(self.outer, outer)

    def _joined(self, parts: Iterable) -> Iterator:
        """Yield one part per leaf: the two parts of a complex leaf become complex numbers again."""
        parts = iter(parts)
        for spec in self.specs:
            if spec.part != "imag":
                part = next(parts)
                yield join(part, next(parts)) if spec.part else part

    # ---- what a cache asks

    @property
    def is_complex(self) -> bool:
        """Whether there is a complex leaf among the arguments that are differentiated."""
        return any(spec.part for spec in self.active)

    @property
    def active(self) -> list[LeafSpec]:
        return [spec for spec in self.specs if spec.level == ACTIVE]

    @property
    def differentiated(self) -> set[int]:
        """Numbers of the arguments that have a gradient; -1 stands for the keywords and a callable's own."""
        return {spec.argument for spec in self.active}

    @property
    def chosen(self) -> list[int]:
        """Numbers of the positional arguments that have a gradient, in order."""
        return sorted(k for k in self.differentiated if k >= 0)


def _as_base_array(array: np.ndarray, path: str) -> np.ndarray:
    """Return an array as an ndarray in native byte order; refuse classes that compute differently."""
    array = as_base(as_ndarrays(array))  # unwraps an array that was made while a function is traced
    if type(array) is not np.ndarray:
        _refuse_masked(array, path)
        if not isinstance(array, np.memmap):
            raise SpecError(
                f"{path}: {type(array).__name__} is not supported; pass a plain array (np.asarray)"
            )
        array = np.asarray(array)
    if array.ndim > MOST_DIMENSIONS:
        raise ShapeError(f"{path} has {array.ndim} dimensions; at most {MOST_DIMENSIONS} are supported")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _refuse_masked(array, path: str) -> None:
    if is_masked(array):
        raise SpecError(f"{path}: masked arrays are not supported; pass data and mask apart")


def as_array(value, what: str) -> np.ndarray:
    """Return ``np.asarray(value)``; where that raises, or drops a mask, the error says what it is for."""
    try:
        array = np.asanyarray(value)
    except Exception as error:  # an object's own `__array__` may raise anything
        raise SpecError(f"{what} is no array: {error}") from error
    _refuse_masked(array, what)
    return np.asarray(array)


def plain_array(value, what: str) -> np.ndarray:
    """Return an array, or a list of numbers, as an ndarray of a dtype that tapes compute with."""
    array = value if isinstance(value, np.ndarray) else as_array(value, what)
    array = _as_base_array(array, what)
    _require_supported(array.dtype, what)
    return array


def _require_supported(dtype: np.dtype, path: str) -> None:
    if dtype in (np.complex128, np.complex64):
        return
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise DtypeError(f"{path}: dtype {dtype} is not supported; use float64 or float32")
