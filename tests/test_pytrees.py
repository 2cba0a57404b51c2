"""Structures are equal for trees of equal structure, whoever has taken them apart."""

import collections
import dataclasses
import itertools
import sys
import types

import numpy as np
import optree
import pytest

import numbatape as nt
from numbatape.trace import pytrees

Point = collections.namedtuple("Point", "x y")
LEAVES = [1.0, np.ones(2), None, "text", np.int8(3), object(), len, types, 2j]
SHAPES = {
    "leaf": lambda a, b: a,
    "empty tuple": lambda a, b: (),
    "tuple": lambda a, b: (a, b),
    "one": lambda a, b: (a,),
    "list": lambda a, b: [a, b],
    "dict": lambda a, b: {"a": a, "b": b},
    "empty dict": lambda a, b: {},
    "call": lambda a, b: ((a, b), {}),
    "call without arguments": lambda a, b: ((), {}),
    "call with keywords": lambda a, b: ((a,), {"b": b}),
    "call of a tuple": lambda a, b: (((a, b),), {}),
    "two tuples": lambda a, b: ((a, b), ()),
    "tuple with a dict": lambda a, b: (a, {}),
    "named": lambda a, b: Point(a, b),
    "named in a call": lambda a, b: ((Point(a, b),), {}),
    "subclass": lambda a, b: types.new_class("T", (tuple,))((a, b)),
    "ordered": lambda a, b: ((a, b), collections.OrderedDict()),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_structure_depends_on_containers_alone(name):
    """Classes of leaves that are known, and others that only optree can tell from containers."""
    make = SHAPES[name]
    structures, trees = [], []
    for a, b in itertools.product(LEAVES, repeat=2):
        trees.append(make(a, b))
        leaves, structure = pytrees.flatten(trees[-1])
        structures.append(structure)
        own = optree.tree_flatten(trees[-1], none_is_leaf=True, namespace=pytrees.NAMESPACE)
        assert all(one is other for one, other in zip(leaves, own[0], strict=True))
        assert structure.num_leaves == len(leaves) == own[1].num_leaves
        assert structure.paths() == own[1].paths()
        assert structure.is_leaf() == own[1].is_leaf()
        assert structure.type is own[1].type
        if not structure.is_leaf():
            assert structure.entries() == own[1].entries()
            assert [part.num_leaves for part in structure.children()] == [
                part.num_leaves for part in own[1].children()
            ]
        up_to = structure.flatten_up_to(trees[-1])
        assert all(one is other for one, other in zip(up_to, leaves, strict=True))
        again = pytrees.unflatten(structure, leaves)
        assert type(again) is type(trees[-1])
        assert all(one is other for one, other in zip(pytrees.leaves(again), leaves, strict=True))
    if name != "subclass":  # a new class each time
        assert len(set(structures)) == 1


def test_structures_of_other_containers_differ():
    structures = [pytrees.flatten(make(1.0, 2.0))[1] for name, make in SHAPES.items() if name != "subclass"]
    alike = [(a, b) for a, b in itertools.combinations(structures, 2) if a == b]
    assert not alike


@pytest.mark.parametrize("name", SHAPES)
def test_maps_keep_the_structure(name):
    tree, other = SHAPES[name](1.0, 2.0), SHAPES[name](3.0, 4.0)
    made = pytrees.mapped(lambda a, b: (a, b), tree, tree if name == "subclass" else other)
    expected = optree.tree_map(lambda a, b: (a, b), tree, tree if name == "subclass" else other)
    assert made == expected


def test_leaves_are_marked_by_the_caller():
    tree = ((nt.Constant((1.0, 2.0)), nt.Cache(np.ones(2)), 3.0), {})
    leaves, structure = pytrees.flatten(tree, lambda x: type(x) in (nt.Constant, nt.Cache))
    assert leaves == [*tree[0]]
    assert structure is pytrees.flatten(((1.0, 2.0, 3.0), {}))[1]


def test_containers_are_registered_when_optree_is_there():
    assert "optree" in sys.modules
    assert pytrees.leaves({"z": nt.Constant(1.0)}) == [nt.Constant(1.0)]


def test_a_function_may_go_through_a_dictionary_in_its_order():
    """Structures are equal whatever the order of keys; the same keys in another order are another tape."""

    def f(d):
        return sum(k * v for k, v in enumerate(d.values(), 1)) * (1 if type(next(iter(d))) is str else 2)

    orders = ({"a": 3.0, "b": 2.0}, {"b": 2.0, "a": 3.0}, {1: 2.0, 0: 1.0}, {True: 2.0, False: 1.0})
    verb, sub = nt.value_and_grad(f), nt.function(f)
    constant = nt.value_and_grad(lambda x, d: x * f(d))
    for d in (*orders, *orders, *orders[::-1]):
        value, gradient = verb(d)
        assert value == f(d)
        assert list(gradient) == list(d)
        assert list(gradient.values()) == ([1.0, 2.0] if type(next(iter(d))) is str else [2.0, 4.0])
        assert constant(2.0, nt.Constant(d)) == (2.0 * f(d), f(d))
        assert constant(2.0, collections.OrderedDict(d))[0] == 2.0 * f(d)
        assert nt.grad(lambda x, d=d: sub({key: x * v for key, v in d.items()}))(1.0) == f(d)
    cache = nt.prepare_gradient_cache(f, orders[0])
    for d in (*orders[:2], *orders[:2]):
        assert nt.value_and_gradient(cache, d)[0] == f(d)


@dataclasses.dataclass
class Holder:
    """A container of a dictionary."""

    parts: dict


def test_a_function_may_go_through_keywords_and_inner_dictionaries_in_their_order():
    def f(x, **named):
        return x * sum(k * v for k, v in enumerate(named.values(), 1))

    def held(holder):
        return sum(k * v for k, v in enumerate(holder.parts.values(), 1))

    orders = ({"a": 3.0, "b": 2.0}, {"b": 2.0, "a": 3.0})
    verb, sub, inside = nt.value_and_grad(f), nt.function(f), nt.value_and_grad(held)
    contained = nt.value_and_grad(lambda tree, **named: f(tree["x"], **named) + held(tree["h"]))
    for d in (*orders, *orders, *orders[::-1]):
        total = f(1.0, **d)
        assert verb(2.0, **d) == (2.0 * total, total)
        assert nt.grad(lambda x, d=d: sub(x, **{key: x * v for key, v in d.items()}))(1.0) == 2.0 * total
        value, gradient = inside(Holder(d))
        assert value == total
        assert gradient.parts == {key: k for k, key in enumerate(d, 1)}
        assert contained({"x": 2.0, "h": Holder(d)}, **d)[0] == 3.0 * total


class Frozen(dict):
    """A dictionary with a hash, which selects a tape."""

    def __hash__(self):
        return hash(frozenset(self.items()))


def test_equal_keys_and_equal_static_values_that_a_function_tells_apart_have_tapes_of_their_own():
    def weight(key):
        return (2.0 if type(key) is bool else 1.0) * (3.0 if np.signbit(key) else 1.0)

    def f(d):
        return sum(k * weight(key) * v for k, (key, v) in enumerate(d.items(), 1))

    verb, sub, constant = nt.value_and_grad(f), nt.function(f), nt.value_and_grad(lambda x, d: x * f(d))
    lists = ({1: 3.0}, {True: 3.0}, {1.0: 3.0, 0.0: 2.0}, {1.0: 3.0, -0.0: 2.0}, {1: 3.0, 0: 2.0})
    cache = nt.prepare_gradient_cache(f, lists[2])
    for d in (*lists, *lists, *lists[::-1]):
        expected = {key: k * weight(key) for k, key in enumerate(d, 1)}
        assert repr(verb(d)) == repr((f(d), {key: np.float64(v) for key, v in expected.items()}))
        assert constant(1.0, nt.Constant(d))[0] == constant(1.0, nt.Static(Frozen(d)))[0] == f(d)
        assert nt.grad(lambda x, d=d: sub({key: x * v for key, v in d.items()}))(1.0) == f(d)
        if len(d) == 2:
            assert nt.value_and_gradient(cache, d)[0] == f(d)
    ends = nt.grad(lambda x, r: x * r.stop)
    assert [ends(1.0, nt.Static(range(0, stop, 2))) for stop in (3, 4, 3)] == [3.0, 4.0, 3.0]


def test_classes_that_are_equal_as_keys_are_forgotten_one_by_one():
    """The stand-ins of nested traces for one class are equal, as keys of optree's dictionary, too."""

    class Equal(type):
        def __eq__(cls, other):
            return isinstance(other, Equal)

        def __hash__(cls):
            return 0

    made = [dataclasses.make_dataclass("Pair", ["first"], bases=(Equal("Base", (), {}),)) for _ in range(2)]
    for _ in range(2):
        for pair in made:
            assert pytrees.leaves(pair(1.0)) == [1.0]
        for pair in made:
            pytrees.forget(pair)
