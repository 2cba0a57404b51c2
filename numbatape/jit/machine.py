"""LLVM's description of this machine."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

# On x86 the kernel's own name of the processor: family, model, and each of its features.
MODALIAS = Path("/sys/devices/system/cpu/modalias")


@functools.cache
def identity() -> str:
    """Return a text that differs between processors for which LLVM emits different code.

    LLVM itself is asked only where the system does not say: to import its library takes 50 ms.
    """
    if platform.machine() == "x86_64" and MODALIAS.exists():
        return MODALIAS.read_text()
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


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
