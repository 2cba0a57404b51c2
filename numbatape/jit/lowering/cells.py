"""Cell arrays: which element type a name stands for, and loads and stores by address.

In kernels a cell array is its address (an int), so that ``v[i]`` is a load. Kernels compute in float64 and in
64-bit integers. So float32 cells are widened when they are loaded and rounded when they are stored, and
32-bit integers are widened and truncated.
"""

from __future__ import annotations

import re

from .writer import Value, Writer

ELEMENT = {"f64": "double", "f32": "float", "i32": "i32", "i64": "i64"}
BYTES = {"f64": 8, "f32": 4, "i32": 4, "i64": 8}
LOADED = {"f64": "float", "f32": "float", "i32": "int", "i64": "int"}
_OWN = re.compile(r"v|g|[a-z]{1,2}[vg]")  # cells of the kernel's own dtype
_KINDS = {"w": "i64", "r": "i32", "code": "i32", "d": "f64", "dg": "f64", "e": "f32", "eg": "f32"}


def kind_of(name: str, cells: str) -> str | None:
    """Return the element kind behind a name, or None where it is no cell array."""
    if name.endswith("_q"):
        return "i64"
    if name.endswith("_t"):
        return "i32"
    return _KINDS.get(name) or (cells if _OWN.fullmatch(name) else None)


def load(to: Writer, kind: str, pointer: str) -> Value:
    value = to.new(f"load {ELEMENT[kind]}, ptr {pointer}")
    if kind == "f32":
        value = to.new(f"fpext float {value} to double")
    elif kind == "i32":
        value = to.new(f"sext i32 {value} to i64")
    return Value(value, LOADED[kind])


def store(to: Writer, kind: str, pointer: str, value: str) -> None:
    """Store a value, which is of the type that `load` gives."""
    if kind == "f32":
        value = to.new(f"fptrunc double {value} to float")
    elif kind == "i32":
        value = to.new(f"trunc i64 {value} to i32")
    to.line(f"store {ELEMENT[kind]} {value}, ptr {pointer}")
