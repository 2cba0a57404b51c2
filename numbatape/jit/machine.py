"""LLVM's description of this machine."""

from __future__ import annotations

import functools


@functools.cache
def target():
    """Return the target of this system, initialised."""
    import llvmlite.binding as llvm

    # Deprecated no-ops in newer llvmlite, needed by older ones.
    for start in ("initialize_native_target", "initialize_native_asmprinter"):
        getattr(llvm, start)()
    return llvm.Target.from_default_triple()


@functools.cache
def host():
    """Return what emits code for this processor."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return target().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)
