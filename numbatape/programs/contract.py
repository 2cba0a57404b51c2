"""Does a call fit what a cache was prepared for, and do arguments fit a verb?

Errors name the place, what was prepared or is needed, and what came.
"""

from __future__ import annotations

import numpy as np

from ..errors import ArityError, DtypeError, ShapeError, StructureError
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.plain_arrays import Scratch
from ..trace.pytrees import label_of, step_text
from .arguments import STATIC, Flattened
from .roles import is_mark

_OF_NUMBERS = ("__float__", "__index__", "__complex__", "__array__")  # methods of classes that have numbers


def check_same(prepared: Flattened, given: Flattened, fixed_sizes: bool) -> None:
    """Raise a `SpecError` naming the argument path, what was prepared and what came."""
    if given.structure != prepared.structure:
        if given.count != prepared.count:
            raise ArityError(
                f"prepared for {prepared.count} argument{'s' * (prepared.count != 1)}, got {given.count}"
            )
        where, was, now = _difference(prepared, given)
        raise StructureError(
            f"{where}: the arguments' structure differs: prepared for {was}, got {now}; prepare a cache for "
            "this structure"
        )
    check_complex(prepared, given)
    for old, new, was, now in zip(prepared.specs, given.specs, prepared.leaves, given.leaves, strict=True):
        if STATIC in (old.level, new.level):
            if not {old.kind, new.kind} <= {"static", "int"}:  # an int may replace None
                raise DtypeError(
                    f"{new.path}: prepared for {kind_of(was)}, got {kind_of(now)}; prepare again"
                )
        elif old.dtype != new.dtype and "int" in (old.kind, new.kind):
            raise DtypeError(f"{new.path}: prepared for {kind_of(was)}, got {kind_of(now)}; prepare again")
        elif old.dtype != new.dtype:
            raise DtypeError(
                f"{new.path}: prepared for dtype {old.whole_dtype}, got {new.whole_dtype}; prepare again"
            )
        elif old.ndim != new.ndim:
            raise ShapeError(
                f"{new.path}: prepared for {old.describe()}, got shape {np.shape(now)}; prepare again"
            )
        elif fixed_sizes and np.shape(was) != np.shape(now):
            raise ShapeError(
                f"{new.path}: prepared for shape {np.shape(was)} with fixed_sizes=True, got {np.shape(now)}"
            )


def wrong_cache(cache, verb: str, maker: str) -> TypeError:
    """Return the error of a verb that was given something else than the cache that it serves."""
    return TypeError(f"{verb} needs a cache of {maker}, got {type(cache).__name__}")


def _difference(prepared: Flattened, given: Flattened) -> tuple[str, str, str]:
    """Return (path of the first difference between two structures, what was there, what is there)."""
    found = _first_difference(prepared.outer, given.outer, ())
    if found is not None:
        path, was, now = found
        group, *rest = path
        if not rest:
            return "keywords", was, now
        first, *steps = rest
        label = label_of(group, first, prepared.names)
        return label + (f", leaf {''.join(map(step_text, steps))}" if steps else ""), was, now
    for mark, other, path in zip(prepared.marks, given.marks, prepared.outer.paths(), strict=True):
        if _role(mark) != _role(other):
            return label_of(path[0], path[1], prepared.names), _role(mark), _role(other)
    # What differs is inside of a constant.
    for old, new, path in zip(prepared.inner, given.inner, prepared.outer.paths(), strict=True):
        found = _first_difference(old, new, ()) if old is not None and new is not None else None
        if found is not None:
            steps, was, now = found
            label = label_of(path[0], path[1], prepared.names)
            return label + (f", leaf {''.join(map(step_text, steps))}" if steps else ""), was, now
    return "the arguments", str(prepared.outer)[:200], str(given.outer)[:200]


def _first_difference(old, new, path: tuple):
    """Return (path, description of the one, of the other) where two structures first differ, else None."""
    if old.is_leaf() and new.is_leaf():
        return None
    if old.type is not new.type or old.entries() != new.entries():
        return path, _described(old), _described(new)
    if old.type.__name__ in pytrees.LABELLED.get(old.type.__module__.partition(".")[0], ()) and old != new:
        return path, _described(old), f"{_described(new)} with other labels"
    for entry, one, other in zip(old.entries(), old.children(), new.children(), strict=True):
        found = _first_difference(one, other, (*path, entry))
        if found is not None:
            return found
    return None


