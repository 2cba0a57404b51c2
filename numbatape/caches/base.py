"""What the prepared caches share: arguments in, results out, `repr`, clones."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..config import Config
from ..engine import Workspace
from ..errors import OutputError, SpecError
from ..tape.tape import ACTIVE
from ..trace.record import Output
from .arguments import NAMESPACE, STATIC, Constant, Flattened, Static
from .program import Evaluator, Program


@dataclass(frozen=True)
class Layout:
    """Where each differentiated leaf stands in one flat vector (``friendly_tangents=False``)."""

    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def ravel(self, leaves) -> np.ndarray:
        """Return leaves (in order) as one vector."""
        return np.concatenate([np.ravel(leaf) for leaf in leaves] or [np.zeros(0)])

    def unravel(self, vector) -> list[np.ndarray]:
        """Return the leaves of a vector."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = np.split(np.asarray(vector), ends[:-1]) if len(ends) else []
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def parameter_names(function) -> tuple[str, ...]:
    """Return the names of positional parameters, for error messages."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def python_function(function):
    """Return what is traced: the Python function behind a Numba dispatcher."""
    return getattr(function, "py_func", function)


class PreparedCache:
    """Base of the prepared caches: a program, and one thread's workspaces for it."""

    mode = "reverse"

    def __init__(self, program: Program, kwargs: dict, include_callable: bool = False):
        self._program = program
        self._evaluator = Evaluator(program)
        self._kwargs = kwargs
        self._include_callable = include_callable
        self._owned: dict[tuple, list] = {}

    @classmethod
    def prepare(cls, function, args, kwargs, config, include_callable=False):
        """Trace ``function`` at ``args`` and return the cache."""
        config = Config() if config is None else config
        if not isinstance(config, Config):
            raise TypeError(f"config must be nt.Config(...), got {type(config).__name__}")
        if not callable(function):
            raise TypeError(f"{function!r} is not callable")
        if config.debug_mode and not config.silence_debug_messages:
            warnings.warn("debug_mode is on: derivatives are interpreted in Python, slowly", stacklevel=4)
        names: tuple = parameter_names(function)
        target = python_function(function)
        if include_callable:
            target, args, names = _call_first, (function, *args), ("callable", *names)
        flat = Flattened(tuple(args), dict(kwargs), names)
        cache = cls(Program(target, flat, config), dict(kwargs), include_callable)
        cache._names = names
        cache._space = cache._evaluator.forward(flat)
        cache._check_output(cache._space)
        return cache

    _names: tuple = ()
    _space: Workspace

    def _check_output(self, space: Workspace) -> None:
        """Raise if the function's result does not fit the verb."""

    def clone(self):
        """Return a cache with the same tapes and workspaces of its own, for another thread."""
        other = type(self)(self._program, self._kwargs, self._include_callable)
        other._names = self._names
        other._space = other._evaluator.forward(self._program.prepared)
        return other

    # ---- arguments

    def _flatten(self, args: tuple) -> Flattened:
        """Take arguments apart; constants given at preparation may be left out."""
        prepared = self._program.prepared.outer.unflatten(self._program.prepared.outer_leaves)[0]
        if self._include_callable and len(args) < len(prepared) and not self._is_prepared_callable(args):
            args = (prepared[0], *args)
        optional = [isinstance(a, (Constant, Static)) for a in prepared]
        if len(args) != len(prepared) and len(args) == optional.count(False):
            given = iter(args)
            args = tuple(a if known else next(given) for a, known in zip(prepared, optional, strict=True))
        elif len(args) == len(prepared):
            args = tuple(_marked(a, was) for a, was in zip(args, prepared, strict=True))
        return Flattened(args, self._kwargs, self._names)

    def _is_prepared_callable(self, args) -> bool:
        return bool(args) and args[0] is self._program.prepared.outer_leaves[0]

    # ---- results

    def _value(self, space: Workspace) -> Any:
        """Return the function's result from a workspace, as NumPy would give it."""
        recording = space.variant.recording

        def fill(leaf):
            if leaf.__class__ is not Output:
                return leaf
            kept, cells = recording.values[leaf.number], space.outputs[leaf.number]
            if isinstance(kept, np.ndarray):
                return cells.astype(kept.dtype)
            number = cells[()]
            return float(number) if type(kept) is float else kept.dtype.type(number)

        return optree.tree_map(fill, recording.result, none_is_leaf=True, namespace=NAMESPACE)

    def _gradients(self, flat: Flattened, space: Workspace, out=None, copy: bool = True) -> tuple:
        """Return one gradient an argument, None for one that has none."""
        leaves = self._gradient_leaves(flat, space, copy)
        if not self._program.config.friendly_tangents:
            return self.layout_of(flat).ravel([g for g in leaves if g is not None])
        args, kwargs = flat.unflatten(leaves)
        has = {spec.argument for spec in flat.specs if spec.level == ACTIVE}
        grads = tuple(self._friendly(a) if k in has else None for k, a in enumerate(args))
        return grads

    @staticmethod
    def _friendly(tree):
        return tree

    def _gradient_leaves(self, flat: Flattened, space: Workspace, copy: bool) -> list:
        """Return the gradient of each leaf of the arguments, None where there is none."""
        result = []
        views = iter(space.gradients)
        for spec in flat.specs:
            if spec.level == STATIC:
                result.append(None)
                continue
            view = next(views)
            if spec.level != ACTIVE:
                result.append(None)
            elif spec.kind == "array":
                result.append(view.copy() if copy else view)
            else:
                result.append(view[()])
        return result

    def layout_of(self, flat: Flattened) -> Layout:
        pairs = [
            (spec.path, np.shape(leaf))
            for leaf, spec in zip(flat.leaves, flat.specs, strict=True)
            if spec.level == ACTIVE
        ]
        return Layout(tuple(p for p, _ in pairs), tuple(s for _, s in pairs))

    @property
    def layout(self) -> Layout:
        """The layout of flat gradients (``Config(friendly_tangents=False)``)."""
        return self.layout_of(self._program.prepared)

    # ---- looking inside

    @property
    def tape(self):
        """The tape of the last call; ``str(cache.tape)`` is a listing."""
        return self._space.plan.tape

    def guards(self) -> list[dict]:
        """Return one entry a guard: source line, condition, the outcomes seen, and hits.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_gradient_cache(lambda x: x[0] if x[0] > 0 else -x[0], np.ones(1))
        >>> [(guard["kind"], guard["outcomes"]) for guard in cache.guards()]
        [('bool', {True: 1})]
        """
        report: dict[tuple, dict] = {}
        for variant in self._program.variants.values():
            for guard in variant.tape.guards:
                line = variant.tape.lines[guard.position] if guard.position >= 0 else None
                key = (str(line), guard.kind)
                entry = report.setdefault(key, {"line": line, "kind": guard.kind, "outcomes": {}})
                seen = entry["outcomes"]
                seen[guard.outcome] = seen.get(guard.outcome, 0) + variant.hits
        return list(report.values())

    @property
    def traces(self) -> int:
        """How often the function was traced."""
        return self._program.traces

    def __repr__(self) -> str:
        plan, program = self._space.plan, self._program
        specs = ", ".join(
            f"{spec.path}: {np.shape(leaf)} {spec.dtype}"
            for leaf, spec in zip(program.prepared.leaves, program.prepared.specs, strict=True)
            if spec.level != STATIC
        )
        return (
            f"<{type(self).__name__} of {getattr(program.function, '__name__', program.function)!s}: "
            f"mode {self.mode}; {specs}; {len(plan.tape)} instructions ({plan.prologue} on constants "
            f"alone), {len(plan.tape.guards)} guards, {len(program.variants)} variants, "
            f"passes {program.config.passes}; tape {plan.tape.nbytes} bytes, plan {plan.nbytes} bytes, "
            f"workspace {self._space.nbytes} bytes>"
        )


