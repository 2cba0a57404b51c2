"""What complex arguments must fulfil: each leaf of them is two, a real and an imaginary part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import DtypeError

if TYPE_CHECKING:
    from .arguments import Flattened


def check_complex(prepared: Flattened, given: Flattened) -> None:
    """Raise where a leaf is complex that was real, or the other way round."""
    leaves = ([s for s in flat.specs if s.part != "imag"] for flat in (prepared, given))
    for old, new in zip(*leaves, strict=True):
        if old.part != new.part:
            was, now = old.whole_dtype or "a static value", new.whole_dtype or "a static value"
            raise DtypeError(f"{new.path}: prepared for dtype {was}, got {now}; prepare again")


def require_real(flat: Flattened, what: str) -> None:
    """Raise if a complex argument is differentiated."""
    for spec in flat.active:
        if spec.part:
            raise DtypeError(
                f"{spec.path} is {spec.whole_dtype}: {what} is of real arguments; write the function of "
                "real and imaginary parts, f(x, y) of x + 1j*y" + "; or take nt.hvp" * (what == "a Hessian")
            )


def require_complex(flat: Flattened) -> None:
    """Raise if an argument that is differentiated is real, where ``holomorphic=True``."""
    for spec in flat.active:
        if not spec.part:
            raise DtypeError(f"{spec.path} is {spec.dtype}: holomorphic=True needs complex arguments")
