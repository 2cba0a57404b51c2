"""A trace that starts again, with an integer as a plain number, starts from the state before the first."""

import collections

import numpy as np
import pytest

import numbatape as nt


class Plain:
    def __init__(self):
        self.count = 0


class Slotted:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


def attribute(owner):
    owner.count += 1


def item(mapping):
    mapping["a"] = mapping.get("a", 0) + 1


def entry(items):
    items.append(len(items))


def member(members):
    members.add(len(members))


STATES = {
    "attribute": (Plain, attribute, lambda owner: owner.count),
    "slot": (Slotted, attribute, lambda owner: owner.count),
    "dict": (lambda: {"b": 1, "a": 0}, item, lambda mapping: list(mapping.items())),
    "new key": (dict, item, dict),
    "defaultdict": (lambda: collections.defaultdict(int, b=1), item, dict),
    "Counter": (lambda: collections.Counter(a=3), item, dict),
    "OrderedDict": (lambda: collections.OrderedDict(a=0, b=1), item, lambda m: list(m.items())),
    "list": (list, entry, list),
    "deque": (collections.deque, entry, list),
    "set": (set, member, set),
}


@pytest.mark.parametrize("name", STATES)
def test_state(name):
    make, change, show = STATES[name]

    def prepared(state):
        def f(x, k):
            change(state)
            try:  # an error that the integer might have caused: the function is traced again without it
                x = x * x[x > 100.0][k]
            except IndexError:
                x = x * 1.0
            return np.sum(x) * k

        return f

    plain, traced = make(), make()
    expected, found = prepared(plain), nt.value_and_grad(prepared(traced))
    for _ in range(3):
        value, gradient = found(np.ones(3), 2)
        assert value == expected(np.ones(3), 2)
        np.testing.assert_array_equal(gradient, np.full(3, 2.0))
        assert show(traced) == show(plain)


def starts(x, k):
    global started
    try:
        started += 1
    except NameError:
        started = 1
    try:
        x = x * x[x > 100.0][k]
    except IndexError:
        x = x * 1.0
    return np.sum(x) * k


def test_a_global_that_did_not_exist(monkeypatch):
    monkeypatch.delitem(globals(), "started", raising=False)
    for expected in (1, 2, 3):
        nt.grad(starts)(np.ones(3), 2)
        assert started == expected
