"""What shares memory with a captured array that a function writes to: read by the trace, or refused."""

import array
import ctypes
import functools
import mmap
import types

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse
import scipy.spatial
import scipy.stats

import numbatape as nt

X = np.array([1.0, 2.0, 3.0])


def of_pointer(buffer):
    pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return lambda: pointer[0] + pointer[1] + pointer[2]


def of_address(buffer):
    address = ctypes.c_void_p(buffer.ctypes.data)
    return lambda: np.frombuffer((ctypes.c_double * 3).from_address(address.value)).sum()


def of_memory(buffer):
    memory = memoryview(buffer)
    return lambda: sum(memory)


def of_series(buffer):
    series = pytest.importorskip("pandas").Series(buffer, copy=False)
    return lambda: series.sum()


def of_labelled(buffer):
    labelled = pytest.importorskip("xarray").DataArray(buffer, dims="k")
    return lambda: labelled.sum().item()


def of_masked(buffer):
    masked = np.ma.array(buffer, copy=False)
    return lambda: masked.sum()


def of_sparse(buffer):
    sparse = scipy.sparse.csr_array((buffer, np.arange(3), np.arange(4)), shape=(3, 3))
    return lambda: (sparse @ np.ones(3)).sum()


def of_spline(buffer):
    spline = scipy.interpolate.BSpline(np.arange(6.0), buffer, 2)
    return lambda: spline(2.5).item()


def of_distribution(buffer):
    normal = scipy.stats.norm(buffer)
    return lambda: normal.mean().sum()


def of_compiled(buffer):
    tree = scipy.spatial.cKDTree(buffer[:, None])
    return lambda: tree.query([0.0])[0]


# By name: what returns a function without arguments that reads an array's memory by way of something else.
READERS = {name[3:]: make for name, make in list(globals().items()) if name.startswith("of_")}


@pytest.mark.parametrize("name", READERS)
def test_what_the_trace_cannot_write_to_is_refused(name):
    """These read the memory of the caller's array, but the trace writes to a copy of it."""
    buffer = np.ones(3)
    read = READERS[name](buffer)

    def writes(x):
        buffer[:] = 3.0 * x
        return read() + x[0]

    before = read()
    writes(X)
    assert read() != before  # it is the same memory
    buffer[:] = 1.0
    with pytest.raises(nt.UnsupportedOperationError, match="shares memory with a captured array"):
        nt.value_and_grad(writes)(X)
    assert np.array_equal(buffer, np.ones(3))


@pytest.mark.parametrize(
    "made", [lambda: array.array("d", np.ones(3)), lambda: bytearray(24), lambda: mmap.mmap(-1, 24)]
)
def test_memory_of_pythons_objects_is_refused(made):
    owner = made()
    buffer = np.frombuffer(owner, float, 3)

    def writes(x):
        buffer[:] = x**2
        return memoryview(owner).cast("B")[7] * x[0]

    with pytest.raises(nt.UnsupportedOperationError, match="shares memory with a captured array"):
        nt.grad(writes)(X)


def test_numbers_that_are_written_count_as_well():
    """A run with stand-ins writes plain numbers to copies, too, until it ends."""
    pandas = pytest.importorskip("pandas")
    buffer, scratch = np.ones(3), np.zeros(3)
    series = pandas.Series(buffer, copy=False)

    def writes(x):
        buffer[:] = 5.0
        scratch[:] = x
        return series.sum() * scratch.sum()

    with pytest.raises(nt.UnsupportedOperationError, match=r"`series`.* shares memory with a captured array"):
        nt.grad(writes)(X)


def test_what_has_a_stand_in_sees_the_trace():
    """Containers, methods, partials and the user's own objects are made again with the trace's array."""
    buffer = np.ones(3)
    total, product = buffer.sum, functools.partial(np.dot, buffer)
    held, space, rows = {"its": [buffer]}, types.SimpleNamespace(its=buffer), buffer[1:]

    class Holder:
        def __init__(self):
            self.its = buffer

    own = Holder()

    def writes(x):
        buffer[:] = x**2
        parts = total() + product(X) + held["its"][0][0] + space.its[1] + rows[1] + own.its[2]
        return parts + np.sum(buffer)

    value, gradient = nt.value_and_grad(writes)(X)
    assert value == pytest.approx(writes(X))
    assert gradient == pytest.approx(2.0 * X * (2.0 + X + [1.0, 1.0, 2.0]))
