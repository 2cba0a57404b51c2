"""``scipy.signal.lfilter`` and the functions that call it.

The recursive part ``y[k] = w[k] - a_1 y[k-1] - a_2 y[k-2] - ...`` is a rule that SciPy computes. It is
linear in w, and its transpose is the same filter run backwards:
``wbar = filter(ybar reversed) reversed``, and ``abar_j = -sum_k wbar[k] y[k-j]``. The rest, a convolution,
is composed. A filter with one coefficient ``a_1`` is a linear recurrence, and has one tape for all lengths.
"""

from __future__ import annotations

import numpy as np
import scipy.signal

from ..numpy_api.calculus import sliced
from ..numpy_api.registration import unsupported_argument
from ..numpy_api.stand_ins import stands_for
from ..rules.primitive import Primitive, Rule
from ..scipy_api.signal.borders import continued
from ..trace import operations
from ..trace.array import TracedArray
from ..trace.axes import length, one_axis, pinned
from ..trace.operands import find_trace, is_wrong, lift, values_of
from ..trace.primitives import array_instruction, broadcast_to, layout_of


def _delayed(y, j: int):
    """Return ``y[..., k - j]``, zero where k < j."""
    return np.concatenate([np.zeros_like(y[..., :j]), y[..., : -j or None]], -1)


def _recursive_value(a, w):
    return scipy.signal.lfilter([1.0], np.concatenate([[1.0], a]), w, axis=-1)


def _recursive_pullback(ybar, y, a, w):
    wbar = np.flip(recursive(a, np.flip(ybar, -1)), -1)
    abar = [-np.sum(wbar * _delayed(y, j + 1)) for j in range(a.shape[0])]
    return np.stack(abar), wbar


def _recursive_pushforward(tangents, y, a, w):
    da, dw = tangents
    total = 0.0 * y if dw is None else dw
    for j in range(0 if da is None else a.shape[0]):
        total = total - da[j] * _delayed(y, j + 1)
    return recursive(a, total)


recursive = Primitive(
    Rule(_recursive_value, _recursive_pullback, _recursive_pushforward, None, any_size=True)
)


@stands_for("scipy.signal", "lfilter")
def lfilter(b, a, x, axis=-1, zi=None):
    """Filter by the numerator with shifted products, and by the denominator with a recurrence."""
    trace = find_trace(b, a, x, zi)
    b, a = (_atleast_1d(part, trace) for part in (b, a))
    order, terms = max(b.shape[0], a.shape[0]), a.shape[0] - 1
    b, a = (np.concatenate([part, np.zeros(order - part.shape[0])]) for part in (b, a))
    if terms and is_wrong(a[0] == 0.0):
        raise ValueError("BUG: filter coefficient a[0] == 0 not supported yet")  # SciPy's words
    b, a = b / a[0], a[1:] / a[0]
    if terms and np.iscomplexobj(values_of(a)):
        raise unsupported_argument("scipy.signal.lfilter", "complex recursive coefficients (a)")
    x = _signal(x, trace, axis, order)
    axis = one_axis(x, axis)
    line = np.moveaxis(x, axis, -1)
    short = order - 1  # If the signal is shorter than this, the tape holds for its length alone.
    w = b[0] * line
    for j in range(1, order):
        w = w + b[j] * _delayed(line, j)
    if zi is not None:
        state = np.moveaxis(_atleast_1d(zi, trace), axis, -1)
        n = min(np.shape(values_of(line))[-1], short)
        w = np.concatenate([w[..., :n] + state[..., :n], w[..., n:]], -1)
    if terms == 1 and type(w) is TracedArray and w.dtype == np.float64:
        y = _of_first_order(-a[0], w)
    else:
        y = _filtered(a[:terms], w) if terms else w
    result = np.moveaxis(y, -1, axis)
    if zi is None:
        return result
    final = []
    for k in range(order - 1):
        total = state[..., k + n] if k + n < short else 0.0
        for j in range(k + 1, min(order, n + k + 1)):
            total = total + b[j] * line[..., k - j] - a[j - 1] * y[..., k - j]
        final.append(total)
    return result, np.moveaxis(np.stack(final, -1), -1, axis)


def _filtered(a, w):
    """Return the recursive part of a filter: linear in ``w``, hence of complex numbers by parts."""
    if not np.iscomplexobj(values_of(w)):
        return recursive(a, w)
    return recursive(a, np.real(w)) + 1j * recursive(a, np.imag(w))


def _signal(x, trace, axis: int, order: int):
    """Return the signal; if it is shorter than the filter, the tape holds for its length alone."""
    x = _numbers(x) if find_trace(x) is None else lift(trace, x)
    if type(x) is TracedArray and x.ndim and length(x, one_axis(x, axis)) >= order:
        return x
    return _atleast_1d(x, trace)


