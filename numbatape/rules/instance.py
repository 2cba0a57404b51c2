"""`Instance`: a call of a rule at one place of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import OutputError
from .ports import Operands

if TYPE_CHECKING:
    from .site import Site


class Instance:
    """A rule with memory of its own, which works on views of cells.

    Parameters
    ----------
    site
        The call.
    size
        Returns the values of size codes.
    out, first, rest, out_adjoint, first_adjoint
        The cells; see `numbatape.engine.calls`.
    """

    def __init__(self, site: Site, size, out, first, rest, out_adjoint, first_adjoint):
        self._site, rule = site, site.rule
        self._is_fixed = rule.workspace is None and not rule.size_codes
        self._settle(size)
        count, numbers = len(site.first), range(len(site.results))
        self._args = Operands(list(site.args))
        self._given = list(zip(site.traced, site.first, strict=False))
        self._others = list(zip(site.traced[count:], site.rest, strict=True))
        self._made = list(zip(numbers, site.results, strict=True))
        self._results, self._cotangents = (Operands([None for _ in numbers]) for _ in range(2))
        ports = site.first + site.results
        self._is_plain = (len(site.first), len(ports), site.rest) == (1, 2, []) and all(
            len(port.shape) == 1 and port.dtype is out.dtype for port in ports
        )
        self._place(size, out, first, rest, out_adjoint, first_adjoint)

    def move(self, size, out, first, rest, out_adjoint, first_adjoint) -> None:
        """Work on other cells, for arguments of other sizes."""
        if not self._is_fixed:
            self._settle(size)
        self._args.changing.clear()
        if self._is_plain and first.flags.c_contiguous and first_adjoint is not None is not out_adjoint:
            (k, port), (_, result) = self._given[0], self._made[0]
            if size(port.stop) == len(first) and size(result.stop) == len(out):
                self._args.values[k] = first
                self._results.values[0] = self._targets[0] = out
                self._cotangents.values[0], self._adjoints = out_adjoint, [first_adjoint]
                self._shapes[0], self._result_shapes[0] = first.shape, out.shape
                return
        self._results.changing.clear()
        self._cotangents.changing.clear()
        self._place(size, out, first, rest, out_adjoint, first_adjoint)

    def _settle(self, size) -> None:
        """Find the rule for these sizes, and its memory."""
        site = self._site
        rule = site.rule.at(size)
        self._value, self._pullback, self._refusal = rule.value, rule.pullback, rule.no_further_derivative
        self._memory = site.memory_of(rule, size)

    def _place(self, size, out, first, rest, out_adjoint, first_adjoint) -> None:
        """Make the views of the cells."""
        args = self._args
        given = args.put(self._given, first, size)
        if self._others:
            given += args.put(self._others, rest, size)
        self._shapes = [cells.shape for cells in given]
        self._targets = self._results.put(self._made, out, size)
        self._result_shapes = [target.shape for target in self._targets]
        self._adjoints = []
        if out_adjoint is not None and first_adjoint is not None:
            self._cotangents.put(self._made, out_adjoint, size)
            self._adjoints = [port.cells(first_adjoint, size) for _, port in self._given]

    def forward(self) -> None:
        """Compute the result."""
        result = self._value(*self._args.now(), **self._memory)
        parts = self._site.checked_results(result, self._result_shapes)
        for part, target in zip(parts, self._targets, strict=True):
            target[...] = part

    def reverse(self, rest_needed: bool) -> None:
        """Add to the adjoints of the arguments."""
        site = self._site
        if rest_needed:
            raise self._refusal()
        ybar, y = site.packed(self._cotangents.now()), site.packed(self._results.now())
        cotangents = self._pullback(ybar, y, *self._args.now(), **self._memory)
        parts = site.checked_cotangents(cotangents, self._shapes)
        for part, adjoint in zip(parts, self._adjoints, strict=False):
            if part is not None:
                try:
                    adjoint += part
                except TypeError as error:
                    raise OutputError(f"the pullback of the rule {site.rule.name}: {error}") from None