def _described(structure) -> str:
    if structure.is_leaf():
        return "an array or a number"
    kind, entries = structure.type, structure.entries()
    assert kind is not None
    name = kind.__name__
    if issubclass(kind, (list, tuple)) and not hasattr(kind, "_fields"):
        return f"a {name} of {len(entries)}"
    shown = ", ".join(map(repr, entries[:6])) + ", ..." * (len(entries) > 6)
    return f"a {name} with {shown or 'nothing'}"


def _role(mark) -> str:
    return f"nt.{type(mark).__name__}" if is_mark(mark) else "a bare value"


def kind_of(value) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, (int, str)) else type(value).__name__


def require_active(flat: Flattened) -> None:
    """Raise if no argument can be differentiated."""
    if not flat.active:
        listed = ", ".join(f"{s.path} ({kind_of(v)})" for s, v in zip(flat.specs, flat.leaves, strict=True))
        raise DtypeError(
            f"nothing to differentiate: no argument is a float or complex (got {listed or 'no arguments'}); "
            "integer arguments are constants, pass them as floats"
        )


def require_floats(flat: Flattened, chosen) -> None:
    """Raise for a chosen argument without any float; integers inside of a container are constants."""
    for argument in chosen:
        own = [(v, s) for v, s in zip(flat.leaves, flat.specs, strict=True) if s.argument == argument]
        if any(spec.level == ACTIVE for _, spec in own):
            continue
        for leaf, spec in own:
            if type(leaf) is Scratch or np.dtype(spec.dtype or int).kind in "fc":
                mark = "nt.Cache" if type(leaf) is Scratch else "nt.Constant"
                raise DtypeError(
                    f"{spec.path} comes as an {mark}, which has no gradient: leave it out of argnums"
                )
            kind = type(leaf).__name__ if spec.kind in ("static", "int") else spec.dtype
            if not any(hasattr(type(leaf), name) for name in _OF_NUMBERS):
                raise DtypeError(
                    f"{spec.path} is {kind}, which has no numbers to differentiate; pass arrays, floats, or "
                    "lists, tuples, dictionaries or dataclasses of them, or leave it out of argnums"
                )
            made = "x.astype(float)" if hasattr(leaf, "astype") else "float(x)"
            made = "x.numpy()" if hasattr(leaf, "numpy") else made  # a tensor of PyTorch's
            raise DtypeError(
                f"{spec.path} is {kind}: only float64 and float32 can be "
                f"differentiated; pass a float ({made}), or leave it out of argnums"
            )
        raise DtypeError(f"argument {argument} is empty: there is nothing to differentiate")


# ---- complex arguments, each leaf of which is two: a real and an imaginary part


def check_complex(prepared: Flattened, given: Flattened) -> None:
    """Raise where a leaf is complex that was real, or the other way round."""
    leaves = ([s for s in flat.specs if s.part != "imag"] for flat in (prepared, given))
    for old, new in zip(*leaves, strict=True):
        if old.part != new.part:
            was, now = old.whole_dtype or "a static value", new.whole_dtype or "a static value"
            raise DtypeError(f"{new.path}: prepared for dtype {was}, got {now}; prepare again")


def require_real(flat: Flattened, what: str) -> None:
    """Raise if a complex argument is differentiated."""
    for spec in flat.active:
        if spec.part:
            raise DtypeError(
                f"{spec.path} is {spec.whole_dtype}: {what} is of real arguments; write the function of "
                "real and imaginary parts, f(x, y) of x + 1j*y" + "; or take nt.hvp" * (what == "a Hessian")
            )


def require_complex(flat: Flattened) -> None:
    """Raise if an argument that is differentiated is real, where ``holomorphic=True``."""
    for spec in flat.active:
        if not spec.part:
            raise DtypeError(f"{spec.path} is {spec.dtype}: holomorphic=True needs complex arguments")
