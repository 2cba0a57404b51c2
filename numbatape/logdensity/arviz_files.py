"""Files as ArviZ reads and writes them: groups of variables along chains and draws, in netCDF or Zarr."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.optional import optional
from numbatape.logdensity.output import ZARR

NETCDF = ".nc"
SUFFIXES = (NETCDF, ZARR)
DRAWS = "draws"  # the name of the file of all chains in the directory of a run, without its suffix


def file_of_run(folder: Path) -> Path:
    """Return the file of all chains in the directory of a run, the newer one of two."""
    found = [file for suffix in SUFFIXES if (file := folder / f"{DRAWS}{suffix}").exists()]
    if not found:
        raise InputError(f"{folder}: holds no {DRAWS}{NETCDF}; the run has not finished, or this is no run")
    return max(found, key=lambda file: file.stat().st_mtime)


ENGINES = ("h5netcdf", "netCDF4")  # what xarray reads and writes groups of netCDF with
LEAD = ("chain", "draw")
OURS = "numbatape"  # the attribute `inference_library` of what is written here


def require_packages(suffix: str) -> None:
    """Raise an `InputError` unless files of this kind can be read and written here."""
    if suffix == ZARR:
        optional("zarr", f"a {ZARR} file", "xarray zarr")
    elif not any(map(importlib.util.find_spec, ENGINES)):
        raise InputError(
            f"a {NETCDF} file needs the package h5netcdf or netCDF4, and none is installed: "
            "pip install xarray h5netcdf h5py"
        )
    optional("xarray", f"a {suffix} file")


def group(
    arrays: Arrays, dims: Mapping[str, tuple[str, ...]], coords: Mapping[str, Any], about: dict[str, Any]
) -> Any:
    """Return arrays along chains and draws as one group; ArviZ's names stand for axes without names."""
    xarray = optional("xarray", "an ArviZ file")
    variables, used = {}, set()
    for name, array in arrays.items():
        if "/" in name:
            raise InputError(f"the variable {name} has a / in its name, which files of ArviZ cannot hold")
        axes = dims.get(name) or tuple(f"{name}_dim_{k}" for k in range(array.ndim - len(LEAD)))
        variables[name] = ((*LEAD, *axes), array)
        used.update(axes)
    labels = {axis: np.asarray(values) for axis, values in coords.items() if axis in used}
    counts = next(iter(arrays.values())).shape
    labels |= {axis: np.arange(count) for axis, count in zip(LEAD, counts, strict=False)}
    try:
        return xarray.Dataset(variables, labels, {key: attribute(value) for key, value in about.items()})
    except ValueError as error:
        raise InputError(f"`dims` and `coords` of the model do not fit its variables: {error}") from error


def write_groups(path: Path, groups: dict[str, Any]) -> None:
    """Write groups as netCDF or Zarr, by the suffix; the file appears complete or not at all."""
    xarray = optional("xarray", "an ArviZ file")
    tree = xarray.DataTree.from_dict(groups)
    # A full disk must be noticed here: HDF5 crashes the process when it cannot close a file.
    if path.suffix == NETCDF and shutil.disk_usage(path.parent).free < tree_bytes(groups):
        raise InputError(f"{path}: {os.strerror(errno.ENOSPC)}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr says that its format for strings may change
            if path.suffix == ZARR:
                tree.to_zarr(temporary, mode="w", consolidated=False)
            else:
                tree.to_netcdf(temporary, engine=_engine())
        if path.is_dir():
            shutil.rmtree(path)  # a directory cannot be replaced in one step
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


def tree_bytes(groups: dict[str, Any]) -> int:
    """Return about how many bytes a file of some groups takes."""
    return sum(group.nbytes for group in groups.values()) + (64 << 10) * (1 + len(groups))


def read_group(path: Path, name: str) -> Any | None:
    """Return a group of a file, loaded; None if the file has no such group."""
    xarray = optional("xarray", f"{path}")
    engine = "zarr" if path.suffix == ZARR else _engine()
    options = {"consolidated": False} if engine == "zarr" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with xarray.open_dataset(path, group=name, engine=engine, **options) as dataset:
                return dataset.load()
    except (KeyError, FileNotFoundError) as error:
        if not path.exists():
            raise InputError(f"{path}: no such file") from error
        return None
    except (OSError, ValueError, TypeError) as error:
        if type(error).__name__ == "GroupNotFoundError" or "group not found" in str(error):
            return None
        raise InputError(f"{path}: not a file of ArviZ: {error}") from error


def arrays_of(dataset: Any) -> Arrays:
    """Return the variables of a group with chains and draws as their first axes."""
    return {
        str(name): variable.transpose(*LEAD, ...).to_numpy()
        for name, variable in dataset.data_vars.items()
        if set(LEAD) <= set(variable.dims)
    }


def digest_of(path: Path) -> str:
    """Return the hash of a file, or of all files in a directory and their names."""
    digest = hashlib.sha256()
    with contextlib.suppress(NotADirectoryError):
        if path.is_dir():
            for file in sorted(p for p in path.rglob("*") if p.is_file()):
                digest.update(str(file.relative_to(path)).encode() + b"\0" + file.read_bytes())
            return digest.hexdigest()
    try:
        digest.update(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return digest.hexdigest()


def _engine() -> str:
    require_packages(NETCDF)
    found = next(name for name in ENGINES if importlib.util.find_spec(name))
    return found.lower()


def attribute(value: Any) -> Any:
    """Return what netCDF can hold as an attribute: text and numbers."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value)
