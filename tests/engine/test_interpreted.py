"""Machines that LLVM cannot emit code for: kernels are interpreted, which one warning says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt
from numbatape.engine.codegen import kernel_source
from numbatape.jit import compiler, interpreted, linalg, loader, machine
from numbatape.ops import OPCODE, OPS
from tests.kernel_bits import cases, swept

ROOT = Path(__file__).parents[2]
X = np.linspace(0.2, 1.5, 6)


def elementwise(x):
    return np.sum(np.sin(x) * x[0] / (1.0 + x**2)) + np.where(x > 1.0, x, 2.0 * x).sum()


def matrices(x):
    system = np.outer(x, x) + np.eye(6)
    return np.linalg.det(system) + np.sum(np.linalg.solve(system, x)) + np.linalg.cholesky(system)[2, 1]


def of_scipy(x):
    return sc.psi(x[0]) + np.sum(sc.gammaln(x)) + np.sum(np.sort(x)[:3]) if x[0] < x[1] else x[2]


FUNCTIONS = [elementwise, matrices, of_scipy]


def results():
    """Return all kinds of derivatives, of each way to run a tape."""
    found = []
    for f in FUNCTIONS:
        value, gradient = nt.value_and_grad(f)(X)
        found += [value, gradient, nt.grad(f)(X.astype(np.float32))]
    found.append(nt.hessian(elementwise)(X))
    found += nt.batch(elementwise)(np.stack([X, X + 1.0]))
    cache = nt.prepare_gradient_cache(matrices, X)
    for x in (X, X + 0.5, X + 0.5):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        found += [value, gradient.copy()]
    return [np.asarray(x) for x in found]


SCRIPT = """
import sys, warnings
import numpy as np
import llvmlite.binding as llvm

def fails(*_):
    raise RuntimeError("LLVM does not know this machine")

llvm.Target.from_default_triple = staticmethod(fails)
import numbatape as nt
from tests.engine import test_interpreted
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    np.savez(sys.argv[1], *test_interpreted.results())
print(*(each.message for each in said), sep="\\n")
print(set(nt.kernel_info()["origins"].values()))
"""


def test_results_are_right_and_one_warning_says_why(tmp_path):
    environment = {**os.environ, "NUMBATAPE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "found.npz")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    warning, origins = run.stdout.strip().split("\n")
    assert "LLVM does not know this machine" in warning and "interprets" in warning
    assert origins == "{'interpreted'}"
    with np.load(tmp_path / "found.npz") as found:
        for name, want in zip(found.files, results(), strict=True):
            np.testing.assert_allclose(found[name], want, rtol=1e-5 if want.dtype == np.float32 else 1e-12)
    assert not list(tmp_path.glob("cache/*.nto"))


SAMPLE = [("power", 0, "reverse"), ("hypot", 0, "forward"), ("maximum", 1, "reverse"), ("cast", 1, "forward")]


@pytest.mark.parametrize("name, family, direction", SAMPLE)
def test_interpreted_kernels_read_and_write_what_compiled_ones_do(name, family, direction):
    text = kernel_source(OPCODE[name], family, direction)
    ours = loader.Kernels(interpreted.entry_points(text))
    compiled = loader.link(compiler.compile_source(linalg.with_wrappers(text), "compiled"), "compiled")
    for case in list(cases(OPS[OPCODE[name]], direction))[::5]:
        for got, want in zip(swept(ours, direction, *case), swept(compiled, direction, *case), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)


def test_llvm_that_knows_the_processor_and_fails_to_emit(tmp_path, monkeypatch):
    def fails(emitter, module):
        raise machine.CannotEmit("no registers left")

    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "emit", fails)
    interpreted.warn.cache_clear()
    text = "# cells: f32\ndef twice(w, pc):\n    v = w[0]\n    v[1] += 2.0 * v[0]\n    return pc\n"
    with pytest.warns(RuntimeWarning, match="no registers left"):
        kernels = loader._load("twice", text)
    cells = np.array([1.5, 0.25], np.float32)
    frame = np.array([cells.ctypes.data], np.int64)
    assert kernels.function("twice")(frame.ctypes.data, 7) == 7
    assert cells[1] == 3.25
    assert loader._origins["twice"] == "interpreted"
    assert not list(tmp_path.glob("*.nto"))


def test_mistakes_in_the_lowering_are_not_interpreted(tmp_path, monkeypatch):
    """What LLVM's parser refuses is a fault of ours, which nobody would notice if Python stepped in."""
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    lowered = compiler.lowering.Lowered("no IR", ("run",), (), False)
    monkeypatch.setattr(compiler.lowering, "lower", lambda source, key: lowered)
    with pytest.raises(RuntimeError, match="parsing error"):
        loader._load("run", "# cells: f64\ndef run(w, pc):\n    return 2\n")


def test_literals_divide_and_overflow_as_in_compiled_code():
    source = "def f(w, pc):\n    total = 0.0\n    return 1.0 / total + (10.0 * w) ** 400.0 - 1.0 / -total\n"
    scope = {}
    with np.errstate(all="ignore"):
        interpreted.run(source, scope, "tested")
        assert scope["f"](1, 0) == np.inf
