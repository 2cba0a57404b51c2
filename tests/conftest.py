"""Fixtures that any test may use, and what a run says about its slowest files."""

import contextlib
import gc
import importlib
import os
import signal
from collections import Counter
from pathlib import Path

# Each core has a worker already. OpenBLAS reads this when NumPy and SciPy are imported, hence the place.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Nor is there one for a process that compiles kernels again. Processes that tests start inherit this, too.
os.environ["NUMBATAPE_BACKGROUND"] = "0"

import numpy as np
import pytest

import numbatape.solvers  # noqa: F401  (Public names announce SciPy's solvers; tests use what is below, too.)

# Numba compiles the rules of some tests. What it makes of them does not depend on LLVM's effort, which at its
# usual level takes as long again; the processes that tests start inherit this. (At 0 Numba stores no code.)
os.environ.setdefault("NUMBA_OPT", "0")

_seconds: Counter[str] = Counter()
_begun = [0]  # tests


@pytest.fixture
def rng():
    """A random generator that starts the same in every test."""
    return np.random.default_rng(20240229)


@pytest.fixture
def interruptible():
    """Handle Ctrl-C as Python does: a shell starts background processes with Ctrl-C ignored."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def _let_hypothesis_look_for_generators(config):
    """Run a property once: the first one collects garbage, and there is little yet in a run of all tests."""
    if config.args == config.getini("testpaths"):
        from hypothesis import given, settings
        from hypothesis.strategies import none

        settings(max_examples=1, database=None)(given(none())(lambda _: None))()


def _import_from_the_end(config):
    """Import the files of tests in one worker of two from the last to the first.

    In a fresh tree pytest rewrites and compiles each file, which takes longer than all other collecting.
    Workers that start at the same end all do this for the same file at once; these two meet in the middle.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    if int(worker.removeprefix("gw")) % 2 and config.args == config.getini("testpaths"):
        for path in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
            # What fails here fails again, and is reported, when it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect garbage seldom: the collector walks over the objects of 12 000 tests and of all modules.

    They are not frozen for good, because `numbatape.testing.check_derivatives` freezes what there is for as
    long as it counts memory, if nobody else has. Each of its counts took 50 to 200 ms with objects that are
    frozen here.
    """
    gc.disable()
    _let_hypothesis_look_for_generators(session.config)
    _import_from_the_end(session.config)
    result = yield
    # numbatape collects when the process has grown. Here that takes seconds, and is done every 3 000 tests.
    importlib.import_module("numbatape.caches.registry").MOST_GROWTH = 1 << 40
    gc.set_threshold(200_000, 10, 10)
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Make what earlier tests left old: a collection that is due to a test looks at the objects of that test.

    Freezing moves all objects at once, without a look at them, and so does what undoes it. Cycles of garbage
    among them wait for the next test of three thousand: a collection takes up to five seconds, and dropped
    caches free their cells without one.
    """
    gc.freeze()
    gc.unfreeze()
    _begun[0] += 1
    if _begun[0] % 3000 == 0:
        gc.collect()


@pytest.fixture
def only_new_objects():
    """Let the collections of a test that asks for them look at its own objects, not at a million others."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Leave the garbage to the end of the process: pytest collects it ten times before that, for seconds."""
    gc.freeze()


def pytest_runtest_logreport(report):
    """Add up the seconds of a file's tests, whichever worker ran them."""
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter):
    """Name the files that took longest, so that a slow test is noticed when it is written."""
    if len(_seconds) > 1:
        total = sum(_seconds.values())
        terminalreporter.section(f"ten slowest of {len(_seconds)} files, {total:.0f} s in all workers")
        for name, seconds in _seconds.most_common(10):
            terminalreporter.line(f"{seconds:7.1f} s  {name}")
