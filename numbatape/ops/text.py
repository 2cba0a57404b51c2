"""The text of ops: of their kernels, and the version that follows from it.

Kernels are made from the text of functions (`numbatape.engine.codegen`), and so a hash of the text says
whether a tape that one version of numbatape has written means the same to another.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
import textwrap
from types import FunctionType

from . import scalars
from .table import ArrayOp, Op

# What is no part of a name in a text of kernels, which is ASCII.
_BETWEEN = {k: " " for k in range(128) if not (chr(k).isalnum() or chr(k) == "_")}


def names_in(text: str) -> dict[str, None]:
    """Return the names (and numbers) of a text in the order in which they occur.

    The sweeps' text has 30 000 characters, which a process looks through twice before its first call. A
    pattern would take five times as long.
    """
    return dict.fromkeys(text.translate(_BETWEEN).split())


def helpers(text: str, *modules) -> str:
    """Return the source of the modules' functions and constants that a text names, recursively."""
    found: dict[str, str] = {}

    def collect(body, scope):
        for name in names_in(body):
            thing = scope.get(name)
            if name in found or thing is None:
                continue
            if isinstance(thing, FunctionType) and thing.__module__.startswith("numbatape.ops"):
                found[name] = ""  # functions may call each other, and each is collected once
                source = without_docstring(source_of(thing))
                collect(source.split("\n", 1)[1], thing.__globals__)
                found[name] = found.pop(name) or source
            elif isinstance(thing, (int, float)) and not isinstance(thing, bool):
                found[name] = (
                    f"{name} = {thing!r}\n"
                    if thing == thing and abs(thing) != float("inf")
                    else (f"{name} = float({str(thing)!r})\n")
                )

    collect(text, {name: thing for module in modules for name, thing in vars(module).items()})
    return "\n".join(sorted(found.values(), key=lambda s: s.startswith("def")))


def modules_of(op: ArrayOp) -> list:
    """Return the modules in which an op's kernels stand: one may be that of an op in another file."""
    kernels = [kernel for kernel in (op.forward, op.reverse) if kernel is not None]
    return [sys.modules[name] for name in dict.fromkeys(kernel.__module__ for kernel in kernels)]


def source_of(function) -> str:
    """Return the text of a function of this package, without indentation.

    The text ends before the next line that is indented no further than the ``def``. `inspect.getsource`
    would find the end by splitting the file into tokens, 2 ms per function when a process loads its first
    kernels.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    margin = len(lines[0]) - len(lines[0].lstrip())
    # The first line behind the decorators.
    end = next(k for k, line in enumerate(lines) if line.lstrip().startswith("def ")) + 1
    while end < len(lines):
        text = lines[end].lstrip()
        if text and len(lines[end]) - len(text) <= margin and not text.startswith(")"):
            break
        end += 1
    return textwrap.dedent("".join(lines[:end])).rstrip("\n") + "\n"


def without_docstring(source: str) -> str:
    return re.sub(r'\n\s+"""(.|\n)*?"""\n', "\n", source, count=1)


def version_of(op: Op) -> str:
    """Return a hash of what an op computes, forward and back: of its formulas, or of its kernels.

    Comments, docstrings and blank lines do not count, nor does what only makes it faster (arms, NumPy's
    loops).
    """
    if isinstance(op, ArrayOp):
        kernels = [source_of(kernel) for kernel in (op.forward, op.reverse) if kernel is not None]
        text = "\n".join(map(without_docstring, kernels))
        text += helpers(text, *modules_of(op))
        stated = (op.signature, op.scratch, op.index, op.extents, _bare(text))
    else:
        formulas = [formula or "" for formula in (op.value, *op.partials, *op.second.values())]
        stated = (*formulas, _bare(helpers("\n".join(formulas), scalars)))
    return hashlib.sha256(repr(stated).encode()).hexdigest()[:12]


def _bare(text: str) -> str:
    """Return code without comments and blank lines."""
    lines = (re.sub(r"\s*#[^\"']*$", "", line).rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