def _of_first_order(coefficient, w: TracedArray) -> TracedArray:
    """Return y with ``y[k] = w[k] + coefficient * y[k-1]``."""
    count = layout_of(w).dims[-1]
    value = _recursive_value(-np.atleast_1d(values_of(coefficient)), w._value)
    states = np.concatenate([np.zeros((*value.shape[:-1], 1)), value], -1)
    trace, sizes = w._trace, w._trace.tape.sizes
    coefficient = broadcast_to(lift(trace, coefficient), value.shape[-1:], (count,))
    zero = lift(trace, np.float64(0.0))
    extent = {"m": sizes.add(count, 1)}
    return array_instruction("recurrence", (coefficient, w, zero), states, dims=extent)[..., 1:]


def _numbers(x):
    """Return plain numbers as an array of floats or complex numbers."""
    x = np.asarray(x)
    return x if x.dtype.kind == "c" else x.astype(float)


def _atleast_1d(x, trace):
    x = _numbers(x) if find_trace(x) is None else lift(trace, x)
    for k in range(x.ndim):
        if find_trace(x) is not None:
            pinned(x, k)
    return np.atleast_1d(x)


@stands_for("scipy.signal", "lfilter_zi")
def lfilter_zi(b, a):
    """Return the state of a filter in the steady state of its response to steps.

    SciPy divides by ``a[0]`` only if it is not one, a comparison that would hide a derivative. The state is
    ``zi[k] = sum_{j > k} b_j - gain a_j`` with the gain ``sum b / sum a``, so that no equations are solved.
    """
    trace = find_trace(b, a)
    b, a = (_atleast_1d(part, trace) for part in (b, a))
    while a.shape[0] > 1 and a[0] == 0.0:  # SciPy drops leading zeros, too.
        a = a[1:]
    order = max(b.shape[0], a.shape[0])
    b, a = (np.concatenate([part, np.zeros(order - part.shape[0])]) / a[0] for part in (b, a))
    rest = b - np.sum(b) / np.sum(a) * a
    return np.flip(np.cumsum(np.flip(rest[1:])))


@stands_for("scipy.signal", "sosfilt_zi")
def sosfilt_zi(sos):
    sos = np.atleast_2d(_atleast_1d(sos, find_trace(sos)))
    states, gain = [], 1.0
    for k in range(sos.shape[0]):
        b, a = sos[k, :3], sos[k, 3:]
        states.append(gain * lfilter_zi(b, a))
        gain = gain * np.sum(b) / np.sum(a)
    return np.stack(states)


@stands_for("scipy.signal", "sosfilt")
def sosfilt(sos, x, axis=-1, zi=None):
    """Filter by one section after the other, each with its own initial state if states are given."""
    sos = np.atleast_2d(_atleast_1d(sos, find_trace(sos, x, zi)))
    states = []
    for k in range(sos.shape[0]):
        x = lfilter(sos[k, :3], sos[k, 3:], x, axis, None if zi is None else zi[k])
        if zi is not None:
            x, state = x
            states.append(state)
    return x if zi is None else (x, np.stack(states))


@stands_for("scipy.signal", "filtfilt")
def filtfilt(b, a, x, axis=-1, padtype="odd", padlen=None, method="pad", irlen=None):
    """Filter forward and backward from the steady state of a continued signal."""
    trace = find_trace(b, a, x)
    b, a = (_atleast_1d(part, trace) for part in (b, a))
    count = max(len(a), len(b)) * 3 if padlen is None else padlen
    width = 0 if padtype is None else count
    x = _signal(x, trace, axis, np.inf if method == "gust" else max(width + 1, len(a), len(b)))
    axis = one_axis(x, axis)
    if method == "gust":
        by_gustafsson = operations.library_copy(scipy.signal._signaltools._filtfilt_gust)
        return by_gustafsson(b, a, x, axis=axis, irlen=irlen)[0]
    steady = scipy.signal.lfilter_zi if find_trace(b, a) is None else lfilter_zi
    states = np.reshape(steady(b, a), [-1 if k == axis else 1 for k in range(x.ndim)])
    wide = x
    if width:
        wide = np.moveaxis(continued(np.moveaxis(x, axis, -1), width, padtype), -1, axis)
    ahead, _ = lfilter(b, a, wide, axis, states * sliced(wide, axis, 0, 1))
    back = np.flip(ahead, axis)
    result, _ = lfilter(b, a, back, axis, states * sliced(back, axis, 0, 1))
    result = np.flip(result, axis)
    return sliced(result, axis, width, -width) if width else result
