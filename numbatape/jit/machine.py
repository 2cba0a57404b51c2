"""LLVM's description of this machine, and of others that a release build compiles for."""

from __future__ import annotations

import contextlib
import functools
import platform
from pathlib import Path

from .processor_levels import Level

# On x86 this is the kernel's own name of the processor: family, model, and each of its features.
MODALIAS = Path("/sys/devices/system/cpu/modalias")


@functools.cache
def identity() -> str:
    """Return a text that differs between processors for which LLVM emits different code.

    LLVM is asked only if the system does not tell, because importing its library takes 50 ms.
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
    except RuntimeError as error:  # llvmlite raises no other kind
        raise CannotEmit(str(error).strip()) from error


@functools.cache
@_emitting()
def target():
    """Return the target of this system, initialised."""
    import llvmlite.binding as llvm

    # Older versions of llvmlite need these calls; in newer ones they do nothing, and are deprecated.
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
    # `jit` chooses addresses of 64 bits, because a kernel calls functions that may be anywhere in memory.
    return found.create_target_machine(cpu=level.cpu, opt=2, jit=True)


@functools.cache
def context():
    """Return the context for parsing IR in which a pointer is written ``ptr``; None is LLVM's default.

    In llvmlite 0.44 (LLVM 15) an environment variable decides this for a whole process, and so for Numba too.
    A context of our own does not affect others. llvmlite has no public function that makes such a context.
    """
    import llvmlite

    if getattr(llvmlite, "opaque_pointers_enabled", True):  # later versions have no other pointers
        return None
    from llvmlite.binding import context, ffi

    return context.ContextRef(ffi.lib.LLVMPY_ContextCreate(True))
