"""Abstract, generic and protocol classes stay what they are when a function that uses them is traced.

Their constructors write to each new class, the stand-ins for them included.
"""

import abc
from typing import Generic, Protocol, TypeVar

import numpy as np
import pytest

import numbatape as nt

T = TypeVar("T")
X = np.array([0.3, 1.2])


class Kernel(Protocol):
    def __call__(self, x): ...


class Wave(Kernel):
    def __call__(self, x):
        return np.sin(x)


class Box(Generic[T]):
    def __init__(self, content):
        self.content = content


class Law(abc.ABC):
    @abc.abstractmethod
    def __call__(self, x): ...

    def twice(self, x):
        return 2.0 * x


class Line(Law):
    def __call__(self, x):
        return self.twice(x)


Law.register(int)
Line.register(str)


def program(x):
    box = Box[float](x)
    registered = isinstance(3, Law) + 10 * isinstance("a", Line) + 100 * isinstance(3.0, Law)
    return np.sum(Wave()(box.content) + Line()(x)) * registered


def test_classes_stay_as_they_are():
    cache = nt.prepare_gradient_cache(program, X)
    value, (slopes,) = nt.value_and_gradient(cache, X)
    assert value == pytest.approx(program(X), rel=1e-14)
    np.testing.assert_allclose(slopes, 11.0 * (np.cos(X) + 2.0), rtol=1e-14)
    assert isinstance(3, Law) and isinstance("a", Line) and not isinstance(3.0, Law)
    assert Box[int].__args__ == (int,)
    for abstract in (Kernel, Law):
        with pytest.raises(TypeError, match="instantiate"):
            abstract()


def test_calls_are_not_traced_again():
    Wave()  # the first object of a protocol's subclass changes the class: `typing` replaces its `__init__`
    cache = nt.prepare_gradient_cache(lambda x: np.sum(Wave()(x) + Line()(x)), X)
    for _ in range(2):
        nt.value_and_gradient(cache, X)
    assert cache.traces == 1  # a class that had changed would be a reason


def test_classes_are_used_inside_as_outside():
    def inside(x):
        class Other(Law):
            def __call__(self, x):
                return self.twice(x) ** 2

        Law.register(complex)
        with pytest.raises(TypeError, match="instantiate"):
            Kernel()
        return np.sum(Other()(x)) * (1.0 + issubclass(Other, Law) + isinstance(1j, Law))

    np.testing.assert_allclose(nt.grad(inside)(X), 24.0 * X, rtol=1e-14)
    assert isinstance(1j, Law)
