"""A tape's digest and the calls of users' rules: which rule is called, and on which constant arguments."""

import numpy as np
import pytest

import numbatape as nt


def double(x, data):
    return 2.0 * x * data[7]


def pull(ybar, y, x, data):
    return 2.0 * ybar * data[7], None


RULE = nt.primitive(double, pullback=pull)
DATA = np.arange(2000.0)


def digest(rule=RULE, data=DATA, x=0.5):
    return nt.prepare_gradient_cache(lambda x: rule(x, data) + 1.0, x).tape.digest


@pytest.mark.parametrize(
    "other",
    [
        {"rule": nt.primitive(double, pullback=pull)},
        {"data": np.where(DATA == 700.0, 1.0, DATA)},
        {"data": DATA[:-1]},
        {"data": DATA.astype(np.float32)},
    ],
    ids=["a rule", "an entry", "a shape", "a dtype"],
)
def test_a_digest_changes_with(other):
    assert digest(**other) != digest()


def test_a_digest_is_that_of_another_trace_of_the_call():
    assert digest(x=7.0, data=DATA.copy()) == digest()
