"""Blocks of work that several threads take in turn, without Python and its lock, as a function in LLVM IR.

A job (`JOB`) is a list of blocks. Whoever works on it takes the next block that nobody has taken, copies
numbers into a workspace, sweeps, and copies numbers out; each worker has records of all blocks, with a
workspace of its own. The caller of a job gives it to the helpers that are free, works on it itself, and takes
it back from those that have not begun when no block is left. So it waits only for blocks that are being
computed, and whether a helper comes in time decides about nothing but time.

A helper is a thread of Python's that has called this function and never returns. Before it sleeps, it looks
for its next job for some 50 µs: a thread that sleeps begins 20 to 50 µs after it has been woken, and to wake
it takes the caller 5 to 20. Threads sleep at locks of CPython's (``PyThread_acquire_lock``), which need no
interpreter and exist on all systems.
"""

from __future__ import annotations

from .builtin import Builtin, Text

# What the function does: serve a job as the sweep of a steady call, serve a part of a job, help for ever,
# look at the first of two words as often as the second says.
CALL, SERVE, HELP, LOOK = range(4)
LINE = 8  # words of a cache line; all workers write to the first two fields of a job, so these have one each
JOB = (
    "next",  # the block that is taken next
    *("unused",) * (LINE - 1),
    "failed",  # 1 when a block has failed: no further ones are taken
    *("unused",) * (LINE - 1),
    "stop",  # the block that is not taken any more
    "lists",  # address of the addresses of the workers' records of blocks
    "bases",  # address of the addresses that copies begin at
    "blocks",  # how many blocks there are
    "crew",  # address of what is known of the helpers
    "wanted",  # how many of them may help
    "came",  # how many of them were free
    "looks",  # how often who waits looks before it sleeps
)
CREW = (
    "helpers",  # address of their records
    "count",  # how many there are
    "most",  # how many there may be if several jobs want some at once
)
BLOCK = (
    "frame",  # the sweep's first argument
    "sweep",  # its address
    "done",  # what it returns unless it fails
    *("in", "in_count"),  # address and number of the copies before the sweep
    *("out", "out_count"),  # and of the copies behind it
    "unused",
)
AXES = 4
COPY = (
    *("from_base", "from_first", "to_base", "to_first"),  # number of a base address, and bytes from there
    "bytes",  # the bytes of an entry: 8 or 4
    *(f"size_{k}" for k in range(AXES)),
    *(f"from_{k}" for k in range(AXES)),  # strides in bytes
    *(f"to_{k}" for k in range(AXES)),
)
HELPER = (
    "job",  # address of the job that it is given, 0 while it is free
    "share",  # whose records it takes
    "state",
    "asleep",  # 1 before it sleeps, 0 when it will be woken
    "awaited",  # the same of the job's caller
    "given",  # the lock that the helper sleeps at
    "ended",  # the lock that the job's caller sleeps at
    "looks",  # how often the helper looks for a job before it sleeps
)
IDLE, GIVEN, WORKING = range(3)
WORD = 8  # bytes
API = {"PyThread_acquire_lock": "ipi", "PyThread_release_lock": "vp"}  # see `Text.declared`


