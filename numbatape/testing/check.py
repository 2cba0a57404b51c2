"""`check_derivatives`: everything that a function's derivatives must satisfy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# The import is from the package itself, because that also announces the stand-ins of other
# packages' functions.
from .. import (
    Config,
    Constant,
    DerivativeCache,
    HvpCache,
    Static,
    prepare_gradient_cache,
    prepare_hvp_cache,
    value_and_derivative,
    value_and_gradient,
    value_and_hvp,
)
from ..caches.base import beside
from ..control.argument_checks import check_functions, positive
from ..trace import pytrees
from .derivative_error import DerivativeError, compare
from .differences import extrapolated
from .further_checks import check_allocations, check_dtypes, check_reference, check_sharing
from .memory import check_growth
from .point import Point, contents, copied, float_leaves, unmarked, weighed

MODES = ("reverse_over_forward", "forward_over_reverse")
COORDINATES = 64  # At most this many coordinates are compared with differences, and some random directions.
DIRECTIONS = 3
STEP = 0.02
SINGLE, HALF = (np.dtype(np.float32), np.dtype(np.complex64)), (np.dtype(np.float16),)
# The rounding error of a value, relative to the sum of its terms' absolute values.
ROUNDING = 16 * np.finfo(float).eps
ENOUGH = 0.01  # the part of a tolerance by which differences may err


def check_derivatives(
    f: Callable,
    *args: Any,
    order: int = 2,
    rtol: float = 1e-6,
    atol: float = 1e-8,
    rtol_modes: float = 1e-11,
    points: int = 2,
    float32: bool = True,
    forward: bool = True,
    reference: Callable | None = None,
    max_bytes: int | None = None,
    seed: int = 0,
) -> None:
    """Check a function's derivatives, at some arguments and near them.

    The value is compared with the plain function's, forward with reverse mode along random directions, the
    gradient with extrapolated differences [1]_, the Hessian-vector product in both nestings with one
    another and with differences of the gradient. Points nearby are checked by the same prepared caches.
    Calls are repeated and must give the same bits, leave the arguments alone and need no more memory than
    the first ones, but for what the plain function keeps; the same array as two arguments must give two
    gradients; dtypes must be NumPy's, in float32 too. Complex numbers are two real ones each.

    Parameters
    ----------
    f : callable
        Function of any number of results; a random weighted sum of them is differentiated.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        As for `prepare_gradient_cache`.
    order : {1, 2}
        Highest order of the derivatives that are checked.
    rtol, atol : float
        Tolerances for comparisons with differences; ``rtol`` is relative to the largest derivative.
    rtol_modes : float
        Tolerance for forward against reverse mode, and one nesting against the other; relative to the sum
        of the terms' absolute values, but not below the rounding of the value (at a minimum).
    points : int
        How many points near the arguments are checked, too: a term that vanishes at the arguments may not
        elsewhere. Entries move by up to a tenth of themselves, zeros by up to 0.1; points at which ``f``
        is not finite are passed over.
    float32 : bool
        Whether to check that results of float32 arguments have NumPy's dtypes.
    forward : bool
        Whether to check forward mode, which a rule without a pushforward may not have.
    reference : callable, optional
        Another function of the same arguments, which is right: value and gradient are compared with its.
    max_bytes : int, optional
        How many bytes a steady call may allocate at most (not counting the float that it returns). Left out,
        there is no limit.
    seed : int
        Of the random numbers.

    Raises
    ------
    DerivativeError
        An `AssertionError` with the worst coordinate and both numbers.
    TypeError
        If no argument, or no result, is a float, a complex number or an array of them, or ``f`` is no
        function.
    ValueError
        If ``order`` is neither 1 nor 2, or a tolerance is not above zero.

    References
    ----------
    .. [1] C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Advances in Engineering
       Software 4 (1982).

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.testing.check_derivatives(lambda x, y: np.sum(np.sin(x) * y), np.ones(3), 2.0)
    """
    check_functions("nt.check", f=f)
    if order not in (1, 2):
        raise ValueError(f"order={order!r}: must be 1 or 2")
    for name, value in {"rtol": rtol, "atol": atol, "rtol_modes": rtol_modes}.items():
        positive("nt.check", name, value)
    rng = np.random.default_rng(seed)
    point = Point(args)
    options = order, forward, (rtol, atol, rtol_modes)
    check = _Check(f, point, options, rng)
    check.run()
    for _ in range(points):
        u = rng.uniform(-1.0, 1.0, (2, point.vector.size))
        near = point.vector * (1.0 + 0.1 * u[0]) + np.where(point.vector == 0.0, 0.1 * u[1], 0.0)
        moved = Point(point.at(near))
        with np.errstate(all="ignore"):
            value = f(*unmarked(copied(moved.args)))
        if all(np.isfinite(leaf).all() for leaf in float_leaves(value)):
            check.move(moved, value)
            check.run()
    if reference is not None:
        check_reference(f, reference, point, options[2], rng)
    if max_bytes is not None:
        check_allocations(f, point, max_bytes)
    check_sharing(f, point, rng)
    if float32:
        check_dtypes(f, point, np.dtype(np.float32))


def check(f: Callable, *args: Any, **options: Any) -> None:
    """Check a function's derivatives, at some arguments and near them: `testing.check_derivatives`.

    Parameters
    ----------
    f : callable
        Function of any number of results.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        As for `prepare_gradient_cache`.
    **options : dict
        As of `testing.check_derivatives`: ``order``, ``rtol`` and others.

    Raises
    ------
    DerivativeError
        An `AssertionError` with the worst coordinate and both numbers.
    TypeError
        If no argument, or no result, is a float, a complex number or an array of them.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.check(lambda x: np.sum(np.sin(x)), np.ones(3))
    """
    check_derivatives(f, *args, **options)


class _Check:
    """The checks at one point, then at others by the same caches, as a user calls them."""

    def __init__(self, f, point: Point, options, rng):
        self.f, self.rng = f, rng
        self.order, self.forward, (self.rtol, self.atol, self.rtol_modes) = options
        kinds = {
            np.asarray(leaf).dtype
            for arg in point.args
            if not isinstance(arg, (Constant, Static))
            for leaf in pytrees.leaves(arg)
        }
        for dtypes, modes, differences in ((SINGLE, 1e-4, 1e-3), (HALF, 1e-2, 1e-1)):
            if not kinds.isdisjoint(dtypes):
                self.rtol_modes = max(self.rtol_modes, modes)
                self.rtol, self.atol = max(self.rtol, differences), max(self.atol, modes)
        self.weights: list[np.ndarray] = []
        # The cache, and its number of traces, when the memory of its calls was last counted.
        self.grown: tuple[Any, int] | None = None
        self.move(point, f(*unmarked(copied(point.args))))

    def move(self, point: Point, value) -> None:
        """Go on to a point, where the function has the given value."""
        self.point, self.value = point, value
        leaves = float_leaves(value)
        if not leaves:
            raise TypeError("the function returns no float, no complex number and no array")
        shapes = list(map(np.shape, leaves))
        if shapes != list(map(np.shape, self.weights)):  # the first point, or a branch with other results
            self.weights = [
                self.rng.uniform(0.5, 1.5, shape) * self.rng.choice([-1.0, 1.0], shape) for shape in shapes
            ]
            self.total = weighed(self.f, self.weights)
            self.caches: dict[str, Any] = {}

    def _cache(self, name: str, prepare: Callable, *args, **options):
        """Return the cache of that name, prepared where it is first needed."""
        if name not in self.caches:
            self.caches[name] = prepare(*args, **options)
        return self.caches[name]

    def run(self) -> None:
        gradient = self.first_order()
        if self.order > 1:
            self.second_order(gradient)

    # ---- first order

    def first_order(self) -> np.ndarray:
        """Compare the gradient with differences, with further calls and with the other modes; return it."""
        point = self.point
        args = copied(point.args)
        before = contents(args)
        cache = self._cache("gradient", prepare_gradient_cache, self.total, *args)
        calls = [value_and_gradient(cache, *args) for _ in range(4)]
        flat = [np.append(point.flat(grads), float(value)) for value, grads in calls]
        for k, again in enumerate(flat[1:], 2):
            compare(f"call {k} of the gradient", again, ("now", "in the first call"), flat[0], 0.0, "entry ")
        if contents(args) != before:
            raise DerivativeError("computing the gradient wrote to the arguments")
        self._compare_value(calls[0][0], args)
        # This is done once for all points that the same trace serves.
        if self.grown != (cache, cache.traces):
            check_growth(
                lambda: value_and_gradient(cache, *args), lambda: self.total(*unmarked(copied(args)))
            )
            self.grown = cache, cache.traces
        gradient = flat[0][:-1]
        if self.forward:
            self._modes(gradient, args)
        self._differences("the gradient", gradient, lambda v: float(self.total(*unmarked(self._wide(v)))))
        return gradient

    def _compare_value(self, traced, args) -> None:
        """Compare the value with that of the plain function, called twice."""
        plain, again = (float(self.total(*unmarked(copied(args)))) for _ in range(2))
        compare("the plain function", again, ("now", "in the call before"), plain, 0.0)
        leaves = zip(self.weights, float_leaves(self.value), strict=True)
        scale = sum(float(np.sum(np.abs(w * x))) for w, x in leaves)
        # The terms of a gradient cancel at a minimum; what is left is no more exact than the value is.
        self.rounding = ROUNDING * scale / np.maximum(1.0, np.abs(self.point.vector))
        names = "on the tape", "of the plain function"
        compare("the value", traced, names, plain, self.rtol_modes * scale)

    def _wide(self, vector) -> tuple:
        return self.point.at(vector, np.dtype(np.float64))

    def _modes(self, gradient: np.ndarray, args) -> None:
        """Check derivatives along random directions: twice the same, and those of both modes."""
        cache = self._cache("derivative", beside, DerivativeCache, self.caches["gradient"])
        for _ in range(DIRECTIONS):
            v = self.rng.normal(size=gradient.size)
            pairs = [
                x if isinstance(x, (Constant, Static)) else (x, dx)
                for x, dx in zip(args, self.point.at(v), strict=True)
            ]
            first, second = (value_and_derivative(cache, *pairs)[1] for _ in range(2))
            compare("the second forward derivative", second, ("now", "before"), first, 0.0)
            v = Point(self.point.at(v)).vector  # rounded to the argument's dtype, as the direction was
            terms = np.abs(gradient * v)
            compare(
                "a directional derivative",
                first,
                ("in forward mode", "in reverse mode"),
                np.sum(gradient * v),
                self.rtol_modes * (np.sum(terms) + np.max(np.abs(gradient), initial=0.0))
                + np.sum(self.rounding * np.abs(v)),
            )

    def _differences(self, what: str, gradient: np.ndarray, at: Callable) -> None:
        """Compare a gradient with differences of the number whose gradient it is."""
        x = self.point.vector
        scale = float(np.max(np.abs(gradient), initial=0.0))
        count = min(COORDINATES, x.size)
        chosen = np.sort(self.rng.permutation(x.size)[:count])
        value = abs(at(x))
        rows = []
        for k in chosen:
            unit = np.zeros(x.size)
            unit[k] = 1.0
            step = STEP * max(1.0, abs(x[k]))
            row = self._one(gradient[k], lambda h, u=unit: at(x + h * u), step, scale, value)
            rows.append((self.point.labels[k], *row))
        for _ in range(DIRECTIONS if x.size > count else 0):
            v = self.rng.normal(size=x.size)
            v /= np.linalg.norm(v)
            row = self._one(gradient @ v, lambda h, v=v: at(x + h * v), STEP, scale, value)
            rows.append(("a random direction", *row))
        _settled(what, rows)

    def _one(self, got, f, step, scale, value) -> tuple:
        """Return (computed, by differences, error of that, tolerance)."""
        least = self.atol + self.rtol * scale + 1e-10 * value
        wanted, error = extrapolated(f, step, ENOUGH * least)
        return got, wanted, error, least + self.rtol * max(0.0, abs(float(wanted)) - scale)

    # ---- second order

    def second_order(self, gradient: np.ndarray) -> None:
        """Check Hessian-vector products: one mode against the other, and against differences."""
        point, args = self.point, copied(self.point.args)
        before = contents(args)
        v = self.rng.normal(size=gradient.size)
        v = Point(point.at(v)).vector
        direction = [
            part for part, x in zip(point.at(v), args, strict=True) if not isinstance(x, (Constant, Static))
        ]
        alone = len(direction) == 1
        products = []
        for mode in MODES:
            if mode == Config().second_order_mode:
                cache = self._cache(mode, beside, HvpCache, self.caches["gradient"])
            else:
                config = Config(second_order_mode=mode)
                cache = self._cache(mode, prepare_hvp_cache, self.total, *args, config=config)
            given = direction[0] if alone else tuple(direction)
            rows = []
            for _ in range(2):
                _, grads, product = value_and_hvp(cache, given, *args)
                rows.append([self._joined(grads, args, alone), self._joined(product, args, alone)])
            compare(f"the second call of {mode}", rows[1], ("now", "before"), rows[0], 0.0, "entry ")
            scale = np.max(np.abs(gradient), initial=0.0)
            compare(
                f"the gradient of {mode}",
                rows[0][0],
                ("there", "alone"),
                gradient,
                10 * self.rtol_modes * scale + self.rounding,
                "entry ",
            )
            products.append(rows[0][1])
        if contents(args) != before:
            raise DerivativeError("computing a Hessian-vector product wrote to the arguments")
        scale = float(np.max(np.abs(products), initial=0.0))
        within = 100 * self.rtol_modes * (scale + np.max(np.abs(gradient), initial=0.0))
        compare("a Hessian-vector product", products[0], MODES, products[1], within, "entry ")
        # Arguments that are in float64 already are those of the gradient's cache, which spares a trace.
        name = "gradient" if contents(args) == contents(self._wide(point.vector)) else "wide"
        wide = self._cache(name, prepare_gradient_cache, self.total, *self._wide(point.vector))

        def gradient_at(h):
            return point.flat(value_and_gradient(wide, *self._wide(point.vector + h * v))[1])

        size = max(1.0, float(np.max(np.abs(v), initial=0.0)))
        noise = 1e-10 * np.max(np.abs(gradient), initial=0.0)
        least = self.atol + self.rtol * scale + noise
        wanted, error = extrapolated(gradient_at, STEP / size, ENOUGH * least)
        rows = []
        for k in range(v.size):
            tolerance = least + self.rtol * max(0.0, abs(float(wanted[k])) - scale)
            rows.append((point.labels[k], products[0][k], wanted[k], error[k], tolerance))
        _settled("a Hessian-vector product", rows)

    def _joined(self, parts, args, alone: bool) -> np.ndarray:
        """Return a gradient of the differentiated arguments as one vector."""
        if not alone:
            # If there are several such arguments, there is None for each constant.
            return self.point.flat(parts)
        return self.point.flat([None if isinstance(x, (Constant, Static)) else parts for x in args])


def _settled(what: str, rows) -> None:
    """Compare with differences; raise also where the differences do not agree with one another.

    Parameters
    ----------
    rows
        ``(coordinate, computed, by differences, error of that, tolerance)``; the worst is reported.
    """
    worst, text = 0.0, ""
    for where, *numbers in rows:
        got, wanted, error, tolerance = map(float, numbers)
        head = f"{what} at {where}: {got!r} computed"
        excess = abs(got - wanted) / (tolerance + min(error, tolerance))
        if not excess <= 1.0:
            found = f"{head}, {wanted!r} by extrapolated differences (whose error is about {error:.1e})"
        elif not (np.isfinite(wanted) and error <= 10.0 * tolerance):
            excess = 1.0  # less than that of any derivative which differs
            found = (
                f"{head}, but differences do not settle (about {wanted!r}, error about {error:.1e}): the "
                "function is not smooth there, not finite nearby, or not a function of its arguments"
            )
        else:
            continue
        if not excess < worst:
            worst, text = (excess if excess == excess else np.inf), found
    if text:
        raise DerivativeError(text)
