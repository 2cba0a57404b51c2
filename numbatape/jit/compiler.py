"""Source text in the kernel language → object file: lowered to LLVM IR, optimised once as a whole, emitted.

Measured on a loaded core (mean over modules of the library, in brackets the sweeps): lowering and parsing
7 ms; passes and code at -O0 5 ms (0.07 s), at -O1 77 ms (1.1 s), at -O2 with vectors 105 ms (0.9 s), at -O3
180 ms (2.7 s). -O2 with vectors runs as fast as Numba did; -O1 takes 1.16 times as long, -O0 four times.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from . import lowering, machine
from .store import ObjectFile


def compile_source(source: str, key: str, emitter=None) -> ObjectFile:
    """Compile a module of kernels; a first line ``# cells: f32`` picks the dtype of the cells.

    Parameters
    ----------
    emitter
        LLVM's target machine; this processor's unless another one is given.

    Raises
    ------
    CannotEmit
        Where LLVM does not know this machine, or not well enough.
    """
    lowered = lowering.lower(source, key)
    emitter = emitter or machine.host()
    module = llvm.parse_assembly(lowered.text, machine.context())
    module.triple, module.data_layout = emitter.triple, str(emitter.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # Several vectors a turn, and vectors of what stands side by side, take a quarter of the time of an op's
    # kernel, and calls were no faster for it: rows of 20 to 20 000 cells take 0.97 times as long without.
    options.loop_vectorization, options.loop_interleaving = True, False
    options.slp_vectorization, options.loop_unrolling = False, False
    builder = llvm.create_pass_builder(emitter, options)
    builder.getModulePassManager().run(module, builder)
    return ObjectFile(lowered.entries, lowered.externals, machine.emit(emitter, module))
