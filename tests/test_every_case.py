"""`every` runs each case once, whether one test has all of them or several share them."""

from pathlib import Path

import pytest

from tests.every_case import every

SEEN: list = []


@every("a, b", [(0, "x"), (1, "y"), pytest.param(2, "z", id="last")])
@every("c", range(7), tests=3)
def test_cases(a, b, c, tmp_path):
    assert tmp_path.exists()
    SEEN.append((c, a, b))


@every("value", [5, pytest.param(6, id="six")])
def fails_at_six(value):
    assert value == 5


def test_what_fails_is_named():
    with pytest.raises(AssertionError) as caught:
        fails_at_six()
    assert caught.value.__notes__ == ["The case: six"]


def test_all_cases_are_run():
    SEEN.clear()
    for part in range(3):
        test_cases(tmp_path=Path("/"), part_of_c=part)
    assert sorted(SEEN) == [(c, a, "xyz"[a]) for c in range(7) for a in range(3)]
