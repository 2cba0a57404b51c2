"""Rules compiled by Numba, as function pointers that a sweep calls: no interpreter, no lock.

A rule's function is called by a C function ``int64 call(int64 words, int64 state)``. The kernel of a
``call`` instruction writes ``words`` (`numbatape.ops.calls`): where its operands are. ``state`` is the same
in all calls, an array of the words that `Signature.fields` names: base addresses of the cells, starts and
sizes of arguments and results, addresses of memory. Sizes are data, so one C function serves all sizes; it
is compiled once for a rule and a signature, and stored on disk where Numba stores the rule's own functions.

An exception cannot pass through compiled code. The C function notes which call failed, and
`numbatape.engine.calls` makes that call again in Python, where it raises.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import types
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..late import imported
from . import store, trust
from .rule_signatures import Signature

TEXT = '''"""Written by numbatape: calls a function of a rule that Numba has compiled."""
# {called}


def call(words, state):
    return whole(words, state)
'''


@dataclass
class Native:
    """A call of a compiled rule, as the engine makes it.

    Attributes
    ----------
    forward, reverse
        Addresses of the C functions; 0 where Python is called.
    names
        Names of the words of the state, in order.
    fields
        Values of the words of the state by name, except for those that the engine fills in.
    memory
        ``(name, shape, dtype)`` of arrays that each lane has.
    buffers
        ``(name, bytes)`` of memory that the call needs.
    alive
        Objects that must live as long as this one.
    follows, codes, rooms
        Whether another size changes nothing but these: the fields that are sizes, by size code, and for each
        buffer where its array begins and ends (size codes), and how many bytes it needs for an entry.
    """

    forward: int
    reverse: int
    names: tuple[str, ...]
    fields: dict[str, int]
    memory: list[tuple[str, tuple[int, ...], np.dtype]]
    buffers: list[tuple[str, int]]
    alive: tuple
    follows: bool = False
    codes: dict[str, int] = field(default_factory=dict)
    rooms: dict[str, tuple[int, int, int]] = field(default_factory=dict)


def is_dispatcher(function) -> bool:
    """Whether a function is Numba's, compiled without the interpreter."""
    if type(function) is types.FunctionType:  # `functools.wraps` copies a dispatcher's attributes to it
        return False
    options = getattr(function, "targetoptions", None)
    return hasattr(function, "py_func") and isinstance(options, dict) and not options.get("forceobj")


def compiled(signature: Signature, functions: tuple, workspace: type | None = None):
    """Return (address, what keeps it alive); None where Numba cannot type it: then Python calls the rule.

    Parameters
    ----------
    signature
        How to call it.
    functions
        Functions that Numba has compiled; they are called one after the other.
    workspace
        The named tuple of the arrays in memory, which is their last argument.
    """
    import numba
    from numba.core.errors import NumbaError

    rule_codegen = imported(".rule_codegen", __package__)

    def kind_of(name):
        if isinstance(name, tuple):
            return numba.types.Tuple(tuple(map(kind_of, name)))
        if name == "None":
            return numba.types.none
        if name == "workspace":
            arrays = [kind_of(leaf.name) for leaf in signature.leaves if leaf.place == "memory"]
            uniform = len(set(arrays)) == 1
            kind = numba.types.NamedUniTuple if uniform else numba.types.NamedTuple
            return kind(arrays[0], len(arrays), workspace) if uniform else kind(arrays, workspace)
        leaf = signature.leaf(name)
        return rule_codegen.kind_of(leaf.ndim, leaf.dtype)

    try:
        given = [tuple(map(kind_of, arguments)) for arguments in signature.arguments]
        calls = [rule_codegen.call_of(*call) for call in zip(functions, given, strict=True)]
        kinds = rule_codegen.kinds_of_parts(signature, calls[-1].return_type)
        if kinds is None:
            return None
        text = TEXT.format(called=f"{signature} {calls}".replace("\\", "/"))
        path = _file(text, functions)
        filename = str(path or f"<numbatape rule {hashlib.sha256(text.encode()).hexdigest()[:16]}>")
        if path is None:
            linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        scope = {"whole": rule_codegen.caller(signature, functions, given, calls, kinds)}
        scope["__name__"] = rule_codegen.__name__  # Numba's files name a module.
        exec(compile(text, filename, "exec"), scope)
        kind = numba.types.int64(numba.types.int64, numba.types.int64)
        entry = numba.cfunc(kind, cache=path is not None)(scope["call"])
    except NumbaError:
        return None
    return entry.address, entry


def _file(text: str, functions) -> Path | None:
    """Return a file for a text, beside which Numba stores what it compiles; None where it should not.

    It should where the rule's own functions are stored (``cache=True``), by Numba's own criterion: the file
    that defines them has not changed.
    """
    try:
        parts = [text, (Path(__file__).parent / "rule_codegen.py").read_text()]
        for function in functions:
            plain = function.py_func
            if type(getattr(function, "_cache", None)).__name__ != "FunctionCache" or plain.__closure__:
                return None
            code = plain.__code__
            stamp = Path(code.co_filename).stat()
            options = sorted(map(str, function.targetoptions.items()))
            where = code.co_filename, code.co_qualname, code.co_firstlineno, stamp.st_mtime_ns, stamp.st_size
            parts += [repr(where), repr(options)]
        if store.usable_directory() is None:
            return None
        directory = store.cache_directory() / "rules"
        path = directory / f"rule_{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:24]}.py"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _suspect(path):
            return None
        if not path.exists():
            store.replace(path, text.encode())
    except OSError:
        return None
    return path


def _suspect(path: Path) -> bool:
    """Whether other users may have written the pickles beside a file, which Numba would load."""
    import numba

    kept = Path(numba.config.CACHE_DIR or path.parent / "__pycache__")
    if trust.refusal(path.parent) or trust.refusal(kept):
        return True
    files = [path, *kept.glob(f"{path.stem}.*")] if path.exists() else kept.glob(f"{path.stem}.*")
    return os.name == "posix" and not all(trust.is_own_file(file.lstat()) for file in files)
