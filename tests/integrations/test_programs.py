"""Whole programs with other packages, each in a process of its own, as a practitioner runs them.

Samplers start threads, and JAX refuses to live in processes that fork, so they stay out of this one.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
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


@pytest.mark.parametrize("name", NEEDS)
def test_program(name):
    missing = [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    done = subprocess.run(
        [sys.executable, PROGRAMS / f"{name}.py"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


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
