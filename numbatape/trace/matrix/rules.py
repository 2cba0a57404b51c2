"""Rules of matrix functions that have no op: SciPy computes the value, a pullback in plain NumPy the rest.

A call is the instruction of a user's rule (`numbatape.trace.rules`), with complex matrices as two real
arguments and results. Sweeps call the pullback on arrays; where derivatives nest it is traced, so that it is
differentiated again: it may use NumPy's functions, and rules by `call`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..array import TracedArray
from ..complex import arrays
from ..complex.array import TracedComplex
from ..complex.pairs import join
from ..functions.common import plain
from ..rules.emit import emit
from ..rules.site import Callee


class MatrixRule:
    """A function of matrices and its pullback.

    Parameters
    ----------
    name
        In error messages.
    value
        ``value(*args)`` → an array, or a tuple of them; complex where NumPy's are.
    pullback
        ``pullback(ybar, y, *args)`` → one cotangent an argument, None for none; it may be complex where
        the argument is real, and have more dimensions where that was broadcast.
    varies
        Whether the values of arguments decide if the results are complex: then a guard does.
    """

    def __init__(self, name: str, value: Callable, pullback: Callable, varies: bool = False):
        self.name, self.value, self.pullback, self.varies = name, value, pullback, varies


def call_rule(name: str, value: Callable, pullback: Callable, *args):
    """Return what a rule that is made for one call gives, a tuple."""
    return call(MatrixRule(name, value, pullback), *args)


def call(rule: MatrixRule, *args):
    """Return what a rule's value gives, a tuple; recorded if an argument is traced."""
    if not any(map(arrays.is_traced, args)):
        return _tuple(rule.value(*args))
    args = tuple(x if arrays.is_traced(x) else np.asarray(x) for x in args)
    split = Split(rule, [is_complex(x) for x in args])
    results = list(emit(split, split.apart(args)))
    if rule.varies:
        bool(results.pop() > 0.5)  # a guard
    return split.together(results, split.results)


def is_complex(x) -> bool:
    return type(x) is TracedComplex or getattr(x, "dtype", np.dtype(float)).kind == "c"


def adjoint(x):
    """Return the conjugate transpose."""
    return conjugate(np.swapaxes(x, -1, -2))


def conjugate(x):
    return np.conj(x) if is_complex(x) else x


def solve_triangle(a, b, lower: bool):
    """Return ``a^-1 b`` of a triangular matrix in a pullback; traced, and in stacks, as any system."""
    if traced(a) or traced(b) or a.ndim != 2 or b.ndim != 2:
        return np.linalg.solve(a, b)
    import scipy.linalg

    return scipy.linalg.solve_triangular(a, b, lower=lower, check_finite=False)


def _tuple(result) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class Split(Callee):
    """A rule on real arrays, two of them for a complex one; made anew for each call site."""

    def __init__(self, rule: MatrixRule, kinds: list[bool]):
        self.rule, self.kinds, self.name = rule, kinds, rule.name
        self.results: list[bool] = []  # which results are complex; known from the first value on

    def apart(self, args) -> list:
        parts = []
        for x, pair in zip(args, self.kinds, strict=True):
            parts += [x.real, x.imag] if pair else [x]
        return parts

    def together(self, parts, kinds) -> tuple:
        given = iter(parts)
        return tuple(join(next(given), next(given)) if pair else next(given) for pair in kinds)

    def value(self, *flat):
        results = [np.asarray(x) for x in _tuple(self.rule.value(*self.together(flat, self.kinds)))]
        pairs = [x.dtype.kind == "c" for x in results]
        if not self.results:
            self.results = pairs
        parts: list = []
        for x, pair in zip(results, self.results, strict=True):  # a guard stops if it is not what it was
            parts += [x.real.copy(), x.imag.copy()] if pair else [x.real]
        return (*parts, float(any(pairs))) if self.rule.varies else tuple(parts)

    def pullback(self, ybar, y, *flat):
        if not any(map(traced, ybar)) and not any(map(np.any, ybar)):
            return (None,) * len(flat)  # nothing reads the results, or nothing that counts
        ybar, y = (self.together(list(x)[: len(x) - self.rule.varies], self.results) for x in (ybar, y))
        args = self.together(flat, self.kinds)
        cotangents = self.rule.pullback(ybar, y, *args)
        parts: list = []
        for ct, x, pair in zip(cotangents, args, self.kinds, strict=True):
            if ct is None:
                parts += [None, None] if pair else [None]
                continue
            ct = summed(ct, np.shape(plain(x)))
            parts += [ct.real, ct.imag if is_complex(ct) else np.zeros_like(ct)] if pair else [ct.real]
        return tuple(parts)

    def nested(self, site, cotangents, results, args) -> list:
        parts = self.pullback(site.packed(cotangents), site.packed(results), *site.filled(args))
        return site.checked_cotangents(parts)

    def no_further_derivative(self):
        raise AssertionError("every traced argument of these rules has a cotangent")


def summed(ct, shape: tuple[int, ...]):
    """Add up a cotangent over what its argument was broadcast along."""
    extra = np.ndim(plain(ct)) - len(shape)
    if extra:
        ct = np.sum(ct, tuple(range(extra)))
    wide = tuple(k for k, n in enumerate(shape) if n == 1 and np.shape(plain(ct))[k] != 1)
    return np.sum(ct, wide, keepdims=True) if wide else ct


def traced(x) -> bool:
    """Whether an argument of a pullback is traced, so that what it computes is recorded."""
    return type(x) is TracedArray or type(x) is TracedComplex
