"""Literals of a builder: whatever form they are kept in, they read as what was appended."""

import numpy as np
import pytest

from numbatape.ops import ROWS
from numbatape.tape.builder import TapeBuilder
from numbatape.tape.cell_literals import FEW, Literals, Numbers
from numbatape.tape.tape import F32, F64, Literal

CELLS = [0.0, -0.0, np.nan, np.inf, 5e-324, 0.1, -0.1, 3.0]


@pytest.mark.parametrize("family", [F64, F32])
def test_equal_bits_are_one_literal_and_others_are_several(family):
    builder = TapeBuilder(ROWS)
    numbers = [np.float64(x).astype(["f8", "f4"][family]) for x in CELLS]
    first = [builder.literal(number, family) for number in numbers]
    assert [builder.literal(number, family) for number in numbers] == first
    assert len(set(first)) == len({number.tobytes() for number in numbers})
    found = [builder.literals[k] for k in range(len(builder.literals))]
    assert [item.data.tobytes() for item in found] == list(dict.fromkeys(n.tobytes() for n in numbers))
    assert [builder.values[value][:2] for value in dict.fromkeys(first)] == [
        (item.storage, item.offset) for item in found
    ]


def test_a_sequence_of_cells_and_arrays_reads_as_appended():
    literals, items = Literals(), []
    for k in range(5):
        items += [Literal(0, k, np.array([0.5 * k])), Literal(9 + k, 0, np.arange(3.0) + k)]
        literals.append_cell(0, k, 0.5 * k)
        literals.append(items[-1])
    copied = literals.copy()
    literals.append_cell(0, 9, 1.0)
    places = zip(*(column.tolist() for column in copied.places()), strict=True)
    assert [*places] == [(item.storage, item.offset) for item in items]
    assert copied.first_numbers().tolist() == [item.data[0] for item in items]
    for found, item in zip([*copied], items, strict=True):
        assert (found.storage, found.offset, *found.data) == (item.storage, item.offset, *item.data)
    assert [item.offset for item in literals[8:]] == [4, 0, 9]


def test_numbers_by_value_are_found_in_either_form():
    numbers = Numbers()
    values = [*range(0, 2 * FEW + 200, 2), 7]  # the last one comes out of order
    for value in values:
        numbers[value] = np.float64(value) / 3
    assert [numbers[value] for value in values] == [value / 3 for value in values]
    assert sorted(numbers) == sorted(values)
    assert len(numbers) == len(values)
    assert numbers.get(9) is None
    assert 2 * FEW + 3 not in numbers
