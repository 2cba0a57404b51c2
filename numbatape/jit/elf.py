"""Object files for Linux on x86-64, put into memory without LLVM, whose library takes 50 ms to import.

LLVM emits kernels for its large code model: each reference is a whole address, wherever its target is. So it
is enough to copy the sections and to fill in the addresses. Whatever kernels do not have (data that is
written to, references of other kinds) is left to LLVM's own loader.

Names in capitals are those of the system's ``elf.h`` and ``sys/mman.h``.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

IDENTITY = b"\x7fELF\x02\x01"  # an ELF file of 64-bit words, the lowest byte first
EM_X86_64 = 62
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_X86_64_UNWIND = 2, 4, 8, 0x70000001
SHF_WRITE, SHF_ALLOC = 1, 2
SHN_UNDEF = 0
R_X86_64_64 = 1
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_PRIVATE, MAP_ANONYMOUS = 2, 0x20
MAP_FAILED = ctypes.c_void_p(-1).value

# Where the header says which processor the file is for, where the table of sections begins, and its length.
MACHINE_AT, TABLE_AT, COUNT_AT = 18, 40, 60


class _Section(NamedTuple):
    """A row of the table of sections (``Elf64_Shdr``)."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    def content(self, code: bytes) -> bytes:
        return code[self.offset : self.offset + self.size]

    @property
    def is_loaded(self) -> bool:
        # No exception passes through a kernel, so nobody looks for the tables that unwind its frames.
        return bool(self.flags & SHF_ALLOC) and self.type != SHT_X86_64_UNWIND


def place(code: bytes, address_of: Callable[[str], int | None]) -> dict[str, int] | None:
    """Put an object file into executable memory, where it stays for good.

    Parameters
    ----------
    code
        Content of the file.
    address_of
        Returns the address of a symbol that the file needs, or None where there is none.

    Returns
    -------
    dict or None
        Addresses of the symbols that it defines. None where this is another system, or the file has anything
        that kernels do not have.

    Raises
    ------
    ImportError
        If a symbol is missing.
    OSError
        If the system refuses executable memory.
    """
    sections = sections_of(code)
    if sections is None or not _is_known(code, sections):
        return None
    image, starts = bytearray(), {}
    for k, section in enumerate(sections):
        if section.is_loaded:
            image += bytes(-len(image) % max(section.alignment, 1))
            starts[k] = len(image)
            image += section.content(code)
    references = [
        (starts[section.info] + place, *reference)
        for section in sections
        if section.type == SHT_RELA and section.info in starts
        for place, *reference in struct.iter_unpack("<QQq", section.content(code))
    ]
    if any(info & 0xFFFFFFFF != R_X86_64_64 for _, info, _ in references):
        return None
    base = _reserve(len(image))
    defined, targets = {}, []
    for name, section, value in symbols_of(code, sections):
        if section in starts:
            defined[name] = value = base + starts[section] + value
        elif section == SHN_UNDEF and name:
            found = address_of(name)
            if found is None:
                raise ImportError(f"kernel needs the symbol {name!r}, which this process has not")
            value = found
        targets.append(value)
    for at, info, addend in references:
        struct.pack_into("<Q", image, at, targets[info >> 32] + addend)
    _fill(base, bytes(image))
    return defined


def sections_of(code: bytes) -> list[_Section] | None:
    """Return the sections of an object file; None if it has another format."""
    if not code.startswith(IDENTITY):
        return None
    (table,) = struct.unpack_from("<Q", code, TABLE_AT)
    (count,) = struct.unpack_from("<H", code, COUNT_AT)
    rows = struct.Struct("<IIQQQQIIQQ")
    return [_Section(*row) for row in rows.iter_unpack(code[table : table + rows.size * count])]


def _is_known(code: bytes, sections: list[_Section]) -> bool:
    """Whether an object file is for this system, and has nothing that `place` does not know how to load."""
    (machine,) = struct.unpack_from("<H", code, MACHINE_AT)
    strange = any(s.is_loaded and (s.flags & SHF_WRITE or s.type == SHT_NOBITS) for s in sections)
    return not strange and sys.platform == "linux" and os.uname().machine == "x86_64" and machine == EM_X86_64


def symbols_of(code: bytes, sections: list[_Section]) -> Iterator[tuple[str, int, int]]:
    """Yield (name, number of the section, offset in it) of each row of the table of symbols."""
    (table,) = (section for section in sections if section.type == SHT_SYMTAB)
    names = sections[table.link].content(code)
    for first, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table.content(code)):
        yield names[first : names.index(b"\0", first)].decode(), section, value


@functools.cache
def _c_library():
    library = ctypes.CDLL(None, use_errno=True)
    size, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_long]
    library.mmap.restype = ctypes.c_void_p
    library.mprotect.argtypes = [ctypes.c_void_p, size, number]
    return library


def _reserve(size: int) -> int:
    """Return the address of new memory, which is never given back.

    An audit hook is called to the very end of the process, when Python's own objects are gone.
    """
    prot, flags = PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
    address = _c_library().mmap(None, max(size, 1), prot, flags, -1, 0)
    if address == MAP_FAILED:
        raise OSError(ctypes.get_errno(), "no memory for a kernel")
    return address


def _fill(base: int, image: bytes) -> None:
    """Write into reserved memory, which from then on can be executed, and not be written to."""
    ctypes.memmove(base, image, len(image))
    if _c_library().mprotect(base, max(len(image), 1), PROT_READ | PROT_EXEC):
        raise OSError(ctypes.get_errno(), "this system refuses executable memory, which kernels need")
