"""`primitive` and `zero_derivative`: what the user declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import UnsupportedOperationError
from ..jit.rules import is_dispatcher
from ..trace import integers, operations, pytrees
from ..trace.array import TracedArray
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import stop_gradient, trace_of
from ..trace.trace import CURRENT, Trace, current, failing
from ..usercode.bytecode import globals_assigned
from ..usercode.ownership import python_of
from .emit import emit
from .native import Entry
from .result_shapes import ObservedShapes
from .site import ArgumentSpec, Callee, allocated, shape_of
from .untraced_derivatives import Pulled, emit_linear, is_jitted, no_further_derivative, touches


class Rule(Callee):
    """A function with hand-written rules; see `primitive`.

    Parameters
    ----------
    any_size
        Whether its functions serve any sizes, not just those of the trace in which they were made.

    Attributes
    ----------
    traceable
        Whether the pullback is plain NumPy, so that it is traced wherever its result is on a tape.
    formula, push_formula
        The pullback and the pushforward as Python that can be traced, for derivatives of them; None where
        there is none.
    """

    follows_sizes = True
    __slots__ = (
        *("compiled", "formula", "name", "observed", "pullback", "push_formula", "pushforward"),
        *("reads", "traceable", "value", "workspace"),
    )

    def __init__(self, value, pullback, pushforward, workspace, any_size: bool = False):
        self.value, self.pullback, self.pushforward = value, pullback, pushforward
        self.observed = ObservedShapes() if any_size else None
        self.reads: frozenset[str] | None = None  # global variables, once it was called in a trace
        self.workspace = workspace
        self.compiled: dict = {}  # the keys are signatures; see `numbatape.jit.rules`
        self.name = getattr(value, "__qualname__", None) or repr(value)
        self.traceable = workspace is None and not is_jitted(pullback)
        self.formula = python_of(pullback) if workspace is None else None
        push = None if pushforward is None else python_of(pushforward)
        self.push_formula = None if workspace is not None and touches(push, "workspace") else push

    @property
    def has_formula(self) -> bool:
        """Whether the pullback can be differentiated again."""
        return self.formula is not None or self.push_formula is not None

    @property
    def is_compiled(self) -> bool:
        """Whether one of its functions in the sweep is compiled by Numba."""
        return is_dispatcher(self.value) or is_dispatcher(self.pullback)

    def entries(self, site, names, results, state) -> list[Entry]:
        """Return what compiled code calls, forward and back; see `numbatape.rules.native`."""
        first = site.traced[: len(site.first)]
        bars = site.packed([f"bar_{name}" for name in results])
        wanted = tuple(names[k] if k in first else None for k in range(len(names)))
        return [
            Entry(self.value, tuple(names), tuple(results), site.single),
            Entry(self.pullback, (bars, site.packed(results), *names), wanted, False),
        ]

    def no_further_derivative(self) -> UnsupportedOperationError:
        return no_further_derivative(self.name)

    def nested(self, site, cotangents, results, args) -> list:
        """Record the pullback; return one cotangent for each argument of the first operand."""
        if not self.traceable:
            return list(emit_linear(Pulled(self, site), cotangents, results, args))
        pullback = operations.rebind(self.pullback)
        parts = pullback(site.packed(cotangents), site.packed(results), *site.filled(args))
        return site.checked_cotangents(parts, map(shape_of, args))


class Primitive:
    """A function with hand-written rules. Made by `primitive`."""

    def __init__(self, rule: Rule):
        self._rule = rule
        # Where the pullback is traced, the values that it captures are on tapes, so they are watched.
        self._traced = [f for f in (rule.formula, rule.push_formula) if f is not None]
        self.__name__ = getattr(rule.value, "__name__", rule.name)
        self.__qualname__ = rule.name
        self.__doc__ = getattr(rule.value, "__doc__", None)

    def __call__(self, *args, **kwargs):
        """Record a call of the rule, or call the function itself if no argument is traced."""
        rule = self._rule
        if kwargs:
            args = self._in_order(args, kwargs)
        # Sizes are passed on as ints and not as traced values, because a rule may make memory of that size.
        args = [integers.lifted(arg) for arg in integers.but_sizes(as_ndarrays(list(args)))]
        if any(type(arg) is TracedArray for arg in args):
            trace = trace_of(args)
            with failing(trace):
                self._refuse_assigned(trace)
                if trace.calls.rules is None:
                    trace.calls.rules = operations.RuleStates()
                trace.calls.rules.enter(rule)
                result = emit(rule, args)
                trace.calls.rules.leave()
                return result
        for arg in args:
            leaves = pytrees.leaves(arg) if isinstance(arg, (tuple, list, dict)) else ()
            if any(type(leaf) is TracedArray for leaf in leaves):
                raise UnsupportedOperationError(
                    f"a traced value inside a {type(arg).__name__} is an argument of the rule {rule.name}; "
                    "pass arrays and numbers one by one"
                )
        token = CURRENT.set(None)  # verbs that the rule calls do not belong to an enclosing trace
        try:
            return rule.value(*args, **allocated(rule.workspace, map(ArgumentSpec.of, args)))
        finally:
            CURRENT.reset(token)

    def _refuse_assigned(self, trace: Trace) -> None:
        """Raise if the traced function assigns a global variable that the rule reads, in every sweep."""
        rule, capture = self._rule, trace.capture
        if rule.reads is None:
            rule.reads = operations.globals_of((rule.value, rule.pullback, rule.pushforward))
        if not rule.reads or capture.environment is None:
            return
        if capture.assigned is None:
            capture.assigned = frozenset().union(*map(globals_assigned, capture.environment.running()))
        if found := rule.reads & capture.assigned:
            raise UnsupportedOperationError(
                f"the rule {rule.name} reads the global {min(found)}, which the traced function assigns, "
                "but runs later, in each sweep; pass it to the rule as an argument"
            )

    def _in_order(self, args, kwargs) -> tuple:
        """Return all arguments by position, as the pullback gets them, with defaults for missing ones."""
        signature = inspect.signature(python_of(self._rule.value))
        own = [p for name, p in signature.parameters.items() if name != "workspace"]
        given = signature.replace(parameters=own).bind(*args, **kwargs)
        given.apply_defaults()
        if given.kwargs:
            raise UnsupportedOperationError(
                f"the rule {self._rule.name} has keyword-only arguments ({', '.join(given.kwargs)}): its "
                "pullback gets arguments by position, so let them be given so"
            )
        return given.args

    def __repr__(self) -> str:
        return f"<primitive {self._rule.name}>"


def primitive(
    value: Callable | None = None,
    *,
    pullback: Callable,
    pushforward: Callable | None = None,
    workspace: Callable | None = None,
) -> Any:
    """Declare a function with hand-written rules.

    Parameters
    ----------
    value : callable
        ``value(*args)``, plain Python or compiled by Numba. Arguments are arrays and numbers (those that
        are not traced may be anything); the result is an array, a number or a tuple of them. Without it, a
        decorator is returned.
    pullback : callable
        ``pullback(ybar, y, *args)`` → a tuple with one cotangent per argument, of the argument's shape;
        None for no cotangent. ``y`` is what ``value`` returned, ``ybar`` its cotangent. If it is written in
        plain NumPy, it can be differentiated again where derivatives are nested, and forward mode is its
        transpose.
    pushforward : callable, optional
        ``pushforward(tangents, y, *args)`` → tangent of the result, where ``tangents`` has one tangent per
        argument (None for arguments that are not traced). With a workspace, forward mode needs it, and so do
        higher derivatives, for which it must not read the workspace.
    workspace : callable, optional
        ``workspace(*specs)`` → ``{name: (shape, dtype)}``: memory that the rule needs, for arguments of the
        given `shape` and `dtype` (`ArgumentSpec`). It is allocated once per cache and call site, and all
        functions of the rule get it as the keyword ``workspace``: a named tuple of arrays. ``pullback``
        finds there what ``value`` has left.

    Returns
    -------
    callable
        The function, to be used in traced functions and outside. One trace serves all sizes if each axis of
        a result is as long as an axis of an argument, is longer or shorter by a fixed number, has always the
        same length, or is as long as an argument has entries. Functions that call a rule with results of
        other shapes, or a rule that is declared while tracing, are traced once for each size.

    Raises
    ------
    TypeError
        If ``value`` or ``pullback`` is not callable.
    OutputError
        From a call: the rule returned another number of cotangents, or other shapes, than it should.

    Notes
    -----
    No function of a rule may write to its arguments. Each sweep calls them: by way of Python, which takes
    some 7 µs besides its own time, or by pointer where Numba has compiled it, which takes 0.05 µs.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> def pullback(ybar, y, x):
    ...     return (ybar * 3.0 * x**2,)
    >>> cube = nt.primitive(lambda x: x**3, pullback=pullback)
    >>> cube(np.array([1.0, 2.0]))
    array([1., 8.])
    >>> nt.grad(lambda x: np.sum(cube(x)))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    if value is None:
        return lambda function: primitive(
            function, pullback=pullback, pushforward=pushforward, workspace=workspace
        )
    given = {"value": value, "pullback": pullback, "pushforward": pushforward, "workspace": workspace}
    for name, function in given.items():
        if not callable(function) and (function is not None or name == "pullback"):
            raise TypeError(f"nt.primitive: {name} must be callable, got {function!r}")
    if current() is None:
        return Primitive(Rule(value, pullback, pushforward, workspace, any_size=True))
    return MadeInTrace(Rule(value, pullback, pushforward, workspace))


