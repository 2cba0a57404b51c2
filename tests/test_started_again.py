"""Functions that count, where the trace of a call has to start again: what they count is that of one run.

The product of a captured array and a traced one is recorded only when the array has a stand-in. This is found
out when the function has counted already.
"""

import contextvars
import functools
import os
import sys
import types

import numpy as np
import pandas
import pytest

import numbatape as nt

MODULE = types.ModuleType("a_module_of_counts")
COUNT = 0


def context_variable():
    variable = contextvars.ContextVar("count", default=0)
    variable.set(0)

    def count():
        variable.set(variable.get() + 1)
        return variable.get()

    return count


def environment():
    os.environ["NUMBATAPE_COUNT"] = "0"

    def count():
        os.environ["NUMBATAPE_COUNT"] = str(int(os.environ["NUMBATAPE_COUNT"]) + 1)
        return int(os.environ["NUMBATAPE_COUNT"])

    return count


def by_name():
    globals()["COUNT"] = 0

    def count():
        globals()["COUNT"] = globals()["COUNT"] + 1
        return COUNT

    return count


def by_text():
    globals()["COUNT"] = 0

    def count():
        exec("global COUNT; COUNT += 1")
        return COUNT

    return count


def deleted():
    globals().pop("LATE", None)

    def count():
        global LATE
        if "LATE" in globals():
            del LATE
            return 2
        LATE = 1
        return 1

    return count


def looked_up_module():
    MODULE.count = 0
    sys.modules[MODULE.__name__] = MODULE

    def count():
        found = sys.modules["a_module_of_counts"]
        found.count += 1
        return found.count

    return count


def records():
    array = np.zeros(1, [("count", int), ("weight", float)])

    def count():
        array["count"][0] += 1
        return int(array["count"][0])

    return count


def cells_of_a_frame():
    frame = pandas.DataFrame({"n": [0.0], "m": [1]})

    def count():
        frame.describe()
        frame.loc[0, "n"] += 1
        return frame.loc[0, "n"]

    return count


COUNTS = context_variable, environment, by_name, by_text, deleted, looked_up_module, records, cells_of_a_frame
TABLE = np.arange(3.0)


@pytest.mark.filterwarnings("ignore::numbatape.UnwatchedWarning")
@pytest.mark.parametrize("again", [False, True], ids=["", "again"])
@pytest.mark.parametrize("make", COUNTS)
def test_the_number_of_runs(make, again):
    count = make()

    def f(x):
        y = np.sum(x * count())
        return y + 0.0 * TABLE.dot(x) if again else y

    run = nt.value_and_grad(f)
    for k in (1, 2):
        value, slope = run(np.ones(3))
        assert value == 3 * k
        np.testing.assert_array_equal(slope, k)


def column_of_a_frame():
    frame = pandas.DataFrame({"n": [0.0]})

    def count():
        frame["n"] = frame["n"] + 1
        return frame["n"].iloc[0]

    return count, "`frame`"


def size_of_a_cache():
    @functools.lru_cache
    def remembered(k):
        return k

    def count():
        remembered(remembered.cache_info().currsize)
        return remembered.cache_info().currsize

    return count, "`remembered`"


@pytest.mark.parametrize("make", [column_of_a_frame, size_of_a_cache])
def test_what_cannot_be_set_back_is_named(make):
    count, name = make()
    run = nt.value_and_grad(lambda x: np.sum(x * count()))
    assert [run(np.ones(2))[0] for _ in range(3)] == [2, 4, 6]
    with pytest.raises(nt.UnsupportedOperationError, match=name + ".* the function changes it"):
        nt.grad(lambda x: np.sum(x * count()) + TABLE.dot(x))(np.ones(3))


def test_blocks_of_a_frame_may_be_joined():
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
    frame["c"] = frame["a"] * 2.0

    def f(x):
        frame._consolidate_inplace()
        return TABLE.dot(x) + frame["c"].to_numpy() @ x

    np.testing.assert_array_equal(nt.grad(f)(np.ones(3)), TABLE + frame["c"].to_numpy())
