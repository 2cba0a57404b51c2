"""Jacobians: jacobian, value_and_jacobian; and `Differentiated`, which `hessian_diagonal` uses as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..caches import dense_jacobian as dense
from ..caches.jacobian import JacobianCache, run
from ..nested.recorded_derivatives import pullback, pushforward, with_aux
from ..programs.contract import require_real
from ..programs.results import require_aux, value_of
from ..steady_calls.outs import Out, result_outs
from . import inner
from .made import MadeFunction, made_by
from .verb_calls import Served, chosen_arguments, dispatch


class JacobianFunction(MadeFunction):
    """What `jacobian` returns: its ``repr`` says which mode "auto" took in the last call."""

    __slots__ = ()

    def _how(self) -> str:
        mode, serve = self._options["mode"], cast(Any, self.__call__)
        return f": auto, {serve.taken or 'not called yet'}" if mode == "auto" else f": {mode}"


def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    holomorphic: bool = False,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f``.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    mode : {"auto", "forward", "reverse"}
        By columns or by rows; "auto" takes what there are fewer of.
    holomorphic : bool
        Whether ``f`` is a holomorphic function of complex arguments: its complex Jacobian is returned.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``j(*args, **kwargs)`` → Jacobian of shape output shape + input shape, or ``(jacobian, aux)`` with
        ``has_aux``. For containers: the output's tree, with one tree of the argument's structure in the place
        of each leaf; with a tuple of argnums, a tuple of them (outputs outside, arguments inside, as in JAX).
        ``repr(j)`` says which mode "auto" took.

    Raises
    ------
    ValueError
        If ``mode`` is none of its choices.
    SpecError
        From the call: an argument has a dtype that cannot be differentiated (an integer, say).
    OutputError
        From the call: ``f`` returns complex numbers for complex arguments, without ``holomorphic=True``.
    UnsupportedOperationError
        From the call: ``f`` uses what numbatape cannot differentiate.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.jacobian(lambda x: np.stack([x[0] ** 2 + x[1], x[0] * x[1]]))(np.array([2.0, 3.0]))
    array([[4., 1.],
           [3., 2.]])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options: dict[str, Any] = {
        "argnums": argnums,
        "mode": _known(mode),
        "holomorphic": holomorphic,
        "has_aux": has_aux,
    }
    return made_by(jacobian, f, _jacobian, JacobianFunction, **options, **statics)


def _known(mode: str) -> str:
    if not isinstance(mode, str) or mode not in dense.MODES:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, dense.MODES))}")
    return mode


class Ways(NamedTuple):
    """What is recorded of a function whose derivatives along unit directions are asked for.

    Attributes
    ----------
    columns, rows
        A derivative along a direction, and by a cotangent (`numbatape.nested.recorded_derivatives`). None for
        rows means second derivatives, which are of real arguments.
    nested
        Does the same inside of a trace.
    """

    columns: Callable
    rows: Callable | None
    nested: Callable


def _jacobian(f, *options):
    return Differentiated(f, Ways(pushforward(False), pullback, inner.jacobian), False, *options).serve


def _value_and_jacobian(f, *options):
    return Differentiated(f, Ways(pushforward(False), pullback, inner.jacobian), True, *options).serve


class Differentiated:
    """Serves a verb that takes a derivative along each unit direction, such as `jacobian`, of one function.

    Attributes
    ----------
    serve
        Serves a call; its attribute ``taken`` says which mode the last one took that was not steady.
    """

    def __init__(
        self, f, ways: Ways, with_value: bool, argnums, mode: str, holomorphic: bool, has_aux: bool, *statics
    ):
        what = (ways.columns, with_value, str(argnums), mode, holomorphic, has_aux)
        self._served = Served(f, what, *statics)
        self._columns, self._rows, self._nested = ways
        if has_aux:
            self._columns, self._rows = with_aux(ways.columns), ways.rows and with_aux(ways.rows)
        self._argnums, self._mode = argnums, mode
        self._with_value, self._holomorphic, self._has_aux = with_value, holomorphic, has_aux
        self._single = isinstance(argnums, (int, np.integer))
        serve: Any = self._served.by(self._general)
        serve.taken = None
        self.serve = serve

    def _general(self, args, kwargs):
        """Serve a call that is not steady."""
        chosen = chosen_arguments(self._argnums, len(args), 1)
        return dispatch(
            (args, kwargs),
            lambda: self._computed(args, kwargs, chosen),
            lambda: self._recorded(args, kwargs, chosen),
        )

    def _computed(self, args, kwargs, chosen):
        """Return the derivatives at plain arguments, and arrange for the next call like it to be steady."""
        served = self._served
        flat = served.flatten(args, kwargs, chosen, self._holomorphic)
        if self._rows is None:
            require_real(flat, "a Hessian")
        with served.caller() as caller:
            direction, primal = "forward", None
            if self._mode != "forward":
                primal = served.evaluator(caller, flat).forward(flat)
                result = primal.variant.recording.result
                if self._has_aux:
                    require_aux(primal.variant.recording)
                    result = result[0]
                direction = dense.choose(self._mode, flat, primal, result)
            self.serve.taken = direction
            if direction == "forward":
                derived = served.derived(caller, flat, self._columns, lanes=True)
                space, value, assembled = dense.forward(derived, flat, None, primal)
            else:
                derived = served.derived(caller, flat, self._rows, lanes=True)
                space, value, assembled = dense.reverse(derived, flat, primal, result, None)
            aux = (value_of(space, space.variant.recording.result[-1]),) if self._has_aux else ()
            made = self._arranged(value, dense.arranged(assembled, chosen, self._single), aux)
            self._learn(derived, flat, caller.front, made, direction)
            return made

    def _recorded(self, args, kwargs, chosen):
        """Return the derivatives at traced arguments."""
        options = self._single, self._mode, self._holomorphic, self._has_aux
        value, slopes, *aux = self._nested(self._served.function, args, kwargs, chosen, *options)
        return self._arranged(value, slopes, tuple(aux))

    def _arranged(self, value, slopes, aux: tuple):
        """Return what the verb returns, given its parts."""
        if not self._with_value:
            return (slopes, *aux) if self._has_aux else slopes
        return ((value, *aux) if self._has_aux else value), slopes

    def _learn(self, derived, flat, front, made, direction: str) -> None:
        """Let calls like the last one be served by a steady call, if one sweep computed all of it."""
        outs = dense.outs_of(flat, derived, direction == "forward")
        if outs is None or self._holomorphic:
            return
        value, slopes = outs
        others: list[Out] = []
        if self._has_aux:
            others = result_outs(derived.last, derived.last.variant.recording.result[-1])
        outs = [value, *others, slopes] if self._with_value else [slopes, *others]
        derived.teach(front, derived.last, made, outs, frozenset())


def value_and_jacobian(
    cache: Any,
    *args: Any,
    out: Any = None,
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    holomorphic: bool = False,
    has_aux: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Return value and Jacobian of a prepared function, or a function that computes both.

    Parameters
    ----------
    cache : DerivativeCache, PullbackCache or callable
        A cache computes columns by forward mode, or rows by reverse mode. Of a function, value and Jacobian
        are computed as by `jacobian`, prepared on first use.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        With a cache: the arguments, like those that it was prepared with. With a function: nothing, or its
        ``argnums``.
    out : array or pytree of them, optional
        Arrays to write a cache's Jacobian to, in its structure (None to skip one).
    argnums : int or tuple of int
        For a function, as of `jacobian`.
    mode : {"auto", "forward", "reverse"}
        For a function, as of `jacobian`.
    holomorphic, has_aux : bool
        For a function, as of `jacobian`.
    static_argnums, static_argnames : int, str or tuple of them
        For a function, as of `jacobian`.

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*args)``, of a cache. Of a function, a function is returned: ``j(*args, **kwargs)`` →
        ``(value, jacobian)``, or ``((value, aux), jacobian)`` with ``has_aux``.
    jacobian : numpy.ndarray or pytree of them
        Of shape output shape + input shape. For containers the result's tree, with the Jacobian of each
        leaf in its place: a tuple with one entry for each differentiated argument if there are several. One
        matrix with ``friendly_tangents=False``.

    Raises
    ------
    SpecError
        If the arguments do not fit.
    OutputError
        If the function returns complex numbers for complex arguments.
    TypeError
        If the cache was prepared for something else, or options for functions are given with a cache.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> f = lambda x: np.stack([x[0] * x[1], x[0]])
    >>> nt.value_and_jacobian(f)(np.array([2.0, 3.0]))
    (array([6., 2.]), array([[3., 2.],
           [1., 0.]]))
    >>> cache = nt.prepare_pullback_cache(f, np.ones(2))
    >>> nt.value_and_jacobian(cache, np.array([2.0, 3.0]))[1]
    array([[3., 2.],
           [1., 0.]])
    """
    if isinstance(cache, JacobianCache):
        given = argnums, mode, holomorphic, has_aux, static_argnums, static_argnames
        if given != (0, "auto", False, False, None, None):
            raise TypeError("value_and_jacobian of a cache takes `out` alone; the cache has its own options")
        return run(cache, args, out)
    if not callable(cache):
        raise TypeError(
            "value_and_jacobian needs a function, or a cache of prepare_derivative_cache or "
            f"prepare_pullback_cache, got {type(cache).__name__}"
        )
    has_options_only = not args or (len(args) == 1 and isinstance(args[0], (int, np.integer, tuple)))
    if out is not None or not has_options_only:
        raise TypeError(
            "value_and_jacobian(f) returns a function: call it with the arguments, value_and_jacobian(f)(x); "
            "`out` is for a prepared cache"
        )
    options: dict[str, Any] = {
        "argnums": args[0] if args else argnums,
        "mode": _known(mode),
        "holomorphic": holomorphic,
    }
    options |= {"has_aux": has_aux, "static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(value_and_jacobian, cache, _value_and_jacobian, JacobianFunction, **options)
