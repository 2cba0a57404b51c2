"""The base of the caches that serve `value_and_jacobian`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..programs.arguments import Flattened
from ..steady_calls.front import Front
from ..threads import one_at_a_time
from . import dense_jacobian as dense
from .base import PreparedCache
from .delivery import write_into
from .derived import Derived


class JacobianCache(PreparedCache, ABC):
    """Base of the caches that compute dense Jacobians, by columns or by rows."""

    by_columns: bool  # whether a direction of a sweep is a column of the Jacobian; otherwise it is a row

    def _ready(self) -> None:
        self._differentiating = Front(self._turn, self._general)

    def _jacobian(self, args):
        """Serve a call of `value_and_jacobian`."""
        return self._differentiating.call(*args)

    @one_at_a_time
    def _general(self, *args):
        flat = self._flatten(args)
        derived, value, assembled = self._assembled(flat)
        if not self._program.config.friendly_tangents:
            return value, dense.one_matrix(flat, assembled)
        chosen = flat.chosen
        made = value, dense.arranged(assembled, chosen, single=len(chosen) == 1)
        outs = dense.outs_of(flat, derived, self.by_columns)
        if derived.last is not None and outs is not None:
            derived.teach(self._differentiating, derived.last, made, outs, self._omitted(args))
        return made

    @abstractmethod
    def _assembled(self, flat: Flattened) -> tuple[Derived, Any, Any]:
        """Return the derivative that was swept, the value, and the Jacobians of its leaves."""


def run(cache: JacobianCache, args, out):
    """Return the function's value and its Jacobian, for the public `value_and_jacobian`."""
    if out is None:
        return cache._jacobian(args)
    value, matrix = cache._jacobian(args)
    return value, write_into(out, matrix, "argument")
