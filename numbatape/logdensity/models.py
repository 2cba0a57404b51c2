"""Load a model file: its log-density, its data, and how it wants its draws."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numbatape.logdensity.exits import InputError, ModelError, running_model
from numbatape.logdensity.jsonfile import parse_data, to_arrays
from numbatape.logdensity.model_parameters import Parameters, read_parameters
from numbatape.logdensity.rawfile import read_bytes, unpacked

MODULE_PREFIX = "numbatape_model_"


@dataclass(frozen=True)
class Model:
    """A log-density read from a Python file, with everything the batch program needs of it.

    Attributes
    ----------
    label : str
        ``file.py:function``, for messages and outputs.
    arguments : tuple
        What is passed to `logp` and `unconstrain` after their first argument: the data, or nothing.
    logp : callable
        The log-density of theta, a vector of real numbers.
    parameters : Parameters
        Names and start of theta, and the variables that it stands for.
    unconstrain : callable, or None
        ``unconstrain(draw)`` gives theta; the data is bound to it already.
    sha256, data_sha256 : str
        Hash of the model's source; of the data file, or of the contents of the data that the model file
        makes (empty without data).
    """

    path: Path
    label: str
    logp: Callable[..., Any]
    arguments: tuple[Any, ...]
    parameters: Parameters
    unconstrain: Callable[[dict[str, float]], Any] | None
    sha256: str
    data_sha256: str

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of theta's elements, where the model gives them."""
        return self.parameters.names


def load_model(spec: str, data_file: str | None) -> Model:
    """Run ``MODEL.py[:name]`` as a module and read its log-density and data."""
    path, function_name = _split(spec)
    source = read_bytes(path)
    # Data are read before the model runs, which may change the directory that relative paths start from.
    raw = None if data_file is None else read_bytes(Path(data_file))
    module = _execute(path, source)

    logp = getattr(module, function_name, None)
    if not callable(logp):
        there = ", ".join(k for k, v in vars(module).items() if inspect.isfunction(v)) or "none"
        raise InputError(f"{path}: no function `{function_name}` (functions there: {there})")

    data, data_sha256 = _read_data(module, data_file, raw)
    arguments = _arguments_for(logp, data, f"{path}:{function_name}", given=data_file is not None)
    parameters, density = read_parameters(module, logp, _data_for(module, "constrain", data, path), str(path))
    unconstrain = getattr(module, "unconstrain", None)
    if unconstrain is not None:
        if parameters.from_columns is not None:
            raise ModelError(f"{path}: has `unconstrain`, and `start` as a structure, which does the same")
        unconstrain = _bind_data(unconstrain, data, f"{path}:unconstrain")
    return Model(
        path=path,
        label=f"{path.name}:{function_name}",
        logp=density,
        arguments=arguments,
        parameters=parameters,
        unconstrain=unconstrain,
        sha256=hashlib.sha256(source).hexdigest(),
        data_sha256=data_sha256 if arguments or unconstrain is not None else "",
    )


@contextlib.contextmanager
def import_path(spec: str) -> Iterator[None]:
    """Let the model import modules of its folder, as ``python MODEL.py`` would."""
    folder = str(_split(spec)[0].resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def model_path(spec: str) -> Path:
    """Return the file of ``MODEL.py[:name]``."""
    return _split(spec)[0]


def _split(spec: str) -> tuple[Path, str]:
    path, colon, name = spec.rpartition(":")
    if colon and path.endswith(".py"):
        return Path(path), name
    return Path(spec), "logp"


def _execute(path: Path, source: bytes) -> types.ModuleType:
    """Execute exactly the bytes that were hashed: no import cache, no .pyc beside the user's file."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path.resolve())
    # The module gets a name of its own: dataclasses and pickle look modules up by name, and a model called
    # json.py must not replace the library's.
    name = MODULE_PREFIX + path.stem
    module.__name__ = name
    sys.modules[name] = module
    with running_model(f"{path}: running the model file"):
        exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def _read_data(module: types.ModuleType, data_file: str | None, raw: bytes | None) -> tuple[Any, str]:
    if data_file is not None and raw is not None:
        return parse_data(unpacked(raw, data_file)[0], data_file), hashlib.sha256(raw).hexdigest()
    if getattr(module, "data", None) is None:
        return None, ""
    data = to_arrays(module.data)
    digest = hashlib.sha256()
    _feed(digest, data)
    return data, digest.hexdigest()


def _feed(digest: Any, tree: Any) -> None:
    """Hash a tree of arrays and plain values by content."""
    if isinstance(tree, dict):
        digest.update(b"{")
        for key in sorted(tree, key=repr):
            digest.update(repr(key).encode() + b":")
            _feed(digest, tree[key])
        digest.update(b"}")
    elif isinstance(tree, (list, tuple)):
        digest.update(b"[")
        for item in tree:
            _feed(digest, item)
        digest.update(b"]")
    elif hasattr(tree, "tobytes"):
        digest.update(f"{tree.dtype.str}{tree.shape}".encode() + tree.tobytes())
    else:
        # An object whose repr has its address gets another hash in each process; then a resumed run refuses
        # to mix rows, which is safe.
        digest.update(json.dumps(repr(tree)).encode())


def _arguments_for(function: Callable[..., Any], data: Any, label: str, given: bool) -> tuple[Any, ...]:
    """Decide between ``f(theta)`` and ``f(theta, data)`` from the function's signature."""
    least, most = _positional(function)
    if most < 1 or least > 2:
        raise InputError(f"{label} must take (theta) or (theta, data)")
    if most == 1:
        if given:
            raise InputError(f"{label} takes no data, but --data was given")
        return ()
    if data is None and least < 2:
        return ()  # the parameter has a default
    return (data,)


def _positional(function: Callable[..., Any]) -> tuple[int, float]:
    """Return how many positional arguments a function needs, and how many it takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # builtins and some extension functions have no signature
        return 2, 2
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in places)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return least, float("inf")
    return least, len(places)


def _data_for(module: types.ModuleType, name: str, data: Any, path: Path) -> tuple[Any, ...]:
    """Return what one of the model's functions is given after its first argument."""
    function = getattr(module, name, None)
    return _arguments_for(function, data, f"{path}:{name}", given=False) if callable(function) else ()


def _bind_data(unconstrain: Any, data: Any, label: str) -> Callable[[dict[str, float]], Any]:
    if not callable(unconstrain):
        raise ModelError(f"{label} is not a function")
    arguments = _arguments_for(unconstrain, data, label, given=False)
    return (lambda draw: unconstrain(draw, *arguments)) if arguments else unconstrain
