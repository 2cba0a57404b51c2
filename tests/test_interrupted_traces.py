"""Ctrl-C while a function is traced: its objects hold plain numbers afterwards; the next call is right."""

import contextlib
import math
import sys
import types

import numpy as np
import pytest

import numbatape as nt
from numbatape.capture.kept_values import Kept


class Keeps:
    """Keeps what it has computed, in an attribute, a list, and an array."""

    def __init__(self):
        self.part, self.values, self.buffer = types.SimpleNamespace(last=None), [], np.zeros(3)

    def loss(self, x):
        self.part.last = x * 2.0
        self.values.append(x[0])
        self.buffer[:] = x
        return np.sum(self.part.last**2) + math.log(self.buffer[0] + 3.0)


@pytest.mark.parametrize("after", range(1, 120, 8))
def test_ctrl_c_while_a_trace_ends_leaves_plain_numbers(after):
    """CPython runs signal handlers when a function returns; here, some returns after the traced one."""
    owner, x, seen = Keeps(), np.array([0.5, 0.7, 0.9]), []

    def profile(frame, event, arg):
        if event == "call" and frame.f_code is Kept.settle.__code__:
            seen.append(0)
        elif seen and event in ("return", "c_return"):
            seen[0] += 1
            if seen[0] == after:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            nt.value_and_grad(owner.loss)(x)
    finally:
        sys.setprofile(None)
    assert {type(owner), type(owner.part), *map(type, owner.values)} <= {
        Keeps,
        types.SimpleNamespace,
        np.float64,
    }
    assert type(owner.part.last) is np.ndarray
    np.testing.assert_array_equal(owner.buffer, 0.0)
    np.testing.assert_allclose(nt.grad(owner.loss)(x), 8.0 * x + np.array([1.0 / 3.5, 0.0, 0.0]), rtol=1e-14)
