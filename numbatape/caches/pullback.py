"""The pullback cache: value and vector-Jacobian product of any function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..errors import SpecError, StructureError
from ..nested.recorded_derivatives import pullback
from ..programs.arguments import Flattened, as_array
from ..programs.contract import wrong_cache
from ..programs.results import Layout, gradients_of, value_of
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from ..steady_calls.front import Front
from ..steady_calls.leaf_rows import ArrayRow, NumberRow, Row
from ..steady_calls.outs import gradient_outs, result_outs
from ..tape.tape import ACTIVE
from ..threads import one_at_a_time
from ..trace import pytrees
from ..trace.complex_pairs import Pair, halves_of
from . import dense_jacobian as dense
from .delivery import require_switches, write_into
from .derived import Derived
from .jacobian import JacobianCache


class PullbackCache(JacobianCache):
    """A function prepared for `value_and_pullback`; made by `prepare_pullback_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_pullback_cache(np.cumsum, np.ones(3))
    <PullbackCache of cumsum: mode reverse; ...>
    """

    serving = ("_back", "_jacobian")
    by_columns = False

    def _ready(self) -> None:
        super()._ready()
        self._rows = Derived(self._program.function, self._program.config, pullback, lanes=True)
        self._pulling = Front(self._turn, self._pull)

    def _share(self, other) -> None:
        other._rows = self._rows.clone()

    def _assembled(self, flat: Flattened):
        self._space = primal = self._evaluator.forward(flat)
        result, chunk = primal.variant.recording.result, self._program.config.chunk_size
        return self._rows, *dense.reverse(self._rows, flat, primal, result, chunk)[1:]

    def _back(self, args, cotangent):
        """Serve a call of `value_and_pullback` that does not add to former results."""
        return self._pulling.call(*args, cotangent)

    def _adding(self, args, cotangent, args_to_zero):
        """Serve a call that adds to what the last one returned where an argument has False."""
        require_switches(args_to_zero, len(self._given), self._program.config)
        if all(args_to_zero):
            return self._back(args, cotangent)
        if not self._program.config.friendly_tangents:
            if any(args_to_zero):
                raise SpecError("args_to_zero: all arguments stand in one vector (friendly_tangents=False)")
            args_to_zero = (False,)
        return self._back.adding(args_to_zero, args, cotangent)

    @one_at_a_time
    def _pull(self, *given):
        """Serve any pullback, and arrange for the next one like it to be steady."""
        *args, cotangent = given
        args = tuple(args)
        flat = self._flatten(args)
        space = self._evaluator.forward(flat)
        require_numbers(space)
        seed_cotangent(space, cotangent)
        self._reverse(space)
        grads = gradients_of(flat, space)
        if not self._program.config.friendly_tangents:
            return value_of(space), Layout.of(flat).ravel(grads)
        both = value_of(space), grads
        rows = cotangent_rows(space, cotangent)
        if rows is not None:
            outs = result_outs(space, space.variant.recording.result)
            outs += gradient_outs(flat, space, range(flat.count))
            left_out = self._omitted(args)
            self._pulling.learn(
                flat, self._evaluator, space, both, outs, "gradient", left_out, (cotangent,), rows
            )
        return both


def require_numbers(space: VariantWorkspace) -> None:
    """Raise if the function's result is nothing that has a derivative."""
    result = space.variant.recording.result
    pytrees.require_numbers(result, pytrees.leaves(result))


def seed_cotangent(space: VariantWorkspace, cotangent) -> None:
    """Write a cotangent into the seeds of a workspace, checking structure and shapes."""
    recording = space.variant.recording
    leaves, structure = pytrees.flatten(recording.result, lambda leaf: leaf.__class__ is Pair)
    try:
        given: list[Any] = structure.flatten_up_to(cotangent)
    except ValueError as error:
        raise StructureError(f"the cotangent has not the result's structure: {error}") from None
    parts: dict[int, Any] = {}
    for leaf, path, part in zip(leaves, structure.paths(), given, strict=True):
        outputs = [leaf.re, leaf.im] if leaf.__class__ is Pair else [leaf]
        outputs = [output for output in outputs if output.__class__ is Output]
        if not outputs:
            continue
        where = "".join(f"[{k!r}]" for k in path) or "the result"
        expected = space.outputs[outputs[0].number].shape
        if part is not None and part.__class__ is not np.ndarray:
            part = as_array(part, f"the cotangent of {where}")
        if part is None or np.shape(part) != expected:
            got = "None" if part is None else np.shape(part)
            raise SpecError(f"the cotangent of {where} needs shape {expected}, got {got}")
        if np.asarray(part).dtype.kind not in ("fiubc" if leaf.__class__ is Pair else "fiub"):
            raise SpecError(f"the cotangent of {where} has dtype {np.asarray(part).dtype}; it must be real")
        if leaf.__class__ is Pair:
            halves = zip((leaf.re, leaf.im), halves_of(np.asarray(part)), strict=True)
            parts |= {output.number: half for output, half in halves if output.__class__ is Output}
        else:
            parts[leaf.number] = part
    first = 0
    for number, level in enumerate(recording.levels):
        if level == ACTIVE:
            cells = np.size(parts[number])
            space.seed[first : first + cells] = np.ravel(parts[number])
            first += cells


def cotangent_rows(space: VariantWorkspace, cotangent) -> list[Row] | None:
    """Return one row per leaf of a cotangent, in the seeds; None if not all results are real and active."""
    recording = space.variant.recording
    outputs = pytrees.leaves(recording.result)
    given = pytrees.leaves(cotangent)
    if len(outputs) != len(given) or any(
        output.__class__ is not Output or recording.levels[output.number] != ACTIVE for output in outputs
    ):
        return None
    starts, first = {}, 0
    for number, level in enumerate(recording.levels):
        if level == ACTIVE:
            starts[number] = first
            first += space.outputs[number].size
    rows: list[Row] = []
    for output, leaf in zip(outputs, given, strict=True):
        start, cells = starts[output.number], space.outputs[output.number]
        seeds = space.seed[start : start + cells.size].reshape(cells.shape)
        if leaf.__class__ is np.ndarray:
            rows.append(ArrayRow(seeds, leaf.dtype, leaf.shape))
        elif isinstance(leaf, (int, float, np.number)):
            rows.append(NumberRow(seeds, type(leaf)))
        else:
            return None
    return rows


def prepare_pullback_cache(
    f: Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
    include_callable: bool = False,
) -> PullbackCache:
    """Trace a function with any output and return its cache for `value_and_pullback`: reverse mode.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it: as for `prepare_gradient_cache`. Sizes and values may differ in later calls.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`.
    include_callable : bool
        Whether ``f`` is a callable dataclass that holds arrays: its gradient comes first.

    Returns
    -------
    PullbackCache
        To be given to `value_and_pullback`.

    Raises
    ------
    SpecError
        If the arguments cannot be differentiated.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate; the message names the function and the line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_pullback_cache(lambda x: {"square": x**2}, np.zeros(2))
    >>> nt.value_and_pullback(cache, {"square": np.ones(2)}, np.array([1.0, 3.0]))
    ({'square': array([1., 9.])}, (array([2., 6.]),))
    """
    return PullbackCache._prepare(f, args, kwargs, config, include_callable)


def value_and_pullback(
    cache: PullbackCache, ybar: Any, *args: Any, args_to_zero: Any = None, out: Any = None
) -> Any:
    """Return the function's result and the pullback of ``ybar``, one entry for each argument.

    For real functions the pullback is the adjoint of the derivative under the inner product Re⟨a, b⟩.

    Parameters
    ----------
    cache : PullbackCache
        From `prepare_pullback_cache`.
    ybar : array, number, or pytree of them
        The cotangent, of the structure and the shapes of the result.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.
    args_to_zero : sequence of bool, optional
        One entry for each argument; False adds to what the last call returned
        (``Config(reuse_buffers=True)``).
    out : tuple, optional
        Arrays to write the pullback to, one entry for each argument (None to skip it).

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*args)``.
    gradients : tuple
        The cotangents of the arguments, one entry for each, of its structure and shapes; None for constants.

    Raises
    ------
    SpecError
        If the arguments or the cotangent do not fit.
    BusyError
        If another call of the cache is under way.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_pullback_cache(np.cumsum, np.zeros(3))
    >>> nt.value_and_pullback(cache, np.array([0.0, 0.0, 1.0]), np.arange(3.0))[1]
    (array([1., 1., 1.]),)
    """
    if not isinstance(cache, PullbackCache):
        raise wrong_cache(cache, "value_and_pullback", "prepare_pullback_cache")
    if args_to_zero is None and out is None:
        return cache._back(args, ybar)
    if args_to_zero is None:
        value, grads = cache._back(args, ybar)
    else:
        value, grads = cache._adding(args, ybar, args_to_zero)
    return value, grads if out is None else write_into(out, grads, "argument")
