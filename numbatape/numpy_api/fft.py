"""``np.fft``: all transforms are array ops over the last axis (`numbatape.ops.fft`)."""

from __future__ import annotations

import math

import numpy as np

from ..ops.fft import MORE, ROOM, padded_plan, padded_real_plan
from ..ops.fourier_tables import plan_of, real_plan_of
from ..trace import complex_parts, extents
from ..trace.array import TracedArray
from ..trace.integers import settled
from ..trace.operands import adopt, lift, values_of
from ..trace.primitives import array_instruction, layout_of
from ..trace.symbolic_sizes import code_of, is_size
from .function_tables import HOLDS, MAKERS, implements
from .registration import records

AXES = (-2, -1)


def _transform(re, im):
    """Return the transform of the last axis, as (real, imaginary) traced arrays."""
    value = np.fft.fft(values_of(re) + 1j * values_of(im))
    both = np.stack([value.real, value.imag], -2)
    result = array_instruction("fft", (re, im, _table(re)), both)
    return result[..., 0, :], result[..., 1, :]


def _table(x):
    """Return the table for the last axis of an array: a literal, or what the tape computes for any length."""
    trace = x._trace
    dim = layout_of(x).dims[-1]
    n = trace.tape.sizes.settled(dim)
    if n >= 0:
        return plan_of(n)
    return _computed(trace, dim, "fft_table", padded_plan)


def _real_table(trace, n, outer, inner):
    """Return the table for n real numbers, whose spectrum is multiplied by two factors."""
    dim = code_of(trace, n)
    known = trace.tape.sizes.settled(dim)
    if known >= 0:
        return real_plan_of(known, float(outer), float(inner))
    factors = np.concatenate([np.reshape(lift(trace, factor), (1,)) for factor in (outer, inner)])
    return _computed(trace, dim, "rfft_table", padded_real_plan, factors)


def _computed(trace, dim: int, name: str, plan, *factors):
    """Return the table that the tape computes for a length, once for the same factors."""
    key = (dim, *(factor._id for factor in factors))
    if key not in trace.reused.fft_tables:
        table = trace.tape.sizes
        table.guard(dim, ">=", 1)  # NumPy has an error for no entries
        entries = extents.filled(trace, (dim,), 1.0, np.float64)
        room = table.add(table.mul(dim, ROOM), MORE)
        value = plan(entries._value, *map(values_of, factors))
        trace.reused.fft_tables[key] = array_instruction(name, (entries, *factors), value, dims={"t": room})
    return trace.reused.fft_tables[key]


def _scale(n, norm, inverse: bool):
    if norm == "ortho":
        return 1.0 / (n**0.5 if is_size(n) else math.sqrt(n))
    return 1.0 / n if inverse == (norm in (None, "backward")) else 1.0


def whole_number(n):
    """Return a size as it is, and other numbers as NumPy takes them."""
    return n if is_size(n) else int(n)


def sized_along(x, n, axis: int):
    """Return x, truncated or padded with zeros to n entries along an axis."""
    have = x._sizes()[axis]
    if n < have:
        return x[(slice(None),) * axis + (slice(None, n),)]
    if n > have:
        dims = list(x._sizes())
        dims[axis] = n - have
        codes = [code_of(x._trace, dim) for dim in dims]
        zeros = extents.filled(x._trace, codes, 0.0, values_of(x).real.dtype)
        return np.concatenate([x, zeros], axis)
    return x


def _length(x, n, axis: int):
    return x._sizes()[axis] if n is None else whole_number(n)


def _along(x, n, axis: int, scale, inverse: bool):
    """Return ``(real, imaginary)`` of the transform along one axis, multiplied by a number."""
    axis = axis % x.ndim
    x = np.moveaxis(sized_along(x, _length(x, n, axis), axis), axis, -1)
    re, im = _parts(x)
    if inverse:  # parts are exchanged before and after the transform
        im, re = _transform(im, re)
    else:
        re, im = _transform(re, im)
    done = (re, im) if type(scale) is float and scale == 1.0 else (re * scale, im * scale)
    return tuple(np.moveaxis(part, -1, axis) for part in done)


def _parts(x):
    re, im = complex_parts.halves(x)
    re = complex_parts.zeros_like(im) if re is None else re
    return re, complex_parts.zeros_like(re) if im is None else im


def _along_all(x, sizes, axes, scale, norm, inverse: bool):
    """Return the transform along some axes, multiplied by the number for them and one more."""
    for k, (n, axis) in enumerate(zip(sizes, axes, strict=True)):
        scale = scale * _scale(_length(x, n, axis), norm, inverse)
        x = _complex(*_along(x, n, axis, scale if k == len(axes) - 1 else 1.0, inverse))
    return x


def _operand(a):
    """Return what is transformed, as a traced array of floats."""
    trace = complex_parts.trace_of(a)
    x = lift(trace, a)
    return x if x.dtype.kind in "fc" else np.astype(x, float)


