"""What the engine knows of what a tape calls: the entries of `Tape.calls`, each at one place of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..jit.rules import Native


class Instance(Protocol):
    """A rule, or a loop, at one place of a plan."""

    def forward(self) -> None: ...
    def reverse(self, rest_needed: bool) -> None: ...


class MovableInstance(Instance, Protocol):
    """An instance that can move to other cells, for arguments of other sizes."""

    def move(self, size, out, first, rest, out_adjoint, first_adjoint) -> None: ...


class Call(Protocol):
    """An entry of `Tape.calls`."""

    family: int
    size_codes: set[int]  # the size codes that it refers to

    def cells(self, size: Callable[[int], int]) -> tuple[int, ...]:
        """Return how many cells the result and the two operands have at least, given the values of sizes."""

    def place(self, size, out, first, rest, out_adjoint, first_adjoint) -> MovableInstance:
        """Return an instance that reads and writes these one-dimensional views of cells.

        Adjoints are None where there are none; ``size`` returns the values of sizes.
        """

    def native(self, size: Callable[[int], int], reverse: bool) -> Native | None:
        """Return how to call the rule without Python (its pullback, too, with ``reverse``), or None."""

    def explain(self, error: BaseException) -> None:
        """Add to an error the name of what was called."""
