"""``np.random.default_rng(0).normal(size=len(x))``: draws of a generator that the function itself seeds.

They are the same in each call, as long as the sizes are: constants of the tape that depend on sizes. The
generators of a traced function note what is drawn. A draw that depends on a size is recorded as a call of a
rule, which repeats all draws from the seed on. What cannot be repeated so is drawn for the present sizes,
which the tape then relies on.
"""

from __future__ import annotations

import functools

import numpy as np

from ..errors import UnsupportedOperationError
from ..rules.emit import emit
from ..rules.site import Callee
from ..trace import symbolic_sizes as sizes
from ..trace.constants import EXACT_INTEGER
from ..trace.integers import TracedInteger, settled
from ..trace.operands import find_trace
from ..trace.trace import current
from ..usercode.frames import where_in_user_code
from . import drawn_from_arrays

# Methods that may be repeated, and at which position they take ``size``.
OF_GENERATORS = {
    **dict.fromkeys(("random", "standard_normal", "standard_exponential"), 0),
    **dict.fromkeys(("exponential", "poisson", "chisquare", "standard_t", "standard_gamma", "geometric"), 1),
    **dict.fromkeys(("rayleigh", "choice"), 1),
    **dict.fromkeys(("normal", "uniform", "integers", "binomial", "gamma", "beta", "lognormal"), 2),
    **dict.fromkeys(("laplace", "logistic", "gumbel"), 2),
    "permutation": None,
}
OF_STATES = {
    **{name: place for name, place in OF_GENERATORS.items() if name not in ("random", "integers")},
    **{"random_sample": 0, "randint": 2, "rand": None, "randn": None},
}
# Methods all of whose arguments are the lengths of the result.
OF_SIZES = ("rand", "randn", "permutation")
# Methods that are not repeated: what the sizes before them were, the tape relies on.
FIXING = ("shuffle", "permuted", "bytes", "spawn", "multivariate_normal", "dirichlet", "multinomial")
FIXING += ("get_state", "set_state", "seed", "weibull", "pareto", "power", "vonmises", "triangular", "wald")
FIXING += ("zipf", "hypergeometric", "negative_binomial", "noncentral_chisquare", "logseries", "f")
FIXING += ("standard_cauchy", "multivariate_hypergeometric", "noncentral_f", "tomaxint", "random_integers")


class Draw(Callee):
    """The last one of some draws of a generator with a seed.

    Parameters
    ----------
    made
        Makes the generator.
    past
        ``(method, arguments, keywords)`` of each draw, in which sizes are codes (`_Code`).
    shape
        The result's shape, as size codes.
    """

    name = "a random draw"
    pullback = staticmethod(lambda ybar, y, *args: (None,) * len(args))

    def __init__(self, made, past, shape, size=None):
        self._made, self._past, self._shape, self._size = made, past, shape, size

    def at(self, size):
        return Draw(self._made, self._past, self._shape, size)

    @property
    def size_codes(self) -> set[int]:
        return set().union(self._shape, *(_codes((args, kwargs)) for _, args, kwargs in self._past))

    def result_shapes(self, sizes, kind, arguments, results):
        return [self._shape]

    def value(self, *args):
        generator, result = self._made(), None
        for name, given, kwargs in self._past:
            given, kwargs = _resolved((given, kwargs), self._size)
            result = getattr(generator, name)(*given, **kwargs)
        return np.asarray(result)[()]

    def nested(self, site, cotangents, results, args) -> list:
        return [None] * len(args)

    def no_further_derivative(self) -> Exception:
        return AssertionError("draws are constants")


class _Code(int):
    """A size code among the arguments of a draw."""


def _map(tree, change):
    if type(tree) in (tuple, list):
        return type(tree)([_map(part, change) for part in tree])
    if type(tree) is dict:
        return {name: _map(part, change) for name, part in tree.items()}
    return change(tree)


def _codes(tree) -> set[int]:
    found: set[int] = set()
    _map(tree, lambda x: found.add(int(x)) if type(x) is _Code else None)
    return found


def _resolved(tree, size):
    return _map(tree, lambda x: size(int(x)) if type(x) is _Code else x)


