"""Questions about types get plain NumPy's answers while tracing: a table of questions and kinds of values."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import numbers
import operator
import typing

import numpy as np
import pytest

import numbatape as nt
from numbatape.errors import UnsupportedOperationError

FORMS = {}


def form(f):
    FORMS[f.__name__] = f
    return f


@form
def type_is(x):
    return (
        type(x) is np.ndarray,
        type(x) is float,
        type(x) is np.float64,
        type(x) is np.float32,
        type(x) is int,
    )


@form
def kinds_of_methods(x):
    asked = inspect.isbuiltin, inspect.ismethod, inspect.isfunction, inspect.isroutine, callable
    return [ask(x.conjugate) for ask in asked], isinstance(x.conjugate, type(len))


@form
def type_in(x):
    return type(x) in (float, np.float64)


@form
def match_(x):
    match x:
        case bool():
            return "bool"
        case int():
            return "int"
        case np.float64():
            return "np.float64"
        case float():
            return "float"
        case np.float32():
            return "f32"
        case complex():
            return "complex"
        case np.bool_():
            return "npbool"
        case np.ndarray(shape=(3,)):
            return "three"
        case np.ndarray(ndim=0):
            return "zero"
        case np.ndarray():
            return "array"
        case numbers.Real():
            return "real"
        case _:
            return "other"


@form
def match_abc(x):
    match x:
        case numbers.Integral():
            return "integral"
        case numbers.Real():
            return "real"
        case numbers.Complex():
            return "complex"
        case collections.abc.Sequence():
            return "seq"
    return "none"


@form
def match_seq(x):
    match x:
        case [_, _, _]:
            return "seq"
        case {"a": _}:
            return "map"
        case None:
            return "none"
    return "no"


@form
def truths(x):
    match (x == x, x != 1.5):
        case (True, True):
            return "another number of Python's"
        case (True, False):
            return "Python's 1.5", isinstance(x, complex) or bool(1.0 / max(x, 0.0) == 0.0)
    return "NumPy's truth values", (x == 1.5) is True, True is (x != 1.5)


@form
def truths_of_math(x):
    x = abs(x)
    return math.isfinite(x) is True, math.isnan(x) is False, math.isinf(x) is not False


@form
def dunder_class(x):
    return x.__class__.__name__


@form
def dunder_class_is(x):
    return x.__class__ is np.ndarray, x.__class__ in (float, np.float64)


@form
def issub(x):
    return (
        issubclass(type(x), np.ndarray),
        issubclass(type(x), float),
        issubclass(type(x), np.floating),
        issubclass(type(x), (int, np.integer)),
    )


@form
def issub_class(x):
    return issubclass(x.__class__, np.ndarray), issubclass(x.__class__, np.generic)


@form
def inst_y(x):
    y = np.zeros(3)
    return isinstance(y, type(x)), isinstance(1.0, type(x)), isinstance(np.float64(1), type(x))


@form
def inst_x(x):
    y = np.zeros(3)
    return isinstance(x, type(y)), isinstance(x, float)


@form
def inst_floating(x):
    return (
        isinstance(x, np.floating),
        isinstance(x, np.generic),
        isinstance(x, np.number),
        isinstance(x, np.inexact),
    )


@form
def inst_numbers(x):
    return (
        isinstance(x, numbers.Real),
        isinstance(x, numbers.Number),
        isinstance(x, numbers.Integral),
        isinstance(x, numbers.Complex),
    )


@form
def inst_union(x):
    return isinstance(x, int | float), isinstance(x, (list, tuple, np.ndarray))


@form
def inst_abc(x):
    return tuple(
        isinstance(x, getattr(collections.abc, n))
        for n in (
            "Iterable",
            "Sized",
            "Hashable",
            "Container",
            "Sequence",
            "Callable",
            "Collection",
            "Reversible",
            "Iterator",
            "Mapping",
            "Buffer",
        )
        if hasattr(collections.abc, n)
    )


@form
def inst_typing(x):
    return tuple(
        isinstance(x, getattr(typing, n))
        for n in (
            "SupportsFloat",
            "SupportsInt",
            "SupportsIndex",
            "SupportsAbs",
            "SupportsRound",
            "SupportsComplex",
            "Iterable",
            "Sized",
            "Hashable",
            "Callable",
        )
    )


@form
def has(x):
    return {
        n: hasattr(x, n)
        for n in (
            "__array_interface__",
            "__array_struct__",
            "__array__",
            "shape",
            "dtype",
            "ndim",
            "size",
            "T",
            "sum",
            "__len__",
            "__iter__",
            "__getitem__",
            "__setitem__",
            "__float__",
            "__int__",
            "__index__",
            "__array_priority__",
            "__array_ufunc__",
            "__array_function__",
            "__array_namespace__",
            "__dlpack__",
            "tolist",
            "item",
            "is_integer",
            "imag",
            "real",
            "astype",
            "foo",
            "_value",
            "_trace",
            "__contains__",
            "__iadd__",
            "__call__",
            "__hash__",
            "as_integer_ratio",
            "hex",
            "conjugate",
            "bit_length",
            "flat",
            "data",
            "base",
            "flags",
            "ctypes",
            "strides",
            "_id",
        )
    }


@form
def has_class(x):
    return hasattr(type(x), "__len__"), hasattr(type(x), "shape")


@form
def getattr_default(x):
    return (
        getattr(x, "ndim", -1),
        getattr(x, "shape", None),
        getattr(x, "foo", 7),
        getattr(x, "__array_priority__", -1.0),
    )


@form
def eafp_shape(x):
    try:
        return x.shape
    except AttributeError:
        return "no shape"


@form
def eafp_len(x):
    try:
        return len(x)
    except TypeError:
        return "no len"


@form
def eafp_iter(x):
    try:
        iter(x)
        return "iter"
    except TypeError:
        return "no iter"


@form
def eafp_item(x):
    try:
        x[0]
        return "item"
    except (TypeError, IndexError) as e:
        return type(e).__name__


@form
def eafp_dtype(x):
    try:
        return str(x.dtype)
    except AttributeError:
        return "no dtype"


@form
def asked_for_memory(x):
    try:
        return len(x.__array_interface__) > 0
    except AttributeError:
        return "no"


@form
def name(x):
    return type(x).__name__, type(x).__qualname__, type(x).__module__


@form
def type_str(x):
    return str(type(x)), repr(type(x))


@form
def npsub(x):
    return np.issubdtype(type(x), np.floating), np.issubdtype(type(x), np.integer)


@form
def npsub_dtype(x):
    return np.issubdtype(np.asarray(x).dtype, np.floating) if isinstance(x, np.ndarray) else None


@form
def isscalar(x):
    return np.isscalar(x), np.ndim(x), np.shape(x), np.size(x), np.iterable(x)


@form
def nptests(x):
    return np.iscomplexobj(x), np.isrealobj(x)


@form
def call(x):
    return callable(x)


@form
def dtype_type(x):
    return (
        (
            x.dtype.type is np.float64,
            x.dtype.type.__name__,
            x.dtype.kind,
            x.dtype == np.float64,
            x.dtype == float,
        )
        if hasattr(x, "dtype")
        else "none"
    )


@form
def by_type(x):
    return {
        float: "float",
        np.ndarray: "array",
        np.float64: "np",
        np.float32: "f32",
        int: "i",
        bool: "b",
        complex: "c",
        np.complex128: "c128",
        np.bool_: "nb",
    }.get(type(x), "?")


@form
def mro(x):
    return type(x).__mro__[1].__name__, type(x).mro()[-1] is object, inspect.getmro(type(x))[-1].__name__


@form
def type_type(x):
    return (
        type(type(x)) is type,
        isinstance(type(x), type),
        isinstance(np.float64, type),
        isinstance(3, type),
        int is int,
        type is type,
    )


@form
def type_make(x):
    C = type("C", (), {"a": 1})

    class M(type):
        pass

    class D(metaclass=M):
        pass

    return C.a, C.__name__, type(D) is M, type(C()) is C, isinstance(D, type), isinstance(C, type)


@functools.singledispatch
def kind(x):
    return "object"


@kind.register(np.ndarray)
def _(x):
    return "array"


@kind.register(float)
def _(x):
    return "float"


@kind.register
def _(x: np.float32):
    return "f32"


@kind.register(int)
def _(x):
    return "int"


@kind.register(numbers.Complex)
def _(x):
    return "complex"


@form
def dispatch(x):
    return kind(x)


@form
def dispatch2(x):
    return kind.dispatch(type(x))(x)


class K:
    @functools.singledispatchmethod
    def k(self, x):
        return "object"

    @k.register
    def _(self, x: np.ndarray):
        return "array"

    @k.register
    def _(self, x: float):
        return "float"

    @k.register
    def _(self, x: int):
        return "int"


k0 = K()


@form
def dispatchmethod(x):
    return k0.k(x), K().k(x)


@form
def same_type(x):
    return type(x) is type(x + 0), type(x) == type(x * 1.0), type(x) is type(abs(x))  # noqa: E721


@form
def type_call(x):
    t = type(x)
    return float(np.asarray(t(3.0)).sum()) if t is not np.ndarray else t((2,)).shape


@form
def cmp_type(x):
    b = x == x
    return type(b).__name__, isinstance(b, bool), isinstance(b, np.bool_)


@form
def mapped(x):
    return [*map(type, [x, 1.0])], [*map(callable, [x])]


@form
def isclass(x):
    return inspect.isclass(x), inspect.isfunction(x), inspect.isclass(type(x))


@form
def opgetter(x):
    try:
        return operator.attrgetter("ndim")(x)
    except AttributeError:
        return "none"


@form
def nested(x):
    return [isinstance(v, np.ndarray) for v in (x,)], {type(v) for v in (x,)}, (lambda v: type(v))(x)


@form
def vt(x):
    return type(x) is np.ndarray and x.dtype == np.float64


@form
def typevar(x, T=type):
    return T(x).__name__


@form
def partial_(x):
    return functools.partial(isinstance, x)(np.ndarray), functools.partial(type)(x).__name__


@form
def filt(x):
    return len([*filter(lambda v: isinstance(v, float), [x])])


@form
def cls_attr(x):
    return x.__class__.__mro__[0].__name__, isinstance(x.__class__, type)


@form
def eq(x):
    return type(x) == np.ndarray, type(x) != float  # noqa: E721


@form
def dir_(x):
    return "shape" in dir(x), "_trace" in dir(x)


@form
def methods_that_arrays_have(x):
    found = []
    for ask in (
        lambda: x.sum(),
        lambda: x.T,
        lambda: x.copy(),
        lambda: x.reshape(-1),
        lambda: x.astype(float),
    ):
        try:
            ask()
            found.append(True)
        except AttributeError:
            found.append(False)
    return found


@form
def parts(x):
    return type(x.imag).__name__, type(x.real) is type(x.conjugate())


VECTOR = np.array([0.5, 1.5, 2.0])
VALUES = {
    "array": (VECTOR, lambda x: x),
    "matrix": (np.ones((2, 2)), lambda x: x),
    "computed": (VECTOR, np.exp),
    "row": (np.ones((2, 2)), lambda x: x[0]),
    "0-d array": (np.array(1.5), lambda x: x),
    "number from indexing": (VECTOR, lambda x: x[0]),
    "sum": (VECTOR, np.sum),
    "np.float64": (np.float64(1.5), lambda x: x),
    "np.float32": (VECTOR.astype(np.float32), lambda x: x[0]),
    "np.float16": (VECTOR.astype(np.float16), lambda x: x[0]),
    "float32 array": (VECTOR.astype(np.float32), lambda x: x),
    "float": (1.5, lambda x: x),
    "float's multiple": (1.5, lambda x: 2 * x),
    "float's power": (1.5, lambda x: x**2),
    "size": (VECTOR, lambda x: x.shape[0]),
    "len": (VECTOR, len),
    "np.bool": (VECTOR, lambda x: x[0] < x[1]),
    "bool": (1.5, lambda x: x < 2.0),
    "array of bool": (VECTOR, lambda x: x < 1),
    "complex array": (VECTOR + 1j, lambda x: x),
    "np.complex128": (VECTOR + 1j, lambda x: x[0]),
    "complex": (1.5 + 1j, lambda x: x),
    "array of int": (VECTOR, np.argsort),
    "np.int64": (VECTOR, np.argmax),
    "rounded": (VECTOR, lambda x: np.floor(x).astype(int)),
    "array made inside": (VECTOR, lambda x: np.zeros(3)),
    "text": (VECTOR, lambda x: "text"),
}
# Where the answer is an error: a traced value has no memory.
REFUSED = {"asked_for_memory"}


def answers(z):
    """Return what each form says, or the class of what it raises."""
    found = {}
    for name, ask in FORMS.items():
        try:
            found[name] = repr(ask(z))
        except UnsupportedOperationError:
            found[name] = "refused"
        except Exception as error:
            found[name] = type(error).__name__
    return found


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:Bitwise inversion")
@pytest.mark.parametrize("kind", VALUES)
def test_answers_are_those_of_plain_numpy(kind):
    point, make = VALUES[kind]
    seen = []

    def f(x):
        buffer = np.zeros(1)
        buffer[0] = 1.0
        seen.append(answers(make(x)))
        return np.sum(np.abs(x))

    want = answers(make(point))
    nt.grad(f)(point)
    for name in FORMS:
        assert seen[0][name] == want[name] or (name in REFUSED and seen[0][name] == "refused"), name


def test_arrays_cannot_be_hashed():
    def f(x):
        try:
            hash(x)
        except TypeError:
            return 2.0 * np.sum(x)
        return np.sum(x)

    np.testing.assert_array_equal(nt.grad(f)(VECTOR), 2.0 * np.ones(3))
    with pytest.raises(nt.LeakError, match="no key of a dict"):
        nt.grad(lambda x: {x[0]: 1.0}[x[0]] * x[1])(VECTOR)


def test_getattr_of_the_class():
    f = lambda x: np.sum(x**2) if getattr(x, "__class__") is np.ndarray else x[0]  # noqa: B009, E731
    np.testing.assert_array_equal(nt.grad(f)(VECTOR), 2.0 * VECTOR)
