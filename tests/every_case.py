"""Many small cases in one test: what pytest does for a test takes 2 ms, longer than most of these cases."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import scipy
from numpy.lib import NumpyVersion

ParameterSet = type(pytest.param())
# Before the versions that the cases were written with; `.ci/oldest` runs them with the oldest.
OLDER = NumpyVersion(np.__version__) < "2.4.0" or NumpyVersion(scipy.__version__) < "1.17.0"


def of_these_versions(cases: Iterable, compute: Callable) -> list:
    """Return the cases that NumPy and SciPy compute; older versions lack some functions and options.

    Parameters
    ----------
    compute
        Returns the plain result of a case. Old versions of SciPy compute some in extended precision.
    """
    return [case for case in cases if not OLDER or _is_computed(case, compute)]


def _is_computed(case, compute: Callable) -> bool:
    try:
        result = compute(case)
    except (AttributeError, TypeError, ValueError):
        return False
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return not any(getattr(part, "dtype", None) in (np.longdouble, np.clongdouble) for part in parts)


@contextlib.contextmanager
def case(*names):
    """Name the case in the report of what fails in this block."""
    try:
        yield
    except BaseException as error:  # pytest's own, such as that of `pytest.raises`, are no Exceptions
        error.add_note(f"The case: {', '.join(str(getattr(name, 'name', name)) for name in names)}")
        raise


def together(check: Callable, functions: dict[str, Callable], *args) -> None:
    """Check functions of the same arguments as one, which few traces serve; each alone where that fails.

    Results are divided by about what they are there, so that none is small beside the others.
    """
    scales = {name: 1.0 + float(np.max(np.abs(f(*args)), initial=0.0)) for name, f in functions.items()}

    def joined(*args):
        return np.concatenate([np.ravel(f(*args)) / scales[name] for name, f in functions.items()])

    try:
        check(joined, *args)
    except Exception:
        for name, function in functions.items():
            with case(name):
                check(function, *args)
        raise


def _parts(value, count: int) -> tuple[tuple, tuple]:
    """Return what names a case, and its values; it may be one of `pytest.param`."""
    if isinstance(value, ParameterSet):
        assert not value.marks, "marks are for tests"
        return (value.id,), tuple(value.values)
    parts = (value,) if count == 1 else tuple(value)
    return parts, parts


def every(names: str, values: Iterable, tests: int = 1) -> Callable:
    """Run a test for all values of some of its parameters, as one test: `parametrize` without its reports.

    For cases that share nothing: fixtures are those of the whole test. Cases that take seconds together are
    divided among several tests, which workers can share.
    """
    given = names.split(", ")
    part = f"part_of_{given[0]}"

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures):
            cases = list(values)[fixtures.pop(part, 0) :: tests]
            assert cases, "no case"
            for value in cases:
                name, parts = _parts(value, len(given))
                with case(*name):
                    test(**fixtures, **dict(zip(given, parts, strict=True)))

        others = [each for name, each in signature.parameters.items() if name not in given]
        if tests > 1:
            others.append(inspect.Parameter(part, inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return pytest.mark.parametrize(part, range(tests))(run) if tests > 1 else run

    return decorate
