"""Who shares memory with whom: whatever NumPy makes a view is one, and whatever it copies is apart.

For every function, method, index and ufunc method that NumPy runs on an array: write to the array after the
call, and to the result after the call, where the array is traced from the start and where it is an ordinary
one that becomes traced by the write. Values are plain NumPy's, slopes its differences.
"""

import itertools

import numpy as np
import pytest

import numbatape as nt
from tests.memory_forms import KINDS, SHAPES, arrays_of, forms

# What the array is, what is written to, whether all of it.
PROGRAMS = (
    *itertools.product(("traced", "plain"), ("argument", "result"), (False,)),
    ("traced", "result", True),
)
# Complex arrays are two real ones with the same regions, a copy shares none with the array, and further views
# that a function makes, or those of further shapes, are made as the first ones are: half of the pairs will do
# for these, one half for every other form.
HALVES = (
    (("traced", "argument", False), ("plain", "result", False)),
    (("plain", "argument", False), ("traced", "result", False)),
)
STEP = 1e-3


def programs(kind, shape, unit):
    """Yield the forms of a kind with the ways to run them: a name, the form, a way."""
    place, seen = SHAPES[kind].index(shape) if shape in SHAPES[kind] else 0, set()
    for number, (name, (form, shares)) in enumerate(forms(kind, shape, unit).items()):
        function = name if kind == "indices" else name.partition("(")[0]
        whole = shares and place == 0 and function not in seen
        seen |= {function} if whole else set()
        runs = PROGRAMS if whole else HALVES[(number + place) % 2]
        for run in HALVES[0] if np.iscomplexobj(unit) else runs:
            if not is_out_of_reach(name, shape, run):
                yield name, form, run


def is_out_of_reach(name, shape, run) -> bool:
    """Whether a form makes an array that the trace does not know: writing to it ends the trace.

    A plain array without dimensions is a number of NumPy's once it has been multiplied. Residuals of wide
    systems are NumPy's own empty array.
    """
    unknown = shape == () or name in ("apply_along_axis", "piecewise")
    return run[1] == "result" and (name.startswith("linalg.lstsq") or (unknown and run[0] == "plain"))


def write(a, s, whole):
    s = s * (1.0 - 0.5j) if np.iscomplexobj(a) else s
    if whole:
        a += s
    elif np.ndim(a):
        a[:1] = s
    else:
        a[...] = s


def program(form, x, unit, start, target, whole):
    """Return one number that tells apart all entries of an array, and of what a form makes of it."""
    y = np.array(x * unit)
    if start == "plain":
        y = np.array([0.33, 0.52, 0.91, 0.44, 0.83, 0.64])[: x.size].reshape(x.shape) * unit
    parts = arrays_of(form(y))
    s = np.sum(x) * 0.47 + 0.25
    for array in [y] if target == "argument" else parts:
        write(array, s, whole)
    total = 0.125 + 0.0 * s
    for k, array in enumerate([y, *parts]):
        weights = np.cos(k + np.arange(1.0, array.size + 1)).reshape(array.shape)
        total = total + np.sum(array.real * weights)
        if np.iscomplexobj(array):
            total = total + 1.7 * np.sum(array.imag * weights)
    return total


def outcome(form, x, unit, run):
    """Return the number, and the class of what was raised; zero if something was.

    An error that is not named here would be raised again at the end of the trace.
    """
    try:
        return program(form, x, unit, *run), None
    except (nt.UnsupportedOperationError, Exception) as error:
        return 0.0, type(error)


def numbers(runs, unit, points, raised=None):
    """Return the number of each run, which has a point of its own: its row of the gradient is its alone."""
    found = []
    for (_, form, run), point in zip(runs, points, strict=True):
        result, error = outcome(form, point, unit, run)
        found.append(result)
        if raised is not None:
            raised.append(error)
    return np.stack(found) + 0.0 * np.sum(points)


CASES = [(kind, shape, 1.0) for kind in KINDS for shape in SHAPES[kind]]
COMPLEX = [(kind, shape, 1.0 + 0.5j) for kind in ("parts", "indices") for shape in ((2, 3), (1,), ())]


@pytest.mark.parametrize(("kind", "shape", "unit"), CASES + COMPLEX, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_views_and_copies_are_numpys(kind, shape, unit):
    runs = list(programs(kind, shape, unit))
    wrong = []
    for first in range(0, len(runs), 50):  # a run that makes the trace start again repeats few others
        wrong += differences(runs[first : first + 50], shape, unit, strict=kind == "indices" and unit == 1.0)
    assert not wrong, "\n".join(map(str, wrong))


def differences(runs, shape, unit, strict):
    """Return where an array or a slope differs from NumPy's, or where an error does if ``strict``."""
    x = np.linspace(0.31, 0.87, int(np.prod(shape))).reshape(shape)
    x = np.broadcast_to(x, (len(runs), *shape)).copy()
    direction = np.cos(np.arange(1.0, x[0].size + 1)).reshape(shape)
    refused, raised = [], []
    with np.errstate(all="ignore"):
        expected = numbers(runs, unit, x.copy(), refused)
        rough, fine = (
            (numbers(runs, unit, x + h * direction) - numbers(runs, unit, x - h * direction)) / (2 * h)
            for h in (STEP, STEP / 2)
        )
        value, pullback = nt.vjp(lambda x: numbers(runs, unit, x, raised), x)
        slope = np.sum((pullback(np.ones(len(runs)))[0] * direction).reshape(len(runs), -1), axis=1)
        slopes = fine + (fine - rough) / 3
    wrong = []
    for k, (name, _, run) in enumerate(runs):
        if refused[k] is not None:
            if raised[k] is None:
                wrong.append((name, run, f"NumPy raises {refused[k].__name__}"))
        elif raised[k] is None and np.isfinite(slopes[k]) and abs(slopes[k]) < 1e3:
            close = np.isclose(slope[k], slopes[k], rtol=1e-3, atol=1e-4)  # float32 too
            if not (close and np.isclose(value[k], expected[k], rtol=1e-6, equal_nan=True)):
                wrong.append((name, run, value[k], expected[k], slope[k], slopes[k]))
        elif raised[k] is not None and strict and not issubclass(raised[k], nt.UnsupportedOperationError):
            wrong.append((name, run, raised[k]))
    return wrong