class MadeInTrace(Primitive):
    """A rule that the user declares while a function is traced.

    Its functions may have sizes of this trace in their closures, or variables that the next turn of a loop
    changes. A sweep runs them later, so each call keeps what they refer to.
    """

    def __call__(self, *args, **kwargs):
        rule = self._rule
        value, pullback, pushforward = operations.as_now((rule.value, rule.pullback, rule.pushforward))
        made = Rule(value, pullback, pushforward, rule.workspace)
        made.reads = frozenset()
        return Primitive(made)(*args, **kwargs)


class ZeroDerivative:
    """A function whose derivative is zero. Made by `zero_derivative`."""

    def __init__(self, function: Callable):
        self.function = function
        self.__name__ = getattr(function, "__name__", repr(function))
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, *args, **kwargs):
        if current() is None:
            return self.function(*args, **kwargs)
        result = operations.rebind(self.function)(*args, **kwargs)
        return pytrees.mapped(lambda leaf: stop_gradient(leaf) if type(leaf) is TracedArray else leaf, result)

    def __repr__(self) -> str:
        return f"<zero derivative of {self.__name__}>"


def zero_derivative(f: Callable) -> ZeroDerivative:
    """Return the same function with zero derivative.

    Its result follows the arguments' values; no cotangent passes.

    Parameters
    ----------
    f : callable
        Plain NumPy function of arrays, numbers and pytrees of them.

    Returns
    -------
    callable
        The function, to be used in traced functions and outside.

    Raises
    ------
    TypeError
        If ``f`` is not callable.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> scale = nt.zero_derivative(lambda x: np.max(np.abs(x)))
    >>> nt.grad(lambda x: np.sum(x / scale(x)))(np.array([1.0, 4.0]))
    array([0.25, 0.25])
    """
    if not callable(f):
        raise TypeError(f"nt.zero_derivative: {f!r} is not callable")
    return ZeroDerivative(f)
