"""`Values` is a sequence of the addresses that were appended, whatever of them is packed into integers."""

import numpy as np
import pytest

from numbatape.tape.packed_values import FARTHEST, SHIFT, STORAGE, Values
from numbatape.tape.tape import VALUE
from numbatape.tape.uses import keys_of
from tests.every_case import every

SINGLE = [(0, 0, 0), (5, 17, 0), (STORAGE, 3, 0), (9, 2**31 - 1, 0)]
OTHERS = [(6, 0, 1), (7, -4, 0), (8, -1, 3), (2, 5, 2), (STORAGE + 1, 1, 0)]


@pytest.mark.parametrize(
    "addresses", [[], SINGLE, OTHERS, SINGLE + OTHERS + SINGLE[::-1], 8 * (OTHERS + SINGLE)]
)
def test_values_are_what_was_appended(addresses):
    values = Values()
    assert [values.append(address) for address in addresses] == list(range(len(addresses)))
    assert len(values) == len(addresses)
    assert list(values) == addresses == [values[k] for k in range(len(addresses))]
    assert values.columns().tolist() == addresses
    assert list(zip(*map(np.ndarray.tolist, values.addresses()), strict=True)) == addresses
    assert list(Values(np.array(addresses, VALUE).reshape(-1))) == addresses
    for first in range(len(addresses) + 1):
        assert [*map(tuple, values.rows(first, len(addresses)).tolist())] == addresses[first:]
    assert keys_of(values) == keys_of(addresses) == keys_of(values.columns())
    if addresses:
        numbers = np.arange(len(addresses))[::-1]
        assert list(zip(*map(np.ndarray.tolist, values.at(numbers)), strict=True)) == [
            values[k][:2] for k in numbers
        ]
        values.append((1, 1, 1))  # which a view of the words would not allow
        assert values[len(addresses)] == (1, 1, 1)
    with pytest.raises(IndexError):
        values[len(values)]


@every("old", SINGLE + OTHERS)
@every("new", [*SINGLE, *OTHERS])
def test_a_value_can_get_another_address(old, new):
    values = Values()
    for address in (old, (1, 1, 1), old):
        values.append(address)
    values[0] = new
    assert [values[k] for k in range(3)] == [new, (1, 1, 1), old]
    values.replace(np.array([1, 0]), np.array([new, old]))
    values.append((2, 2, 2))
    assert [values[k] for k in range(4)] == [old, new, old, (2, 2, 2)]


def test_a_single_cell_may_be_appended_as_a_word():
    values = Values()
    values.words.append(~(12 << SHIFT | 4))
    assert values[0] == (4, 12, 0)


@pytest.mark.parametrize("offset", [FARTHEST, -FARTHEST - 1])
def test_an_offset_that_a_tape_cannot_hold_is_refused(offset):
    values = Values()
    with pytest.raises(OverflowError):
        values.append((3, offset, 0))
