"""A module of kernels: its functions, for the types they are called with, and the symbols they need."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ..shared import PREFIX, is_shared
from . import subset
from .simd_functions import SimdFunction
from .statements import Function
from .writer import LLVM

HEADER = "# cells: f32"  # the first line of a module whose cells are float32
# Ends of the first line of a module that LLVM's whole list of passes makes faster: when it gets them.
ALL_PASSES, TWO_TIERS = EFFORTS = ("all passes", "two tiers")

# What is said about a loop that LLVM shall neither unroll nor turn into SIMD code, and about branches.
_PLAIN = ('!0 = !{!"llvm.loop.unroll.disable"}', '!1 = !{!"llvm.loop.vectorize.enable", i1 false}')
_ODDS = ('!2 = !{!"branch_weights", i32 1, i32 1000}', '!3 = !{!"branch_weights", i32 1000, i32 1}')


class Declared(NamedTuple):
    """A function that stands in another module: its symbol, and the type of its result."""

    symbol: str
    result: str
    entry: bool = True


class Module:
    """A module of kernels while it is being translated to LLVM IR.

    Attributes
    ----------
    cells
        "f64" or "f32": the dtype of the cells v and g.
    entries
        The functions that can be called from outside by address: those of parameters ``(w, pc)``, and that
        of the module of a shared function (`numbatape.jit.shared`).
    externals
        Symbols of other libraries that the text calls.
    effort
        One of `EFFORTS`, where the first line of the text names it, or "".
    """

    def __init__(self, source: str, key: str):
        self.cells = "f32" if source.startswith(HEADER) else "f64"
        self.key = key
        self.effort = next((each for each in EFFORTS if source.partition("\n")[0].endswith(each)), "")
        self.functions, self.constants = subset.parse(source)
        self.externals: dict[str, None] = {}
        self._declared: dict[str, str] = {}
        self._notes: list[str] = []
        self._instances: dict[tuple[str, tuple[str, ...]], Function | None] = {}
        self._simd_instances: dict[tuple[str, tuple[str, ...], int], SimdFunction | None] = {}
        is_entry = subset.is_defined if is_shared(source) else _is_entry
        self.entries = tuple(name for name, node in self.functions.items() if is_entry(node))
        for name in self.entries:
            node = self.functions[name]
            self.instance(name, subset.parameter_types(node) or ("int", "int"), node)

    def instance(self, name: str, types: tuple[str, ...], node: ast.AST) -> Function | Declared:
        """Return a function of the module for arguments of these types; ``node`` is what calls it."""
        digest = subset.declared(self.functions[name])
        if digest is not None:
            return self._elsewhere(self.functions[name], types, digest)
        wanted = name, types
        if wanted not in self._instances:
            # The function is entered before it is written, so that a call of itself can be refused.
            self._instances[wanted] = None
            entry = name in self.entries
            symbol = f'@"nt_{self.key}_{name}"' if entry else f'@"{name}.{".".join(types)}"'
            self._instances[wanted] = Function(self, self.functions[name], types, symbol, entry)
        found = self._instances[wanted]
        if found is None:
            raise subset.refused(node, "a function that calls itself")
        return found

    def arm(self, node: ast.FunctionDef, carried: dict[str, str], symbol: str) -> None:
        """Write a function that others refer to by its symbol alone (`numbatape.jit.lowering.arms`)."""
        self._instances[symbol, ()] = Function(self, node, tuple(carried.values()), symbol, False)

    def _elsewhere(self, node: ast.FunctionDef, types: tuple[str, ...], digest: str) -> Declared:
        result = subset.result_type(node)
        symbol = self.library(f"{PREFIX}{digest}", LLVM[result], ", ".join(LLVM[kind] for kind in types))
        return Declared(symbol, result)

    def simd_instance(self, name: str, types: tuple[str, ...], width: int, node: ast.AST) -> SimdFunction:
        """Return a function of the module for SIMD lanes of these types; ``node`` is what calls it."""
        wanted = name, types, width
        if wanted not in self._simd_instances:
            self._simd_instances[wanted] = None
            symbol = f'@"{name}.simd{width}.{".".join(types)}"'
            self._simd_instances[wanted] = SimdFunction(self, self.functions[name], types, width, symbol)
        found = self._simd_instances[wanted]
        if found is None:
            raise subset.refused(node, "a function that calls itself")
        return found

    def library(self, name: str, result: str, arguments: str, attributes: str = "nounwind") -> str:
        """Return the symbol of a function of another library."""
        self.externals[name] = None
        return self.intrinsic(name, result, arguments, attributes)

    def intrinsic(self, name: str, result: str, arguments: str, attributes: str = "") -> str:
        """Return the symbol of a function that is LLVM's own, or is declared elsewhere."""
        self._declared.setdefault(name, f'declare {result} @"{name}"({arguments}) {attributes}')
        return f'@"{name}"'

    def data(self, name: str) -> str:
        """Return the address of another library's data."""
        self.externals[name] = None
        # Without "dso_local" LLVM reads its address from a table (GOT) on ARM, and the table must be near.
        self._declared.setdefault(name, f'@"{name}" = external dso_local global i8')
        return f'@"{name}"'

    def plain_loop(self) -> str:
        """Return the note for the jump of a loop that LLVM shall neither unroll nor turn into SIMD code."""
        name = f"!{len(self._notes) + len(_PLAIN) + len(_ODDS)}"
        self._notes.append(f"{name} = distinct !{{{name}, !0, !1}}")
        return f", !llvm.loop {name}"

    def likely(self, first: bool) -> str:
        """Return the note for a branch that mostly goes to its first label, or else to its second."""
        return f", !prof !{len(_PLAIN) + first}"

    def text(self) -> str:
        written = [
            function
            for function in (*self._instances.values(), *self._simd_instances.values())
            if function is not None
        ]
        bodies = "\n".join(function.body for function in written)
        functions = [function.definition(bodies.count(f"{function.symbol}(")) for function in written]
        notes = [*_PLAIN, *_ODDS, *self._notes] if "!" in bodies else []
        return "\n".join([*self._declared.values(), *functions, *notes, ""])


def _is_entry(node: ast.FunctionDef) -> bool:
    return [argument.arg for argument in node.args.args] == ["w", "pc"]
