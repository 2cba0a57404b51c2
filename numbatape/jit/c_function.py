"""A C function that threads of other languages call, several at once and without the interpreter's lock.

It takes four words, most of them addresses, and the address of `TABLES`. Sweeps in workspaces compute its
results. A workspace serves one call at a time, so there are many of them, and each belongs to a *seat*. A
call claims a free seat by an atomic instruction; where it begins to look depends on the thread, so that
threads seldom meet. A seat has *paths*: workspaces of several variants of the function. The call writes its
arguments to where the sweep of the first path looks for them, enters the sweep, and goes on with the next
path if a guard stops it. If no path is left, it calls the fallback: a callback of ctypes, which takes the
interpreter's lock, answers in Python, and adds a path to the seat.

Only the call that has claimed a seat changes it and its paths.
"""

from __future__ import annotations

import functools

from .builtin import Builtin

# The caller's pointer refers to one such record for each function of `C_FUNCTIONS`.
TABLES = (
    "seats",  # address of the records of seats
    "fallback",  # address of a function: (number of the seat or -1, the four arguments) → result
)
SEAT = (
    "claimed",  # 1 while a call has the seat
    "first",  # address of the path that is tried first, 0 for none
    "served",  # how many calls there were
    "fallen",  # how many of them the fallback has answered
    *("unused",) * 4,  # a seat is a cache line, so that threads with different seats share none
)
PATH = (
    "frame",  # address of the workspace's frame
    "sweep",  # address of the sweep's entry point
    *("argument_0", "argument_1", "argument_2", "argument_3"),  # addresses that the arguments are written to
    "value",  # address of the float64 that must be finite, 0 for none
    "next",  # address of the path that is tried next, 0 for none
)
ARGUMENTS = 4
SEATS_LOG = 8
SEATS = 1 << SEATS_LOG
WORD = 8  # bytes
DONE, NOT_FINITE = 0, 1  # what the function returns; the fallback may return other numbers
STACK_LOG = 21  # a thread's stack takes 2 MiB or more, so two threads differ in higher bits of its address
SPREAD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: products with it spread consecutive numbers


