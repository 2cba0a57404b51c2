"""Writes the body of one function as LLVM's text: lines, with new names for values, labels and slots."""

from __future__ import annotations

import contextlib
import struct
from typing import NamedTuple

# Types of the kernel language and LLVM's; "none" is the result of a function that returns nothing.
LLVM = {"int": "i64", "float": "double", "bool": "i1", "none": "void"}


class Value(NamedTuple):
    """The result of an expression: its name (or constant) in LLVM's text, and its type in kernels."""

    text: str
    type: str


def number(x: float) -> str:
    """Return a float64 in LLVM's text form: its bits, since not every decimal is accepted."""
    return "0x" + struct.pack(">d", x).hex().upper()


def integer(x: int) -> Value:
    return Value(str(int(x)), "int")


class Writer:
    """Lines of a function that is being written.

    Attributes
    ----------
    lines
        Instructions and labels.
    slots
        The stack slots. They are declared at the head of the function, since LLVM turns only such slots into
        registers.
    ended
        Whether the current block has its terminator, so that whatever follows cannot be reached.
    block
        The label of the current block.
    pointers
        Address → the pointer that was made of it where it was computed.
    tables
        Definitions of constants that refer to the function's labels.
    """

    def __init__(self):
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.count = 0
        self.ended = False
        self.block = "start.0"
        self.pointers: dict[str, str] = {}
        self.tables: list[str] = []

    def _fresh(self, hint: str) -> str:
        self.count += 1
        return f"{hint}.{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str) -> str:
        """Write an instruction and return the name of its result."""
        name = "%" + self._fresh("t")
        self.line(f"{name} = {text}")
        return name

    def label(self, hint: str) -> str:
        """Return a label, for a block that begins later."""
        return self._fresh(hint)

    def begin(self, label: str) -> None:
        """Begin a block; the block before it continues there unless it has ended."""
        self.jump(label)
        self.lines.append(f"{label}:")
        self.block, self.ended = label, False

    def jump(self, label: str, note: str = "") -> None:
        if not self.ended:
            self.end(f"br label %{label}{note}")

    def branch(self, condition: str, yes: str, no: str, note: str = "") -> None:
        self.end(f"br i1 {condition}, label %{yes}, label %{no}{note}")

    def end(self, terminator: str) -> None:
        self.line(terminator)
        self.ended = True

    def slot(self, kind: str, count: int = 1) -> str:
        """Return the name of memory for ``count`` values of an LLVM type."""
        name = "%" + self._fresh("slot")
        self.slots.append(f"  {name} = alloca {kind}" + (f", i64 {count}" if count != 1 else ""))
        return name

    @contextlib.contextmanager
    def aside(self):
        """Collect the lines that are written inside of the context in a separate list."""
        kept, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = kept

    def opaque(self, integer: str) -> str:
        """Pass an integer through an assembly text of no instructions, behind which LLVM cannot look.

        LLVM searches the cheapest way to compute the addresses in a loop (loop strength reduction), which
        takes a quarter of the time of compilation. It does not where a loop's counter is hidden from them.
        """
        return self.new(f'call i64 asm "", "=r,0"(i64 {integer})')

    def pointer(self, address: str) -> str:
        return self.pointers.get(address) or self.new(f"inttoptr i64 {address} to ptr")

    def element(self, pointer: str, kind: str, index: str) -> str:
        """Return the pointer to an element of an array."""
        return pointer if index == "0" else self.new(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def select(self, condition: str, kind: str, yes: str, no: str) -> str:
        return self.new(f"select i1 {condition}, {kind} {yes}, {kind} {no}")
