"""Random whole programs against plain NumPy: values, errors, state, slopes, batches and other verbs.

``python -m tests.test_whole_programs FIRST LAST`` runs longer ones and prints the script of each that fails.
"""

import sys
import traceback

import pytest

from tests.whole_program_checks import Check

PROGRAMS, BLOCK = 160, 20


def checked(seed, length=3):
    """Run one program, every eighth in float32; an error carries the script."""
    check = Check(seed, "float32" if seed % 8 == 7 else "float64", length)
    try:
        return check.run()
    except Exception as error:
        error.add_note(f"seed {seed}\n" + "\n".join(check.script))
        raise


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_programs(first):
    calls = sum(checked(seed) for seed in range(first, first + BLOCK))
    assert calls > 2 * BLOCK  # the others run into kinks, overflows, or errors that plain NumPy raises too


if __name__ == "__main__":
    for number in range(*map(int, sys.argv[1:3])):
        try:
            checked(number, length=6)
        except Exception:
            traceback.print_exc()
