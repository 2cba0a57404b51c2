"""Compiles a text in the kernel language: it is lowered to LLVM IR, optimised, and emitted as an object file.

The table in docs/compiler.md says what LLVM's optimisation levels cost, and how fast their kernels are.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from ..savings import uncollected
from . import lowering, machine
from .store import BASELINE, ONLY, OPTIMISED, ObjectFile


@uncollected  # the trees of a text's syntax are large, and Python's collector finds nothing in them
def compile_source(source: str, key: str, emitter=None, optimise: bool = False) -> ObjectFile:
    """Compile a module of kernels; a first line ``# cells: f32`` picks the dtype of the cells.

    Parameters
    ----------
    emitter
        LLVM's target machine; this processor's unless another one is given.
    optimise
        Whether a kernel that has two forms is compiled to the one that takes longer.

    Raises
    ------
    CannotEmit
        Where LLVM does not know this machine, or not well enough.
    """
    lowered = lowering.lower(source, key)
    emitter = emitter or machine.host()
    module = llvm.parse_assembly(lowered.text, machine.context())
    module.triple, module.data_layout = emitter.triple, str(emitter.target_data)
    builder = llvm.create_pass_builder(emitter, _options())
    passes = None if lowered.effort == lowering.ALL_PASSES else _short()
    tier = ONLY
    if lowered.effort == lowering.TWO_TIERS and passes is not None:
        tier, passes = (OPTIMISED, None) if optimise else (BASELINE, passes)
    (passes or builder.getModulePassManager()).run(module, builder)
    return ObjectFile(lowered.entries, lowered.externals, machine.emit(emitter, module), tier)


def _options():
    """Return what LLVM's own list of passes does."""
    # Kernels of the second level are 2 % faster than those of the first, in an eighth more of the time.
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # The lowering writes the SIMD code of loops. LLVM joins only operations of straight code that are alike.
    options.loop_vectorization, options.loop_interleaving, options.loop_unrolling = False, False, False
    options.slp_vectorization = True
    return options


def _short():
    """Return the passes that are enough for most kernels: the lowering writes SIMD code itself.

    None with llvmlite 0.44, whose lists of passes do not have these. LLVM's own lists have sixty passes,
    some of them six times. They take eight times as long as these four do, half of the time of compilation,
    and calls of most kernels are no faster with them.
    """
    passes = llvm.create_new_module_pass_manager()
    if not hasattr(passes, "add_always_inliner_pass"):
        return None
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    return passes
