"""The kernel cache: files that are missing, damaged or foreign, directories that cannot be written."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape import jit
from numbatape.jit import compiler, linalg, loader, locks, store
from tests.engine.total_kernel import TEXT, load_again, run_total

SOURCE = f"""# cells: f64
{TEXT}

def nothing(w, pc):
    return 0
"""

SCRIPT = """
import sys
from numbatape import jit
{extra}
for factor in {factors}:
    kernels = jit.load("test", {source!r}.replace("{{factor}}", str(factor)))
print(sorted(kernels.address), "numba" in sys.modules)
"""

ROOT = Path(__file__).parents[2]


def source_of(factor):
    return SOURCE.replace("{factor}", repr(factor))


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty cache directory of this test's own."""
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def in_process(directory, factors=(1.5,), extra="", wait=True):
    text = SCRIPT.format(factors=tuple(factors), source=SOURCE, extra=extra)
    environment = {**os.environ, "NUMBATAPE_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return finish(process) if wait else process


def finish(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output, errors


def the_file(directory):
    (path,) = directory.glob("*.nto")
    return path


# ---- a kernel's way


def test_compiled_then_loaded(directory):
    source = source_of(2.0)
    assert run_total(jit.load("test", source)) == 12.0
    name = f"test-{store.key_of(source)}"
    assert sorted(p.name for p in directory.iterdir()) == [f"{name}.nto", f"{name}.py"]
    assert (directory / f"{name}.py").read_text() == source
    assert [kernel.name for kernel in store.stored()] == ["test"]
    compiled = store.read("test", store.key_of(source))
    assert compiled.entries == ("total", "nothing")
    assert jit.load("test", source) is jit.load("test", source)


def test_key_covers_the_source():
    assert store.key_of(source_of(1.0)) != store.key_of(source_of(2.0))
    assert store.key_of(source_of(1.0)) == store.key_of(source_of(1.0))


def test_no_kernel_needs_numba(directory):
    """Neither one that is compiled nor one that is loaded."""
    for _ in range(2):
        assert in_process(directory)[0] == "['nothing', 'total'] False\n"


def test_a_kernel_with_wrappers_is_known_by_their_text(directory, monkeypatch):
    """A text that calls `gemm` is compiled with the text of `gemm`, and stored by both."""
    source = "# cells: f64\ndef nothing(w, pc):\n    v = w[0]\n    return potrf(v, 0, 0)\n"
    load_again(source)
    (first,) = (path.name for path in directory.glob("*.nto"))
    changed = tuple((names, text.replace("ROWS = 12", "ROWS = 13")) for names, text in linalg._WRAPPERS)
    monkeypatch.setattr(linalg, "_WRAPPERS", changed)
    load_again(source)
    assert {first} < {path.name for path in directory.glob("*.nto")}


def test_a_gradient_with_cached_kernels_needs_no_numba():
    text = "import sys, numpy as np, numbatape as nt; {}; assert {}"
    program = "g = nt.grad(lambda x: np.sum(np.sin(x) * x[0]))(np.ones(3))"
    exec(text.format(program, True), {})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    check = text.format(program, "not {'numba', 'scipy'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", check], env=environment, check=True, timeout=120)


# ---- directories


def test_a_tilde_is_the_home_of_the_user(monkeypatch, tmp_path):
    """A program that sets the variable, or a file of settings, has no shell that replaces it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", "~/kernels")
    assert store.cache_directory() == tmp_path / "kernels"
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", "~nobody-of-this-name/kernels")
    assert store.cache_directory() == Path("~nobody-of-this-name/kernels")


def test_directory_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert run_total(load_again(source_of(3.0))) == 18.0
    assert run_total(load_again(source_of(3.25))) == 19.5
    assert store.stored() == []
    assert not store.write("test", "key", store.ObjectFile((), (), b""), "")


def test_full_disk(directory, monkeypatch):
    """A write that fails leaves no part of a file, and the kernel runs."""

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert run_total(load_again(source_of(4.0))) == 24.0
    assert list(directory.iterdir()) == []


def test_two_processes_at_once(directory):
    processes = [in_process(directory, wait=False) for _ in range(2)]
    for process in processes:
        assert finish(process)[0].startswith("['nothing', 'total']")
    assert [p.suffix for p in sorted(directory.iterdir())] == [".nto", ".py"]
    assert in_process(directory)[0] == "['nothing', 'total'] False\n"


def test_leftover_of_a_killed_process(directory):
    directory.mkdir()
    (directory / ".tmp-abc").write_bytes(b"half a file")
    assert run_total(load_again(source_of(5.0))) == 30.0
    assert [kernel.name for kernel in store.stored()] == ["test"]


# ---- damaged files


def cut(content):
    return content[: len(content) // 2]


def flip(content):
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


def foreign(content):
    return np.random.default_rng(0).bytes(1000)


def other_json(content):
    return b"[1, 2]\n" + content.partition(b"\n")[2]


def broken_json(content):
    return content[1:]


def without_externals(content):
    """A header that hides what the kernel needs would end the process at its first call."""
    header, _, code = content.partition(b"\n")
    return json.dumps({**json.loads(header), "externals": ["memcmp"]}).encode() + b"\n" + code


def nested(content):
    """A header that no parser of JSON gets to the end of."""
    return b"[" * 100_000 + b"\n" + content


def long_header(content):
    return b" " * 100_000 + content


def empty(content):
    return b""


@pytest.mark.parametrize(
    "damage",
    [cut, flip, foreign, other_json, broken_json, without_externals, nested, long_header, empty],
    ids=lambda f: f.__name__,
)
def test_damaged_files_are_compiled_again(directory, damage):
    source = source_of(6.0)
    load_again(source)
    path = the_file(directory)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert store.read("test", store.key_of(source)) is None
    assert run_total(load_again(source)) == 36.0
    assert store.read("test", store.key_of(source)) is not None


def test_file_that_is_a_directory(directory):
    source = source_of(6.5)
    (directory / f"test-{store.key_of(source)}.nto").mkdir(parents=True)
    assert run_total(load_again(source)) == 39.0


def test_a_kernel_under_another_name(directory):
    source, other = source_of(7.0), source_of(7.25)
    load_again(source)
    load_again(other)
    mine, theirs = (directory / f"test-{store.key_of(text)}.nto" for text in (source, other))
    mine.write_bytes(theirs.read_bytes())
    assert store.read("test", store.key_of(source)) is None
    assert run_total(load_again(source)) == 42.0


@pytest.mark.parametrize(
    "symbol", ["no_such_symbol", "nt_loop_sc.nothing_dd", "nt_loop_exp_qq", "nt_blas_no", "nt_x_y"]
)
def test_missing_symbol(directory, symbol):
    """A symbol that this process lacks raises; left to the linker it would end the process."""
    source = source_of(7.0)
    load_again(source)
    key = store.key_of(source)
    found = store.read("test", key)
    other = dataclasses.replace(found, externals=(*found.externals, symbol))
    with pytest.raises(ImportError, match=f"needs the symbol '{symbol}'"):
        loader.link(other, key)
    store.write("test", key, other, source)  # as another SciPy left it: compiled again
    assert run_total(load_again(source)) == 42.0
    assert symbol not in store.read("test", key).externals


def test_missing_entry(directory):
    source = source_of(7.5)
    load_again(source)
    key = store.key_of(source)
    found = store.read("test", key)
    with pytest.raises(ImportError, match="'other'"):
        loader.link(dataclasses.replace(found, entries=("total", "other")), key)


# ---- what is deleted


def test_what_nobody_used_for_long_is_deleted(directory):
    load_again(source_of(10.0))
    load_again(source_of(10.5))
    old = directory / f"test-{store.key_of(source_of(10.0))}.nto"
    leftover, lock = directory / ".tmp-abc", directory / "test-0.lock"
    for path in (leftover, lock):
        path.write_bytes(b"")
    for path in (old, leftover, lock):
        os.utime(path, (0, 0))
    store.prune(directory)
    kept = f"test-{store.key_of(source_of(10.5))}"
    assert sorted(path.name for path in directory.iterdir()) == [f"{kept}.nto", f"{kept}.py"]


def test_use_is_noted(directory):
    load_again(source_of(10.75))
    path = the_file(directory)
    os.utime(path, (0, 0))
    load_again(source_of(10.75))
    store.prune(directory)
    assert path.exists()


def test_beyond_a_size_the_longest_unused_are_deleted(directory):
    sources = [source_of(factor) for factor in (11.0, 11.25, 11.5)]
    paths = []
    for k, source in enumerate(sources):
        load_again(source)
        paths.append(directory / f"test-{store.key_of(source)}.nto")
        os.utime(paths[-1], (2e9 + k, 2e9 + k))
    size = sum(each.stat().st_size for path in paths[1:] for each in (path, path.with_suffix(".py")))
    store.prune(directory, size=size)
    assert [path.exists() for path in paths] == [False, True, True]


# ---- several processes


def test_one_compiles_and_the_other_waits(directory):
    """While a process compiles a kernel another one that wants it waits, and finds it stored."""
    source = source_of(1.5)  # what `in_process` loads
    key = store.key_of(source)
    with store.turn("test", key):
        process = in_process(directory, wait=False)
        while not waits_for_lock(process, directory / f"test-{key}.lock"):
            assert process.poll() is None
        store.write("test", key, compiler.compile_source(source, key), source)
        written = the_file(directory).stat().st_ino
    assert finish(process)[0] == "['nothing', 'total'] False\n"
    assert the_file(directory).stat().st_ino == written  # nobody put another one in its place


def waits_for_lock(process, path):
    """Whether a process has a lock file open (Linux says so)."""
    try:
        opened = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:  # it is about to end, or a file was closed while we looked
        return False
    return str(path) in opened


def test_lock_of_a_killed_process(directory):
    """A lock ends with its process; the file that stays behind locks nothing."""
    directory.mkdir()
    source = source_of(12.0)
    (directory / f"test-{store.key_of(source)}.lock").write_bytes(b"")
    assert run_total(load_again(source)) == 72.0
    assert not list(directory.glob("*.lock"))


def test_lock_that_is_never_given_back(directory, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    source = source_of(12.5)
    with store.turn("test", store.key_of(source)):
        assert run_total(load_again(source)) == 75.0


# ---- what is said about it


def test_kernel_info(directory):
    jit.load("test", source_of(8.0))
    info = nt.kernel_info()
    assert info["cache_dir"] == str(directory)
    assert info["kernels"] == ["test"]
    assert "test" in info["compiled"]
    assert info["origins"]["test"] == "compiled"
    load_again(source_of(8.0))
    assert nt.kernel_info()["origins"]["test"] == "cache"


def test_files_that_vanish_while_sizes_are_added(directory, monkeypatch):
    """Locks and temporary files of other processes come and go."""
    load_again(source_of(8.5))
    size = store.size()
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [*self.iterdir(), self / "gone.lock"])
    assert store.size() == size > 0


def test_functions_release_the_gil(directory):
    function = jit.load("test", source_of(9.0)).function("nothing")
    assert isinstance(function, ctypes._CFuncPtr)
    assert not function._flags_ & ctypes._FUNCFLAG_PYTHONAPI


@pytest.mark.parametrize("finds_fields", [True, False])
def test_addresses_of_arrays(monkeypatch, finds_fields):
    """Addresses are NumPy's, whether fields of array objects are where they are looked for or not."""
    monkeypatch.setattr(jit, "_finds_fields", finds_fields)
    whole = np.arange(12.0).reshape(3, 4)
    fixed = whole[1:]
    fixed.flags.writeable = False
    for array in (whole, whole[:, 1:], fixed, whole[::-1], np.zeros(0), np.array(1.0), np.ones(3, bool)):
        assert jit.address(array) == array.ctypes.data