def _transforms(name: str, inverse: bool):
    function = getattr(np.fft, name)
    usual = AXES if name.endswith("2") else None

    def one(value, a, n=None, axis=-1, norm=None, out=None):
        x = _operand(a)
        scale = _scale(_length(x, n, axis), norm, inverse)
        return complex_parts.make(*_along(x, n, axis, scale, inverse), value)

    def several(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        axes, s = _axes(x, s, axes)
        x = _along_all(x, s, axes, 1.0, norm, inverse)
        if not axes:  # nothing is transformed, and the dtype is NumPy's or SciPy's
            copy = x + 0j if np.iscomplexobj(value) and x.dtype.kind != "c" else x + 0.0
            return copy if x.ndim else np.reshape(copy, ())  # of Python's numbers NumPy makes an array
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
    records(function, complex=HOLDS, several=True)(implementation)


for _name in ("fft", "fft2", "fftn"):
    _transforms(_name, inverse=False)
    _transforms("i" + _name, inverse=True)


# ---- real on one side


def _spectrum(x, n, axis: int, scale):
    """Return ``(real, imaginary)`` of the first half of the transform of real numbers along one axis."""
    axis = axis % x.ndim
    n = _length(x, n, axis)
    x = np.moveaxis(sized_along(x, n, axis), axis, -1)
    value = np.fft.rfft(values_of(x)) * values_of(scale)
    both = np.stack([value.real, value.imag], -2)
    dims = {"h": code_of(x._trace, n // 2 + 1)}
    result = array_instruction("rfft", (x, _real_table(x._trace, n, scale, scale)), both, dims=dims)
    return tuple(np.moveaxis(result[..., k, :], -1, axis) for k in (0, 1))


def rfft(value, a, n=None, axis=-1, norm=None, out=None):
    x = _operand(a)
    return complex_parts.make(*_spectrum(x, n, axis, _scale(_length(x, n, axis), norm, False)), value)


def _real_inverse(x, n, axis: int, norm, scale=1.0):
    """Return the real sequence whose transform begins with x, multiplied by a number."""
    axis = axis % x.ndim
    n = 2 * (x._sizes()[axis] - 1) if n is None else whole_number(n)
    x = np.moveaxis(sized_along(x, n // 2 + 1, axis), axis, -1)
    scale = scale * _scale(n, norm, True)
    value = np.fft.irfft(values_of(x), values_of(n), norm="forward") * values_of(scale)
    operands = *_parts(x), _real_table(x._trace, n, scale, 2 * scale)
    result = array_instruction("irfft", operands, value, dims={"n": code_of(x._trace, n)})
    return np.moveaxis(result, -1, axis)


def irfft(value, a, n=None, axis=-1, norm=None, out=None):
    return adopt(_real_inverse(_operand(a), n, axis, norm), value)


SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(value, a, n=None, axis=-1, norm=None, out=None):
    return adopt(_real_inverse(np.conjugate(_operand(a)), n, axis, SWAPPED[norm]), value)


def ihfft(value, a, n=None, axis=-1, norm=None, out=None):
    x = _operand(a)
    re, im = _spectrum(x, n, axis, _scale(_length(x, n, axis), norm, True))
    return complex_parts.make(re, -im, value)


for _function in (rfft, irfft, hfft, ihfft):
    _register(getattr(np.fft, _function.__name__), _function)


def _several_real(name: str):
    """Register a real transform over several axes: the last one by `rfft` or `irfft`, the others complex."""
    usual = AXES if name.endswith("2") else None

    def forward(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        (last, *axes), (n, *sizes) = _axes(x, s, axes)
        # An axis that comes twice has the size from before it was halved.
        sizes = [x._sizes()[k] if k == last and m is None else m for k, m in zip(axes, sizes, strict=True)]
        scale = _scale(_length(x, n, last), norm, False)
        x = _complex(*_spectrum(x, n, last, 1.0 if axes else scale))
        return complex_parts.adopted(_along_all(x, sizes, axes, scale, norm, False), value)

    def inverse(value, a, s=None, axes=usual, norm=None, out=None):
        x = _operand(a)
        (last, *axes), (n, *sizes) = _axes(x, s, axes)
        scale = 1.0
        for size, axis in zip(sizes[::-1], axes[::-1], strict=True):
            scale = scale * _scale(_length(x, size, axis), norm, True)
            x = _complex(*_along(x, size, axis, 1.0, True))
        if s is not None and n is None:  # -1 stands for the size that there is
            n = x._sizes()[last]
        return adopt(_real_inverse(x, n, last, norm, scale), value)

    _register(getattr(np.fft, name), inverse if name.startswith("i") else forward)


for _name in ("rfft2", "rfftn", "irfft2", "irfftn"):
    _several_real(_name)


# ---- orders


def _rolled(x, by, axis: int):
    """Return x, its last entries along an axis moved to the front."""
    lead = (slice(None),) * axis
    rest = x._sizes()[axis] - by
    return np.concatenate([x[(*lead, slice(rest, None))], x[(*lead, slice(None, rest))]], axis)


def _shifts(name: str, extra: int):
    function = getattr(np.fft, name)

    def shift(x, axes=None):
        ndim = np.ndim(values_of(x))
        axes = tuple(range(ndim)) if axes is None else (axes,) if np.ndim(axes) == 0 else tuple(axes)
        value = function(values_of(x), axes)
        for axis in axes:
            x = _rolled(x, (x._sizes()[axis] + extra) // 2, axis % ndim)
        return adopt(x, value)

    implements(function, complex=HOLDS)(shift)


_shifts("fftshift", 0)
_shifts("ifftshift", 1)


# ---- frequencies of a transform whose length is a size


def frequencies(n, d, positive: bool):
    """Return the frequencies of a transform whose length is a size."""
    trace = n._trace
    k = extents.arange(trace, code_of(trace, n // 2 + 1 if positive else n))
    if not positive:
        k = np.where(k < (n + 1) // 2, k, k - n)
    return k * (1.0 / (n * d))


def _frequencies_of_sizes(name: str, positive: bool):
    def make(original):
        def call(n, d=1.0, device=None):
            known = type(d) in (int, float) or (type(d) is TracedArray and d.ndim == 0 and d._value != 0.0)
            if not is_size(n) or device is not None or not known:
                return original(settled(n), d, **({} if device is None else {"device": device}))
            return frequencies(n, d, positive)

        return call

    MAKERS["numpy.fft"][name] = make


_frequencies_of_sizes("fftfreq", False)
_frequencies_of_sizes("rfftfreq", True)
