"""From a kernel's source text to an address: what was shipped, else the disk cache, else the compiler."""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
from collections import Counter
from collections.abc import Callable

from .. import threads
from ..late import imported
from ..stalls import COMPILING
from . import elf, linalg, shared, store, symbols
from .machine import CannotEmit, target

lock = threading.RLock()  # there is one engine and one compiler
threads.keep_from_fork(lock)
_origins: dict[str, str] = {}
_counts: Counter[str] = Counter()  # How many kernels came from each origin; several may have one name.
_tiers: Counter[str] = Counter()
_loaded: dict[tuple[str, str], Kernels] = {}


def _note(name: str, origin: str, tier: str) -> None:
    _origins[name] = origin
    _counts[origin] += 1
    _tiers[tier] += 1


class Kernels:
    """Entry points of one loaded object file, by name.

    Attributes
    ----------
    address
        Name of an entry point → its address.
    tier
        One of `store.TIERS`.
    """

    def __init__(self, address: dict[str, int], tier: str = store.ONLY):
        self.address, self.tier = address, tier

    def function(self, name: str):
        """Return an entry point as a callable ``(frame, pc) -> status`` that releases the GIL."""
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(self.address[name])


@functools.cache
def _engine():
    """Return LLVM's engine, for object files that `elf.place` leaves to it."""
    import llvmlite.binding as llvm

    machine = target().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    # CPython calls audit hooks until the very end of the process, so their code must outlive Python's
    # objects.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine


def _place_by_llvm(compiled: store.ObjectFile, names: list[str]) -> dict[str, int]:
    """Return the addresses of these symbols of an object file, 0 for one that it does not define."""
    import llvmlite.binding as llvm

    engine = _engine()
    for symbol in compiled.externals:
        llvm.add_symbol(symbol, symbols.address_of(symbol))
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled.code))
    engine.finalize_object()
    return {name: engine.get_function_address(name) for name in names}


def link(compiled: store.ObjectFile, key: str) -> Kernels:
    """Load an object file into the process."""
    for symbol in compiled.externals:
        # LLVM ends the process at an unresolved symbol, so all are looked up before loading.
        if symbols.address_of(symbol) is None:
            raise ImportError(f"kernel needs the symbol {symbol!r}, which this process has not")
    names = {entry: f"nt_{key}_{entry}" for entry in compiled.entries}
    placed = elf.place(compiled.code, symbols.address_of)
    if placed is None:
        placed = _place_by_llvm(compiled, list(names.values()))
    for entry, name in names.items():
        if not placed.get(name):
            raise ImportError(f"the object file of kernel {key} lacks its entry point {entry!r}")
    return Kernels({entry: placed[name] for entry, name in names.items()}, compiled.tier)


def obtained(
    name: str,
    source: str,
    compiled: Callable[[str], tuple[store.ObjectFile, str]],
    optimised: bool = False,
) -> Kernels:
    """Return what a source identifies: shipped with the package, stored, or else compiled now and stored.

    Parameters
    ----------
    name
        Name of the file in the cache; the content hash is appended.
    source
        All that decides the machine code, besides the processor and the compiler.
    compiled
        Returns, for a key, the object file and the text that is stored beside it for readers.
    optimised
        Whether a stored form will not do that has a better one, which ``compiled`` then makes.

    Raises
    ------
    CannotEmit
        If it must be compiled, and LLVM emits no code for this machine.
    """
    kernels = _shipped(name, source)
    if kernels is not None:
        return kernels
    key = store.key_of(source)
    kernels = _stored(name, key, optimised)
    if kernels is not None:
        return kernels
    with COMPILING.piece(), store.turn(name, key):
        kernels = _stored(name, key, optimised)  # another process may have compiled it meanwhile
        if kernels is not None:
            return kernels
        made, text = compiled(key)
        _note(name, "compiled", made.tier)
        kept = store.write(name, key, made, text)
        COMPILING.note = f"kept in {store.cache_directory()}" if kept else "in memory, for this process alone"
        COMPILING.step(COMPILING.count + 1)
    if kept and made.tier == store.BASELINE:
        imported(".background", __package__).start()
    return link(made, key)


def _load(name: str, text: str, optimised: bool = False) -> Kernels:
    source, modules = linalg.parts(text)
    try:
        for module in modules:
            if shared.symbol_of(module.text) not in symbols.SHARED:
                _obtained(*module, optimised)
        return _obtained(name, source, optimised)
    except CannotEmit as error:
        return _interpreted(name, text, str(error))


