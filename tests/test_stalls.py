"""Work of more than a second is announced: once, to who looks, with a count and what it was for."""

import io
import math
import re
import types

import numpy as np
import pytest

import numbatape as nt
from numbatape import stalls
from numbatape.engine import library
from numbatape.jit import loader


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now, self.tick = 100.0, 0.0

    def monotonic(self):
        self.now += self.tick
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


class Closed(io.StringIO):
    def isatty(self):
        raise ValueError("I/O operation on closed file")


class Broken(Terminal):
    def write(self, text):
        raise OSError("nobody is there")


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stalls, "time", clock)
    for work in (stalls.TRACING, stalls.COMPILING):  # when it ended last, by another clock
        monkeypatch.setattr(work, "_ended", -math.inf)
    monkeypatch.delenv("NUMBATAPE_QUIET", raising=False)
    return clock


def look_at(monkeypatch, stream):
    """Put a stream in the place of stderr; pytest puts its own there before each test."""
    monkeypatch.setattr(stalls, "sys", types.SimpleNamespace(stderr=stream))


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    look_at(monkeypatch, stream)
    return stream


def shown(stream):
    """Return what a terminal would show: a carriage return writes over the line."""
    return [line.rsplit("\r", 1)[-1].rstrip() for line in stream.getvalue().split("\n")]


def test_what_takes_a_second_is_not_announced(clock, terminal):
    work = stalls.Work("doing", "did", "things")
    with work.piece("f"):
        for count in range(10):
            clock.now += 0.1
            work.step(count)
    assert terminal.getvalue() == ""


def test_longer_work_is_announced_while_it_goes_on_and_when_it_is_done(clock, terminal):
    work = stalls.Work("doing", "did", "things")
    with work.piece("f"):
        clock.now += 1.5
        work.step(7)
        assert shown(terminal) == ["numbatape: doing 7 things for f ..."]
        clock.now += 0.1
        work.step(8)  # too soon to draw anew
        assert shown(terminal) == ["numbatape: doing 7 things for f ..."]
        with work.piece("g"):  # a part of it
            clock.now += 1.0
            work.step(120)
        assert shown(terminal) == ["numbatape: doing 120 things for f ..."]
        work.note = "at last"
    assert shown(terminal) == ["numbatape: did 120 things for f in 2.6 s (at last)", ""]


@pytest.mark.parametrize("count, things", [(5, "5 things"), (1, "1 thing")])
def test_work_without_looks_at_the_clock_is_announced_at_its_end(clock, terminal, count, things):
    work = stalls.Work("doing", "did", "things")
    with work.piece():
        clock.now += 3.0
        work.count = count
    assert shown(terminal) == [f"numbatape: did {things} in 3.0 s", ""]


def test_what_did_nothing_says_nothing(clock, terminal):
    work = stalls.Work("doing", "did", "things")
    with work.piece():
        clock.now += 3.0
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("linked", [True, False])
def test_pieces_right_behind_one_another_are_one_wait(clock, terminal, linked):
    work = stalls.Work("doing", "did", "things", linked)
    for _ in range(3):
        with work.piece():
            clock.now += 0.6
            work.step(work.count + 1)
    assert shown(terminal) == (["numbatape: did 2 things in 1.2 s", ""] if linked else [""])


def test_pieces_apart_are_waits_of_their_own(clock, terminal):
    work = stalls.Work("doing", "did", "things", linked=True)
    for _ in range(3):
        with work.piece():
            clock.now += 0.6
            work.step(1)
        clock.now += 1.0
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO, Terminal, Notebook, Closed, Broken, type(None), object])
@pytest.mark.parametrize("quiet", ["", "0", "1"])
def test_who_is_told(clock, monkeypatch, stream, quiet):
    made = stream()
    monkeypatch.setenv("NUMBATAPE_QUIET", quiet)
    look_at(monkeypatch, made)
    work = stalls.Work("doing", "did", "things")
    with work.piece():
        clock.now += 3.0
        work.step(5)
    if isinstance(made, io.StringIO):
        assert bool(made.getvalue()) == (quiet != "1" and stream in (Terminal, Notebook))


def test_somebody_else_tells_the_user(clock, terminal):
    work = stalls.Work("doing", "did", "things")
    with work.piece(quiet=True):
        clock.now += 3.0
        work.step(5)
    assert terminal.getvalue() == ""


# ---- where it is used


def scalar_loop(x):
    total = x[0]
    for _ in range(3000):
        total = total * x[1] + x[0]
    return total


def array_loop(x):
    for _ in range(4200):
        x = x + 1.0
    return np.sum(x)


def loop_that_is_rolled(x):
    total = 0.0
    for k in range(3000):
        total = total + np.sin(x[0] * k) * x[1]
    return total


@pytest.mark.parametrize(
    ("function", "latest"), [(scalar_loop, 4200), (array_loop, 200), (loop_that_is_rolled, 4200)]
)
def test_long_traces(clock, terminal, function, latest):
    """Loops of scalars look at the clock on their way, array operations more often; both name the line."""
    clock.tick = 0.9
    nt.prepare_gradient_cache(function, np.ones(2))
    first, *_ = (line for line in shown(terminal) if line)
    assert first.startswith("numbatape: traced ")
    assert f" operations for {function.__name__} in " in first
    code, name = function.__code__, function.__name__
    (count, line), *later = re.findall(
        rf"\rnumbatape: tracing (\d+) operations for {name}, now at {re.escape(code.co_filename)}:(\d+) "
        rf"in {name} \.\.\.",
        terminal.getvalue(),
    )
    assert int(count) <= latest
    assert code.co_firstlineno < int(line) < code.co_firstlineno + 4
    counts = [int(count), *(int(more) for more, _ in later)]
    counts.append(int(re.search(r"traced (\d+)", first)[1]))  # what was traced, not what passes have left
    assert counts == sorted(counts)


def test_short_traces_and_loaded_kernels(clock, terminal):
    nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x)), np.ones(3))
    assert terminal.getvalue() == ""


def test_compiled_kernels(clock, terminal, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    clock.tick = 0.3
    text = "# cells: f64\ndef {}(w, pc):\n    return 0\n"
    for name in ("one", "two"):
        loader._load(name, text.format(name))
    (line,) = (line for line in shown(terminal) if line)
    assert line.startswith("numbatape: compiled 2 kernels in ") and line.endswith(f"(kept in {tmp_path})")


def test_warmup_is_one_piece(clock, terminal, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "file").write_text("in the way")
    texts = [(name, f"# cells: f64\ndef {name}(w, pc):\n    return 1\n") for name in ("three", "four")]
    monkeypatch.setattr(library, "texts", lambda dtypes, values: iter(texts))
    monkeypatch.setattr(library, "FUNCTIONS", ())
    clock.tick = 0.6
    nt.warmup()
    lines = [line for line in shown(terminal) if line]
    assert len(lines) == 1
    assert lines[0].startswith("numbatape: compiled 2 kernels for warmup in ")
    assert lines[0].endswith("(in memory, for this process alone)")
