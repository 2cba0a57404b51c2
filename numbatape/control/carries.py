"""The carry of a loop: traced with the body until its dtypes, and what is assumed of its integers, hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import pytrees
from .body_state import run_step
from .body_traces import BodyTrace, Leaf, carry_leaf
from .counters import Counters
from .packing import result_of
from .trees import (
    abandoned,
    carry_names,
    check_absence,
    check_complex,
    check_numbers,
    check_structure,
    leaves_of,
    named_leaves,
)


class Carries:
    """What a loop's steps hand on to one another.

    Parameters
    ----------
    trace
        The trace that is under way.
    name
        What the user called.
    users
        The user's functions in the body.
    init
        The carry before the first step: a tree of arrays and numbers, traced or not.

    Attributes
    ----------
    leaves
        The leaves as the body was traced with them last, without those that are None.
    counters
        What is assumed of integers.
    """

    def __init__(self, trace, name: str, users: tuple, init):
        self.trace, self.name, self._users = trace, name, users
        self._init = init
        for leaf, where in zip(*named_leaves(name, init), strict=True):
            check_numbers(name, where, leaf)
        self._first, self._structure = leaves_of(init)
        self._dtypes: list[np.dtype | None] = [None] * len(self._first)
        self.counters = Counters(trace, self._first)
        self.leaves: list[Leaf] = []

    def tree(self, values: Iterator):
        """Return the carry with the next values in place of its leaves."""
        return pytrees.unflatten(self._structure, [x if x is None else next(values) for x in self._first])

    def ends(self, numbers: Sequence[int]):
        """Return the carry behind the loop, given the values that its leaves have there."""
        pairs = zip(numbers, self.leaves, strict=True)
        return self.tree(iter([result_of(self.trace, number, leaf.dtype) for number, leaf in pairs]))

    def traced(self, step: Callable, steps: int, slices: Sequence[Leaf] = ()) -> tuple[BodyTrace, list, Any]:
        """Trace the body; return it, the values of its next carry, and what else it has returned.

        Parameters
        ----------
        step
            Called with a list of traced arrays, for the carry's leaves and the slices; returns the next carry
            and something else.
        steps
            How many steps there are now.
        slices
            What differs from step to step besides.
        """
        while True:
            places = self._places()
            self.leaves = [leaf for leaf in places if leaf is not None]
            self.counters.assume(self.leaves)
            body = BodyTrace(self.trace, self.name)
            carry, others = run_step(body, step, [*self.leaves, *slices], self._users)
            with abandoned(body):
                found = self._checked(body, places, carry)
                if found is not None and self.counters.hold(body, found, steps):
                    return body, body.next_carries(found), others
            body.abandon()

    def _places(self) -> list[Leaf | None]:
        """Return the leaves of the first carry, None for None."""
        names = carry_names(self.name, self._structure)
        return [
            None if x is None else carry_leaf(self.trace, x, where, dtype)
            for x, where, dtype in zip(self._first, names, self._dtypes, strict=True)
        ]

    def _checked(self, body: BodyTrace, places: list[Leaf | None], carry) -> list | None:
        """Return the leaves of the carry that a body returned, without None.

        None says that the body is to be traced again, because Python numbers have got another dtype.
        """
        found, its = leaves_of(carry)
        says = "{} has dtype {}, and the body returns it with dtype {}; it must keep its dtype"
        if self.name == "nt.fori_loop":
            check_complex(self.name, "carry", self._init[1], carry[1], says)
        else:
            check_complex(self.name, "carry", self._init, carry, says)
        check_structure(self.name, "the carry", self._structure, its)
        again = False
        names = carry_names(self.name, self._structure)
        for k, (leaf, part) in enumerate(zip(places, found, strict=True)):
            check_absence(self.name, names[k], leaf, part)
            dtype = None if leaf is None else body.check_carry(leaf, part)
            if dtype is not None:
                self._dtypes[k], again = dtype, True
        return None if again else [part for part in found if part is not None]
