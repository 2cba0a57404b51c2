"""Whole programs with other packages, each in a process of its own, as a practitioner runs them.

Samplers start threads, and JAX refuses to live in processes that fork, so they stay out of this one.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES, compare_shown, packages_of, page_with_package
from tests.test_gallery import of_gallery

PROGRAMS = Path(__file__).parent / "programs"
# Programs that share a process, which imports nutpie and ArviZ (for 3 s) and forks for each. An example
# of the gallery and the blocks of pages that need nutpie run there, too.
WITH_NUTPIE = ("nutpie_model", "sample_command")
FORKS = """
import os, runpy, sys, warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its new version
    import arviz, nutpie

for argument in sys.argv[1:]:
    program, _, shown = argument.partition(">")
    child = os.fork()
    if not child:
        if shown:  # a file for what the program prints
            warnings.simplefilter("ignore")
            sys.stdout = open(shown, "w")
        runpy.run_path(program, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{program} failed")
"""
NEEDS = {
    "dask_cluster": ("distributed",),
    "emcee_sampler": ("emcee",),
    "ipopt_problem": ("cyipopt",),
    "jax_functions": ("jax",),
    "joblib_memory": ("joblib",),
    "nutpie_model": ("nutpie",),
    "pytensor_op": ("pytensor",),
    "sample_command": ("nutpie", "arviz", "h5netcdf", "zarr", "distributed"),
    "torch_functions": ("torch",),
}


def test_each_program_says_what_it_needs():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(NEEDS)


def missing(name) -> list[str]:
    return [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in NEEDS if name not in WITH_NUTPIE])
def test_program(name):
    if missing(name):
        pytest.skip(f"{', '.join(missing(name))} is not installed")
    run(PROGRAMS / f"{name}.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the programs share one process, which forks")
def test_programs_with_nutpie(tmp_path):
    names = [name for name in WITH_NUTPIE if not missing(name)]
    if not names:
        pytest.skip("nutpie, or what a program needs beside it, is not installed")
    example = tmp_path / "example.py"
    example.write_text(of_gallery("radon"))
    others, shown = [f"{example}>{tmp_path / 'example.txt'}"], {}
    for page in PAGES:
        if "nutpie" in packages_of(page):
            script, expected = page_with_package(page, "nutpie", tmp_path)
            others.append(f"{script}>{script}.txt")
            shown[page] = expected, Path(f"{script}.txt")
    run("-c", FORKS, *(PROGRAMS / f"{name}.py" for name in names), *others)
    assert shown
    for page, (expected, file) in shown.items():
        compare_shown(page, expected, file.read_text())


@pytest.mark.parametrize(
    "name, package",
    [
        ("to_nutpie", "nutpie"),
        ("to_emcee", "emcee"),
        ("to_blackjax", "jax"),
        ("to_numpyro", "jax"),
        ("as_jax_function", "jax"),
        ("as_pytensor_op", "pytensor"),
        ("to_cyipopt", "cyipopt"),
        ("as_torch_function", "torch"),
    ],
)
def test_a_missing_package_is_named(name, package, monkeypatch):
    import numbatape.integrations as integrations

    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for module in [key for key in sys.modules if key.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ModuleNotFoundError, match=rf"{name} needs the package {package}.*: pip install {package}"
    ):
        getattr(integrations, name)(lambda x: -(x**2), *([] if package == "torch" else [0.5]))


def test_names_are_made_when_they_are_used():
    code = "import numbatape.integrations, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"scipy", "jax", "nutpie", "emcee", "pytensor", "cyipopt", "torch"}