def _obtained(name: str, source: str, optimised: bool) -> Kernels:
    def compiled(key: str) -> tuple[store.ObjectFile, str]:
        compile_source = imported(".compiler", __package__).compile_source
        return compile_source(source, key, optimise=optimised), source

    found = obtained(name, source, compiled, optimised)
    if shared.is_shared(source):
        (symbols.SHARED[shared.symbol_of(source)],) = found.address.values()
    return found


def shared_modules(text: str) -> tuple[shared.Shared, ...]:
    """Return the modules of the shared functions that a kernel calls: they are loaded before it."""
    return linalg.parts(text)[1]


def _interpreted(name: str, text: str, reason: str) -> Kernels:
    """Return kernels that Python interprets, which is said once."""
    interpreted = imported(".interpreted", __package__)
    interpreted.warn(reason)
    _note(name, "interpreted", store.ONLY)
    return Kernels(interpreted.entry_points(text))


def _shipped(name: str, source: str) -> Kernels | None:
    """Return the kernels that came with the package; None where none did, or they do not fit this process."""
    found = imported(".shipped", __package__).read(source)
    return None if found is None else _linked(name, found[1], found[0], "wheel")


def _stored(name: str, key: str, optimised: bool) -> Kernels | None:
    """Return stored kernels; None where they are not in the cache directory, or do not fit this process."""
    found = store.read(name, key)
    if found is None or (optimised and found.tier == store.BASELINE):
        return None
    return _linked(name, found, key, "cache")


def _linked(name: str, found: store.ObjectFile, key: str, origin: str) -> Kernels | None:
    try:
        kernels = link(found, key)
    except ImportError:  # made with another SciPy: compiling again names the missing symbol, if it is needed
        return None
    _note(name, origin, kernels.tier)
    return kernels


def load(name: str, source: str, optimised: bool = False) -> Kernels:
    """Return the kernels of a source text, compiled now if they never were on this machine.

    What a process has loaded stays: it is never replaced by its optimised form.

    Parameters
    ----------
    name
        Name of the file in the cache; the content hash is appended.
    source
        Text of a module in the kernel language. Its functions of parameters ``(w, pc)`` are the
        entry points.
    optimised
        Whether the optimised form must be stored afterwards, for processes that come later.
    """
    with lock:
        found = _loaded.get((name, source))
        if found is None:
            found = _loaded[name, source] = _load(name, source, optimised)
        elif optimised and found.tier == store.BASELINE:
            imported(".optimising", __package__).improve(name, linalg.parts(source)[0])
        return found


def kernel_info() -> dict:
    """Return what ``numbatape info`` shows: cache directory, stored kernels, CPU, where kernels came from.

    Returns
    -------
    dict
        ``cache_dir`` (str), ``kernels`` (names in the cache), ``bytes`` (of all files there), ``compiled``
        (names compiled by this process), ``stored`` (for each kernel in the cache its name, bytes, and days
        since its last use, and tier), ``origins`` (name of each kernel that this process has loaded →
        "wheel", "cache", "compiled" or "interpreted"), ``counts`` (how many kernels came from each of these:
        several may have one name), ``tiers`` (how many of these are of the tier "baseline" or "optimised", or
        have one form "only"), ``cpu`` (str), ``level`` (of processors, whose kernels came with the package;
        "" for none), ``shipped`` (how many those are).

    Examples
    --------
    >>> import numbatape as nt
    >>> [*nt.kernel_info()][:4]
    ['cache_dir', 'kernels', 'stored', 'compiled']
    """
    import llvmlite.binding as llvm

    shipped = imported(".shipped", __package__)
    level = shipped.level()
    kernels = store.stored()
    cpu = f"{llvm.get_host_cpu_name()} ({platform.machine()})"
    return {
        "cache_dir": str(store.cache_directory()),
        "kernels": [kernel.name for kernel in kernels],
        "stored": kernels,
        "compiled": [name for name, origin in _origins.items() if origin == "compiled"],
        "bytes": store.size(),
        "origins": dict(_origins),
        "counts": dict(_counts),
        "tiers": dict(_tiers),
        "cpu": cpu,
        "level": "" if level is None else level.name,
        "shipped": 0 if level is None else len(shipped.manifest(level)),
    }
