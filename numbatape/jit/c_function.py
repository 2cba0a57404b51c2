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


def _module_text(place: int, symbol: str) -> str:
    """Return the IR of ``int64 call(int64, int64, int64, int64, int64 *tables)``."""
    from llvmlite import ir

    i64, double = ir.IntType(64), ir.DoubleType()
    words = i64.as_pointer()
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(i64, [i64] * ARGUMENTS + [words]), symbol)
    *arguments, tables = function.args
    names = ("start", "look", "taken", "none", "claimed", "attempt", "other", "served", "stopped")
    start, look, taken, none, claimed, attempt, other, served, stopped = map(
        function.append_basic_block, names
    )
    builder = ir.IRBuilder(start)

    def field(record, fields: tuple, name: str):
        """Return the address of a field of a record."""
        return builder.gep(record, [i64(fields.index(name))])

    def address(record, fields: tuple, name: str):
        """Return what a field holds, as an address of words."""
        return builder.inttoptr(builder.load(field(record, fields, name)), words)

    def is_set(word):
        return builder.icmp_unsigned("!=", word, i64(0))

    def count(name: str) -> None:
        counter = field(seat, SEAT, name)
        builder.store(builder.add(builder.load(counter), i64(1)), counter)

    def leave(result) -> None:
        """Give the seat back and return."""
        count("served")
        builder.store_atomic(i64(0), field(seat, SEAT, "claimed"), "release", WORD)
        builder.ret(result)

    table = builder.gep(tables, [i64(place * len(TABLES))])
    seats = address(table, TABLES, "seats")
    kind = ir.FunctionType(i64, [i64] * (1 + ARGUMENTS)).as_pointer()
    fallback = builder.bitcast(address(table, TABLES, "fallback"), kind)
    stack = builder.lshr(builder.ptrtoint(builder.alloca(i64), i64), i64(STACK_LOG))
    own = builder.lshr(builder.mul(stack, i64(SPREAD)), i64(64 - SEATS_LOG))
    builder.branch(look)

    builder.position_at_end(look)
    tries = builder.phi(i64)
    number = builder.and_(builder.add(own, tries), i64(SEATS - 1))
    seat = builder.gep(seats, [builder.mul(number, i64(len(SEAT)))])
    exchange = builder.cmpxchg(field(seat, SEAT, "claimed"), i64(0), i64(1), "acq_rel", "monotonic")
    builder.cbranch(builder.extract_value(exchange, 1), claimed, taken)

    builder.position_at_end(taken)
    more = builder.add(tries, i64(1))
    tries.add_incoming(i64(0), start)
    tries.add_incoming(more, taken)
    builder.cbranch(builder.icmp_unsigned("<", more, i64(SEATS)), look, none)

    builder.position_at_end(none)
    builder.ret(builder.call(fallback, [i64(-1), *arguments]))

    builder.position_at_end(claimed)
    front = builder.load(field(seat, SEAT, "first"))
    builder.cbranch(is_set(front), attempt, stopped)

    builder.position_at_end(attempt)
    number_of_path, before = builder.phi(i64), builder.phi(i64)
    path = builder.inttoptr(number_of_path, words)
    for k, argument in enumerate(arguments):
        builder.store(argument, address(path, PATH, f"argument_{k}"))
    sweep = builder.bitcast(address(path, PATH, "sweep"), ir.FunctionType(i64, [i64, i64]).as_pointer())
    outcome = builder.call(sweep, [builder.load(field(path, PATH, "frame")), i64(0)])
    following = builder.load(field(path, PATH, "next"))
    builder.cbranch(is_set(outcome), other, served)

    builder.position_at_end(other)
    number_of_path.add_incoming(front, claimed)
    number_of_path.add_incoming(following, other)
    before.add_incoming(i64(0), claimed)
    before.add_incoming(number_of_path, other)
    builder.cbranch(is_set(following), attempt, stopped)

    builder.position_at_end(served)
    with builder.if_then(is_set(before)):  # the next call tries this path first
        builder.store(following, field(builder.inttoptr(before, words), PATH, "next"))
        builder.store(front, field(path, PATH, "next"))
        builder.store(number_of_path, field(seat, SEAT, "first"))
    place_of_value = address(path, PATH, "value")
    with builder.if_then(is_set(builder.ptrtoint(place_of_value, i64))):
        value = builder.load(builder.bitcast(place_of_value, double.as_pointer()))
        finite = builder.fcmp_ordered("==", builder.fsub(value, value), double(0.0))
        with builder.if_then(builder.not_(finite)):
            leave(i64(NOT_FINITE))
    leave(i64(DONE))

    builder.position_at_end(stopped)
    count("fallen")
    leave(builder.call(fallback, [number, *arguments]))
    return str(module)


# Two functions that one pointer serves: each reads a record of its own there.
C_FUNCTIONS = tuple(
    Builtin(f"c_function_{place}", functools.partial(_module_text, place), ()) for place in range(2)
)
