"""State that Python's own modules keep for the process: a call after it has changed is traced again."""

import abc
import decimal
import logging
import os
import time

import numpy as np
import pytest

import numbatape as nt

X = np.array([1.0, 2.0])
LOGGER = logging.getLogger("numbatape.tests.state")


class Shape(abc.ABC):  # noqa: B024 (classes are registered with it)
    pass


def _zone(name):
    os.environ["TZ"] = name
    time.tzset()


def _context(**options):
    decimal.setcontext(decimal.Context(**options))


def _registered():
    class Box:
        pass

    box = Box()
    return (lambda x: np.sum(x) * (2.0 if isinstance(box, Shape) else 3.0)), [lambda: Shape.register(Box)]


def _set_of_one():
    members = {1}

    def becomes(member):
        members.clear()
        members.add(member)

    return (
        lambda x: np.sum(x) * sum(len(str(m)) for m in members),
        [lambda: becomes(1.0), lambda: becomes(True)],
    )


ONE, THREE = decimal.Decimal(1), decimal.Decimal(3)
STATES = {
    "decimal context": lambda: (
        lambda x: np.sum(x) * float(ONE / THREE),
        [lambda: _context(prec=3), lambda: _context()],
    ),
    "level of a logger": lambda: (
        lambda x: np.sum(x) * (2.0 if LOGGER.isEnabledFor(logging.DEBUG) else 3.0),
        [lambda: LOGGER.setLevel(logging.DEBUG), lambda: LOGGER.setLevel(logging.NOTSET)],
    ),
    "level of its parent": lambda: (
        lambda x: np.sum(x) * LOGGER.getEffectiveLevel(),
        [lambda: LOGGER.parent.setLevel(17), lambda: LOGGER.parent.setLevel(logging.NOTSET)],
    ),
    "level of a logger by name": lambda: (
        lambda x: np.sum(x) * logging.getLogger("numbatape.tests.state").level,
        [lambda: LOGGER.setLevel(7), lambda: LOGGER.setLevel(logging.NOTSET)],
    ),
    "time zone": lambda: (
        lambda x: np.sum(x) * (1.0 + time.localtime(0).tm_hour),
        [lambda: _zone("EST5"), lambda: _zone("UTC")],
    ),
    "number of the time zone": lambda: (
        lambda x: np.sum(x) * (1.0 + time.timezone),
        [lambda: _zone("EST5"), lambda: _zone("UTC")],
    ),
    "registered class": _registered,
    "members of a set": _set_of_one,
}


@pytest.mark.parametrize("name", STATES)
def test_changed_state_is_noticed(name):
    zone = os.environ.get("TZ")
    try:
        f, changes = STATES[name]()
        gradient = nt.value_and_grad(f)
        for change in (lambda: None, *changes):
            change()
            for _ in range(2):
                assert gradient(X)[0] == f(X)
    finally:
        _context()
        os.environ.pop("TZ", None) if zone is None else os.environ.update(TZ=zone)
        time.tzset()


def test_nothing_is_traced_again_while_the_state_is_the_same():
    def f(x):
        LOGGER.debug("called")
        return np.sum(x) * float(ONE / THREE) * time.localtime(0).tm_mon

    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(3):
        nt.value_and_gradient(cache, X)
    assert cache.traces == 1


TRUE = np.True_
TRUTHS = {"true": TRUE}


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        (r"np\.True_", lambda x: (x[0] > 0) is np.True_),
        (r"np\.False_", lambda x: np.isnan(x[0]) is not np.False_),
        ("TRUE", lambda x: TRUE is (x[0] > 0)),
        ("TRUE", lambda x: any([each is TRUE for each in [x[0] > 0]])),
        ("true", lambda x: np.all(x > 0) is TRUTHS["true"]),
        ("expected", lambda x, expected=TRUE: (x > 0)[0] is expected),
    ],
)
def test_truth_values_are_not_compared_with_numpys_by_identity(name, truth):
    with pytest.raises(nt.UnsupportedOperationError, match=f"`is {name}` at .*test_state"):
        nt.grad(lambda x: np.sum(x) * (2.0 if truth(x) else 3.0))(X)


def test_truth_values_of_numpy_may_be_used_beside_comparisons_by_identity():
    flag = np.True_

    assert nt.value_and_grad(lambda x: np.sum(x) * (2.0 if flag and X is not x else 3.0))(X)[0] == 6.0
    assert nt.value_and_grad(lambda x: np.sum(x) * (2.0 if flag & np.True_ else 3.0))(X)[0] == 6.0


def test_reciprocals_of_integer_zeros_are_refused():
    gradient = nt.value_and_grad(lambda x: np.sum(x) * np.sum(np.reciprocal(np.argsort(x) + np.sum(x > 1.5))))
    assert gradient(np.array([1.0, 2.0]))[0] == 3.0
    with pytest.raises(nt.UnsupportedOperationError, match=r"np\.reciprocal of a traced integer 0"):
        gradient(np.array([0.5, 1.0]))
    assert gradient(np.array([2.0, 1.0]))[0] == 3.0
