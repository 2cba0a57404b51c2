"""Methods of objects with slots in sub-tapes, loops, branches and rules: as of objects with dictionaries."""

import copy
import math

import numpy as np
import pytest
from scipy.integrate import quad

import numbatape as nt

NAMES = ("rate", "buffer", "weights", "part")


class Methods:
    def __init__(self):
        self.rate, self.buffer, self.weights, self.part = 2.0, np.zeros(4), np.arange(1.0, 4.0), None
        self.part = {"rate": 2.0, "more": [np.zeros(3)]}

    def scratch(self, x):
        self.buffer[:3] = x
        return np.sum(self.buffer**2) * self.rate

    def inner(self, x):
        return np.sum(np.array([x[0], x[1] * self.rate])) + np.log(self.weights) @ x

    def assigned(self, x):
        self.rate = x[0] * 2.0
        return nt.function(self.inner)(x)

    def branch(self, x):
        self.rate = x[0] * 3.0
        return nt.cond(x[0] > 0.3, self.inner, lambda y: self.inner(y) * self.rate, x)

    def integral(self, x):
        self.rate = x[0]
        return quad(lambda t: math.exp(-self.rate * t) * self.weights[1], 0.0, 1.0)[0] + self.scratch(x)

    def written(self, x):
        self.buffer[0], self.buffer[1], self.buffer.reshape(2, 2)[1, 0] = x[1], 5.0, x[2]
        return quad(lambda t: self.buffer[0] * t + np.sum(self.buffer[1:] ** 2) * x[0], 0.0, 1.0)[0]

    def contained(self, x):
        self.part["rate"], self.part["more"][0][0] = x[0] * 2.0, x[1]
        return quad(lambda t: self.part["rate"] * t + self.part["more"][0][0] * t * t, 0.0, 1.0)[0]

    def copied(self, x):
        def step(total, row):
            other = copy.copy(self)
            other.rate = total
            return other.inner([row, total, row]), None

        return nt.scan(step, 0.1, x)[0]

    def replaced(self, x):
        self.part = type(self)()
        self.part.weights = x * self.weights
        try:
            return nt.function(self.part.inner)(x) + nt.checkpoint(self.part.inner)(x**2)
        finally:
            self.part = None


class Slots:
    __slots__ = NAMES
    __init__, scratch, inner, assigned = Methods.__init__, Methods.scratch, Methods.inner, Methods.assigned
    branch, integral, copied, replaced = Methods.branch, Methods.integral, Methods.copied, Methods.replaced
    written, contained = Methods.written, Methods.contained


STEPS = 1e-5, -1e-5
WRAPPERS = {
    "the method itself": lambda method: method,
    "a sub-tape": nt.function,
    "a checkpoint": nt.checkpoint,
    "rows": lambda method: lambda x: np.sum(nt.vmap(method)(np.stack([x, 0.5 * x]))),
}


CASES = [
    (name, wrapper)
    for name in ("scratch", "assigned", "branch", "integral", "written", "contained", "copied", "replaced")
    for wrapper in WRAPPERS
    if (name, wrapper) != ("integral", "rows")  # refused with dictionaries, too
]


@pytest.mark.parametrize(("name", "wrapper"), CASES)
def test_slots_are_read_and_written_as_dictionaries_are(name, wrapper):
    for x in np.array([[0.5, 0.7, 0.9], [0.2, 0.3, 0.4]]):
        expected = nt.value_and_grad(lambda x: WRAPPERS[wrapper](getattr(Methods(), name))(x))(x)
        owner = Slots()
        method = getattr(owner, name)
        value, gradient = nt.value_and_grad(lambda x: WRAPPERS[wrapper](method)(x))(x)  # noqa: B023
        up, down = (
            [WRAPPERS[wrapper](getattr(Methods(), name))(x + h * e) for e in np.eye(3)] for h in STEPS
        )
        np.testing.assert_allclose(expected[1], np.subtract(up, down) / np.ptp(STEPS), rtol=1e-6)
        np.testing.assert_allclose(value, WRAPPERS[wrapper](getattr(Methods(), name))(x), rtol=1e-13)
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)
        np.testing.assert_array_equal(owner.buffer, 0.0)
        assert type(owner) is Slots
