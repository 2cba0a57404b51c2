"""Fusing two instructions into one: a product that only a sum reads need not be written and read again.

``sum(x*y)`` becomes one ``dot``, ``a + x*y`` one ``addmul`` (a third of the instructions of an
autoregression), ``a + -b`` a subtraction. This is done when the tape is frozen, because only then it is
known what else reads the product. Every result keeps its bits (a dot adds up in blocks as a sum does); the
reverse sweep need not store the product's adjoint.
"""

from __future__ import annotations

import numpy as np

from .instruction import GUARD, NONE
from .tape import Layout
from .uses import layout_of

FUSED = {"mul": "addmul", "square": "addmul", "weigh": "addweigh"}


class Fusion:
    """Fuses instructions in place.

    Attributes
    ----------
    dropped
        Rows whose results nothing needs any more.

    Parameters
    ----------
    code
        Instructions in order, with the builder's value numbers.
    group
        The group of each value (values that share cells); the last entry is for missing operands.
    kept
        Groups that the tape's inputs and outputs are in.
    """

    def __init__(self, builder, code, group, kept):
        self.builder = builder
        self.number = {name: k for k, name in enumerate(builder.names)}
        groups = int(group[-1]) + 1
        arrays = code["op"] != GUARD
        numbers = np.concatenate([code[name] for name in "abc"] + [code["aux"][arrays]])
        written = group[code["out"]]
        # Groups that are written once, read once, and neither input nor output.
        single = np.bincount(group[numbers], minlength=groups) == 1
        single &= np.bincount(written, minlength=groups) == 1
        single[list(kept)] = False
        last = np.full(groups, -1)
        last[written] = np.arange(len(code))  # the last assignment to an index wins
        self.rows_of = {
            name: np.flatnonzero(arrays & (code["op"] >> 1 == self.number[name])).tolist()
            for name in ("neg", "add", "sub", "sum")
            if name in self.number
        }
        # As lists, because reading an entry of a structured array takes ten times as long.
        self.single, self.last, self.group = single.tolist(), last.tolist(), group.tolist()
        self.columns = {name: code[name].tolist() for name in ("op", "stage", "active", "out", "a", "b", "c")}
        self.gone: list[int] = []
        self._negations()
        self._sums()
        self._additions()
        if self.gone:
            for name in ("op", "active", "a", "b", "c"):
                code[name] = self.columns[name]
        self.dropped = np.array(self.gone, int)

    def _sole(self, k: int, value: int, seen_flat: bool = False) -> tuple[int, str] | None:
        """Return (number, op's name) of the row that makes a value which only row k reads, else None.

        Its operands must not be written to in between. With ``seen_flat`` the value may be another view of
        the result of that row.
        """
        own = self.group[value]
        at = self.last[own]
        if not self.single[own] or at < 0:
            return None
        columns = self.columns
        op, reader = columns["op"][at], columns["op"][k]
        if (columns["out"][at] != value and not seen_flat) or (op ^ reader) & 1:
            return None
        name = self.builder.names[op >> 1]
        if columns["stage"][at] != columns["stage"][k] or (name != "neg" and name not in FUSED):
            return None
        for place in "ab":
            operand = columns[place][at]
            if operand != NONE and self.last[self.group[operand]] > at:
                return None
        return at, name

    def _rewrite(self, k: int, name: str, a: int, b: int, c: int, active: int) -> None:
        columns = self.columns
        columns["op"][k] = 2 * self.number[name] + (columns["op"][k] & 1)
        columns["a"][k], columns["b"][k], columns["c"][k], columns["active"][k] = a, b, c, active

    def _factors(self, at: int) -> tuple[int, int, int]:
        """Return the factors of a product, and which of them take an adjoint."""
        a, b, active = (self.columns[name][at] for name in ("a", "b", "active"))
        return (a, a, 3 * active) if b == NONE else (a, b, active)

    def _alike(self, result: int, *operands: int) -> bool:
        """Whether all values are single cells, or have one shape and contiguous rows.

        A fused kernel is fast only for these: over operands that broadcast it is slower than two
        instructions.
        """
        layouts = [layout_of(self.builder, x) for x in (result, *operands)]
        if not layouts[0].dims:
            return not any(its.dims for its in layouts)
        shapes = [list(map(self.builder.sizes.value, its.dims)) for its in layouts]
        return all(shape == shapes[0] for shape in shapes) and all(its.strides[-1] == 1 for its in layouts)

    def _negations(self) -> None:
        """Turn additions of a negated value into subtractions, and the other way round."""
        if len({"neg", "add", "sub"} & self.number.keys()) < 3 or not self.rows_of["neg"]:
            return
        columns = self.columns
        for name, becomes, places in (("add", "sub", "ba"), ("sub", "add", "b")):
            for k in self.rows_of[name]:
                for place in places:
                    found = self._sole(k, columns[place][k])
                    if found is None or found[1] != "neg":
                        continue
                    at, other = found[0], "a" if place == "b" else "b"
                    active = columns["active"][k]
                    takes = active >> "ab".index(other) & 1
                    takes |= (active >> "ab".index(place) & columns["active"][at] & 1) << 1
                    self._rewrite(k, becomes, columns[other][k], columns["a"][at], NONE, takes)
                    self.gone.append(at)
                    break
        for name in ("add", "sub"):
            ops = columns["op"]
            rows = sorted(self.rows_of["add"] + self.rows_of["sub"])
            self.rows_of[name] = [k for k in rows if ops[k] >> 1 == self.number[name]]

    def _sums(self) -> None:
        """Turn sums of products into dots."""
        if "dot" not in self.number:
            return
        for k in self.rows_of.get("sum", ()):
            value = self.columns["a"][k]
            found = self._sole(k, value, seen_flat=True)
            if found is None or found[1] not in ("mul", "square"):
                continue
            a, b, active = self._factors(found[0])
            product = self.columns["out"][found[0]]
            if product == value:
                if not all(_same_length(self.builder, x, value) for x in (a, b)):
                    continue
            elif _is_flat(self.builder, value, product):  # the sum of all entries of a matrix
                if not all(_same_cells(self.builder, x, product) for x in (a, b)):
                    continue
                a, b = (_flat(self.builder, x) for x in (a, b))
            else:
                continue
            self._rewrite(k, "dot", a, b, NONE, active)
            self.gone.append(found[0])

    def _additions(self) -> None:
        """Turn additions of products into one instruction each, where all operands have the same shape."""
        if "addmul" not in self.number:
            return
        columns = self.columns
        for k in self.rows_of.get("add", ()):
            if columns["op"][k] & 1:  # float32 is rounded per instruction: here once less
                continue
            for place, other in (("b", "a"), ("a", "b")):
                found = self._sole(k, columns[place][k])
                if found is None or found[1] not in FUSED:
                    continue
                at, name = found
                a, b, factors = self._factors(at)
                if not self._alike(columns["out"][k], columns[other][k], a, b):
                    continue
                active = columns["active"][k]
                takes = active >> "ab".index(other) & 1
                if active >> "ab".index(place) & 1:
                    takes |= factors << 1
                self._rewrite(k, FUSED[name], columns[other][k], a, b, takes)
                self.gone.append(at)
                break


