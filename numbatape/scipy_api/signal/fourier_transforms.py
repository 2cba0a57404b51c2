"""``scipy.fft``: NumPy's transforms, and cosine, sine and Hankel transforms as products with a matrix."""

from __future__ import annotations

import numpy as np
import scipy.fft

from ...numpy_api.fft import sized_along, whole_number
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sized import positions
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import length, pinned
from ...trace.integers import settled
from ...trace.operands import find_trace, lift_first
from ...trace.symbolic_sizes import is_size


def _one_axis(function):
    def transform(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return function(x, n, axis, norm)

    return transform


def _several_axes(function, usual):
    def transform(x, s=None, axes=usual, norm=None, overwrite_x=False, workers=None, *, plan=None):
        if axes is None and s is not None:  # NumPy warns of this, SciPy takes the last axes
            axes = range(-(len(s) if isinstance(s, (list, tuple)) else np.size(s)), 0)
        s = s if s is None or isinstance(s, (list, tuple)) or np.ndim(s) else (s,)
        return function(x, s, axes if axes is None or np.ndim(axes) else (axes,), norm)

    return transform


def _hermitian(name: str):
    """Return ``hfftn`` or ``ihfftn``, which NumPy lacks, by the transform that is scaled the other way."""

    def transform(x, s, axes, norm):
        norm = {"ortho": "ortho", "forward": "backward"}.get(norm, "forward")
        if name[0] == "i":
            return np.conj(getattr(np.fft, name.replace("ihf", "rf"))(x, s, axes, norm))
        return getattr(np.fft, name.replace("hf", "irf"))(np.conj(x), s, axes, norm)

    return transform


def _hankel(name: str):
    """Return a fast Hankel transform as a product with its matrix, which SciPy makes of a unit matrix."""

    def transform(a, dln, mu, offset=0.0, bias=0.0):
        options = (dln, mu, offset, bias)
        if find_trace(options) is not None:
            hint = "of constants it is; write the transform as a product with a matrix"
            raise unsupported_argument(f"scipy.fft.{name}", "traced parameters", hint)
        a = lift_first(a)
        return np.matmul(a, getattr(scipy.fft, name)(np.eye(pinned(a, a.ndim - 1)), *options))

    return transform


def _orders(function):
    return lambda x, axes=None: function(x, axes)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    stands_for("scipy.fft", _name, knows_sizes=True)(_one_axis(getattr(np.fft, _name)))
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _usual = (-2, -1) if _name.endswith("2") else None
    stands_for("scipy.fft", _name, knows_sizes=True)(_several_axes(getattr(np.fft, _name), _usual))
for _name in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
    _usual = (-2, -1) if _name.endswith("2") else None
    stands_for("scipy.fft", _name)(_several_axes(_hermitian(_name), _usual))
for _name in ("fht", "ifht"):
    stands_for("scipy.fft", _name)(_hankel(_name))
for _name in ("fftshift", "ifftshift"):
    stands_for("scipy.fft", _name)(_orders(getattr(np.fft, _name)))


@stands_for("scipy.fft", "next_fast_len", run=None, knows_sizes=True)
def next_fast_len(target, real=False):
    """Return the length that a signal is filled up to: it is the same for lengths down to the one before."""
    if not is_size(target):
        return scipy.fft.next_fast_len(*settled((target, real)))
    found = scipy.fft.next_fast_len(target._value, real)
    least = found
    while least > 1 and scipy.fft.next_fast_len(least - 1, real) == found:
        least -= 1
    _ = least <= target, target <= found  # Both comparisons record a guard.
    return found


# ---- cosine and sine transforms


def _real_transform(name: str):
    """Return a cosine or sine transform as a product with its matrix, which SciPy makes of a unit matrix."""

    def transform(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, orthogonalize=None):
        x = lift_first(x)
        line = np.moveaxis(x, axis, -1)
        if n is not None:
            if n < 1:
                raise ValueError(f"invalid number of data points ({n}) specified")
            line = sized_along(line, whole_number(n), line.ndim - 1)
        if orthogonalize is None and _has_formula(line, type, norm):
            return np.moveaxis(np.matmul(line, _matrix_of_any_size(name, type, line, norm).T), -1, axis)
        size = pinned(line, line.ndim - 1)
        # SciPy transforms complex arrays with other options than real ones: it ignores orthogonalize.
        unit = np.eye(size, dtype=complex if np.iscomplexobj(x) else float)
        matrix = getattr(scipy.fft, name)(unit, type, axis=0, norm=norm, orthogonalize=orthogonalize).real
        return np.moveaxis(np.matmul(line, matrix.T), -1, axis)

    return transform


def _has_formula(line, type, norm) -> bool:
    """Whether there is a matrix for every length; SciPy has errors for other options, and for one number."""
    n, is_known = length(line, -1), type in (1, 2, 3, 4) and norm in (None, "backward", "forward", "ortho")
    return is_known and is_size(n) and (type != 1 or bool(n > 1))


def _matrix_of_any_size(name: str, type: int, line, norm):
    """Return the matrix of a transform along the last axis, for every length.

    Entries are cosines or sines of an angle with a row and a column, twice, but those of numbers at the ends,
    which count once. An inverse is the transform of the type that undoes it, scaled as the other norm says.
    """
    if name[0] == "i":
        type = {2: 3, 3: 2}.get(type, type)
        norm = {"ortho": "ortho", "forward": "backward"}.get(norm, "forward")
    n, at, is_cosine = length(line, -1), positions(line, -1), name.endswith("dct")
    first, odd = (at if is_cosine else at + 1), 2 * at + 1
    rows, columns = (odd if type > 2 else first), (odd if type % 2 == 0 else first)
    # What a transform and its inverse multiply by together, and the length of a half turn of the angle.
    whole = 2 * n if type > 1 else 2 * (n - 1) if is_cosine else 2 * (n + 1)
    half = 4 * n if type == 4 else 2 * n if type > 1 else n - 1 if is_cosine else n + 1
    angles = rows[:, None] * columns % (2 * half) * (np.pi / half)
    matrix = 2.0 * (np.cos(angles) if is_cosine else np.sin(angles))
    ends = at == 0 if is_cosine else at == n - 1
    if type == 1 and is_cosine:
        ends = np.logical_or(ends, at == n - 1)
    if type == 3 or (type == 1 and is_cosine):
        matrix = matrix * np.where(ends, 0.5 if norm != "ortho" else np.sqrt(0.5), 1.0)
    if norm != "ortho":
        return matrix / whole if norm == "forward" else matrix
    if type == 2 or (type == 1 and is_cosine):
        matrix = matrix * np.where(ends, np.sqrt(0.5), 1.0)[:, None]
    return matrix / np.sqrt(whole)


for _name in ("dct", "idct", "dst", "idst"):
    stands_for("scipy.fft", _name, knows_sizes=True)(_real_transform(_name))


def _real_transforms(name: str):
    def transform(x, type=2, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *,
                  orthogonalize=None):  # fmt: skip
        x = lift_first(x)
        if axes is None:
            axes = range(x.ndim) if s is None else range(x.ndim - np.size(s), x.ndim)
        sizes = None if s is None else np.atleast_1d(s)
        for k, axis in enumerate(np.atleast_1d(axes)):
            n = None if sizes is None else int(sizes[k])
            x = _real_transform(name)(x, type, n, int(axis), norm, orthogonalize=orthogonalize)
        return x

    return transform


for _name in ("dct", "idct", "dst", "idst"):
    stands_for("scipy.fft", _name + "n")(_real_transforms(_name))
