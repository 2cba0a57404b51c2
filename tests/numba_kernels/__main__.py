"""Every kernel of the library, in both tiers, has Numba's bits: ``python -m tests.numba_kernels [OP ...]``.

The whole table takes Numba half an hour, so the suite (tests/engine/test_lowering.py) does this for a
sample of it. To be run by hand when the compiler has changed: it prints the kernels that differ, and how many
were compared.
"""

from __future__ import annotations

import functools
import sys
import zlib
from collections.abc import Callable, Iterator

from numbatape.engine.codegen import kernel_source
from numbatape.engine.kernels import kernel_name
from numbatape.jit import compiler, linalg, loader
from numbatape.ops import OPS
from numbatape.ops.libm import PREFIX
from tests.kernel_bits import compare
from tests.numba_kernels import compiler as numba_compiler


@functools.lru_cache(maxsize=8)
def linked(source: str, compile_source: Callable, **options):
    """Return the loaded kernels of a text; each compiler's symbols have a key of their own."""
    name = "_".join([*compile_source.__module__.split("."), *options])
    key = f"{name}_{zlib.crc32(source.encode()):x}"
    return loader.link(compile_source(linalg.with_wrappers(source), key, **options), key)


COMPILED = [
    functools.partial(linked, compile_source=module.compile_source) for module in (compiler, numba_compiler)
]
TIERS = [COMPILED[0], functools.partial(linked, compile_source=compiler.compile_source, optimise=True)]


# Their first operand is an order, which derivatives count up from 1.0 and which says how many terms are added
# up: random cells would ask for 1e308 of them.
ORDERS = ("kolmogorov_slope", "zeta_rise")


def every_kernel(names: list[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield row, family, direction and values of each kernel of these ops, or of all."""
    for row, op in enumerate(OPS):
        if (names and op.name not in names) or op.name in ORDERS:
            continue
        for family in (0, 1):
            for direction in ("forward", "reverse") if op.differentiable else ("forward",):
                for values in ("fast", "numpy"):
                    text = kernel_source(row, family, direction, values)
                    if values == "fast" and op.name.startswith(PREFIX):
                        continue  # an op of the other choice alone
                    if values == "fast" or text != kernel_source(row, family, direction):
                        yield row, family, direction, values


def main(names: list[str]) -> int:
    """Compare the kernels, and print what differs."""
    count = cases = differing = 0
    for row, family, direction, values in every_kernel(names):
        for forms in [COMPILED, TIERS] if direction in OPS[row].two_tiers else [COMPILED]:
            try:
                cases += compare(row, family, direction, values, forms)
            except AssertionError as error:
                differing += 1
                name = f"{kernel_name(2 * row + family, direction)}, {direction}, values={values!r}"
                print(f"{name}: {error}{' (both tiers)' * (forms is TIERS)}", flush=True)
            count += 1
    print(f"{count} kernels compared in {cases} cases; {differing} differ")
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
