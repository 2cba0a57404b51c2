"""Rules written by the user, as sweeps call them.

The kernel of a ``call`` instruction calls a function pointer. No sweep stops for it, so that every way of
running a sweep (steady calls, bound callables, lanes) works for tapes with rules, too. The table behind
``CALLS`` has a row for each call on the tape:

* a rule compiled by Numba is called directly, without interpreter and lock; its row has the address of the
  C function and of the call's ``state`` (`numbatape.jit.rules`);
* any other rule is called by ctypes. `Calls` turns what the kernel writes into views of cells, once for each
  place on the plan: a call site, and in lanes each lane, has an instance of its rule with memory of its own.

An exception cannot pass through compiled code. So it is kept, the sweep returns ``status.CALL`` (a reverse
sweep goes on, but calls no more rules), and `Workspace` raises it. A compiled rule only reports that it
failed: the call is made again in Python, where it raises.
"""

from __future__ import annotations

import collections
import ctypes
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..jit import address
from ..jit.call_words import (
    CALL_COPY,
    CALL_FAILED,
    CALL_NUMBER,
    CALL_RAISED,
    CALL_STATUS,
    CALL_WORDS,
)
from ..late import imported
from ..ops import ROWS, status
from ..tape.instruction import GUARD
from ..tape.loop import Branches, Loop
from ..tape.tape import F64, FAMILY_DTYPE
from .called import Instance, MovableInstance
from .compiled_calls import CompiledCall
from .frame import WORD
from .loops.branch_runs import BranchRun, make_run
from .loops.loop_instance import LoopInstance
from .loops.loop_lanes import lanes_of
from .loops.loop_runs import LoopRun

if TYPE_CHECKING:
    from .moving.moving_calls import MovingCall
    from .moving.moving_spaces import MovingSpace

FEW = 256  # calls of bodies that may have a workspace each: about as much memory as reverse sweeps keep
FIRST_MOVES = 2  # how often more calls may be made anew than they followed new sizes before they share memory
POINTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def _pointer(its: Callable[[], Calls | None], method: Callable[[Calls], int]):
    """Return the pointer that kernels call; it refers weakly to the calls, which keep it."""
    return POINTER(lambda _words, _state: method(its()))


