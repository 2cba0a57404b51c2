"""The scripts in examples/ run and check what they find; each is a model of the gallery (docs/gallery.md)."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Arguments that make them shorter.
SHORTER = {
    "bundle_adjustment": {"cameras": 6, "points": 30, "views": 4},
    "garch11": {"draws": 200},
    "gaussian_process": {"n": 80},
    "hidden_markov": {},
    "kalman_filter": {},
    "logistic_regression": {},
    "mlp": {"steps": 700, "width": 24},
    "negative_binomial": {"n": 300},
    "ode_fit": {},
    "option_greeks": {"paths": 500},
    "phase_retrieval": {"n": 12, "patterns": 8},
    "radon": {"draws": 100, "chains": 1},
}
MODELS = {"arK", "eight_schools", "irt_2pl"}  # for the command line: tests/logdensity/test_examples.py


def test_every_example_is_run_and_in_the_gallery():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert scripts == set(SHORTER) | MODELS
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert {name for name in scripts if f"examples/{name}.py" not in page} == set()


@pytest.mark.parametrize("name", sorted(set(SHORTER) - {"radon"}))
def test_example(name):
    script = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    script["main"](**SHORTER[name])


def of_gallery(name: str) -> str:
    """Return the program that runs an example, for a process of its own: samplers start threads."""
    folder = str(ROOT / "examples")
    start = f"import os, sys\nos.chdir({folder!r})\nsys.path.insert(0, {folder!r})\n"
    return f"{start}import {name}\n{name}.main(**{SHORTER[name]})\n"  # test_programs runs one with nutpie
