"""What a sweep leaves in a workspace, as the caller gets it: values, gradients, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OutputError, SpecError, array_in_place_of_scalar, kind_of_result
from ..recording.recorded import Output, Recording
from ..savings import frozen
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.complex_pairs import Pair, holds_complex, is_complex
from .arguments import Flattened, LeafSpec
from .variant import VariantWorkspace

_ALL = object()


def without_lanes(cells: np.ndarray, kept) -> np.ndarray:
    """Return the cells of a result that does not depend on the directions, of which ``kept`` is an example.

    Such a result may have lanes all the same: a loop that computes a gradient together with Hessian-vector
    products gives lanes to all of its results. Every lane then holds the same numbers.
    """
    return cells[0, ...] if cells.ndim > np.ndim(kept) else cells


def cells_of(space: VariantWorkspace, leaf: Output) -> np.ndarray:
    """Return the view of an output that does not depend on the directions."""
    return without_lanes(space.outputs[leaf.number], space.variant.recording.values[leaf.number])


def value_of(space: VariantWorkspace, part: Any = _ALL) -> Any:
    """Return the function's result (or a part of what was recorded) as NumPy would give it, fresh."""
    recording = space.variant.recording

    def fill(leaf):
        if leaf.__class__ is not Output:
            return leaf.copy() if leaf.__class__ is np.ndarray else leaf
        kept, cells = recording.values[leaf.number], cells_of(space, leaf)
        if isinstance(kept, np.ndarray):
            return cells.astype(kept.dtype)
        number = cells[()]
        return type(kept)(number) if type(kept) in (float, int, bool) else kept.dtype.type(number)

    result = recording.result if part is _ALL else part
    if result.__class__ is Output:
        return fill(result)
    return pytrees.mapped(fill, result)


def gradient_leaves(flat: Flattened, space: VariantWorkspace) -> list:
    """Return one entry per leaf of the arguments: its adjoint's view, None where it has none."""
    views = iter(space.gradients)
    return [next(views) if spec.kind != "static" else None for spec in flat.specs]


def gradients_of(flat: Flattened, space: VariantWorkspace, copy: bool = True) -> tuple:
    """Return one gradient per argument, of the argument's structure, None for one that has none."""
    parts = [
        None
        if view is None
        else in_dtype(view[()] if spec.kind != "array" else view.copy() if copy else view, spec.dtype)
        for view, spec in zip(gradient_leaves(flat, space), flat.specs, strict=True)
    ]
    return per_argument(flat, parts)


def in_dtype(part, dtype):
    """Return a derivative of float16 numbers, whose cells are float32, as float16; others as they are."""
    return np.asarray(part).astype(dtype)[()] if dtype == np.float16 else part


def per_argument(flat: Flattened, parts) -> tuple:
    """Return one tree per argument, made of one part per leaf; None for arguments without gradient."""
    args, _ = flat.unflatten(parts)
    differentiated = flat.differentiated
    return tuple(arg if k in differentiated else None for k, arg in enumerate(args))


@frozen(eq=False)
class Layout:
    """How gradients are arranged in one flat vector (``Config(friendly_tangents=False)``).

    Attributes
    ----------
    paths, shapes
        One entry per differentiated leaf, in the order of the vector.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> config = nt.Config(friendly_tangents=False)
    >>> args = {"a": 1.0, "b": np.ones(2)}
    >>> cache = nt.prepare_gradient_cache(lambda p: p["a"] * np.sum(p["b"]), args, config=config)
    >>> nt.value_and_gradient(cache, args)[1]
    array([2., 1., 1.])
    >>> cache.layout.unravel(cache.layout.ravel((args,)))
    ({'a': np.float64(1.0), 'b': array([1., 1.])},)
    """

    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    _flat: Flattened

    @classmethod
    def of(cls, flat: Flattened) -> Layout:
        rows = [(leaf, spec) for leaf, spec, _ in flat.traced() if spec.level == ACTIVE]
        return cls(
            tuple(s.path + f".{s.part}" * bool(s.part) for _, s in rows),
            tuple(np.shape(leaf) for leaf, _ in rows),
            flat,
        )

    def ravel(self, arguments) -> np.ndarray:
        """Return one tree per argument (arguments or gradients) as one vector."""
        parts = argument_leaves(self._flat, arguments, "ravel")
        chosen = [part for part, spec in zip(parts, self._flat.specs, strict=True) if spec.level == ACTIVE]
        shapes = tuple(np.shape(part) for part in chosen)
        if shapes != tuple(self.shapes):
            raise SpecError(
                f"ravel needs one tree per argument, of shapes {tuple(self.shapes)}, got {shapes}"
            )
        return np.concatenate([np.ravel(part) for part in chosen] or [np.zeros(0)])

    def unravel(self, vector) -> tuple:
        """Return the gradients that a vector contains: one tree per argument, None for constants."""
        vector = np.asarray(vector)
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        if vector.shape != (sum(sizes),):
            raise SpecError(f"the layout needs a vector of {sum(sizes)} entries, got shape {vector.shape}")
        pieces = iter(zip(np.split(vector, np.cumsum(sizes)[:-1]), self.shapes, strict=True))

        def part(spec: LeafSpec):
            if spec.level != ACTIVE:
                return None
            piece, shape = next(pieces)
            return piece.reshape(shape).astype(spec.dtype)[() if spec.kind != "array" else ...]

        return per_argument(self._flat, [part(spec) for spec in self._flat.specs])


