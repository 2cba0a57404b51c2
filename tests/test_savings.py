"""`numbatape.savings.frozen` makes what `dataclasses.dataclass(frozen=True)` makes, in less time."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from numbatape.config import Config
from numbatape.savings import frozen


@frozen()
class Point:
    x: float
    y: float = 2.0
    tags: list = dataclasses.field(default_factory=list)
    size: float = dataclasses.field(default=0.0, init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "size", abs(self.x) + abs(self.y))


@dataclasses.dataclass(frozen=True)
class Twin:
    x: float
    y: float = 2.0
    tags: list = dataclasses.field(default_factory=list)
    size: float = dataclasses.field(default=0.0, init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "size", abs(self.x) + abs(self.y))


@frozen(eq=False, kw_only=True)
class Named:
    name: str
    values: tuple = ()


@frozen(eq=False)
class Row(Named):
    at: int


@frozen()
class Measured:
    value: float
    seconds: float = dataclasses.field(default=0.0, compare=False)


def test_fields_are_compared_as_in_tuples():
    nan = float("nan")
    assert Measured(nan, 1.0) == Measured(nan, 2.0) and hash(Measured(2.0, 1.0)) == hash(Measured(2.0))


def test_it_is_as_the_standard_library_makes_it():
    for cls in (Point, Twin):
        point = cls(1.0, tags=["a"])
        assert repr(point) == f"{cls.__name__}(x=1.0, y=2.0, tags=['a'])" and point.size == 3.0
        assert point == cls(1.0, 2.0, ["a"]) != cls(1.0) and cls(1.0).tags is not cls(1.0).tags
        assert point != (1.0, 2.0, ["a"]) and point.__eq__(1.0) is NotImplemented
        assert dataclasses.replace(point, x=-4.0).size == 6.0 and dataclasses.is_dataclass(cls)
        assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            point.x = 2.0
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del point.x
        with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'x'"):
            cls()
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            hash(point)
    assert list(inspect.signature(Point).parameters) == list(inspect.signature(Twin).parameters)


def test_keywords_and_inheritance():
    row = Row(3, name="a")
    assert (
        (row.at, row.name, row.values) == (3, "a", ()) and row != Row(3, name="a") and hash(row) is not None
    )
    assert [field.name for field in dataclasses.fields(Row)] == ["name", "values", "at"]
    with pytest.raises(TypeError):
        Row("a", 3)
    assert hash(Config()) == hash(Config(threads=1)) and Config() == Config() != Config(threads=2)