class _Writer:
    """Writes the IR of ``int64 call(int64, int64, int64, int64, int64 *tables)``: a method for each step."""

    def __init__(self, place: int, symbol: str):
        from llvmlite import ir

        self.i64, self.double = ir.IntType(64), ir.DoubleType()
        self.words = self.i64.as_pointer()
        self.module = ir.Module()
        kind = ir.FunctionType(self.i64, [self.i64] * ARGUMENTS + [self.words])
        function = ir.Function(self.module, kind, symbol)
        *self.arguments, tables = function.args
        self.start, self.look, self.taken, self.none, self.claimed, self.attempt = map(
            function.append_basic_block, ("start", "look", "taken", "none", "claimed", "attempt")
        )
        self.other, self.served, self.stopped = map(
            function.append_basic_block, ("other", "served", "stopped")
        )
        self.builder = ir.IRBuilder(self.start)
        self.table = self.builder.gep(tables, [self.i64(place * len(TABLES))])
        called = ir.FunctionType(self.i64, [self.i64] * (1 + ARGUMENTS)).as_pointer()
        self.fallback = self.builder.bitcast(self._address(self.table, TABLES, "fallback"), called)
        self.sweep = ir.FunctionType(self.i64, [self.i64, self.i64]).as_pointer()

    def text(self) -> str:
        """Return the IR of the module."""
        seat, number = self._claim_a_seat()
        front, path, path_word, before, following = self._try_paths(seat)
        self._answer(seat, front, path, path_word, before, following)
        self._fall_back(seat, number)
        return str(self.module)

    def _claim_a_seat(self):
        """Claim the first free seat from the thread's own one on; return its address and its number."""
        builder, i64 = self.builder, self.i64
        seats = self._address(self.table, TABLES, "seats")
        stack = builder.lshr(builder.ptrtoint(builder.alloca(i64), i64), i64(STACK_LOG))
        own = builder.lshr(builder.mul(stack, i64(SPREAD)), i64(64 - SEATS_LOG))
        builder.branch(self.look)

        builder.position_at_end(self.look)
        tries = builder.phi(i64)
        number = builder.and_(builder.add(own, tries), i64(SEATS - 1))
        seat = builder.gep(seats, [builder.mul(number, i64(len(SEAT)))])
        exchange = builder.cmpxchg(self._field(seat, SEAT, "claimed"), i64(0), i64(1), "acq_rel", "monotonic")
        builder.cbranch(builder.extract_value(exchange, 1), self.claimed, self.taken)

        builder.position_at_end(self.taken)
        more = builder.add(tries, i64(1))
        tries.add_incoming(i64(0), self.start)
        tries.add_incoming(more, self.taken)
        builder.cbranch(builder.icmp_unsigned("<", more, i64(SEATS)), self.look, self.none)

        builder.position_at_end(self.none)
        builder.ret(builder.call(self.fallback, [i64(-1), *self.arguments]))
        return seat, number

    def _try_paths(self, seat):
        """Enter the sweeps of the seat's paths, until none of a path's guards stops its sweep.

        Returns
        -------
        tuple
            The word of the first path; the path that served as an address and as a word; the words of the
            path that was tried before it and of the one that comes next.
        """
        builder, i64 = self.builder, self.i64
        builder.position_at_end(self.claimed)
        front = builder.load(self._field(seat, SEAT, "first"))
        builder.cbranch(self._is_set(front), self.attempt, self.stopped)

        builder.position_at_end(self.attempt)
        path_word, before = builder.phi(i64), builder.phi(i64)
        path = builder.inttoptr(path_word, self.words)
        for k, argument in enumerate(self.arguments):
            builder.store(argument, self._address(path, PATH, f"argument_{k}"))
        sweep = builder.bitcast(self._address(path, PATH, "sweep"), self.sweep)
        outcome = builder.call(sweep, [builder.load(self._field(path, PATH, "frame")), i64(0)])
        following = builder.load(self._field(path, PATH, "next"))
        builder.cbranch(self._is_set(outcome), self.other, self.served)

        builder.position_at_end(self.other)
        path_word.add_incoming(front, self.claimed)
        path_word.add_incoming(following, self.other)
        before.add_incoming(i64(0), self.claimed)
        before.add_incoming(path_word, self.other)
        builder.cbranch(self._is_set(following), self.attempt, self.stopped)
        return front, path, path_word, before, following

    def _answer(self, seat, front, path, path_word, before, following) -> None:
        """Let the next call try the path that served first, and return whether the value is finite."""
        builder, i64 = self.builder, self.i64
        builder.position_at_end(self.served)
        with builder.if_then(self._is_set(before)):
            builder.store(following, self._field(builder.inttoptr(before, self.words), PATH, "next"))
            builder.store(front, self._field(path, PATH, "next"))
            builder.store(path_word, self._field(seat, SEAT, "first"))
        place_of_value = self._address(path, PATH, "value")
        with builder.if_then(self._is_set(builder.ptrtoint(place_of_value, i64))):
            value = builder.load(builder.bitcast(place_of_value, self.double.as_pointer()))
            # The difference is NaN for an infinite value, and NaN does not equal zero.
            finite = builder.fcmp_ordered("==", builder.fsub(value, value), self.double(0.0))
            with builder.if_then(builder.not_(finite)):
                self._leave(seat, i64(NOT_FINITE))
        self._leave(seat, i64(DONE))

    def _fall_back(self, seat, number) -> None:
        """Return what the fallback answers, because no path of the seat has served."""
        self.builder.position_at_end(self.stopped)
        self._count(seat, "fallen")
        self._leave(seat, self.builder.call(self.fallback, [number, *self.arguments]))

    def _leave(self, seat, result) -> None:
        """Give the seat back and return."""
        self._count(seat, "served")
        claimed = self._field(seat, SEAT, "claimed")
        self.builder.store_atomic(self.i64(0), claimed, "release", WORD)
        self.builder.ret(result)

    def _count(self, seat, name: str) -> None:
        counter = self._field(seat, SEAT, name)
        self.builder.store(self.builder.add(self.builder.load(counter), self.i64(1)), counter)

    def _field(self, record, fields: tuple, name: str):
        """Return the address of a field of a record."""
        return self.builder.gep(record, [self.i64(fields.index(name))])

    def _address(self, record, fields: tuple, name: str):
        """Return what a field holds, as an address of words."""
        return self.builder.inttoptr(self.builder.load(self._field(record, fields, name)), self.words)

    def _is_set(self, word):
        return self.builder.icmp_unsigned("!=", word, self.i64(0))


def _module_text(place: int, symbol: str) -> str:
    return _Writer(place, symbol).text()


# Two functions that one pointer serves: each reads a record of its own there.
C_FUNCTIONS = tuple(
    Builtin(f"c_function_{place}", functools.partial(_module_text, place), ()) for place in range(2)
)
