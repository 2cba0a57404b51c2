"""The optimising tier: what starts the process in the background, what that is like, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numbatape.jit import background, compiler, loader, locks, optimising, store
from tests.engine.total_kernel import TEXT, load_again, run_total

ROOT = Path(__file__).parents[2]
HEAD = "# cells: f64, two tiers\n"
NUMBERS = (0.1, 0.2, 0.3)  # their sums are rounded
posix = pytest.mark.skipif(os.name != "posix", reason="a shell starts the process")


def source_of(factor, head=HEAD):
    return head + TEXT.format(factor=factor)


def stored_tiers():
    return {kernel.tier for kernel in store.stored()}


def eventually(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_free(directory):
    handle = locks.taken(directory / background.LOCK)
    if handle is not None:
        os.close(handle)
    return handle is not None


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty cache directory of this test's own, for which a process may be started."""
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBATAPE_BACKGROUND", "1")
    return tmp_path / "cache"


@pytest.fixture
def started(directory, monkeypatch):
    """The caches for which a process would have been started."""
    found = []
    monkeypatch.setattr(background, "_start", lambda path, handle: found.append(path))
    return found


# ---- what starts it


@pytest.mark.parametrize("value", ["1", "", None])
def test_a_kernel_of_the_baseline_tier_that_was_stored(started, directory, value, monkeypatch):
    if value is None:
        monkeypatch.delenv("NUMBATAPE_BACKGROUND")
    else:
        monkeypatch.setenv("NUMBATAPE_BACKGROUND", value)
    kernels = load_again(source_of(1.5))
    assert started == [directory] and kernels.tier == store.BASELINE
    assert load_again(source_of(1.5)).tier == store.BASELINE  # from the cache
    assert started == [directory]


