"""``python -m numbatape.engine [OP ...]``: print the generated sweeps, or the kernels of some ops."""

import sys

from ..ops import OPCODE
from .chain import sweep_source
from .codegen import kernel_source


def main(names: list[str]) -> None:
    """Print the kernels of the named ops, or the sweeps if none is named."""
    if not names:
        print(sweep_source("forward"), sweep_source("reverse"), sep="\n")
    for name in names:
        if name not in OPCODE:
            sys.exit(f"no op is called {name!r}; there are {', '.join(OPCODE)}")
        print(kernel_source(OPCODE[name], 0), kernel_source(OPCODE[name], 0, "reverse"), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
