"""Many small cases in one test: what pytest does for a test takes 2 ms, longer than most of these cases."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable


@contextlib.contextmanager
def case(*names):
    """Name the case in the report of what fails in this block."""
    try:
        yield
    except BaseException as error:  # pytest's own, such as that of `pytest.raises`, are no Exceptions
        error.add_note(f"The case: {', '.join(str(getattr(name, 'name', name)) for name in names)}")
        raise


def every(names: str, values: Iterable) -> Callable:
    """Run a test for all values of some of its parameters, as one test: `parametrize` without its reports.

    For cases that share nothing: fixtures are those of the whole test.
    """
    given = names.split(", ")

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures):
            cases = list(values)
            assert cases, "no case"
            for value in cases:
                parts = (value,) if len(given) == 1 else value
                with case(*parts):
                    test(**fixtures, **dict(zip(given, parts, strict=True)))

        others = [each for name, each in signature.parameters.items() if name not in given]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate
