"""The law of SciPy's functions and objects when traced: SciPy's values, derivatives by differences."""

import numpy as np

import numbatape as nt
from numbatape.testing.differences import extrapolated


def flat(y):
    """Real and imaginary parts of all arrays in a result, one after another."""
    if isinstance(y, (tuple, list)):
        return np.concatenate([flat(part) for part in y])
    y = np.ravel(y)
    return np.concatenate([np.real(y), np.imag(y)]) if np.iscomplexobj(y) else y.astype(float)


def agrees(f, x, order=2, rtol=1e-7, atol=1e-12, step=2e-3, value_rtol=1e-11):
    """Value, forward and reverse mode, and the second derivative, along one direction."""
    x = np.asarray(x)
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=x.shape), rng.normal(size=flat(f(x)).shape)
    value, slope = nt.jvp(f, (x,), (v,))
    np.testing.assert_allclose(flat(value), flat(f(x)), rtol=value_rtol, atol=atol)
    wanted, error = extrapolated(lambda h: flat(f(x + h * v)), step, 1e-3 * rtol)
    np.testing.assert_allclose(flat(slope), wanted, rtol=rtol, atol=rtol + 10.0 * np.max(error, initial=0.0))

    def weighed(x):
        parts, total, start = [f(x)], 0.0, 0
        while parts:
            part = parts.pop(0)
            if isinstance(part, (tuple, list)):
                parts = [*part, *parts]
                continue
            for real in (np.real(part), np.imag(part)) if np.iscomplexobj(part) else (part,):
                total = total + np.sum(np.ravel(real) * w[start : start + np.size(real)])
                start += np.size(real)
        return total

    gradient = nt.grad(weighed)
    np.testing.assert_allclose(np.sum(gradient(x) * v), w @ flat(slope), rtol=1e-9, atol=1e-10)
    if order == 2:
        wanted, error = extrapolated(lambda h: flat(gradient(x + h * v)), step, 1e-3 * rtol)
        got = flat(nt.hvp(weighed)(x, v))
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=10.0 * (rtol + np.max(error, initial=0.0)))


def is_affine(f, *args):
    """Whether a function of arrays is affine, so that its second derivatives are zero everywhere."""
    rng = np.random.default_rng(1)
    others = [x + rng.normal(size=np.shape(x)) for x in args]
    between = [(x + y) / 2 for x, y in zip(args, others, strict=True)]
    try:
        ends, middle = flat(f(*args)) + flat(f(*others)), 2.0 * flat(f(*between))
    except ValueError:  # not everywhere defined
        return False
    return np.allclose(ends, middle, rtol=1e-9, atol=1e-9)
