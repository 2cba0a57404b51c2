"""`test_rule`: a hand-written rule, first by itself, then in traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..control.argument_checks import check_functions
from ..rules import Primitive
from ..rules.site import ArgumentSpec, allocated
from ..trace.primitives import value_of
from .check import check_derivatives
from .derivative_error import DerivativeError, compare
from .memory import check_growth
from .point import contents, copied, float_leaves, is_active


def test_rule(f: Callable, *args: Any, order: int | None = None, **options: Any) -> None:  # noqa: PT028
    """Check a rule that `primitive` made.

    The rule's own functions are checked first: they do not change their arguments, they return the same bits
    when they are called again with the same memory, the value keeps no memory from call to call, and the
    pushforward is the adjoint of the pullback. Then follows everything that `check_derivatives` checks.

    Parameters
    ----------
    f : callable
        The rule; for any other function only the derivatives are checked.
    *args : arrays, numbers, or anything that the rule takes
        Arrays and floats are differentiated; anything else is passed as it is.
    order : {1, 2}, optional
        Highest order of the derivatives that are checked; by default 2 where the pullback or the
        pushforward can be traced, else 1.
    **options : dict
        Options of `check_derivatives`.

    Raises
    ------
    DerivativeError
        An `AssertionError` with the worst coordinate and both numbers.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cube = nt.primitive(lambda x: x**3, pullback=lambda ybar, y, x: (3.0 * ybar * x**2,))
    >>> nt.testing.test_rule(cube, np.array([1.0, 2.0]))
    >>> wrong = nt.primitive(lambda x: x**3, pullback=lambda ybar, y, x: (2.0 * ybar * x**2,))
    >>> nt.testing.test_rule(wrong, np.array([1.0, 2.0]))
    Traceback (most recent call last):
    ...
    numbatape.testing.derivative_error.DerivativeError: the gradient at argument 0[1]: ...
    """
    check_functions("nt.testing.test_rule", f=f)
    if order is None:
        order = 2 if not isinstance(f, Primitive) or f._rule.has_formula else 1
    chosen = [k for k, arg in enumerate(args) if is_active(arg)]

    def of_floats(*floats):
        given = list(args)
        for k, x in zip(chosen, floats, strict=True):
            given[k] = x
        return f(*given)

    floats = [args[k] for k in chosen]
    if isinstance(f, Primitive):
        _alone(f._rule, args, chosen, np.random.default_rng(options.get("seed", 0)))
        if f._rule.pushforward is None and not f._rule.has_formula:
            options["forward"] = False
    check_derivatives(of_floats, *floats, order=order, **options)


test_rule.__test__ = False  # type: ignore[attr-defined]  # (pytest shall not collect it where it is imported)


def _alone(rule, args, chosen, rng) -> None:
    """Check a rule's functions without a trace."""
    args = copied(args)
    memory = allocated(rule.workspace, map(ArgumentSpec.of, args))

    def twice(what: str, function: Callable, *given):
        before = contents([*given, *args])
        results = []
        for _ in range(2):
            result = function(*given, *args, **memory)
            parts = result if isinstance(result, (tuple, list)) else (result,)
            results.append([None if x is None else np.array(x) for x in parts])
            if contents([*given, *args]) != before:
                raise DerivativeError(f"the {what} of the rule {rule.name} writes to its arguments")
        for k, (first, second) in enumerate(zip(*results, strict=True)):
            if first is not None and first.dtype.kind == "f":
                name = f"the {what} of the rule {rule.name}, result {k}"
                compare(name, second, ("in a second call", "in the first"), first, 0.0, "entry ")
        return result if isinstance(result, (tuple, list)) else (result,)

    single = not isinstance(rule.value(*args, **memory), tuple)
    y = [np.array(x)[()] if np.ndim(x) == 0 else np.array(x) for x in twice("value", rule.value)]
    check_growth(lambda: rule.value(*args, **memory))
    bars = [rng.normal(size=np.shape(x)).astype(np.asarray(x).dtype)[()] for x in y]
    packed = [parts[0] if single else tuple(parts) for parts in (bars, y)]
    cotangents = [None if x is None else np.array(x) for x in twice("pullback", rule.pullback, *packed)]
    if rule.pushforward is None or len(cotangents) != len(args):
        return
    tangents = tuple(
        rng.normal(size=np.shape(x)).astype(np.asarray(x).dtype)[()] if k in chosen else None
        for k, x in enumerate(args)
    )
    pushed = twice("pushforward", rule.pushforward, tangents, packed[1])
    left = [np.sum(a * b) for a, b in zip(bars, float_leaves(list(map(value_of, pushed))), strict=True)]
    right = [
        np.sum(c * t) for c, t in zip(cotangents, tangents, strict=True) if c is not None and t is not None
    ]
    single_precision = any(np.asarray(x).dtype == np.float32 for x in y)
    within = (1e-4 if single_precision else 1e-11) * (np.sum(np.abs(left)) + np.sum(np.abs(right)) + 1.0)
    names = "by the pushforward", "by the pullback"
    compare(f"a derivative of the rule {rule.name}", np.sum(left), names, np.sum(right), within)
