"""The reference of the tests: text in the kernel language → object file, compiled by Numba.

What the library compiles its kernels with (`numbatape.jit.lowering`) must give the same bits.

`RawCells` turns the array notation of kernels (``v[o + i] += x``) into loads and stores by address.
Indexing arrays instead costs 1.4 times as much per scalar op: Numba's signed indices carry a
wraparound test each, and every array argument a handful of live registers.
"""

from __future__ import annotations

import ast
import linecache

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from numbatape.jit.lowering.cells import kind_of
from numbatape.jit.store import ObjectFile

from . import raw
from .strips import Strips

ENTRY = types.int64(types.int64, types.int64)

FLAGS = {
    "error_model": "numpy",  # NumPy programs expect inf from 1/0, not an exception
    "boundscheck": False,  # the verifier proved the plan; the checked form is interpreted
    "_nrt": False,  # kernels allocate nothing, so they need no runtime
    "no_cpython_wrapper": True,  # called by address only
    "no_cfunc_wrapper": True,
}


class _Library(JITCodeLibrary):
    """A function's LLVM IR as Numba lowered it, which nothing optimises nor turns into code yet.

    Numba would do both for every function and once more for each that calls it; all are inlined
    into a few entry points here, and optimised once as one module (half the time of a compilation).
    """

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 1  # kept by the dispatcher, called by nobody

    @property
    def codegen(self):
        return _NoEnvironments


class _NoEnvironments:
    """What stands for the code generator when Numba wants to fill in a function's environment."""

    @staticmethod
    def set_env(name, environment):
        pass


class _Pipeline(Compiler):
    def define_pipelines(self):
        codegen = self.state.targetctx.codegen()
        self.state.library = _Library(codegen, self.state.func_id.func_qualname)
        return super().define_pipelines()


class RawCells(ast.NodeTransformer):
    """Rewrite subscripts of cell arrays into ``load_*`` and ``store_*`` calls."""

    def __init__(self, cells: str):
        self.cells = cells

    def _call(self, verb, node, *values):
        kind = kind_of(node.value.id, self.cells) if isinstance(node.value, ast.Name) else None
        if kind is None:
            return None
        index = self.visit(node.slice)
        return ast.Call(ast.Name(f"{verb}_{kind}", ast.Load()), [node.value, index, *values], [])

    def visit_Subscript(self, node):
        return self._call("load", node) or self.generic_visit(node)

    def visit_Assign(self, node):
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            call = self._call("store", target, self.visit(node.value))
            if call:
                return ast.Expr(call)
        return self.generic_visit(node)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Subscript):
            old = self._call("load", node.target)
            if old:
                new = ast.BinOp(old, node.op, self.visit(node.value))
                return ast.Expr(self._call("store", node.target, new))
        return self.generic_visit(node)


def compile_source(source: str, key: str) -> ObjectFile:
    """Compile a module of kernels; a first line ``# cells: f32`` picks the dtype of the cells."""
    cells = "f32" if source.startswith("# cells: f32") else "f64"
    strips = Strips(cells)
    tree = ast.fix_missing_locations(RawCells(cells).visit(strips.visit(ast.parse(source))))
    text = ast.unparse(tree)
    filename = f"<numbatape kernels {key}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace = raw.namespace(cells, text) | strips.made
    exec(compile(text, filename, "exec"), namespace)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    entries = [node.name for node in tree.body if _is_entry(node)]
    # Entry points are compiled at once, and call functions that stand below them, too.
    for name in sorted(functions, key=entries.__contains__):
        signature = [ENTRY] if name in entries else []
        namespace[name] = numba.njit(*signature, pipeline_class=_Pipeline, **FLAGS)(namespace[name])
    module, machine = _link_modules([namespace[e] for e in entries], entries, key)
    internal = {f"nt_{key}_{e}" for e in entries}
    declared = [v.name for v in (*module.functions, *module.global_variables) if v.is_declaration]
    externals = tuple(n for n in declared if not n.startswith("llvm.") and n not in internal)
    externals = tuple(n for n in externals if not n.startswith("_ZN08NumbaEnv"))
    return ObjectFile(tuple(entries), externals, machine.emit_object(module))


def _is_entry(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and [each.arg for each in node.args.args] == ["w", "pc"]


def _link_modules(kernels, entries, key):
    """Merge the kernels' modules; give each a C entry point ``nt_<key>_<name>(w, pc)``."""
    merged = None
    for kernel, entry in zip(kernels, entries, strict=True):
        (compiled,) = kernel.overloads.values()
        library = compiled.library
        module = llvm.parse_assembly(_with_powers_as_written(library.get_llvm_str()))
        shim = llvm.parse_assembly(_shim(compiled.fndesc.llvm_func_name, f"nt_{key}_{entry}"))
        shim.triple, shim.data_layout = module.triple, module.data_layout
        module.link_in(shim)
        if merged is None:
            merged = module
        else:
            merged.link_in(module)
    # Numba's names are unique in a process only: two object files may both define helper "v12", and
    # the engine would take the first for both. So nothing but the entry points is visible.
    entry_points = {f"nt_{key}_{entry}" for entry in entries}
    for symbol in (*merged.functions, *merged.global_variables):
        if not symbol.is_declaration and symbol.name not in entry_points:
            symbol.linkage = "internal"
    merged.verify()
    machine = library._codegen._tm
    _optimise(merged, machine)
    return merged, machine


def _with_powers_as_written(text: str) -> str:
    """Return IR whose powers are calls of the C library, even of 2, which LLVM would give to ``exp2``."""
    power = "double @llvm.pow.f64(double"
    lines = [f"{line} nobuiltin" if f"call {power}" in line else line for line in text.splitlines()]
    return "\n".join(lines).replace(power, "double @pow(double")


def _optimise(module, machine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _shim(inner: str, outer: str) -> str:
    """Return a C function around Numba's own convention, status f(result*, exception**, ...)."""
    module = ir.Module()
    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.IntType(32), [word.as_pointer(), pointer.as_pointer(), word, word])
    target = ir.Function(module, kind, inner)
    function = ir.Function(module, ir.FunctionType(word, [word, word]), outer)
    builder = ir.IRBuilder(function.append_basic_block())
    result, error = builder.alloca(word), builder.alloca(pointer)
    builder.call(target, [result, error, *function.args])
    builder.ret(builder.load(result))
    return str(module)