class Noting:
    """What the generators of a traced function do beside drawing; NumPy's class comes behind it."""

    def begin(self, trace, made) -> None:
        """Note draws for a trace from now on; ``made()`` returns a generator like this one."""
        self._trace, self._made = trace, made
        self._body = trace.tape.floor  # where the body of the loop begins in which the generator is made
        self._past: list[tuple] = []
        self._repeats = True  # whether what was drawn so far can be repeated
        self._draws = False  # whether NumPy's own method runs, which may call others

    def _drawn(self, name: str, original, args: tuple, kwargs: dict):
        """Call a method: NumPy's own where nothing is traced, with a note of the draw where something is."""
        if not getattr(self, "_draws", False) and drawn_from_arrays.takes(name, args, kwargs):
            return drawn_from_arrays.draw(self, name, args, kwargs)
        trace, now = getattr(self, "_trace", None), current()
        if trace is None or now is None or trace.closed or self._draws:
            return original(self, *args, **kwargs)
        if now is not trace or trace.tape.floor != self._body:
            raise UnsupportedOperationError(
                f"random numbers are drawn at {where_in_user_code()}, in a body or a sub-tape that is traced "
                "once, of a generator that is made outside of it; draw them before, and pass them"
            )
        self._draws = True
        try:
            return self._noted(trace, name, original, args, kwargs)
        finally:
            self._draws = False

    def _noted(self, trace, name: str, original, args: tuple, kwargs: dict):
        """Draw, and record the draw if its size follows the sizes of arguments; else note it as data."""
        given = [*args, *kwargs.values()]
        follows = sizes.has_size(given) or any(_codes(its[1:]) for its in self._past)
        shape = None
        if follows and self._repeats and not trace.in_loop and find_trace(given) is None:
            shape = self._shape_of(trace, name, args, kwargs)
        if follows and shape is None:
            self._fix()
        if shape is None:
            args, kwargs = settled(args), settled(kwargs)
            self._note(name, args, kwargs)
            return original(self, *args, **kwargs)
        value = original(self, *_valued(args), **_valued(kwargs))
        self._note(name, _map(args, _as_code), _map(kwargs, _as_code))
        rule = Draw(self._made, tuple(self._past), shape)
        code = next(code for code in sorted(rule.size_codes) if code < 0)
        result = emit(rule, [sizes.number_of(trace, code)])
        found = result[0] if type(result) is tuple else result
        assert np.array_equal(found._value, value)
        return found

    def _note(self, name: str, args, kwargs) -> None:
        copied = lambda x: x.copy() if type(x) is np.ndarray else x  # noqa: E731
        self._past.append((name, _map(args, copied), _map(kwargs, copied)))
        self._repeats = self._repeats and find_trace([*args, *kwargs.values()]) is None

    def _fix(self) -> None:
        """Let the tape rely on the sizes on which draws so far depend."""
        pin = lambda code: self._trace.tape.sizes.pin(code, self._trace.line())  # noqa: E731
        self._past = [(name, *_resolved((args, kwargs), pin)) for name, args, kwargs in self._past]

    def _shape_of(self, trace, name: str, args: tuple, kwargs: dict) -> tuple[int, ...] | None:
        """Return the shape of what is drawn, as size codes; None where it is not known, or not repeated."""
        place = self._places.get(name, -1)
        if place == -1 or kwargs.get("dtype", float) not in (float, int, np.float64, np.int64):
            return None
        if name in OF_SIZES:
            if kwargs or not all(type(n) is int or sizes.is_size(n) for n in args):
                return None
            return tuple(sizes.code_of(trace, n) for n in args)
        others = [x for x in (*args[:place], *(kwargs[k] for k in kwargs if k not in ("size", "dtype")))]
        if not all(map(_is_number, others if name != "choice" else others[1:])):
            return None
        if name == "choice" and np.ndim(_valued(others[0] if others else 0)) > 1:
            return None
        if any(type(x) is int and abs(x) > EXACT_INTEGER for x in others):
            return None
        size = args[place] if len(args) > place else kwargs.get("size")
        if size is None:
            return ()
        size = size if type(size) in (tuple, list) else (size,)
        if not all(type(n) is int or sizes.is_size(n) for n in size):
            return None
        return tuple(sizes.code_of(trace, n) for n in size)


def _is_number(x) -> bool:
    return isinstance(x, (int, float, np.number, str, type(None))) or sizes.is_size(x)


def _as_code(x):
    return _Code(sizes.code_of(x._trace, x)) if sizes.is_size(x) else x


def _valued(tree):
    return _map(tree, lambda x: x._value if type(x) is TracedInteger else x)


@functools.cache
def _class_of(original: type) -> type:
    """Return the class of generators that note what is drawn."""
    places = OF_STATES if original is np.random.RandomState else OF_GENERATORS

    def method(name: str):
        draw = getattr(original, name)
        return functools.wraps(draw)(lambda self, *args, **kwargs: self._drawn(name, draw, args, kwargs))

    names = [name for name in (*places, *FIXING) if hasattr(original, name)]
    body = {name: method(name) for name in names}
    return type(original.__name__, (Noting, original), {**body, "_places": places})


def noting(trace, maker, args: tuple, kwargs: dict):
    """Return a generator that notes what is drawn, and takes traced arrays."""
    generator = maker(*args, **kwargs)
    seeds = [*args, *kwargs.values()]
    kind = type(generator)
    if kind not in (np.random.Generator, np.random.RandomState):
        return generator
    its = _class_of(kind)(
        generator.bit_generator if kind is np.random.Generator else generator._bit_generator
    )
    if trace.integers.symbolic and all(type(s) is int for s in seeds):
        its.begin(trace, functools.partial(maker, *args, **kwargs))
    return its
