"""What the prepared caches share: the contract with their arguments, `repr`, clones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..config import Config, chosen
from ..engine.kernels import sweep
from ..errors import SpecError
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.contract import check_same, require_active
from ..programs.evaluator import Evaluator
from ..programs.program import Program
from ..programs.results import Layout
from ..programs.roles import as_constants, is_mark, like_prepared
from ..programs.trace_log import GuardReport, report
from ..programs.variant import VariantWorkspace
from ..steady_calls.front import Front
from ..threads import Turn, alone, one_at_a_time
from ..trace import pytrees
from ..usercode.ownership import parameter_names, traced_function
from .delivery import Owned
from .registry import clear_caches

if TYPE_CHECKING:
    from .derived import Derived
    from .profile import Profile


class PreparedCache:
    """Base of the prepared caches: a program, and one thread's workspaces for it.

    Its memory serves one call at a time: a method that uses this memory is `one_at_a_time`, or is a steady
    call, which takes its turn itself.
    """

    mode = "reverse"
    repeats = False  # whether a call is one sweep, after which side effects of the function can be repeated
    seeded_with_one = False  # whether the cotangent of each reverse sweep is one
    choices: tuple[str, ...] = ()  # attributes that further options of the preparation set
    serving: tuple[str, ...] = ()  # methods that return the cache's own arrays under `reuse_buffers`

    def __init__(self, program: Program, prepared: Flattened, given: tuple, kwargs: dict, names, first=None):
        self._program = program
        self._prepared = prepared
        self._given = given  # the arguments of preparation, a callable dataclass first
        self._kwargs = kwargs
        self._names = names
        self._turn = Turn()
        self._evaluator = Evaluator(program, gradient=self.seeded_with_one)
        # This is the workspace of the last call. With `first`, the function has run for another cache.
        if first is None:
            self._space = self._evaluator.forward(prepared, checks=False)
        else:
            self._space = self._evaluator.workspace(*first)
        self._first = self._space.variant, self._space.plan.dimensions
        self._ready()
        self._keep_results()

    @classmethod
    def _prepare(cls, function, args, kwargs, config, include_callable, transform=None, changes=None):
        """Trace ``function`` at ``args`` and return the cache, for the functions ``prepare_..._cache``.

        ``include_callable`` says whether ``function`` is a callable dataclass whose arrays are
        differentiated, too; with ``transform``, what is traced is ``transform(function)``. ``changes`` notes
        which variables of the function change.
        """
        config = chosen(config, Config())
        if not callable(function):
            raise TypeError(f"{function!r} is not callable")
        if config.empty_cache:
            clear_caches()
        if config.debug_mode and not config.silence_debug_messages:
            warnings.warn("debug_mode is on: derivatives are interpreted in Python, slowly", stacklevel=3)
        if not isinstance(kwargs, (dict, type(None))):
            raise TypeError(f"kwargs must be a dictionary, got {type(kwargs).__name__}")
        kwargs = as_constants(kwargs or {})
        names: tuple[str, ...] = parameter_names(function)
        target = traced_function(function)
        if include_callable:
            target, args, names = _call_first, (function, *args), ("callable", *names)
        prepared = Flattened(tuple(args), kwargs, names)
        require_active(prepared)
        program = Program(target, config, transform, cls.repeats, prepared.moving, changes)
        return cls(program, prepared, tuple(args), kwargs, names)

    def _ready(self) -> None:
        """Check that the function's result fits the verb, and make what a new cache needs."""

    def clone(self) -> Any:
        """Return a cache with the same tapes and workspaces of its own, for another thread.

        Returns
        -------
        PreparedCache
            A cache of the same class. The function is not traced again.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(np.sum, np.ones(2))
        >>> nt.value_and_gradient(cache.clone(), np.array([1.0, 2.0]))[0]
        np.float64(3.0)
        """
        return self._cloned_into(object.__new__(type(self)))

    def _cloned_into(self, other):
        """Make another object of this class, which need not be prepared, a clone of this cache."""
        vars(other).update(vars(self))
        other._turn = Turn()
        other._evaluator = Evaluator(self._program, gradient=self.seeded_with_one)
        other._space = other._evaluator.workspace(*self._first)  # self._space may be a derivative's
        other._ready()
        other._keep_results()
        self._share(other)
        return other

    __copy__ = clone

    def __deepcopy__(self, memo):
        return imported(".shipping", __package__).deep_copy(self, memo)

    def __reduce__(self):
        shipping = imported(".shipping", __package__)
        return shipping.awaiting, (shipping.class_of(self), self._again())

    def _again(self) -> tuple:
        """Return what prepares this cache again, for another process or another function."""
        waiting = vars(self).get("_waiting")
        if waiting is not None:
            return waiting
        program, prepared = self._program, self._prepared
        args, _ = pytrees.unflatten(prepared.outer, prepared.marks)
        function, calls = program.function, program.function is _call_first
        if calls:
            function, *args = args
        # Few programs pickle a cache, so the module for it is not among those of a first gradient.
        shipped = imported(".shipping", __package__).Shipped(function)
        choices = {name: getattr(self, name) for name in self.choices}
        return shipped, tuple(args), self._kwargs, program.config, calls, choices

    def _keep_results(self) -> None:
        if self._program.config.reuse_buffers:
            for name in self.serving:
                setattr(self, name, Owned(getattr(type(self), name), self))

    def _share(self, other) -> None:
        """Give a clone what it shares with this cache, beyond its tapes."""

    # ---- a call

    def _flatten(self, args: tuple, resized: bool = False) -> Flattened:
        """Take arguments apart and check them.

        Constants given at preparation may be left out, and so may a callable dataclass.

        Parameters
        ----------
        resized
            Whether sizes may differ from those of preparation even under ``Config(fixed_sizes=True)``.
        """
        given = self._given
        if self._program.function is _call_first and not (args and isinstance(args[0], type(given[0]))):
            args = (given[0], *args)
        if len(args) == len(given):
            args = tuple(map(like_prepared, args, given))
        elif len(args) == sum(not is_mark(was) for was in given):
            came = iter(args)
            args = tuple(was if is_mark(was) else next(came) for was in given)
        flat = Flattened(args, self._kwargs, self._names)
        check_same(self._prepared, flat, self._program.config.fixed_sizes and not resized)
        return flat

    def _omitted(self, args: tuple) -> frozenset[int] | None:
        """Return the arguments that a call left out, -1 for keywords; None if the callable itself is one."""
        roles = self._given
        if self._program.function is _call_first and not (args and isinstance(args[0], type(roles[0]))):
            return None  # the callable may change from call to call, and is taken apart in each
        if len(args) == len(roles):
            return frozenset({-1})
        return frozenset(k for k, role in enumerate(roles) if is_mark(role)) | {-1}

    def _reverse(self, space: VariantWorkspace) -> None:
        """Run the reverse sweep with the seeds in place."""
        if self._program.config.debug_mode:
            imported("..programs.debug", __package__).checked_reverse(space)
        else:
            space.reverse()
        self._space = space

    @one_at_a_time
    def resize(self, *args: Any) -> Any:
        """Prepare for arguments of other sizes, so that the next call with such sizes is served at once.

        Calls do this by themselves, except for those of a cache with ``Config(fixed_sizes=True)``: it
        accepts the sizes of the last `resize` alone. Structure, dtypes and numbers of dimensions are those
        of preparation.

        Parameters
        ----------
        *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
            Arguments of the new sizes.

        Returns
        -------
        PreparedCache
            The cache itself.

        Raises
        ------
        SpecError
            If the arguments do not fit.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(x**2), np.ones(2))
        >>> nt.value_and_gradient(cache.resize(np.ones(3)), np.array([1.0, 2.0, 3.0]))[1]
        (array([2., 4., 6.]),)
        """
        flat = self._flatten(args, resized=True)
        self._space = self._evaluator.forward(flat, checks=False)
        self._first = self._space.variant, self._space.plan.dimensions
        if self._program.config.fixed_sizes:
            self._prepared = flat
            self._forget()  # the steady calls serve the sizes before the resize
        return self

    def _forget(self) -> None:
        """Forget the steady calls; the next call is a general one."""
        for front in vars(self).values():
            if isinstance(front, Front):
                front.forget()

    # ---- looking inside

    @property
    def layout(self) -> Layout:
        """The layout of flat gradients (``Config(friendly_tangents=False)``); it maps both ways.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x, y: np.sum(x) * y, np.ones(2), 3.0)
        >>> cache.layout.shapes
        ((2,), ())
        """
        return Layout.of(self._prepared)

    @property
    def tape(self):
        """The tape of the last call; ``str(cache.tape)`` is a listing.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x)), np.ones(2))
        >>> len(cache.tape)
        2
        """
        space = self._space
        return space.plan.tape if space.plan.strips is None else space.variant.tape

    @property
    def traces(self) -> int:
        """How often the function was traced: for its value, and for derivatives with tapes of their own.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: x if x > 0.0 else -x, 1.0)
        >>> _ = nt.value_and_gradient(cache, 2.0), nt.value_and_gradient(cache, -2.0)
        >>> cache.traces
        2
        """
        return sum(program.traces for program in self._programs())

    def guards(self) -> GuardReport:
        """Report the guards of all traces, and why the function was traced.

        Returns
        -------
        list of dict
            One entry for each guard: ``line`` (of the source), ``kind`` (what Python asked for: "bool",
            "int", ... or "size"), ``condition`` (the text of the line, or the relation between sizes),
            ``outcomes``, a dictionary of hits by outcome, ``variants``, the number of traces that it is
            part of, and ``inside``, the name of the sub-tape (`nt.function`) that it belongs to, "" for the
            function itself. A hit is a sweep that went this way: of the function, or of a derivative that
            has a tape of its own. Each known path of a sub-tape has the hits of the traces that call it.
            The list has the attributes ``traces`` (what was traced when, and why) and ``why`` (the reason
            for the last trace), and prints as a table.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: x[0] if x[0] > 0 else -x[0], np.ones(1))
        >>> [(guard["kind"], guard["outcomes"]) for guard in cache.guards()]
        [('bool', {True: 1})]
        >>> value, gradient = nt.value_and_gradient(cache, -np.ones(1))
        >>> cache.guards().why
        'the test at ... gave False'
        """
        return report(self._programs())

    def profile(self, repeats: int = 10) -> Profile:
        """Measure each instruction of the tape of the last call, at its arguments.

        Long vectors that steady calls read strip by strip are an exception: those are of an earlier call.

        Parameters
        ----------
        repeats : int
            How often the sweeps run; the least times count.

        Returns
        -------
        Profile
            A list with a dictionary for each instruction: ``instruction`` (its number), ``op``, ``line``,
            ``source``, ``forward`` and ``reverse`` (seconds), ``bytes`` (of its result). It prints as tables
            of the source lines that cost most and of the passes; ``by_line()`` has all lines, ``by_pass()``
            says what each pass did when the tape was recorded, and how long it took. Times below some tens
            of nanoseconds are within what the clock can tell.

        Raises
        ------
        BusyError
            If a call of this cache is under way.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x)), np.ones(1000))
        >>> [(row["op"], row["bytes"]) for row in cache.profile()]
        [('exp', 8000), ('sum', 8)]
        """
        if type(repeats) is not int or repeats < 1:
            raise SpecError(f"profile: repeats={repeats!r} must be a positive integer")
        profile = imported(".profile", __package__).profile
        return alone(self._turn, profile, self._space.whole(), sweep, repeats)

    def _repr_html_(self) -> str:
        return imported(".description", __package__).as_tables(self)

    def _programs(self) -> Iterable[Program]:
        """Return what is traced: the function, and its derivatives that have tapes of their own."""
        derived = (derived.program for derived in self._derivatives())
        return {id(program): program for program in (self._program, *derived)}.values()

    def _derivatives(self) -> list[Derived]:
        """Return the derivatives that are traced and swept in the function's place."""
        cls = imported(".derived", __package__).Derived
        return [value for value in vars(self).values() if isinstance(value, cls)]

    def __repr__(self) -> str:
        return imported(".description", __package__).as_text(self)


def beside(cls: type[PreparedCache], cache: PreparedCache) -> PreparedCache:
    """Return a cache of some class with the function, the arguments and the traces of another cache."""
    return cls(cache._program, cache._prepared, cache._given, cache._kwargs, cache._names)


def _call_first(function, *args, **kwargs):
    return function(*args, **kwargs)
