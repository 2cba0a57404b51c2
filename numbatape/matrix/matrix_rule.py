"""Rules of matrix functions without an op: SciPy computes the value, a pullback in NumPy the derivative.

A call is recorded like that of a user's rule (`numbatape.rules`), with a complex matrix as two real
arguments or results. Sweeps call the pullback on arrays. Where derivatives nest, the pullback is traced and
differentiated again; so it may use NumPy's functions, and other rules by `call`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..rules.emit import emit, value_of_call
from ..rules.result_shapes import ObservedShapes
from ..rules.site import Callee, shape_of
from ..trace import complex_parts, operations
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.complex_pairs import join
from ..trace.operands import values_of


class MatrixRule:
    """A function of matrices and its pullback.

    Parameters
    ----------
    name
        Its name in error messages.
    value
        ``value(*args)`` → an array, or a tuple of them; complex where NumPy's results are.
    pullback
        ``pullback(ybar, y, *args)`` → one cotangent per argument, None for none; it may be complex where
        the argument is real, and have more dimensions where the argument was broadcast.
    varies
        Whether the values of arguments decide if the results are complex, which then is a guard.
    """

    def __init__(self, name: str, value: Callable, pullback: Callable, varies: bool = False):
        self.name, self.value, self.pullback, self.varies = name, value, pullback, varies
        self.observed = ObservedShapes()


def call_rule(name: str, value: Callable, pullback: Callable, *args):
    """Return the results (a tuple) of a rule that is made for one call."""
    return call(MatrixRule(name, value, pullback), *args)


def call(rule: MatrixRule, *args):
    """Return the results (a tuple) of a rule; the call is recorded if an argument is traced."""
    if not any(map(complex_parts.is_traced, args)):
        return _tuple(rule.value(*args))
    args = tuple(x if complex_parts.is_traced(x) else np.asarray(x) for x in args)
    split = Split(rule, [is_complex(x) for x in args])
    parts = split.apart(args)
    known = value_of_call(split, parts)
    # A template of this rule is for one way to take arguments and results apart: [complex, real] has the
    # parts of [real, complex]. The guard below is outside of what is repeated, because a template has none.
    given = (*parts, split.kinds, split.results)
    found = operations.recurring(rule, tuple(known[0]), given, {}, lambda: emit(split, parts, known=known))
    results = list(found)
    if rule.varies:
        bool(results.pop() > 0.5)  # records a guard
    return split.together(results, split.results)


def is_complex(x) -> bool:
    return type(x) is TracedComplex or getattr(x, "dtype", np.dtype(float)).kind == "c"


def adjoint(x):
    """Return the conjugate transpose."""
    return conjugate(np.swapaxes(x, -1, -2))


def conjugate(x):
    return np.conj(x) if is_complex(x) else x


def diagonal(x):
    """Return matrices with vectors on their diagonals."""
    return np.tril(np.triu(x[..., None] + np.zeros_like(x.real)[..., None, :]))


def identity(x):
    """Return the identity matrix beside square matrices."""
    return diagonal(np.ones_like(x[..., 0].real))


def solve_triangle(a, b, lower: bool):
    """Return ``a^-1 b`` of a triangular matrix in a pullback; as a general system if traced or stacked.

    SciPy's function calls LAPACK, which wakes up BLAS's threads for matrices of any size: up to milliseconds
    for 2-by-2 ones. BLAS itself does not, but does not notice a singular matrix either.
    """
    if traced(a) or traced(b) or a.ndim != 2 or b.ndim != 2:
        return np.linalg.solve(a, b)
    import scipy.linalg

    if not b.size or not a.diagonal().all():
        return scipy.linalg.solve_triangular(a, b, lower=lower, check_finite=False)
    (solve,) = scipy.linalg.get_blas_funcs(("trsm",), (a, b))
    return solve(1.0, a, b, lower=lower)


def _tuple(result) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class Split(Callee):
    """A rule on real arrays, two for each complex one; each call site has its own."""

    reads_cotangents = False  # the pullbacks of `numbatape.matrix` are linear in them, and do not branch

    def __init__(self, rule: MatrixRule, kinds: list[bool]):
        self.rule, self.kinds, self.name, self.observed = rule, kinds, rule.name, rule.observed
        self.results: list[bool] = []  # Which results are complex is known after the first call.

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
        # If this has changed in a later call, a guard stops the sweep.
        for x, pair in zip(results, self.results, strict=True):
            parts += [x.real.copy(), x.imag.copy()] if pair else [x.real]
        return (*parts, float(any(pairs))) if self.rule.varies else tuple(parts)

    def pullback(self, ybar, y, *flat):
        if not any(map(traced, ybar)) and not any(map(np.any, ybar)):
            return (None,) * len(flat)  # all cotangents are zero
        ybar, y = (self.together(list(x)[: len(x) - self.rule.varies], self.results) for x in (ybar, y))
        args = self.together(flat, self.kinds)
        cotangents = self.rule.pullback(ybar, y, *args)
        parts: list = []
        for ct, x, pair in zip(cotangents, args, self.kinds, strict=True):
            if ct is None:
                parts += [None, None] if pair else [None]
                continue
            ct = summed(ct, np.shape(values_of(x)))
            parts += [ct.real, ct.imag if is_complex(ct) else np.zeros_like(ct)] if pair else [ct.real]
        return tuple(parts)

    def nested(self, site, cotangents, results, args) -> list:
        parts = self.pullback(site.packed(cotangents), site.packed(results), *site.filled(args))
        return site.checked_cotangents(parts, map(shape_of, args))

    def no_further_derivative(self):
        raise AssertionError("every traced argument of these rules has a cotangent")


def summed(ct, shape: tuple[int, ...]):
    """Sum a cotangent over the axes along which its argument was broadcast."""
    extra = np.ndim(values_of(ct)) - len(shape)
    if extra:
        ct = np.sum(ct, tuple(range(extra)))
    wide = tuple(k for k, n in enumerate(shape) if n == 1 and np.shape(values_of(ct))[k] != 1)
    return np.sum(ct, wide, keepdims=True) if wide else ct


def traced(x) -> bool:
    """Whether an argument of a pullback is traced, so that what it computes is recorded."""
    return type(x) is TracedArray or type(x) is TracedComplex
