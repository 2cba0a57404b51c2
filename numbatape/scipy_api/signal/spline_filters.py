"""Filters of ``scipy.signal`` for splines: compiled parts of functions that otherwise run as copies."""

from __future__ import annotations

import numpy as np
from scipy.signal import _spline

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace.axes import pinned
from ...trace.operands import find_trace, is_wrong, lift_all, lift_first, values_of
from ..images.image_filters import correlated


@stands_for("scipy.signal", "sepfir2d")
def sepfir2d(input, hrow, hcol):
    """Convolve the rows and then the columns; an image goes on with its mirror image, edges included."""
    image, hrow, hcol = lift_all(input, hrow, hcol)
    rows = correlated(image, hrow[::-1], 1, "reflect", 0.0)
    return correlated(rows, hcol[::-1], 0, "reflect", 0.0)


@stands_for("scipy.signal._spline", "symiirorder1_ic")
def symiirorder1_ic(input, z1, precision):
    """Return what the filter has gathered from the mirror image: a sum of powers, down to the precision."""
    rows = lift_first(input, z1)
    if not precision > 0.0:
        precision = 1e-6 if rows.dtype.itemsize == 4 * (1 + (rows.dtype.kind == "c")) else 1e-11
    with np.errstate(divide="ignore"):
        count = max(int(np.ceil(np.log(precision) / np.log(np.abs(z1)))), 1)
    if is_wrong(count > pinned(rows, -1)):
        raise ValueError("Sum to find symmetric boundary conditions did not converge.")
    powers = z1 ** np.arange(1.0, count + 1.0)
    return rows[:, :1] + np.matmul(rows[:, :count], powers)[:, None]


def _from_unit_vectors(name: str) -> None:
    original = getattr(_spline, name)

    def linear(input, r, omega, precision):
        rows = lift_first(input, r, omega)
        if find_trace(r, omega) is not None:
            hint = "the signal may be traced"
            raise unsupported_argument("scipy.signal.symiirorder2", "a traced r or omega", hint)
        size, dtype = pinned(rows, -1), np.asarray(values_of(rows)).dtype
        return np.matmul(rows, original(np.eye(size, dtype=dtype), r, omega, precision))

    stands_for("scipy.signal._spline", name)(linear)


for _name in ("symiirorder2_ic_fwd", "symiirorder2_ic_bwd"):
    _from_unit_vectors(_name)


@stands_for("scipy.signal._signaltools", "_cmplx_sort")
def _cmplx_sort(p):
    """Sort by absolute values, of which conjugate numbers have the same: NumPy's own order is data."""
    parts = np.real(p), np.imag(p)
    search = Search(
        "scipy.signal.residue", lambda *parts: np.argsort(np.abs(parts[0] + 1j * parts[1])), parts
    )
    order = search.positions("order of poles", np.asarray)
    return p[order], order
