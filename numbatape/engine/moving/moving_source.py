"""The text of the kernels of `moving_kernels` and `moving_loop_kernels`, and these kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ... import jit
from ...ops.text import names_in, source_of
from . import moving_kernels, moving_loop_kernels


@functools.cache
def loaded():
    """Return the kernels."""
    return jit.load("moving", moving_source())


def moving_source() -> str:
    """Return their module: the functions of the files, and the numbers that these name."""
    scope = vars(moving_loop_kernels) | vars(moving_kernels)
    functions: list[Callable] = [its for its in scope.values() if callable(its)]
    text = "\n\n".join(map(source_of, functions))
    numbers = {name: scope.get(name) for name in names_in(text)}
    constants = [f"{name} = {number}\n" for name, number in numbers.items() if isinstance(number, int)]
    return "# cells: f64\n" + "".join(constants) + "\n\n" + text