def _same_length(builder, factor: int, product: int) -> bool:
    """Whether the last axis of a factor is the product's, and not one that broadcasts to it."""
    mine, its = (layout_of(builder, x).dims[-1:] for x in (factor, product))
    value = builder.sizes.value
    # Equal lengths are equal by a size guard, unless one of them is 1 and was broadcast.
    return bool(mine) and value(mine[0]) == value(its[0]) != 1


def _is_flat(builder, value: int, product: int) -> bool:
    """Whether a value is a vector of all cells of a contiguous product."""
    its = layout_of(builder, product)
    strides, size = builder.contiguous_strides(its.dims)
    return (
        builder.values[value][:2] == builder.values[product][:2]
        and its.strides == strides
        and layout_of(builder, value) == Layout((size,), (1,))
    )


def _same_cells(builder, factor: int, product: int) -> bool:
    """Whether a factor is contiguous, of the product's size in each axis, and broadcast in none."""
    mine, its = (layout_of(builder, x) for x in (factor, product))
    value = builder.sizes.value
    return (
        len(mine.dims) == len(its.dims)
        and mine.strides == builder.contiguous_strides(mine.dims)[0]
        and all(value(a) == value(b) != 1 for a, b in zip(mine.dims, its.dims, strict=True))
    )


def _flat(builder, factor: int) -> int:
    """Return a contiguous value as one vector."""
    storage, offset, _ = builder.values[factor]
    size = builder.contiguous_strides(layout_of(builder, factor).dims)[1]
    return builder.view(storage, offset, (size,), (1,))
