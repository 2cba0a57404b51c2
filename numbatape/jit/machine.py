"""LLVM's description of this machine, and of others that a release build compiles for."""

from __future__ import annotations

import contextlib
import functools
import platform
from pathlib import Path

from .levels import Level

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


class CannotEmit(RuntimeError):
    """LLVM cannot emit code for this machine."""


@contextlib.contextmanager
def _emitting():
    try:
        yield
    except RuntimeError as error:  # the only one that llvmlite knows
        raise CannotEmit(str(error).strip()) from error


@functools.cache
@_emitting()
def target():
    """Return the target of this system, initialised."""
    import llvmlite.binding as llvm

    # Deprecated no-ops in newer llvmlite, needed by older ones.
    for start in ("initialize_native_target", "initialize_native_asmprinter"):
        getattr(llvm, start)()
    return llvm.Target.from_default_triple()


@functools.cache
@_emitting()
def host():
    """Return what emits code for this processor."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return target().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


@_emitting()
def emit(emitter, module) -> bytes:
    """Return the object file that a target machine makes of a module of LLVM's."""
    return emitter.emit_object(module)


@functools.cache
@_emitting()
def emitter(level: Level):
    """Return what emits code for a level of processors, whatever this machine is.

    Raises
    ------
    CannotEmit
        If this LLVM was built without the level's architecture.
    """
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    found = llvm.Target.from_triple(level.triple)
    # As for the process's own engine: addresses of 64 bits, since what is called stands anywhere.
    return found.create_target_machine(cpu=level.cpu, opt=2, jit=True)


@functools.cache
def context():
    """Return the context for parsing IR in which a pointer is a ``ptr``; None is LLVM's usual one.

    With llvmlite 0.44 (LLVM 15) an environment variable decides that for a whole process, so for Numba too.
    A context of our own leaves the others alone; the function that takes the choice has no public name there.
    """
    import llvmlite

    if getattr(llvmlite, "opaque_pointers_enabled", True):  # later versions know nothing else
        return None
    from llvmlite.binding import context, ffi

    return context.ContextRef(ffi.lib.LLVMPY_ContextCreate(True))
