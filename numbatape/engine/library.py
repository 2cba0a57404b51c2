"""The library of kernels: the texts of all that a plan can ask for, and how to have them ready in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from .. import jit
from ..derive.walk_memory import walk_source
from ..jit.release import FUNCTIONS
from ..ops import OPS, Elementwise
from ..stalls import COMPILING
from ..tape.column_scans import scan_source
from .chain import sweep_source
from .codegen import kernel_source
from .continued_kernels import continued_source
from .kernels import kernel_name
from .loops.loop_kernels import body_source, loop_source
from .moving.moving_source import moving_source
from .strips.strip_kernels import block_source, strip_source
from .strips.strip_replan_kernels import moves_source
from .vectors import PAIR_OPCODES, SINGLE_OPCODES
from .verify_plan import plan_source

DTYPES = ("f64", "f32")
VALUES = ("fast", "numpy")


def texts(dtypes: Sequence[str] = DTYPES, values: Sequence[str] = VALUES) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every kernel: sweeps, loops, freezing, planning, walks of derivatives, ops.

    Functions that several of them share come before the first one that calls them.

    Parameters
    ----------
    dtypes
        "f64", "f32": the dtypes of the ops' results.
    values
        "fast", "numpy": as in `Config`. The elementwise ops of the latter have other forward kernels.

    Raises
    ------
    ValueError
        If a dtype or a choice of values is unknown.
    """
    for name, given, known in (("dtypes", dtypes, DTYPES), ("values", values, VALUES)):
        if isinstance(given, str) or not set(given) <= set(known):
            raise ValueError(f"{name}={given!r}: must be a sequence of names out of {', '.join(known)}")
    seen = set()
    for kernel in _texts(dtypes, values):
        for each in (*jit.shared_modules(kernel[1]), kernel):
            if each not in seen:
                seen.add(each)
                yield each


def _texts(dtypes: Sequence[str], values: Sequence[str]) -> Iterator[tuple[str, str]]:
    families = [DTYPES.index(dtype) for dtype in dtypes]
    yield "sweeps", sweep_source("forward")
    yield "sweeps-reverse", sweep_source("reverse")
    yield "plan", plan_source("plan")
    yield "replan", plan_source("replan")
    yield "scans", scan_source()
    yield "loops", loop_source()
    yield "bodies", body_source()
    yield "strips", strip_source()
    for (_, _, family), opcode in SINGLE_OPCODES.items():
        if family in families:
            yield block_source(opcode)
    if "f64" in dtypes and "fast" in values:
        yield from map(block_source, PAIR_OPCODES.values())
    yield "moves", moves_source()
    yield "moving", moving_source()
    yield "continued", continued_source()
    yield "walk", walk_source()
    for choice in values:
        for row, op in enumerate(OPS):
            if choice == "fast" and isinstance(op, Elementwise) and op.python:
                continue  # only the other choice of values has this op
            for number in (2 * row + family for family in families):
                for direction in ("forward", "reverse") if op.differentiable else ("forward",):
                    text = kernel_source(number >> 1, number & 1, direction, choice)
                    yield kernel_name(number, direction), text


def warmup(
    dtypes: Sequence[str] = ("f64",),
    values: Sequence[str] = ("fast",),
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Compile (or load) all kernels and builtins, so that no later call waits for the compiler.

    Parameters
    ----------
    dtypes : sequence of {"f64", "f32"}
        The dtypes whose kernels are compiled.
    values : sequence of {"fast", "numpy"}
        The choices of ``Config(values=...)`` whose kernels are compiled.
    progress : callable, optional
        Called with the number of kernels that are ready and the number of all, after each of them.

    Returns
    -------
    list of str
        Names of the kernels that are ready.

    Raises
    ------
    ValueError
        If a dtype is neither "f64" nor "f32", or a choice of values neither "fast" nor "numpy".

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.warmup(dtypes=())[:6]
    ['audit', 'bodies', 'builtin', 'c_function_0', 'c_function_1', 'continued']
    """
    wanted: list[tuple[str, Callable[[], object]]] = [
        (name, partial(jit.load, name, text, optimised=True)) for name, text in texts(dtypes, values)
    ]
    wanted += ((function.name, function.address) for function in FUNCTIONS)
    with COMPILING.piece("warmup", quiet=progress is not None):
        for done, (_, ready) in enumerate(wanted, 1):
            # Where LLVM emits nothing, kernels are interpreted, and Python does what builtins would do.
            with suppress(jit.CannotEmit):
                ready()
            if progress is not None:
                progress(done, len(wanted))
    return sorted({name for name, _ in wanted})