def argument_leaves(flat: Flattened, trees, what: str) -> list:
    """Return the leaves of one tree per argument, aligned with the arguments' leaves.

    A whole argument, or a leaf, may be None.
    """
    trees = trees if isinstance(trees, (tuple, list)) else (trees,)
    if len(trees) != flat.count:
        raise SpecError(f"{what}: needs one entry an argument ({flat.count}), with None for constants")
    result: list = []
    for argument, tree in enumerate(trees):
        specs = [spec for spec in flat.specs if spec.argument == argument]
        count = sum(spec.part != "imag" for spec in specs)
        found = [None] * count if tree is None else pytrees.leaves(tree)
        if len(found) != count:
            raise SpecError(f"{what}: argument {argument} has {count} leaves, got {len(found)}")
        parts = iter(found)
        part: Any = None
        for spec in specs:
            if spec.part != "imag":
                part = next(parts)
            if spec.part and part is not None and np.asarray(part).dtype.kind != "c":
                raise SpecError(
                    f"{what} for {spec.path}: needs {spec.whole_dtype}, got {np.asarray(part).dtype}"
                )
            result.append(getattr(part, spec.part) if spec.part and part is not None else part)
    return result + [None] * (len(flat.specs) - len(result))  # keywords


def buffers_of(flat: Flattened, space: VariantWorkspace, out) -> list:
    """Return the caller's arrays of ``out=``, one per input of the tape, None where there is none."""
    rows = zip(argument_leaves(flat, out, "out"), gradient_leaves(flat, space), flat.specs, strict=True)
    result = []
    for given, view, spec in rows:
        if given is not None:
            good = isinstance(given, np.ndarray) and given.flags.writeable and view is not None
            if not good or given.dtype != spec.dtype or given.shape != view.shape:
                wanted = (
                    f"a writable array of {spec.dtype}, shape {view.shape}" if view is not None else "None"
                )
                got = (
                    f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
                )
                raise SpecError(f"out for {spec.path}: needs {wanted}, got {got}")
        if spec.kind != "static":
            result.append(given)
    return result


# ---- the outputs that the verbs need


def scalar_output(recording: Recording, what: str = "gradient", result: Any = _ALL) -> Output | None:
    """Return the one real scalar of a result (None if it is a plain number); else raise.

    Raises
    ------
    OutputError
        For arrays, containers, and results that are no real number.
    """
    return _scalar(recording, recording.result if result is _ALL else result, what)


def value_and_aux(recording: Recording, what: str = "gradient") -> Output | None:
    """Return the scalar of a result ``(scalar, aux)``, as `scalar_output` does."""
    require_aux(recording)
    return _scalar(recording, recording.result[0], what)


def require_aux(recording: Recording) -> None:
    """Raise if a result is not ``(value, aux)``."""
    result = recording.result
    pytrees.value_and_aux(recording.values[result.number] if result.__class__ is Output else result)


def _scalar(recording, result, what) -> Output | None:
    """Return the result if it is a traced real scalar, None if it is a constant one; raise for all others."""
    if result.__class__ is Pair or isinstance(result, (complex, np.complexfloating)):
        raise OutputError(
            f"a {what} needs a function that returns one real scalar, got complex numbers; perhaps "
            "holomorphic=True, or np.real or np.abs of the result"
        )
    traced = result.__class__ is Output
    value = recording.values[result.number] if traced else result
    if isinstance(value, (float, int, np.number, np.ndarray)) and not isinstance(value, bool):
        kind = np.asarray(value).dtype.kind
        if np.ndim(value) == 0 and (kind == "f" or (kind in "iu" and not traced)):
            return result if traced else None
        if type(value) is int:  # a constant
            return None
        if np.ndim(value):
            raise OutputError(array_in_place_of_scalar(what, np.shape(value)))
    if traced:
        raise OutputError(f"a {what} needs a real scalar, the function returned {np.asarray(value).dtype}")
    hint = "; has_aux=True if it returns (value, aux)" if isinstance(result, tuple) else ""
    got = kind_of_result(result)
    raise OutputError(f"a {what} needs a function that returns one real scalar, got {got}{hint}")


def complex_output(recording: Recording, result: Any = _ALL) -> Output | None:
    """Return the real part of the one complex scalar of a result, which ``holomorphic=True`` needs."""
    result = recording.result if result is _ALL else result
    if is_complex(result) and np.ndim(result) == 0:
        return None  # a constant
    if result.__class__ is not Pair:
        got = recording.values[result.number] if result.__class__ is Output else result
        raise OutputError(
            f"holomorphic=True needs a function with a complex result, got {type(got).__name__}"
        )
    return _scalar(recording, result.re, "gradient")


def require_derivative(flat: Flattened, result) -> None:
    """Raise where complex results have no derivative, or ``holomorphic=True`` was given but they are real.

    Parameters
    ----------
    result
        The function's recorded result.
    """
    found = holds_complex(result)
    if flat.holomorphic and not found:
        raise OutputError("holomorphic=True needs a function with a complex result")
    if found and flat.is_complex and not flat.holomorphic:
        raise OutputError(
            "complex results of complex arguments have a complex derivative only where the function is "
            "holomorphic: pass holomorphic=True if it is; else take nt.jvp, nt.vjp, or np.real and np.imag"
        )


def seed_output(space: VariantWorkspace, output: Output | None) -> None:
    """Write the cotangents of a gradient: one for this output (in all lanes), zero for all others."""
    space.seed[...] = 0.0
    first = 0
    for number, level in enumerate(space.variant.recording.levels):
        if level == ACTIVE:
            size = space.outputs[number].size
            if output is not None and number == output.number:
                space.seed[first : first + size] = 1.0
            first += size
