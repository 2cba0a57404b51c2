"""Machine code is loaded from files that nobody else could have written, and from no others."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from numbatape.jit import store, trust

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files to other users"
)

ROOT = Path(__file__).parents[2]
OTHER = 12345  # a user that is neither root nor the one who runs this
SCRIPT = """
from numbatape import jit
for number in (1, 2):
    jit.load("test", "# cells: f64\\ndef nothing(w, pc):\\n    return %d\\n" % number)
print(jit.kernel_info()["compiled"])
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A cache directory that is above suspicion."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(path))
    return path


def compiled_in(directory):
    """Return what a process compiled, and what it said, that finds its kernels in a directory."""
    environment = {**os.environ, "NUMBATAPE_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return run.stdout.strip(), run.stderr


def another_s(path):
    os.chown(path, OTHER, OTHER)


def group_may_write(path):
    path.chmod(0o770)


def all_may_write(path):
    path.chmod(0o777)


def sticky(path):
    """Others cannot delete entries here, but they can add some."""
    path.chmod(0o1777)


SUSPECT = [another_s, group_may_write, all_may_write, sticky]


@pytest.mark.parametrize("spoil", SUSPECT, ids=lambda f: f.__name__)
def test_a_directory_of_others_is_not_used(directory, spoil):
    spoil(directory)
    compiled, said = compiled_in(directory)
    assert compiled == "['test']"
    assert not list(directory.iterdir())
    assert said.count("is not used") == 1
    assert str(directory) in said and "compiled in memory" in said


@pytest.mark.parametrize("spoil", SUSPECT[:3], ids=lambda f: f.__name__)
def test_a_directory_above_that_others_may_change(directory, spoil):
    below = directory / "below"
    below.mkdir(mode=0o700)
    assert trust.refusal(below) is None
    spoil(directory)
    assert str(directory) in trust.refusal(below)


def test_below_a_sticky_directory(directory):
    """``/tmp``: everybody may add entries, and only the owner may take them away."""
    below = directory / "below"
    below.mkdir(mode=0o700)
    sticky(directory)
    assert trust.refusal(below) is None
    assert trust.refusal(directory / "not made yet") is None


def test_symbolic_links(directory, tmp_path):
    """A link is as good as who made it, and as where it leads."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    assert trust.refusal(link) is None
    os.lchown(link, OTHER, OTHER)
    assert str(link) in trust.refusal(link)
    os.lchown(link, 0, 0)
    another_s(real)
    assert str(real) in trust.refusal(link)


def fill(directory):
    key = store.key_of("text")
    assert store.write("test", key, store.ObjectFile(("a",), (), b"code"), "text")
    assert store.read("test", key) is not None
    return key, directory / f"test-{key}.nto"


@pytest.mark.parametrize("spoil", [another_s, lambda p: p.chmod(0o620), lambda p: p.chmod(0o602)])
def test_a_file_of_others_is_not_read(directory, spoil):
    key, path = fill(directory)
    spoil(path)
    assert store.read("test", key) is None


def test_a_symbolic_link_is_not_read(directory, tmp_path):
    key, path = fill(directory)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.read("test", key) is None


def test_the_directory_is_made_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "new"))
    _, path = fill(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o077 == 0


RULE = """
import numba
import numpy as np
import numbatape as nt

@numba.njit(cache=True)
def value(x):
    return np.sum(x * x)

@numba.njit(cache=True)
def pullback(ybar, y, x):
    return (2.0 * ybar * x,)

rule = nt.primitive(value, pullback=pullback)
gradient = nt.grad(lambda x: rule(x))(np.array([1.0, 2.0]))
entries = [alive for _, alive in rule._rule.compiled.values()]
hits = sum(entry.cache_hits for entry in entries), len(entries)
"""


def test_compiled_rules_of_others_are_not_loaded(directory, tmp_path, monkeypatch):
    """What Numba keeps for a rule is a pickle: another user's would run what they like.

    A rule is made anew each time the program runs, and then finds what was kept, in this process too.
    """
    # Unoptimised code has dynamic globals, with which Numba stores no function.
    monkeypatch.setattr(numba.config, "OPT", type(numba.config.OPT)(1))
    program = tmp_path / "model.py"
    program.write_text(RULE)

    def hits():
        found = runpy.run_path(str(program))
        np.testing.assert_array_equal(found["gradient"], [2.0, 4.0])
        return found["hits"]

    assert [hits(), hits()] == [(0, 2), (2, 2)]
    rules = directory / "rules"
    index = next((rules / "__pycache__").glob("*.nbi"))
    for path in (index, next(rules.glob("*.py"))):
        another_s(path)
        assert hits() == (1, 2)  # the other direction's files are as they were
        os.chown(path, 0, 0)
    for path in (rules, rules / "__pycache__"):
        group_may_write(path)
        assert hits() == (0, 2)
        path.chmod(0o700)
    assert hits() == (2, 2)