class Calls:
    """One workspace's instances of the rules on its tape.

    Parameters
    ----------
    plan
        Whose tape has calls.
    v, g
        Value and adjoint cells by family.
    workspace
        Makes the workspace of a loop's body.
    native
        Whether compiled rules, and loops, are called directly; else Python calls them.
    """

    def __init__(self, plan, v, g, workspace: Callable, native: bool = True):
        self._make = workspace
        self._runs: dict[tuple, LoopRun | BranchRun] = {}  # the first calls of bodies that run once
        # For the id of a plan, the workspace that all calls of bodies that run once share.
        self._shared: dict[int, tuple] = {}
        self._calls = plan.tape.calls
        self._loops: dict[int, LoopRun | BranchRun] = {}
        self._compiled: dict[int, CompiledCall] = {}
        self._in_lanes = False  # whether an instruction with lanes calls a loop
        # By where all cells are: tapes for forward sweeps use those of results again.
        self._instances: dict[bytes, Instance] = {}
        # For each call's number, its latest instance, and the sizes that it is for.
        self._latest: dict[int, tuple[int, MovableInstance]] = {}
        self.words = np.zeros(CALL_WORDS, np.int64)
        self._at_words = memoryview(self.words)  # single words are read in half of the time
        self.raised = np.zeros(1, np.int64)  # replaced by the frame's word
        self.error: BaseException | None = None
        its, methods = weakref.ref(self), (Calls.forward, Calls.reverse, Calls.reverse_all)
        self._pointers = tuple([_pointer(its, method) for method in methods])
        addresses = [ctypes.cast(pointer, ctypes.c_void_p).value for pointer in self._pointers]
        self._in_python = np.array([[*addresses, k] for k in range(len(self._calls))], np.int64)
        self._table = self._in_python.copy()
        self._native = tuple(self._instructions(plan, v)) if native else ()
        self._apart = False  # whether no two calls share a workspace
        self._remade = 0  # how often sizes changed with new loops
        self.moving: list[MovingCall] = []
        self._space: MovingSpace | None = None  # what lets this follow sizes, and how often it had done so
        self._moves = 0
        self._begin(plan, v, g)

    def remake(self, plan, v, g) -> None:
        """Serve another plan of the same tape, with these cells; the instances are new ones.

        Where sizes change, a few calls of one body get workspaces of their own, which can move: one that
        calls share would have to be made anew, because they may be of other sizes. Bodies that cannot move
        are made faster where calls share them.
        """
        self._remade += 1
        moves = 0 if self._space is None else self._space.moves
        can_move = not self._in_lanes and self._remade <= moves + FIRST_MOVES
        self._apart = can_move and len(self._native) <= FEW
        self._begin(plan, v, g)

    def _begin(self, plan, v, g) -> None:
        self._adopt(plan)
        self._cells, self._active = (v, g), plan.active
        for known in (self._instances, self._latest, self._runs, self._shared, self._loops, self._compiled):
            known.clear()
        self._table[...] = self._in_python
        for number, instruction in self._native:
            self._make_native(plan, number, instruction)
        runs = [run for call in self._loops.values() for run in call.runs]
        users = collections.Counter(id(run.space) for run in runs)
        for run in runs:
            run.alone = run.alone and users[id(run.space)] == 1

    def _adopt(self, plan) -> None:
        self._plan, self._sizes = plan, memoryview(plan.sizes)

    def _size(self, code: int) -> int:
        """Return the value of a size code in the present plan."""
        return code if code >= 0 else self._sizes[-code - 1]

    def let_follow(self, space: MovingSpace) -> bool:
        """Let the kernel of `numbatape.engine.moving.moving_kernels` move the calls to the sizes of a space.

        Returns whether all of them can follow sizes.
        """
        self._space, self._moves, self._cells = space, space.moves, (space.v, space.g)
        self._adopt(space.plan)
        loops, rules = self._loops.values(), self._compiled.values()
        if self._in_lanes or any(run.in_lanes for run in loops) or not all(rule.follows for rule in rules):
            self.moving = []
            return False
        # Sizes change in few processes.
        moving_call = imported(".moving.moving_calls", __package__).moving_call
        self.moving = [moving_call(its) for its in (*loops, *rules)]
        return True

    @property
    def failure_words(self) -> tuple[int, int]:
        """The addresses of the words that say that a call failed."""
        return address(self.raised), address(self.words) + self.words.itemsize * CALL_FAILED

    def _catch_up(self, space: MovingSpace) -> None:
        """Forget the instances for other sizes: they have views of other cells."""
        self._moves, self._active = space.moves, space.active
        for known in (self._instances, self._runs, self._shared):
            known.clear()

    def _instructions(self, plan, v) -> Iterator[tuple[int, int]]:
        """Yield (number of a call, its instruction) of calls that one instruction makes.

        The verifier has proved that the numbers are literals, which are in the cells by now.
        """
        code = plan.tape.code
        found: dict[int, list[int]] = {}
        calls = (code["op"] != GUARD) & np.isin(code["op"] >> 1, list(ROWS.with_trait("calls")))
        for k in np.flatnonzero(calls).tolist():
            family, cell = plan.cell(int(code["c"][k]))
            found.setdefault(int(v[family][cell]), []).append(k)
        for number, places in found.items():
            if len(places) == 1:
                yield number, places[0]

    def _make_native(self, plan, number: int, instruction: int) -> None:
        """Let a call go to compiled code where its rule is compiled."""
        call, row = self._calls[number], plan.tape.code[instruction]
        if isinstance(call, (Loop, Branches)):
            self._make_loop(plan, number, row)
            return
        native = call.native(plan.size, bool(row["active"] & 1))
        operands = [int(row[name]) for name in "ab"]
        if native is None or any(plan.shape(x)[-1] > 1 and plan.strides(x)[-1] != 1 for x in operands):
            return
        # The place of a lane in a result that is not dense says which memory the lane has.
        if not plan.is_dense(int(row["out"])):
            return
        layouts, tape = plan.tape.values["layout"], plan.tape
        in_order = all(tape.layouts[layouts[x]].strides[-1] == 1 for x in (*operands, row["out"]))
        made = CompiledCall(native, plan, int(row["out"]), in_order, self._size)
        self._compiled[number] = made
        made.place(plan, self._cells, self._active)
        made.write_to(self._table[number])

    def _make_loop(self, plan, number: int, row) -> None:
        """Let a call go to the kernels of loops."""
        out, tape = int(row["out"]), plan.tape
        lanes = int(np.prod(plan.shape(out)[:-1]))
        reverse = bool(row["active"] & 1) and not plan.tape.forward
        together = None
        if isinstance(self._calls[number], Loop) and not reverse:
            together = lanes_of(self._calls[number], plan, row)
        run = self._loops[number] = self._run(number, reverse, lanes > 1, together)
        # One lane follows sizes as it is, while several lanes have to be made anew.
        batch = tape.layout_of(out).dims[:-1]
        self._in_lanes = self._in_lanes or any(dim != 1 for dim in batch)
        run.place(*self._bases())
        self._table[number] = run.forward, run.back, run.back, address(run.state)

    def _bases(self) -> tuple[int, int]:
        """Return the addresses from which the words of an instruction count cells and adjoints."""
        v, g = (address(cells[F64]) for cells in self._cells)
        first, _ = self._active[F64]
        return v, g - FAMILY_DTYPE[F64].itemsize * first

    def _run(self, number: int, reverse: bool, again: bool, lanes=None) -> LoopRun | BranchRun:
        plan, call = self._plan, self._calls[number]
        if self._apart or (not isinstance(call, Branches) and not call.runs_once):
            return make_run(call, self._size, plan.values, self._make, reverse, again, lanes=lanes)
        key = id(call), reverse, again, lanes and (lanes.count, lanes.steps, lanes.ports)
        first = self._runs.get(key)
        if first is not None:  # a call like this one has its tables already
            return first.again(lanes)
        made = make_run(call, self._size, plan.values, self._shared_workspace, reverse, again, lanes=lanes)
        self._runs[key] = made
        return made

    def _shared_workspace(self, plan):
        """Return the workspace of a body that runs once: all calls of it take turns in the same cells."""
        found = self._shared.get(id(plan))
        if found is None:
            found = self._shared[id(plan)] = plan, self._make(plan)
        return found[1]

    def into(self, frame: np.ndarray) -> Calls:
        """Write the frame's words about calls."""
        frame[WORD["CALLS"]] = address(self._table)
        frame[WORD["CALL"]] = address(self.words)
        self.raised = frame[WORD["RAISED"] : WORD["RAISED"] + 1]
        self.words[CALL_RAISED], self.words[CALL_STATUS] = address(self.raised), status.CALL
        return self

    def begin(self) -> None:
        """Forget what an earlier sweep raised, but raise an interrupt: the steady call before could not."""
        if self.error is None and not (self.raised.item() or self.words.item(CALL_FAILED)):
            return  # nearly all sweeps end here
        signal = self.interrupt()
        if signal is not None:
            raise signal

    def interrupt(self) -> BaseException | None:
        """Forget what was raised, in loops too; return it if a signal's handler raised it."""
        (error, self.error), failed = (self.error, None), self.words.item(CALL_FAILED)
        self.raised[0], self.words[CALL_FAILED] = status.DONE, 0
        if error is not None and not isinstance(error, Exception):
            return error
        number = self.words.item(CALL_COPY + CALL_NUMBER)
        return self._loops[number].interrupt() if failed and number in self._loops else None

    @property
    def work(self) -> int:
        """About how much work the loops are, in the unit of `numbatape.engine.segments`."""
        return sum(run.work for run in self._loops.values())

    @property
    def nbytes(self) -> int:
        """The bytes of what bodies and compiled rules compute with."""
        runs = [run for call in self._loops.values() for run in call.runs]
        spaces = {id(space): space for run in runs for space in run.spaces}
        parts = (*spaces.values(), *runs, *self._compiled.values())
        return sum(part.nbytes for part in parts)

    def end(self) -> None:
        """Raise what a rule raised in the sweep that has ended."""
        failed = int(self.words[CALL_FAILED])
        if self.error is None and not failed:
            return
        error, self.error = self.error, None
        self.raised[0], self.words[CALL_FAILED] = status.DONE, 0
        if error is None:
            error = self._again(failed > 1)
        raise error

    def _again(self, back: bool) -> BaseException:
        """Make the call of a compiled rule that failed again, in Python; return what it raises."""
        self.words[: CALL_NUMBER + 1] = self.words[CALL_COPY : CALL_COPY + CALL_NUMBER + 1]
        number = int(self.words[CALL_NUMBER])
        if number in self._loops:
            _, _, a, n, step_a, b, p, step_b = self.words[:CALL_NUMBER].tolist()
            return self._loops[number].error((self._view(F64, a, n, step_a), self._view(F64, b, p, step_b)))
        try:
            instance = self._instance()
            instance.forward()  # the pullback reads what the value leaves in the rule's memory
            if back:
                instance.reverse(False)
        except BaseException as error:
            self._calls[number].explain(error)
            return error
        return RuntimeError(f"{self._calls[number]!r} raised when it was compiled, and did not in Python")

    def forward(self, _words=0, _state=0) -> int:
        """Compute the result of the call that the words tell; return a status."""
        if self.error is not None:
            return status.CALL
        try:
            self._instance().forward()
        except BaseException as error:
            return self._failed(error)
        return status.DONE

    def reverse(self, _words=0, _state=0, rest_needed: bool = False) -> int:
        """Add to the adjoints of a call's arguments; return a status."""
        if self.error is not None:
            return status.CALL
        try:
            self._instance().reverse(rest_needed)
        except BaseException as error:
            return self._failed(error)
        return status.DONE

    def reverse_all(self, _words=0, _state=0) -> int:
        """Do what `reverse` does, where arguments take an adjoint that the pullback does not compute."""
        return self.reverse(rest_needed=True)

    def _instance(self) -> Instance:
        """Return the instance of the call that the words tell."""
        space = self._space
        if space is not None and space.moves != self._moves:
            self._catch_up(space)
        place = self._at_words[: CALL_NUMBER + 1].tobytes()
        return self._instances.get(place) or self._instances.setdefault(place, self._placed())

    def _failed(self, error: BaseException) -> int:
        self._calls[self.words.item(CALL_NUMBER)].explain(error)
        self.error = error
        self.raised[0] = status.CALL
        return status.CALL

    def _placed(self) -> Instance:
        """Return a new instance of the call whose kernel has just written where its operands are."""
        *cells, number = self._at_words[: CALL_NUMBER + 1].tolist()
        call, found = self._calls[number], self._latest.get(number)
        views = self._views(call.family, *cells)
        if isinstance(call, (Loop, Branches)):
            reverse = not self._plan.tape.forward
            return LoopInstance(self._run(number, reverse, again=True), *views)
        # This is the first call, or the one found belongs to another lane of this sweep.
        if found is None or found[0] == self._moves:
            movable = call.place(self._size, *views)
        else:
            movable = found[1]
            movable.move(self._size, *views)
        self._latest[number] = self._moves, movable
        return movable

    def _views(self, family: int, out: int, m: int, a: int, n: int, step_a: int, b: int, p: int, step_b: int):
        """Return the cells of a call's result and operands, and the adjoints of result and first operand."""
        if not (m and n) or step_a != 1 or step_b != 1:
            return (
                self._view(family, out, m, 1),
                self._view(family, a, n, step_a),
                self._view(family, b, p, step_b),
                self._view(family, out, m, 1, adjoint=True),
                self._view(family, a, n, step_a, adjoint=True),
            )
        cells, adjoints = self._cells[0][family], self._cells[1][family]
        start, count = self._active[family]
        y, x = out - start, a - start
        return (  # what `_view` returns, in a third of the time: this is done for each new length
            cells[out : out + m],
            cells[a : a + n],
            cells[b : b + p],
            adjoints[y : y + m] if 0 <= y < count else None,
            adjoints[x : x + n] if 0 <= x < count else None,
        )

    def _view(self, family: int, first: int, size: int, step: int, adjoint: bool = False):
        """Return cells as a one-dimensional array; None for adjoints that do not exist."""
        if size == 0:
            return np.zeros(0, FAMILY_DTYPE[family])
        if adjoint:
            start, count = self._active[family]
            first -= start
            if not 0 <= first < count:
                return None
        cells = self._cells[adjoint][family]
        if step == 1:  # slices are made in a third of the time
            return cells[first : first + size]
        dtype = FAMILY_DTYPE[family]
        return np.ndarray((size,), dtype, cells, first * dtype.itemsize, (step * dtype.itemsize,))
