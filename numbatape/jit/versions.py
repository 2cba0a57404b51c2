"""Versions of the code that makes machine code. They are part of each kernel's key.

A version is a digest of the code's syntax trees without docstrings: two branches never have the same version
for different code, and a comment changes nothing. It is written down here because a process that loads stored
kernels has no time to read and parse the compiler. ``tests/engine/test_versions.py`` fails when the code has
changed, and prints the new line. Until the line is changed, kernels that the old code made are still loaded.
"""

COMPILER = (
    "70ade94e6028076d"  # lowering/, compiler.py, machine.py: from the text of a kernel to an object file
)
# The builtins: builtin, steady, by_sizes, watches, object_layout, audit, c_function, crew.
BUILTINS = "eef730c61e306314"
