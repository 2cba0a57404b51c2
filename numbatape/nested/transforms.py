"""Derivatives of functions of traced arguments: vjp, jvp, gradient with Hessian-vector product.

Each runs the function once, in the current trace, on marked copies of what is differentiated, and
appends the derivative's instructions. Levels of nesting are told apart only by the instructions
between the marks and the result, so perturbations cannot be confused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..derive.adjoint import Adjoint
from ..derive.pushforward import Pushforward
from ..errors import ForeignTraceError, OutputError, array_in_place_of_scalar, kind_of_result
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.axes import pinned
from ..trace.operands import values_of
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import sample_of
from ..trace.trace import Trace
from .emitting import emitter_of, symbol, traced
from .marks import mark
from .rule_pullbacks import CallRules


def is_float(leaf) -> bool:
    """Whether a leaf can be differentiated: a float, or an array of floats, traced or not."""
    value = sample_of(leaf)
    if isinstance(value, (float, np.floating)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


class Linearised:
    """A run of a function on some leaves, through which cotangents can be pulled back.

    Attributes
    ----------
    result
        What the function returned.
    outputs
        The traced leaves of the result that are floats.
    inputs, results
        Value numbers of the leaves and of the outputs, which later writes of the function do not change.

    Raises
    ------
    ForeignTraceError
        If the function returns a value of another trace, whose number means another value in this one.
    """

    def __init__(self, trace: Trace, function: Callable[[list], object], leaves, marked: bool = False):
        trace.derivatives.taken = True
        self.trace = trace
        self.marks = list(leaves) if marked else [mark(trace, leaf) for leaf in leaves]
        # The numbers are noted before the function may write to the marks.
        numbers = [leaf._id for leaf in self.marks]
        trace.tape.unroll()
        self._start = len(trace.tape.code)
        trace.derivatives.order += 1
        try:
            self.result = pytrees.without_labels(function(self.marks))
        finally:
            trace.derivatives.order -= 1
        self.inputs = numbers
        if self.result is None and len(trace.arguments.scratch) == 1:
            (self.result,) = trace.arguments.scratch  # the function writes its result into an argument
        parts, self.structure = pytrees.flatten(self.result)
        parts = [as_ndarrays(part) for part in parts]
        self.parts = parts
        self.outputs = [p for p in parts if type(p) is TracedArray and is_float(p)]
        if any(y._trace is not trace for y in self.outputs):
            raise ForeignTraceError(
                "the function returned a value of another trace; a traced value was stored"
            )
        self.results = [y._id for y in self.outputs]
        self._stop = len(trace.tape.code)  # By now, entries of written arrays have been gathered.

    @property
    def rows(self) -> tuple[int, int]:
        """The first and the last instruction (exclusive) of the run."""
        return self._start, self._stop

    def require_numbers(self) -> Linearised:
        """Raise if the result has nothing to differentiate."""
        pytrees.require_numbers(self.result, self.parts)
        return self

    def pull(self, cotangents, strong: bool = True) -> list:
        """Return one cotangent per leaf (None for zero), given one per output (None for zero)."""
        trace = self.trace
        given = [None if ct is None else symbol(trace, ct) for ct in cotangents]
        return [traced(trace, part) for part in self.pulled(given, strong)]

    def pulled(self, cotangents, strong: bool = True, lanes: int | None = None) -> list:
        """Do what `pull` does for symbols and numbers, and return such; they may have lanes (`Adjoint`)."""
        seeds = [(y, ct) for y, ct in zip(self.results, cotangents, strict=True) if ct is not None]
        walk = Adjoint(self._emitter(), strong, rules=CallRules(self.trace), lanes=lanes)
        return walk.run(self._start, self._stop, self.inputs, seeds)

    def _emitter(self):
        emitter = emitter_of(self.trace)
        emitter.line = self.trace.line()
        return emitter

    def push(self, tangents, strong: bool = False) -> list:
        """Return one tangent per output (None for zero), given one per leaf (None for zero)."""
        trace = self.trace
        given = [None if t is None else symbol(trace, t) for t in tangents]
        return [traced(trace, part) for part in self.pushed(given, strong)]

    def pushed(self, tangents, strong: bool = False, lanes: int | None = None) -> list:
        """Do what `push` does for symbols and numbers, and return such; they may have lanes."""
        seeds = [(x, t) for x, t in zip(self.inputs, tangents, strict=True) if t is not None]
        walk = Pushforward(self._emitter(), strong, CallRules(self.trace), lanes)
        return walk.run(self._start, self._stop, seeds, self.results)

    def scalar(self, result=None, what: str = "gradient") -> TracedArray | None:
        """Return the one real scalar of the result, None for a plain number; else raise."""
        result = self.result if result is None else result
        value = sample_of(result)
        if isinstance(value, (float, int, np.number, np.ndarray)) and not isinstance(value, bool):
            if np.ndim(value):
                raise OutputError(array_in_place_of_scalar(what, np.shape(value)))
            if np.asarray(value).dtype.kind == "f":
                return result if type(result) is TracedArray else None
            if type(result) is not TracedArray:
                return None
        if not isinstance(value, (list, tuple, dict)) and np.iscomplexobj(values_of(value)):
            raise OutputError(
                f"a {what} needs a function that returns one real scalar, got complex numbers; perhaps "
                "holomorphic=True, or np.real or np.abs of the result"
            )
        got = np.asarray(value).dtype if type(result) is TracedArray else kind_of_result(result)
        raise OutputError(f"a {what} needs a function that returns one real scalar, got {got}")

    def gradient(self, output: TracedArray | None, strong: bool = True) -> list:
        """Return the gradient of one of the outputs, one entry per leaf, None for zero."""
        if output is None:
            return [None] * len(self.marks)
        return self.pull([1.0 if y is output else None for y in self.outputs], strong)


def fixed_shape(x) -> tuple[int, ...]:
    """Return the shape of a leaf; the tape then holds for this shape only."""
    return tuple([pinned(x, k) for k in range(x.ndim)]) if type(x) is TracedArray else np.shape(sample_of(x))


def or_zeros(part, like):
    """Return a derivative, or zeros in the shape of what it belongs to."""
    value = sample_of(like)
    dtype = value.dtype if hasattr(value, "dtype") and value.dtype.kind in "fc" else np.dtype(float)
    if part is None:
        return np.zeros(fixed_shape(like), dtype)[()]
    if type(part) is TracedArray:
        return np.astype(part, dtype) if dtype == np.float16 else part
    return dtype.type(part) if part.__class__ is float else part


def hessian_product(
    trace: Trace, function, leaves, directions, mode: str, strong: bool = False, marked=False
):
    """Return (result, gradient, product of the Hessian with the directions), one entry per leaf.

    Parameters
    ----------
    mode
        "reverse_over_forward": the gradient of the directional derivative, whose gradient with
        respect to the direction is the gradient itself. "forward_over_reverse": the directional
        derivative of the gradient.
    """
    count = len(leaves)
    if mode == "forward_over_reverse":
        held: dict = {}

        def gradient(inner):
            run = Linearised(trace, function, inner, marked=True)
            held["result"] = run.result
            held["gradient"] = [
                or_zeros(g, x) for g, x in zip(run.gradient(run.scalar(what="Hessian")), inner, strict=True)
            ]
            return tuple(held["gradient"])

        outer = Linearised(trace, gradient, leaves, marked)
        pushed = iter(outer.push(directions, strong))
        products = [next(pushed) if type(g) is TracedArray else None for g in outer.parts]
        return held["result"], held["gradient"], products

    def slope(inner):
        run = Linearised(trace, function, inner[:count], marked=True)
        output = run.scalar(what="Hessian")
        (tangent,) = run.push(inner[count:], strong) if output is not None else (None,)
        return run.result, tangent

    outer = Linearised(trace, slope, [*leaves, *directions], marked)
    result, tangent = outer.result  # type: ignore[misc]
    if type(tangent) is not TracedArray:
        return result, [None] * count, [None] * count
    parts = outer.pull([1.0 if y is tangent else None for y in outer.outputs])
    return result, parts[count:], parts[:count]


def second_push(trace: Trace, function, leaves, directions, strong: bool = False, marked=False):
    """Return (run of the function, second derivative of each of its outputs along the directions).

    None stands for zero, in the directions (one for each leaf) and in the derivatives.
    """
    runs: list[Linearised] = []

    def slopes(inner):
        runs.append(Linearised(trace, function, inner, marked=True).require_numbers())
        return tuple(runs[0].push(directions, strong))

    outer = Linearised(trace, slopes, leaves, marked)
    found = iter(outer.push(directions, strong))
    return runs[0], [next(found) if type(slope) is TracedArray else None for slope in outer.parts]
