"""A function at a point, as the checks see it: arguments as one vector, results as one weighted sum."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..programs.roles import Constant, Static
from ..trace import pytrees
from ..trace.primitives import value_of


def is_active(leaf) -> bool:
    """Whether a leaf of an argument is differentiated."""
    if isinstance(leaf, (float, complex, np.inexact)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"


def entries_of(leaf) -> np.ndarray:
    """Return the entries of a leaf as a vector of reals; of complex ones all real parts come first."""
    array = np.asarray(leaf)
    if array.dtype.kind == "c":
        return np.concatenate([np.ravel(array.real), np.ravel(array.imag)]).astype(float)
    return np.ravel(array).astype(float)


def unmarked(args) -> list:
    """Return arguments as a plain call of the function takes them."""
    return [arg.value if isinstance(arg, (Constant, Static)) else arg for arg in args]


def copied(args) -> tuple:
    """Return arguments in memory of their own."""

    def copy(arg):
        if isinstance(arg, (Constant, Static)):
            return arg
        leaves, structure = pytrees.flatten(arg)
        return pytrees.unflatten(structure, [x.copy() if isinstance(x, np.ndarray) else x for x in leaves])

    return tuple(map(copy, args))


def float_leaves(tree) -> list:
    """Return the leaves of a result that carry a derivative; both parts of complex ones."""
    found = []
    for leaf in pytrees.leaves(tree):
        is_complex = isinstance(leaf, (np.ndarray, np.generic, complex)) and np.iscomplexobj(leaf)
        found += (leaf.real, leaf.imag) if is_complex else (leaf,)
    return [x for x in found if np.asarray(value_of(x)).dtype.kind == "f"]


def contents(args) -> list:
    """Return the bytes of arguments, to find out later whether any bit has changed."""
    return [
        np.asarray(leaf).tobytes()
        for arg in unmarked(args)
        for leaf in pytrees.leaves(arg)
        if isinstance(leaf, (np.ndarray, np.generic, float, complex, int))
    ]


class Point:
    """Arguments, and the entries of them that are differentiated as one vector."""

    def __init__(self, args):
        self.args = copied(args)
        self._parts = []  # (argument, leaves, structure)
        self.labels: list[str] = []
        rows = []
        for k, arg in enumerate(self.args):
            marked = isinstance(arg, (Constant, Static))
            leaves, structure = ([arg], None) if marked else pytrees.flatten(arg)
            self._parts.append((leaves, structure))
            for j, leaf in enumerate(leaves):
                if not marked and is_active(leaf):
                    rows.append(entries_of(leaf))
                    name = f"argument {k}" + (f", leaf {j}" if len(leaves) > 1 else "")
                    index = [list(map(int, i)) for i in np.ndindex(*np.shape(leaf))]
                    for part in (", real part", ", imaginary part") if np.iscomplexobj(leaf) else ("",):
                        self.labels += [f"{name}{i or ''}{part}" for i in index]
        if not rows:
            raise TypeError("nothing to differentiate: no argument is a float, a complex number or an array")
        self.vector = np.concatenate(rows)

    def at(self, vector, dtype=None) -> tuple:
        """Return the arguments with other numbers (of another dtype)."""
        start, args = 0, []
        for leaves, structure in self._parts:
            if structure is None:
                args += leaves
                continue
            filled = []
            for leaf in leaves:
                if not is_active(leaf):
                    filled.append(leaf)
                    continue
                size, shape = int(np.size(leaf)), np.shape(leaf)
                kind = np.asarray(leaf).dtype if dtype is None else dtype
                part = np.asarray(vector[start : start + size]).reshape(shape)
                start += size
                if np.iscomplexobj(leaf):
                    part = part + 1j * np.asarray(vector[start : start + size]).reshape(shape)
                    start += size
                    kind = np.result_type(kind, np.complex64)
                part = part.astype(kind)
                if type(leaf) in (float, complex) and dtype is None:
                    filled.append(part.item())
                else:
                    filled.append(part if isinstance(leaf, np.ndarray) else part[()])
            args.append(pytrees.unflatten(structure, filled))
        return tuple(args)

    def flat(self, trees) -> np.ndarray:
        """Return gradients (one tree per argument, None for constants) as one vector."""
        parts = [
            entries_of(leaf)
            for (leaves, structure), tree in zip(self._parts, trees, strict=True)
            if structure is not None
            for leaf, own in zip(pytrees.leaves(tree), leaves, strict=False)
            if is_active(own)
        ]
        return np.concatenate(parts)


def weighed(f: Callable, weights: list[np.ndarray]) -> Callable:
    """Return the sum of all of a function's results, each entry with a weight.

    It is a partial, whose arguments the tracer replaces: ``f`` may be a function of SciPy itself.
    """

    weighed_sum = functools.partial(_weighed_sum, f, weights)
    weighed_sum.__wrapped__ = f  # type: ignore[attr-defined]
    return weighed_sum


def _weighed_sum(f, weights, *args):
    parts = float_leaves(f(*args))
    terms = [
        np.sum(part * w.astype(np.asarray(value_of(part)).dtype)) if np.ndim(w) else part * float(w)
        for part, w in zip(parts, weights, strict=True)
    ]
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result
