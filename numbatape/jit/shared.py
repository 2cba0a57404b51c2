"""Functions that several kernels call, each compiled once for all of them.

A function of a kernel's text whose result is annotated (``def getrf(v, a, n, p) -> int``) is a module of its
own. In the text that is compiled for the kernel, its body is the digest of that module's text, and so the key
of the kernel changes with the function. Kernels are linked with its address, and pay for a call what they pay
for one within a module.

A parameter without an annotation has the type of the result. In forms that Python interprets, and in the
reference of the tests, such a function is one like others.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SHARED = ", shared"  # how the first line of a module of one function ends, which other modules call
PREFIX = "nt_shared_"
_MARK = ") -> "
_PIECE = re.compile(r"^(?=def |[A-Za-z_]\w* = )", re.M)  # a function or a constant
_NAME = re.compile(r"(?:def )?(\w+)")
_SIGNATURE = re.compile(r"def .*?\) -> \w+:\n", re.S)
_ENTRY = re.compile(r"def \w+\(w, pc\)")
_WORD, _CALL = re.compile(r"\w+"), re.compile(r"(\w+)\(")


class Shared(NamedTuple):
    """A module of one function: the name of its file, and its text."""

    name: str
    text: str


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def symbol_of(text: str) -> str:
    """Return the symbol that kernels know a shared function by: it says what is behind it."""
    return f"{PREFIX}{digest_of(text)}"


def is_shared(text: str) -> bool:
    """Whether a text is the module of a shared function."""
    return text.partition("\n")[0].endswith(SHARED)


@functools.lru_cache(maxsize=64)
def split(source: str) -> tuple[str, tuple[Shared, ...]]:
    """Return a kernel's text without the shared functions that it calls, and the modules of those.

    Each module stands behind those that it calls itself.
    """
    if _MARK not in source or is_shared(source):
        return source, ()
    text = _Text(source)
    own = text.without_bodies(name for name, piece in text.pieces.items() if _ENTRY.match(piece))
    return "\n".join([text.head, *own]), tuple(text.modules.values())


class _Text:
    """A module of kernels in pieces, by name."""

    def __init__(self, source: str):
        first, _, rest = source.partition("\n")
        self.head = first if first.startswith("#") else "# cells: f64"
        self.cells = self.head[len("# cells: ") :].partition(",")[0]
        self.pieces = {}
        for piece in _PIECE.split(rest if first.startswith("#") else source):
            found = _NAME.match(piece)
            if found is not None:
                self.pieces[found[1]] = piece.rstrip() + "\n"
        self.modules: dict[str, Shared] = {}

    def without_bodies(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the pieces with these names and what they call, constants first, in the order of their names.

        Texts of kernels have functions in the order in which they call them, which differs between kernels.
        """
        needed: set[str] = set()
        left = list(names)
        whole = set(left)
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                if name in whole or not self._is_shared(name):
                    left += self._named_in(self.pieces[name])
        for name in sorted(needed, key=lambda name: (self.pieces[name].startswith("def "), name)):
            elsewhere = name not in whole and self._is_shared(name)
            yield self._declaration(name) if elsewhere else self.pieces[name]

    def _named_in(self, piece: str) -> list[str]:
        """Return the functions that are called, and constants: a variable may have a function's name."""
        called = set(_CALL.findall(piece))
        return [
            word
            for word in set(_WORD.findall(piece)) & self.pieces.keys()
            if word in called or not self.pieces[word].startswith("def ")
        ]

    def _is_shared(self, name: str) -> bool:
        return _SIGNATURE.match(self.pieces[name]) is not None

    def _declaration(self, name: str) -> str:
        if name not in self.modules:
            text = "\n".join([f"# cells: {self.cells}{SHARED}", *self.without_bodies([name])])
            self.modules[name] = Shared(f"shared-{name.strip('_')}-{self.cells}", text)
        signature = _SIGNATURE.match(self.pieces[name])
        return f'{signature[0]}    "{digest_of(self.modules[name].text)}"\n'