class _Text(Text):
    """The IR of ``int64 call(int64 *record, int64 what)``."""

    def __init__(self, symbol: str):
        super().__init__()
        self.acquire, self.release = (self.declared(f"nt_python_{name}", API[name]) for name in API)
        self.copies = self._function("copies", (self.words, self.i64, self.words), self._copies)
        self.work = self._function("work", (self.words, self.i64), self._work)
        self.help = self._function("help", (self.words,), self._help)
        self.serve = self._function("serve", (self.words,), self._serve)
        self.call = self._function("call", (self.words,), self._call)
        self._function(symbol, (self.words, self.i64), self._entry, "external")

    def _function(self, name: str, arguments, write, linkage: str = "internal"):
        kind = self.ir.FunctionType(self.i64, arguments)
        function = self.ir.Function(self.module, kind, name)
        function.linkage = linkage
        self.begin(function)
        write(*function.args)
        return function

    # ---- what the functions are composed of

    def place(self, record, fields: tuple, name: str):
        """Return the address of a field of a record."""
        return self.builder.gep(record, [self.i64(fields.index(name))])

    def field(self, record, fields: tuple, name: str):
        return self.builder.load(self.place(record, fields, name))

    def address(self, record, fields: tuple, name: str):
        return self.builder.inttoptr(self.field(record, fields, name), self.words)

    def record(self, first, number, fields: tuple):
        """Return the address of a record of a table."""
        return self.builder.gep(first, [self.builder.mul(number, self.i64(len(fields)))])

    def look(self, place):
        return self.builder.load_atomic(place, "seq_cst", WORD)

    def put(self, place, number: int) -> None:
        self.builder.store_atomic(self.i64(number), place, "seq_cst", WORD)

    def exchanged(self, place, old: int, new):
        """Replace a word if it is what it is thought to be; return whether it was."""
        pair = self.builder.cmpxchg(place, self.i64(old), new, "seq_cst", "seq_cst")
        return self.builder.extract_value(pair, 1)

    def taken(self, place):
        """Set a word to 0; return whether it was 1."""
        return self.equal(self.builder.atomic_rmw("xchg", place, self.i64(0), "seq_cst"), 1)

    def equal(self, left, number: int):
        return self.builder.icmp_signed("==", left, self.i64(number))

    def go_if(self, condition, there) -> None:
        """Go there if a condition holds, on if not."""
        here = self.block()
        self.builder.cbranch(condition, there, here)
        self.at(here)

    def lock(self, record, name: str):
        return self.builder.inttoptr(self.field(record, HELPER, name), self.pointer)

    def sleep(self, record, name: str) -> None:
        self.builder.call(self.acquire, [self.lock(record, name), self.i32(1)])

    def wake(self, record, name: str) -> None:
        self.builder.call(self.release, [self.lock(record, name)])

    def watch(self, place, state: int, looks, changed):
        """Look at a word so many times; ``changed`` says where to go if it is, or is not, a state."""
        number, end = self.each(looks)
        seen = self.equal(self.look(place), state)
        block, wanted = changed
        self.go_if(seen if wanted else self.builder.not_(seen), block)
        # Divisions, each of which waits for the one before, leave the core to others for a while. The
        # instructions that are made for this differ between processors, and stop some virtual machines.
        rest = self.builder.or_(number, self.i64(1 << 62))
        for _ in range(4):
            divisor = self.builder.or_(self.builder.and_(rest, self.i64(2)), self.i64(1))
            rest = self.builder.udiv(rest, divisor)
        self.builder.store(rest, self.rest)
        end()

    # ---- copies

    def _copies(self, records, count, bases) -> None:
        """Copy so many pieces; the base addresses are in a table."""
        builder, i64 = self.builder, self.i64
        number, end = self.each(count)
        record = self.record(records, number, COPY)

        def first(which: str):
            base = builder.load(builder.gep(bases, [self.field(record, COPY, f"{which}_base")]))
            return builder.add(base, self.field(record, COPY, f"{which}_first"))

        sizes, sources, targets = (
            [self.field(record, COPY, f"{name}_{k}") for k in range(AXES)] for name in ("size", "from", "to")
        )
        width = self.field(record, COPY, "bytes")
        source, target = first("from"), first("to")
        ends = []
        for k in range(AXES - 1):
            place, end_of_axis = self.each(sizes[k])
            source = builder.add(source, builder.mul(place, sources[k]))
            target = builder.add(target, builder.mul(place, targets[k]))
            ends.append(end_of_axis)
        dense = [builder.icmp_signed("==", stride[-1], width) for stride in (sources, targets)]
        with builder.if_else(builder.and_(*dense)) as (together, apart):
            with together:
                ends_of_memory = (builder.inttoptr(place, self.pointer) for place in (target, source))
                builder.call(self.memcpy, [*ends_of_memory, builder.mul(sizes[-1], width), self.i1(0)])
            with apart, builder.if_else(self.equal(width, WORD)) as (double, single):
                for arm, kind in ((double, i64), (single, self.i32)):
                    with arm:
                        place, end_of_axis = self.each(sizes[-1])
                        here = builder.add(source, builder.mul(place, sources[-1]))
                        there = builder.add(target, builder.mul(place, targets[-1]))
                        entry = builder.load(builder.inttoptr(here, kind.as_pointer()))
                        builder.store(entry, builder.inttoptr(there, kind.as_pointer()))
                        end_of_axis()
        for end_of_axis in reversed(ends):
            end_of_axis()
        end()
        builder.ret(i64(0))

    # ---- workers

    def _work(self, job, share) -> None:
        """Take blocks until none is left, or one has failed."""
        builder, i64 = self.builder, self.i64
        again, none, failed = self.block(), self.block(), self.block()
        lists, bases = (self.address(job, JOB, name) for name in ("lists", "bases"))
        blocks = builder.inttoptr(builder.load(builder.gep(lists, [share])), self.words)
        stop = self.field(job, JOB, "stop")
        self.go(again)
        self.at(again)
        self.go_if(builder.not_(self.equal(self.look(self.place(job, JOB, "failed")), 0)), none)
        number = builder.atomic_rmw("add", self.place(job, JOB, "next"), i64(1), "seq_cst")
        self.go_if(builder.icmp_signed(">=", number, stop), none)
        block = self.record(blocks, number, BLOCK)
        self._copy(block, "in", bases)
        kind = self.ir.FunctionType(i64, [i64, i64]).as_pointer()
        sweep = builder.inttoptr(self.field(block, BLOCK, "sweep"), kind)
        outcome = builder.call(sweep, [self.field(block, BLOCK, "frame"), i64(0)])
        self.go_if(builder.icmp_signed("!=", outcome, self.field(block, BLOCK, "done")), failed)
        self._copy(block, "out", bases)
        self.go(again)
        self.at(failed)
        self.put(self.place(job, JOB, "failed"), 1)
        self.go(none)
        self.at(none)
        builder.ret(i64(0))

    def _copy(self, block, name: str, bases) -> None:
        count = self.field(block, BLOCK, f"{name}_count")
        self.builder.call(self.copies, [self.address(block, BLOCK, name), count, bases])

    def _help(self, helper) -> None:
        """Work on what the helper is given, for ever."""
        builder, i64 = self.builder, self.i64
        self.rest = builder.alloca(i64)
        wait, given, doze = self.block(), self.block(), self.block()
        state, asleep = (self.place(helper, HELPER, name) for name in ("state", "asleep"))
        looks = self.field(helper, HELPER, "looks")
        self.go(wait)

        self.at(wait)
        self.watch(state, GIVEN, looks, (given, True))
        self.put(asleep, 1)
        # Who gives a job looks then whether the helper sleeps; so one of both sees the other.
        self.go_if(self.equal(self.look(state), IDLE), doze)
        self.go_if(self.taken(asleep), given)
        self.go(doze)

        self.at(doze)
        self.sleep(helper, "given")
        self.go(wait)

        self.at(given)
        self.go_if(builder.not_(self.exchanged(state, GIVEN, i64(WORKING))), wait)  # The job was taken back.
        builder.call(self.work, [self.address(helper, HELPER, "job"), self.field(helper, HELPER, "share")])
        self.put(state, IDLE)
        with builder.if_then(self.taken(self.place(helper, HELPER, "awaited"))):
            self.wake(helper, "ended")
        self.go(wait)

    # ---- their caller

    def _serve(self, job) -> None:
        """Work on a job, with those helpers that are free; return how many these were."""
        builder, i64 = self.builder, self.i64
        self.rest = builder.alloca(i64)
        crew = self.address(job, JOB, "crew")
        helpers, count = self.address(crew, CREW, "helpers"), self.field(crew, CREW, "count")
        came, wanted = self.place(job, JOB, "came"), self.field(job, JOB, "wanted")
        builder.store(i64(0), came)
        own = builder.ptrtoint(job, i64)

        number, end = self.each(count)
        helper = self.record(helpers, number, HELPER)
        more = builder.icmp_signed("<", builder.load(came), wanted)
        job_of_helper = self.place(helper, HELPER, "job")
        with builder.if_then(more), builder.if_then(self.exchanged(job_of_helper, 0, own)):
            found = builder.add(builder.load(came), i64(1))
            builder.store(found, came)
            builder.store(found, self.place(helper, HELPER, "share"))
            self.put(self.place(helper, HELPER, "state"), GIVEN)
            with builder.if_then(self.taken(self.place(helper, HELPER, "asleep"))):
                self.wake(helper, "given")
        end()

        builder.call(self.work, [job, i64(0)])

        number, end = self.each(count)
        helper = self.record(helpers, number, HELPER)
        its = self.place(helper, HELPER, "job")
        with builder.if_then(builder.icmp_signed("==", self.look(its), own)):
            self._take_back(helper, self.field(job, JOB, "looks"))
            self.put(its, 0)
        end()
        builder.ret(builder.load(came))

    def _take_back(self, helper, looks) -> None:
        """Take a job back from a helper that has not begun; wait for one that has."""
        state, awaited = (self.place(helper, HELPER, name) for name in ("state", "awaited"))
        free, doze = self.block(), self.block()
        self.go_if(self.exchanged(state, GIVEN, self.i64(IDLE)), free)
        self.watch(state, WORKING, looks, (free, False))
        self.put(awaited, 1)
        self.go_if(self.equal(self.look(state), WORKING), doze)
        self.go_if(self.taken(awaited), free)
        self.go(doze)
        self.at(doze)
        self.sleep(helper, "ended")
        self.go(free)
        self.at(free)

    def _call(self, job) -> None:
        """Do all blocks of a job; return 0 unless one has failed, or Python should start helpers first."""
        builder, i64 = self.builder, self.i64
        crew = self.address(job, JOB, "crew")
        count, most = (self.field(crew, CREW, name) for name in ("count", "most"))
        came, wanted = (self.field(job, JOB, name) for name in ("came", "wanted"))
        few = builder.icmp_signed("<", count, wanted)
        # Helpers were missed in the last call, because others had them.
        missed = builder.icmp_signed("<", came, wanted)
        possible = builder.icmp_signed("<", count, most)
        with builder.if_then(builder.or_(few, builder.and_(missed, possible))):
            builder.store(wanted, self.place(job, JOB, "came"))
            builder.ret(i64(1))
        for name in ("next", "failed"):
            builder.store(i64(0), self.place(job, JOB, name))
        builder.store(self.field(job, JOB, "blocks"), self.place(job, JOB, "stop"))
        builder.call(self.serve, [job])
        builder.ret(self.field(job, JOB, "failed"))

    # ---- the function

    def _entry(self, record, what) -> None:
        builder = self.builder
        self.rest = builder.alloca(self.i64)
        for number, function in ((CALL, self.call), (SERVE, self.serve), (HELP, self.help)):
            with builder.if_then(self.equal(what, number)):
                builder.ret(builder.call(function, [record]))
        behind = self.block()
        self.watch(record, 1, builder.load(builder.gep(record, [self.i64(1)])), (behind, True))
        self.go(behind)
        self.at(behind)
        builder.ret(self.i64(0))


def _module_text(symbol: str) -> str:
    return str(_Text(symbol).module)


CREW_FUNCTION = Builtin("crew", _module_text, (*(f"nt_python_{name}" for name in API), "memcpy"))