def _call_first(function, *args, **kwargs):
    return function(*args, **kwargs)


def _marked(arg, prepared):
    """Give a bare argument the role that it was prepared with."""
    if isinstance(prepared, Constant) and not isinstance(arg, Constant):
        return Constant(arg, prepared.frozen)
    if isinstance(prepared, Static) and not isinstance(arg, Static):
        return Static(arg)
    return arg


def scalar_output(recording, what: str = "gradient") -> Output | None:
    """Return the one real scalar of a result (None if it is a plain number); else raise.

    Raises
    ------
    OutputError
        For arrays, containers, and results that are no real number.
    """
    result = recording.result
    if result.__class__ is Output:
        value = recording.values[result.number]
        if np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f":
            return result
        if np.ndim(value) == 0:
            raise OutputError(f"the function returned {np.asarray(value).dtype}; a {what} needs a real scalar")
        raise OutputError(
            f"a {what} needs a function that returns one real scalar, got an array of shape "
            f"{np.shape(value)}; perhaps you meant jacobian (or a pullback: nt.vjp)"
        )
    if isinstance(result, (float, np.floating)) or (isinstance(result, int) and not isinstance(result, bool)):
        return None
    if isinstance(result, np.ndarray) and result.ndim == 0 and result.dtype.kind == "f":
        return None
    kind = type(result).__name__
    hint = "; has_aux=True if it returns (value, aux)" if isinstance(result, tuple) else ""
    if isinstance(result, np.ndarray):
        kind, hint = f"an array of shape {result.shape}", "; perhaps you meant jacobian"
    raise OutputError(f"a {what} needs a function that returns one real scalar, got {kind}{hint}")


__all__ = ["Layout", "PreparedCache", "SpecError", "scalar_output"]
