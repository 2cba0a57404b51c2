"""`Code` is a sequence of the instructions that were appended, whatever of them is packed."""

import numpy as np
import pytest

from numbatape.tape.code import LAST_OUT, STRETCH, WIDTH, Code
from numbatape.tape.instruction import columns


def rows_of(count):
    rng = np.random.default_rng(count)
    return [tuple(row) for row in rng.integers(-1, 2**31 - 1, (count, WIDTH)).tolist()]


@pytest.mark.parametrize("count", [0, 1, STRETCH - 1, STRETCH, 2 * STRETCH + 17])
@pytest.mark.parametrize("again", [None, 7, STRETCH], ids=str)
def test_code_is_what_was_appended(count, again):
    rows, code = rows_of(count), Code()
    for k, row in enumerate(rows):
        code.append(row)
        if again and k % again == 0:
            code.pack()
        if again and k == count // 2:
            assert code.columns().tolist() == rows[: k + 1]  # one may go on after that
    assert len(code) == count
    assert list(code) == code[:] == rows
    assert code.columns().tolist() == rows
    assert not code.columns().flags.writeable
    for k in (*range(0, count, 1 + count // 5), *([-1, count - 1] if count else [])):
        assert code[k] == rows[k]
        assert code[k : k + 3] == rows[k : k + 3] if k >= 0 else True
        assert code.part(count // 3, k + 1).tolist() == rows[count // 3 : k + 1]
    with pytest.raises(IndexError):
        code[count]


def test_a_part_of_the_code_leaves_what_is_not_packed():
    """Who appends an instruction looks there for the last result."""
    rows, code = rows_of(STRETCH + 40), Code()
    for row in rows:
        code.append(row)
    code.pack()
    recent = list(code.recent)
    for first, stop in ((0, len(rows)), (STRETCH - 3, STRETCH + 3), (STRETCH + 1, STRETCH + 9), (4, 4)):
        assert code.part(first, stop).tolist() == rows[first:stop]
    assert code.recent == recent


def test_code_goes_on_from_columns():
    rows = rows_of(30)
    code = Code(columns(rows[:20]))
    code.recent.extend(x for row in rows[20:] for x in row)
    assert list(code) == rows
    assert code.recent[LAST_OUT] == rows[-1][3]