@pytest.mark.parametrize("value", ["0", "false", "off"])
def test_the_environment_turns_it_off(started, value, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_BACKGROUND", value)
    assert load_again(source_of(1.5)).tier == store.BASELINE
    assert not started


def test_kernels_of_one_form_start_nothing(started):
    assert load_again(source_of(1.5, "# cells: f64\n")).tier == store.ONLY
    assert not started


def test_optimised_kernels_start_nothing(started):
    assert load_again(source_of(1.5), optimised=True).tier == store.OPTIMISED
    assert not started


def test_a_cache_that_cannot_be_written(started, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert load_again(source_of(1.5)).tier == store.BASELINE
    background.start()
    assert not started


@pytest.mark.parametrize(
    "path",
    [None, "", "/opt/tool/bin/uwsgi", "/opt/tool/bin/pythonista", "/usr/bin/pypy3", "C:\\App\\App.exe"],
)
def test_programs_that_have_python_inside(started, path, monkeypatch):
    """They might do anything when they are started once more."""
    monkeypatch.setattr(sys, "executable", path)
    load_again(source_of(1.5))
    assert not started


def test_frozen_programs(started, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    load_again(source_of(1.5))
    assert not started


@pytest.mark.parametrize("name", ["python", "python3", "python3.11", "Python", "pythonw.exe", "python3.13d"])
def test_names_of_interpreters(name):
    assert background._is_interpreter(os.path.join(os.sep, "some", "where", name))


def test_one_process_for_a_cache(started, directory):
    directory.mkdir()
    handle = locks.taken(directory / background.LOCK)
    load_again(source_of(1.5))
    assert not started
    os.close(handle)
    load_again(source_of(2.5))
    assert started == [directory]


@pytest.mark.parametrize("error", [OSError, NotImplementedError, ValueError])
def test_systems_that_start_no_process(directory, error, monkeypatch):
    def fail(*_):
        raise error("no processes here")

    monkeypatch.setattr(background, "_start", fail)
    assert run_total(load_again(source_of(10.0)), NUMBERS) == pytest.approx(6.0)
    assert is_free(directory)


# ---- what it is like


SEEN = """
import json, os, sys

def run(quiet):
    links = {}
    for fd in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            links[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass  # the directory itself
    seen = {
        "links": links, "session": os.getsid(0) == os.getpid(), "nice": os.nice(0), "cwd": os.getcwd(),
        "path": sys.path, "quiet": quiet, "modules": sorted({"numpy", "site"} & set(sys.modules)),
        "background": os.environ["NUMBATAPE_BACKGROUND"], "cache": os.environ["NUMBATAPE_CACHE_DIR"],
    }
    with open(SEEN + ".part", "w") as file:
        json.dump(seen, file)
    os.rename(SEEN + ".part", SEEN)
"""


@posix
def test_the_process_has_nothing_of_the_programs(directory, tmp_path, monkeypatch):
    """Neither its terminal, pipes, session and directory, nor modules that stand in its way."""
    package = tmp_path / "place" / "numbatape" / "jit"
    package.mkdir(parents=True)
    for init in (package.parent, package):
        (init / "__init__.py").write_text("")
    seen = tmp_path / "seen"
    (package / "optimising.py").write_text(f"SEEN = {str(seen)!r}\n{SEEN}")
    for name in ("json", "time", "numpy", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user has such a module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(background, "_places", lambda: [str(tmp_path / "place")])
    monkeypatch.setattr(background, "QUIET", 0.125)
    directory.mkdir()
    ends = os.pipe()
    try:
        os.set_inheritable(ends[1], True)
        background.start()
        eventually(seen.exists)
    finally:
        for end in ends:
            os.close(end)
    found = json.loads(seen.read_text())
    assert (found["session"], found["nice"], found["quiet"], found["cwd"]) == (True, 19, 0.125, os.sep)
    assert found["modules"] == [] and found["path"][-1] == str(tmp_path / "place")
    assert not {"", str(tmp_path), os.getcwd()} & set(found["path"])
    assert (found["background"], found["cache"]) == ("0", str(directory))
    if found["links"]:
        assert {*found["links"].values()} - {os.devnull} == {str(directory / background.LOCK)}
    eventually(lambda: is_free(directory))


SCRIPT = """
import os, sys, threading
from numbatape.jit import background, loader
background.QUIET = float(sys.argv[1])
threading.Thread(target=lambda: None).start()
assert loader.load("test", sys.argv[2]).tier == "baseline"
try:
    print(os.wait())
except ChildProcessError:
    print("no child")
"""


def script(directory, quiet, source, **environment):
    """Run a program that compiles a kernel; return what it prints, as soon as its pipes are closed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT, str(quiet), source],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_nobody_waits_for_the_process(directory):
    assert script(directory, 10.0, source_of(1.5))[1] == ""
    # Whoever waits for the end of the program's output had it while the process was still there.
    assert not is_free(directory)
    assert stored_tiers() == {store.BASELINE}
    shutil.rmtree(directory)  # it ends when it has slept


def test_the_process_replaces_what_later_processes_load(directory):
    source = source_of(1.1)
    assert script(directory, 0.01, source) == ("no child\n", "")
    baseline = run_total(loader.link(compiler.compile_source(source, "baseline"), "baseline"), NUMBERS)
    eventually(lambda: stored_tiers() == {store.OPTIMISED})
    eventually(lambda: is_free(directory))
    kernels = load_again(source)
    assert kernels.tier == store.OPTIMISED and run_total(kernels, NUMBERS) == baseline
    assert sorted(path.suffix for path in directory.iterdir()) == [".lock", ".nto", ".py"]


# ---- what it does


@pytest.fixture
def kernel(directory, monkeypatch):
    """A stored kernel of the baseline tier; returns its file."""
    monkeypatch.setenv("NUMBATAPE_BACKGROUND", "0")
    load_again(source_of(1.5))
    (path,) = directory.glob("*.nto")
    return path


def test_kernels_are_replaced_as_a_whole_and_loaded_ones_stay(kernel, monkeypatch):
    loaded = loader.load("test", source_of(1.5))
    replaced, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: replaced.append(Path(b).name) or replace(a, b))
    optimising.optimise(kernel.parent, 0.0)
    assert kernel.name in replaced and stored_tiers() == {store.OPTIMISED}
    assert loader.load("test", source_of(1.5)) is loaded and loaded.tier == store.BASELINE
    monkeypatch.setattr(compiler, "compile_source", lambda *_, **__: pytest.fail("there is nothing left"))
    optimising.optimise(kernel.parent, 0.0)


def other_compiler(path, monkeypatch):
    monkeypatch.setattr(store.versions, "COMPILER", "another lowering")
    store._hash_of.cache_clear()


def other_text(path, monkeypatch):
    path.with_suffix(".py").write_text(source_of(2.5))


def no_text(path, monkeypatch):
    path.with_suffix(".py").unlink()


def no_words(path, monkeypatch):
    path.with_suffix(".py").write_bytes(b"\xff\xfe\x00")


def cut(path, monkeypatch):
    path.write_bytes(path.read_bytes()[:-50])


def tampered(path, monkeypatch):
    """A header that says of a quick kernel that it is the better one, or of none which it is."""
    path.write_bytes(path.read_bytes().replace(b'"baseline"', b'"optimised"'))


def no_tier(path, monkeypatch):
    path.write_bytes(path.read_bytes().replace(b'"tier": "baseline", ', b""))


@pytest.mark.parametrize("change", [other_compiler, other_text, no_text, no_words, cut, tampered, no_tier])
def test_files_that_are_not_a_kernel_of_ours_are_left_alone(kernel, change, monkeypatch):
    with monkeypatch.context() as changed:
        change(kernel, changed)
        before = kernel.read_bytes()
        optimising.optimise(kernel.parent, 0.0)
        assert kernel.read_bytes() == before
    store._hash_of.cache_clear()
    if change in (cut, tampered, no_tier):  # compiled again when it is needed
        assert load_again(source_of(1.5)).tier == store.BASELINE
        assert loader._origins["test"] == "compiled"


def test_kernels_that_are_added_meanwhile(kernel, monkeypatch):
    improve = optimising.improve

    def improving(name, source):
        if source == source_of(1.5):
            load_again(source_of(2.5))
        return improve(name, source)

    monkeypatch.setattr(optimising, "improve", improving)
    optimising.optimise(kernel.parent, 0.0)
    assert len(store.stored()) == 2 and stored_tiers() == {store.OPTIMISED}


def test_it_waits_while_others_compile(kernel, monkeypatch):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) < 4:
            (kernel.parent / f"other-{len(waited)}.lock").touch()
        assert stored_tiers() == {store.BASELINE}

    monkeypatch.setattr(time, "sleep", sleep)
    optimising.optimise(kernel.parent, 3.5)
    assert waited == [3.5] * 4 and stored_tiers() == {store.OPTIMISED}


def test_a_full_disk_ends_it(kernel, monkeypatch):
    load_again(source_of(2.5))
    compiled, compile_source = [], compiler.compile_source

    def compiling(*args, **options):
        compiled.append(args)
        return compile_source(*args, **options)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiler, "compile_source", compiling)
    monkeypatch.setattr(os, "replace", fail)
    files = sorted(kernel.parent.iterdir())
    optimising.optimise(kernel.parent, 0.0)
    assert len(compiled) == 1 and sorted(kernel.parent.iterdir()) == files
    assert stored_tiers() == {store.BASELINE}


def test_a_cache_that_is_gone_ends_it(tmp_path):
    optimising.optimise(tmp_path / "gone", 0.0)


def test_a_cache_that_is_deleted_meanwhile_is_not_made_again(kernel, monkeypatch):
    """A program may delete its temporary directory as soon as it has done what it does."""
    compile_source = compiler.compile_source

    def compiling(*args, **options):
        shutil.rmtree(kernel.parent)
        return compile_source(*args, **options)

    monkeypatch.setattr(compiler, "compile_source", compiling)
    optimising.optimise(kernel.parent, 0.0)
    assert not kernel.parent.exists()
