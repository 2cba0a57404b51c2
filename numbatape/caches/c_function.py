"""A prepared cache as a C function, for samplers and other programs whose threads call one.

`numbatape.jit.c_function` says how the function works. This file makes what it reads: a seat is a clone of
the cache, and a path is a workspace of that clone. Its sweep reads the vector from the caller's memory and
writes the results there (as that of a bound callable, whose memory is always the same).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import threads
from ..engine import kernels
from ..engine.frame import WORD
from ..engine.placement import aligned
from ..jit import CannotEmit
from ..jit.c_function import ARGUMENTS, C_FUNCTIONS, DONE, NOT_FINITE, PATH, SEAT, SEATS
from ..programs.results import scalar_output, value_of
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from .base import PreparedCache
from .gradient import value_and_gradient

# A seat keeps this many paths. A call that none of them serves has run a part of each sweep for nothing.
MOST_PATHS = 8
FALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * (1 + ARGUMENTS))
WITHOUT_SEAT = -1


class Seat:
    """The memory of one call at a time.

    Attributes
    ----------
    cache
        A clone, which serves the calls that no path serves.
    paths
        The workspaces that the C function tries.
    alive
        What the paths' records refer to by address.
    """

    def __init__(self, cache: PreparedCache):
        self.cache = cache
        self.paths: list[VariantWorkspace] = []
        self.alive: list = []


class CFunction:
    """A C function that computes what a cache does; any number of threads may call it at once.

    A call that leaves all known paths of the function is answered in Python, where the function may be traced
    again. What the function captures is compared then, and when the first call of a thread comes.

    Parameters
    ----------
    cache
        Of a function of a float64 vector and of constants.
    constants
        These constants. They must stay what they are as long as the C function is used.
    failed
        Called with an exception of the function's; returns the number that the C function returns then.

    Attributes
    ----------
    address
        Of the function.
    table
        Its record at the caller's pointer.
    """

    place: int  # where the record of a path is, behind the caller's pointer
    sweep: str  # the entry point of a path
    vector: int  # which argument is the address of the vector
    results: tuple[int, ...]  # which arguments are the addresses of the results
    finite: bool  # whether the last result has to be finite

    def __init__(
        self, cache: PreparedCache, constants: Sequence[Any], failed: Callable[[BaseException], int]
    ):
        self._cache, self._constants, self._failed = cache, tuple(constants), failed
        self._size = cache._prepared.leaves[0].size
        self._seats: dict[int, Seat] = {}
        self._lock = threads.survives_fork(threading.RLock())
        self._unread = np.zeros(1, np.int64)  # arguments that no sweep reads are written here
        self._records = aligned(SEATS * len(SEAT), np.int64).reshape(SEATS, len(SEAT))
        # The callback refers to this object, which refers to it: a cycle that the garbage collector frees.
        self._fallback: Any = FALLBACK(self._answered)
        fallback = ctypes.cast(self._fallback, ctypes.c_void_p).value
        self.table = np.array([self._records.ctypes.data, fallback], np.int64)
        try:
            self.address = C_FUNCTIONS[self.place].address()
        except CannotEmit:  # Python interprets all kernels on such a machine
            self._fallback = FALLBACK(lambda *words: self._answered(WITHOUT_SEAT, *words[:ARGUMENTS]))
            self.address = ctypes.cast(self._fallback, ctypes.c_void_p).value or 0

    @property
    def served(self) -> int:
        """How many calls there were."""
        return int(self._records[:, SEAT.index("served")].sum())

    @property
    def fallen(self) -> int:
        """How many of them Python has answered."""
        return int(self._records[:, SEAT.index("fallen")].sum())

    def _called(self, cache, x: np.ndarray) -> tuple[Sequence[Any], VariantWorkspace]:
        """Return the results of a call in Python, and the workspace of the last one that was not steady."""
        raise NotImplementedError

    def _views(self, space: VariantWorkspace) -> list[np.ndarray]:
        """Return the cells of the results."""
        raise NotImplementedError

    def _answered(self, number: int, *words: int) -> int:
        """Serve a call for the C function; ``number`` is that of its seat."""
        try:
            with np.errstate(all="ignore"):  # compiled sweeps give no warnings either
                if number != WITHOUT_SEAT:
                    return self._answer(number, words)
                with self._lock:  # all calls without a seat share one clone
                    return self._answer(number, words)
        except BaseException as error:
            # An exception cannot pass through the caller, which is not written in Python.
            return self._failed(error)

    def _answer(self, number: int, words: Sequence[int]) -> int:
        if number not in self._seats:
            with self._lock:
                self._seats[number] = Seat(self._cache.clone())
        seat = self._seats[number]
        x = np.array((ctypes.c_double * self._size).from_address(words[self.vector]))
        results, space = self._called(seat.cache, x)
        for at, result in zip(self.results, results, strict=True):
            array = np.ascontiguousarray(result, float)
            ctypes.memmove(words[at], array.ctypes.data, array.nbytes)
        if number != WITHOUT_SEAT and self._may_be_path(seat, space):
            self._add_path(seat, number, space)
        return NOT_FINITE if self.finite and not np.isfinite(results[-1]) else DONE

    def _may_be_path(self, seat: Seat, space: VariantWorkspace) -> bool:
        """Whether the C function may try a workspace from now on."""
        return (
            len(seat.paths) < MOST_PATHS
            and not any(space is known for known in seat.paths)
            and space.segments is None
            and not space.variant.is_more_than_sweeps
            and not self._cache._program.config.debug_mode
        )

    def _add_path(self, seat: Seat, number: int, space: VariantWorkspace) -> None:
        """Let the C function try a workspace before a seat's other paths, while its caller has the seat."""
        cells, views = space.inputs[0], self._views(space)
        if not all(view.dtype == float and view.flags.c_contiguous for view in views):
            return
        copies_in = np.array([(cells.ctypes.data, 0, cells.nbytes)], np.int64)
        copies_out = np.array([(0, view.ctypes.data, view.nbytes) for view in views], np.int64)
        for name, rows in (("COPY_IN", copies_in), ("COPY_OUT", copies_out)):
            space.frame[WORD[name]] = rows.ctypes.data
            space.frame[WORD[f"{name}_COUNT"]] = len(rows)
        # The C function writes the addresses that it gets to where the copies' addresses stand.
        writes = {self.vector: copies_in[0, 1:]}
        writes |= {at: row for at, row in zip(self.results, copies_out, strict=True)}
        first = self._records[number, SEAT.index("first") :]
        fields = {
            "frame": space.address,
            "sweep": kernels.sweep_address(space.entry_point(self.sweep)),
            "value": views[-1].ctypes.data if self.finite else 0,
            "next": first[0],
            **{f"argument_{k}": writes.get(k, self._unread).ctypes.data for k in range(ARGUMENTS)},
        }
        record = np.array([fields[name] for name in PATH], np.int64)
        seat.paths.append(space)
        seat.alive.append((record, copies_in, copies_out, views))
        first[0] = record.ctypes.data


class CGradient(CFunction):
    """``int64 f(size, double *x, double *gradient, double *value, words)`` of a gradient cache.

    It returns 1 where the value is not finite.
    """

    place, sweep = 0, "bound"
    vector, results, finite = 1, (2, 3), True

    def _called(self, cache, x):
        value, (gradient, *_) = value_and_gradient(cache, x, *self._constants)
        return (gradient, value), cache._space

    def _views(self, space):
        output = scalar_output(space.variant.recording)
        value = np.array(float(value_of(space))) if output is None else space.outputs[output.number]
        return [space.gradients[0], value]


class CValue(CFunction):
    """``int64 f(size, count, double *x, double *result, words)`` of a function whose result is an array."""

    place, sweep = 1, "bound_value"
    vector, results, finite = 2, (3,), False

    def _called(self, cache, x):
        space = cache._evaluator.forward(cache._flatten((x, *self._constants)))
        return (value_of(space),), space

    def _views(self, space):
        result = space.variant.recording.result
        return [space.outputs[result.number] if result.__class__ is Output else np.array(result, float)]
