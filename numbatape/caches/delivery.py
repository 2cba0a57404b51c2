"""Where derivatives are written: to fresh arrays, to the caller's, or to memory that the cache owns."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..errors import ShapeError, SpecError, StructureError
from ..trace import pytrees


def require_switches(args_to_zero, count: int, config: Config) -> None:
    """Raise if ``args_to_zero`` is not one bool per argument, or asks to add to fresh results."""
    if not isinstance(args_to_zero, (tuple, list)):
        raise SpecError(f"args_to_zero={args_to_zero!r}: must be a tuple of bools, one an argument")
    for switch in args_to_zero:
        if not isinstance(switch, (bool, np.bool_, int)):
            raise SpecError(f"args_to_zero: must be a tuple of bools, got {type(switch).__name__} in it")
    if len(args_to_zero) != count:
        raise SpecError(f"args_to_zero needs one bool for each of {count} arguments, got {len(args_to_zero)}")
    if not all(args_to_zero) and not config.reuse_buffers:
        raise ValueError(
            "args_to_zero=False accumulates into buffers that the cache owns: results are fresh here; "
            "prepare with nt.Config(reuse_buffers=True)"
        )


def write_into(out, made, what: str):
    """Copy derivatives into the caller's arrays; return these.

    Parameters
    ----------
    out
        Of the structure of ``made``, None where something is not wanted.
    what
        What the entries of a tuple are called in errors: "argument", or "result".
    """
    if type(made) is not tuple:
        _write(out, made, "out")
        return out
    if not isinstance(out, (tuple, list)) or len(out) != len(made):
        got = f"{len(out)} entries" if isinstance(out, (tuple, list)) else type(out).__name__
        raise SpecError(f"out: needs a tuple of {len(made)}, one entry for each {what}, got {got}")
    for k, (target, part) in enumerate(zip(out, made, strict=True)):
        if target is not None:
            _write(target, part, f"out for {what} {k}")
    return out


def _write(out, made, what: str) -> None:
    leaves, structure = pytrees.flatten(made)
    try:
        targets: list[Any] = structure.flatten_up_to(out)
    except ValueError as error:
        raise StructureError(f"{what}: another structure than the result: {error}") from None
    for target, leaf in zip(targets, leaves, strict=True):
        if target is None:
            continue
        good = isinstance(target, np.ndarray) and target.flags.writeable and leaf is not None
        if not good or target.dtype != leaf.dtype or target.shape != leaf.shape:
            wanted = "None" if leaf is None else f"a writable array of {leaf.dtype}, shape {leaf.shape}"
            array = isinstance(target, np.ndarray)
            got = f"{target.dtype} {target.shape}" if array else type(target).__name__
            raise SpecError(f"{what}: needs {wanted}, got {got}")
    for target, leaf in zip(targets, leaves, strict=True):
        if target is not None:
            target[...] = leaf


class Owned:
    """Derivatives in memory that is kept: each call writes to what the last one returned.

    Parameters
    ----------
    method, cache
        ``method(cache, *args)`` returns ``(value, *derivatives)``, all fresh. The cache owns this object,
        hence the weak reference to it.
    """

    def __init__(self, method: Callable, cache):
        self._method, self._cache = method, weakref.ref(cache)
        self.last: tuple | None = None  # what the last call returned, without the value

    def __call__(self, *args):
        value, *made = self._method(self._cache(), *args)
        leaves, structure = pytrees.flatten(tuple(made))
        if self.last is not None:
            kept, known = pytrees.flatten(self.last)
            if known == structure:
                leaves = [_kept(old, new) for old, new in zip(kept, leaves, strict=True)]
        self.last = pytrees.unflatten(structure, leaves)
        return value, *self.last

    call = __call__  # who serves a call asks for `call`, which a `Front` has, too

    def adding(self, args_to_zero, *args):
        """Make a call whose derivatives are a tuple (or one vector), and add up where an entry is False."""
        before = pytrees.mapped(lambda leaf: None if leaf is None else np.copy(leaf), self.last)
        value, grads = self(*args)
        if before is None:
            return value, grads
        (old,) = before
        if isinstance(grads, tuple):
            rows = zip(args_to_zero, old, grads, strict=True)
            grads = tuple(new if zero else _sum(was, new) for zero, was, new in rows)
        else:
            grads = _sum(old, grads)
        self.last = (grads,)
        return value, grads


def _kept(old, new):
    if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
        return new
    if old.shape != new.shape or old.dtype != new.dtype:
        return new
    old[...] = new
    return old


def _sum(old, new):
    """Add the derivatives of the last call to those of this one, in place where these are arrays."""
    leaves, structure = pytrees.flatten(new)
    parts = []
    for was, leaf in zip(pytrees.leaves(old), leaves, strict=True):
        if leaf is not None and np.shape(was) != np.shape(leaf):
            raise ShapeError(
                f"args_to_zero=False adds to what the last call left, of shape {np.shape(was)}; this one's "
                f"derivative has shape {np.shape(leaf)}"
            )
        if isinstance(leaf, np.ndarray):
            leaf += was
        parts.append(leaf if leaf is None or isinstance(leaf, np.ndarray) else leaf.dtype.type(leaf + was))
    return pytrees.unflatten(structure, parts)
