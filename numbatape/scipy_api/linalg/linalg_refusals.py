"""Functions of ``scipy.linalg`` that are not supported: they raise, and name a function that is."""

from __future__ import annotations

from ...matrix.equations import linalg
from ...matrix.matrix_rule import traced
from ...numpy_api.stand_ins import stands_for
from ...tape.tape import CONSTANT
from ...trace.operands import values_of
from ...usercode.frames import not_supported

INSTEAD = {
    "cossin": "np.linalg.svd",
    "qz": "scipy.linalg.eigvals(a, b)",
}


def _leaves(tree):
    for leaf in tree:
        if traced(leaf):
            yield leaf
        elif isinstance(leaf, (list, tuple)):
            yield from _leaves(leaf)


def _refusal(name: str, hint: str) -> None:
    @stands_for("scipy.linalg", name, run=None)
    def refuse(*args, **kwargs):
        found = list(_leaves((*args, *kwargs.values())))
        if all(leaf._level == CONSTANT for leaf in found):
            found[0]._trace.pin_constants()
            return getattr(linalg(), name)(*values_of(args), **values_of(kwargs))
        raise not_supported(f"scipy.linalg.{name} of a traced array", f"use {hint}")


for _name, _hint in INSTEAD.items():
    _refusal(_name, _hint)
