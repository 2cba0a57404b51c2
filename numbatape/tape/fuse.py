"""Two instructions as one: a product that only a sum reads need not be written and read again.

``sum(x*y)`` becomes one ``dot``, ``a + x*y`` on single cells one ``addmul`` (a third of the
instructions of an autoregression), ``a + -b`` a subtraction. Done when the tape is frozen, when
it is known what else reads the product. Every result keeps its bits (a dot adds up in blocks as a
sum does); the reverse sweep saves the product's adjoint.
"""

from __future__ import annotations

import numpy as np

from .tape import GUARD, NONE

FUSED = {"mul": "addmul", "square": "addmul", "weigh": "addweigh"}


class Fusion:
    """Fuses instructions in place; `unneeded` are the rows that nothing needs any more.

    Parameters
    ----------
    code
        Instructions in order, with the builder's value numbers.
    group
        What lives or dies together, by value number; the last entry stands for no operand.
    kept
        Groups that the tape's inputs and outputs are in.
    """

    def __init__(self, builder, code, group, kept):
        self.builder, self.code, self.group = builder, code, group
        self.number = {name: k for k, name in enumerate(builder.names)}
        self.ops = np.where(code["op"] == GUARD, -1, code["op"] >> 1)
        groups = int(group[-1]) + 1
        numbers = np.concatenate([code[name] for name in "abc"] + [code["aux"][code["op"] != GUARD]])
        written = group[code["out"]]
        # Groups that are written once, read once, and neither input nor output.
        self.single = np.bincount(group[numbers], minlength=groups) == 1
        self.single &= np.bincount(written, minlength=groups) == 1
        self.single[list(kept)] = False
        self.last = np.full(groups, -1)
        self.last[written] = np.arange(len(code))  # the last assignment to an index wins
        self.gone: list[int] = []
        self._negations()
        self._sums()
        self._additions()
        self.unneeded = np.array(self.gone, int)

    def _rows(self, name: str) -> np.ndarray:
        return np.flatnonzero(self.ops == self.number[name]) if name in self.number else np.zeros(0, int)

    def _product(self, k: int, value: int) -> tuple | None:
        """Return (row number, name, factors) of the product that an instruction alone reads."""
        own = self.group[value]
        at = int(self.last[own])
        name = self.builder.names[self.ops[at]]
        if not self.single[own] or name not in FUSED:
            return None
        row = self.code[at]
        if not self._alone(at, k, value, "ab"[: 1 + (row["b"] != NONE)]):
            return None
        return at, name, [int(row["a"]), int(row["a"] if row["b"] == NONE else row["b"])]

    def _negations(self) -> None:
        """Turn additions of a negated value into subtractions, and the other way round."""
        if not {"add", "sub", "neg"} <= self.number.keys():
            return
        code, neg = self.code, self.number["neg"]
        for name, becomes in (("add", "sub"), ("sub", "add")):
            rows = self._rows(name)
            for place, other in (("b", "a"), ("a", "b"))[: 2 if name == "add" else 1]:
                own = self.group[code[place][rows]]
                negated = self.single[own] & (self.last[own] >= 0)
                negated &= self.ops[self.last[own]] == neg
                for k in rows[negated].tolist():
                    row = code[k]
                    at = int(self.last[self.group[row[place]]])
                    inner = code[at]
                    if row["op"] >> 1 != self.number[name] or not self._alone(at, k, int(row[place]), "a"):
                        continue
                    active = int(row["active"])
                    takes = active >> "ab".index(other) & 1
                    if active >> "ab".index(place) & 1:
                        takes |= (int(inner["active"]) & 1) << 1
                    row["op"] = 2 * self.number[becomes] + (row["op"] & 1)
                    row["a"], row["b"], row["active"] = row[other], inner["a"], takes
                    self.ops[k] = self.number[becomes]
                    self.gone.append(at)

    def _alone(self, at: int, k: int, value: int, operands: str) -> bool:
        """Whether row ``at`` makes a value for row ``k`` alone, of operands that stay as they are."""
        row, reader = self.code[at], self.code[k]
        return (
            row["out"] == value
            and (row["op"] ^ reader["op"]) & 1 == 0
            and row["stage"] == reader["stage"]
            and all(self.last[self.group[row[x]]] <= at for x in operands)
        )

    def _sums(self) -> None:
        """Turn sums of products into dots."""
        if "dot" not in self.number:
            return
        for k in self._rows("sum").tolist():
            total = self.code[k]
            value = int(total["a"])
            found = self._product(k, value)
            if found is None or found[1] == "weigh":
                continue
            at, _, factors = found
            if not all(_same_length(self.builder, x, value) for x in factors):
                continue
            total["op"] = 2 * self.number["dot"] + (total["op"] & 1)
            total["a"], total["b"] = factors
            total["active"] = self._active(at)
            self.gone.append(at)

    def _additions(self) -> None:
        """Turn additions of one-cell products into one instruction each."""
        if "addmul" not in self.number:
            return
        code, values = self.code, self.builder.values
        rows = self._rows("add")
        rows = rows[self.single[self.group[code["a"][rows]]] | self.single[self.group[code["b"][rows]]]]
        for k in rows.tolist():
            row = code[k]
            if any(self.builder.layouts[values[int(row[x])][2]].dims for x in ("out", "a", "b")):
                continue
            for place, other in (("b", "a"), ("a", "b")):
                found = self._product(k, int(row[place]))
                if found is None:
                    continue
                at, name, factors = found
                addend, active = int(row[other]), int(row["active"])
                takes = active >> "ab".index(other) & 1
                if active >> "ab".index(place) & 1:
                    takes |= self._active(at) << 1
                row["op"] = 2 * self.number[FUSED[name]] + (row["op"] & 1)
                row["a"], row["b"], row["c"], row["active"] = addend, *factors, takes
                self.gone.append(at)
                break

    def _active(self, at: int) -> int:
        """Return which factors of a product take an adjoint."""
        row = self.code[at]
        return int(row["active"]) if row["b"] != NONE else 3 * int(row["active"])


def _same_length(builder, factor: int, product: int) -> bool:
    """Whether the last axis of a factor is the product's, and not one that broadcasts to it."""
    mine, its = (builder.layouts[builder.values[x][2]].dims[-1:] for x in (factor, product))
    value = builder.sizes.value
    # Lengths that agreed do so by a size guard; one may have been broadcast.
    return bool(mine) and value(mine[0]) == value(its[0]) != 1
