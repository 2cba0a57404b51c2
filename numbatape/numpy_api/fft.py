"""``np.fft``: all transforms are one array op over the last axis (`numbatape.ops.fft`)."""

from __future__ import annotations

import math

import numpy as np

from ..ops.fft import plan_of
from ..trace import complex_parts
from ..trace.operands import lift, values_of
from ..trace.primitives import array_instruction
from .function_tables import HOLDS, implements
from .registration import records

AXES = (-2, -1)


def _transform(re, im):
    """Return the transform of the last axis, as (real, imaginary) traced arrays.

    The table of a length is a literal: each length has a tape of its own.
    """
    n = re.shape[-1]
    value = np.fft.fft(values_of(re) + 1j * values_of(im))
    both = np.stack([value.real, value.imag], -2)
    result = array_instruction("fft", (re, im, plan_of(n)), both)
    return result[..., 0, :], result[..., 1, :]


def _scale(n: int, norm, inverse: bool) -> float:
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if inverse == (norm in (None, "backward")) else 1.0


def _sized(x, n: int, axis: int):
    """Return x, truncated or padded with zeros to n entries along an axis."""
    have = np.shape(values_of(x))[axis]
    if n < have:
        return x[(slice(None),) * axis + (slice(None, n),)]
    if n > have:
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, n - have)
        return np.pad(x, widths)
    return x


def _along(x, n, axis, norm, inverse: bool):
    """Return ``(real, imaginary)`` of the transform along one axis."""
    axis = axis % x.ndim
    n = x.shape[axis] if n is None else int(n)
    x = np.moveaxis(_sized(x, n, axis), axis, -1)
    re, im = complex_parts.halves(x)
    re = complex_parts.zeros_like(im) if re is None else re
    im = complex_parts.zeros_like(re) if im is None else im
    if inverse:  # parts are exchanged before and after the transform
        im, re = _transform(im, re)
    else:
        re, im = _transform(re, im)
    scale = _scale(n, norm, inverse)
    done = (re, im) if scale == 1.0 else (re * scale, im * scale)
    return tuple(np.moveaxis(part, -1, axis) for part in done)


def _operand(a):
    """Return what is transformed, as a traced array of floats."""
    trace = complex_parts.trace_of(a)
    x = lift(trace, a)
    return x if x.dtype.kind in "fc" else np.astype(x, float)


def _transforms(name: str, inverse: bool):
    function = getattr(np.fft, name)
    usual = AXES if name.endswith("2") else None

    def one(value, a, n=None, axis=-1, norm=None, out=None):
        return complex_parts.make(*_along(_operand(a), n, axis, norm, inverse), value)

    def several(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        axes, s = _axes(x, s, axes)
        for n, axis in zip(s, axes, strict=True):
            x = _complex(*_along(x, n, axis, norm, inverse))
        return complex_parts.adopted(x, value)

    _register(function, several if name[-1] in "2n" else one)


def _complex(re, im):
    return complex_parts.make(re, im, values_of(re) + 1j * values_of(im))


def _axes(x, s, axes) -> tuple:
    """Return axes and sizes, the last axis first."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(x.ndim)
    axes = [axis % x.ndim for axis in axes]
    sizes = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    return axes[::-1], sizes[::-1]


def _register(function, implementation):
    records(function, complex=HOLDS)(implementation)


for _name in ("fft", "fft2", "fftn"):
    _transforms(_name, inverse=False)
    _transforms("i" + _name, inverse=True)


# ---- real on one side


def _first_half(part, axis: int):
    n = part.shape[axis]
    return part[(slice(None),) * axis + (slice(None, n // 2 + 1),)]


def rfft(value, a, n=None, axis=-1, norm=None, out=None):
    x = _operand(a)
    parts = _along(x, n, axis, norm, False)
    return complex_parts.make(*(_first_half(part, axis % x.ndim) for part in parts), value)


def _real_inverse(x, n, axis, norm):
    """Return the real sequence whose transform begins with x.

    The other half is the conjugate of this one: each inner entry counts twice, and the real part of
    the sum is taken.
    """
    axis = axis % x.ndim
    n = 2 * (x.shape[axis] - 1) if n is None else int(n)
    x = _sized(x, n // 2 + 1, axis)
    weight = np.full(n // 2 + 1, 2.0)
    weight[0] = 1.0
    if n % 2 == 0:
        weight[-1] = 1.0
    x = x * weight.astype(x.real.dtype).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return _along(x, n, axis, norm, True)[0]


def irfft(value, a, n=None, axis=-1, norm=None, out=None):
    return _real_inverse(_operand(a), n, axis, norm)


SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(value, a, n=None, axis=-1, norm=None, out=None):
    return _real_inverse(np.conjugate(_operand(a)), n, axis, SWAPPED[norm])


def ihfft(value, a, n=None, axis=-1, norm=None, out=None):
    x = _operand(a)
    re, im = (_first_half(part, axis % x.ndim) for part in _along(x, n, axis, SWAPPED[norm], False))
    return complex_parts.make(re, -im, value)


for _function in (rfft, irfft, hfft, ihfft):
    _register(getattr(np.fft, _function.__name__), _function)


def _several_real(name: str):
    usual = AXES if name.endswith("2") else None

    def forward(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        (last, *axes), (n, *sizes) = _axes(x, s, axes)
        re, im = (_first_half(part, last) for part in _along(x, n, last, norm, False))
        x = _complex(re, im)
        for n, axis in zip(sizes, axes, strict=True):
            x = _complex(*_along(x, n, axis, norm, False))
        return complex_parts.adopted(x, value)

    def inverse(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        (last, *axes), (n, *sizes) = _axes(x, s, axes)
        for size, axis in zip(sizes[::-1], axes[::-1], strict=True):
            x = _complex(*_along(x, size, axis, norm, True))
        return _real_inverse(x, n, last, norm)

    _register(getattr(np.fft, name), inverse if name.startswith("i") else forward)


for _name in ("rfft2", "rfftn", "irfft2", "irfftn"):
    _several_real(_name)


# ---- orders


def _shifts(name: str, extra: int):
    function = getattr(np.fft, name)

    def shift(x, axes=None):
        ndim = np.ndim(values_of(x))
        axes = tuple(range(ndim)) if axes is None else (axes,) if np.ndim(axes) == 0 else tuple(axes)
        return np.roll(x, [(x.shape[k] + extra) // 2 for k in axes], axes)

    implements(function, complex=HOLDS)(shift)


_shifts("fftshift", 0)
_shifts("ifftshift", 1)
