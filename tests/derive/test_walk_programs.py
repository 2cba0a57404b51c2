"""Random programs have the same second-order tapes, whether by templates or by pullbacks alone.

``python -m tests.derive.test_walk_programs FIRST LAST`` compares those of longer programs.
"""

import sys

import numpy as np
import pytest

import numbatape as nt
from numbatape.derive import repeats
from tests.whole_program_checks import arguments, make, outcome, rebuilt
from tests.whole_programs import program

SEEDS, BLOCK = (70, 130), 10
MODES = "reverse_over_forward", "forward_over_reverse"


def tape_of_products(seed, length):
    """Return the tape of a random program's Hessian-vector products, or the error that it ends with."""
    text, form, _ = program(seed, length)
    rng = np.random.default_rng(seed)
    x, p, k = arguments(rng, form, 3, "float32" if seed % 8 == 7 else "float64")
    f = make(text, f"program_{seed}").f
    config = nt.Config(second_order_mode=MODES[seed % 2])

    def run():
        cache = nt.prepare_hvp_cache(lambda x: f(x, rebuilt(p), k, scale=0.7), x, config=config)
        nt.value_and_hvp(cache, x, x)
        (variant,) = cache._single.program.snapshot()
        return variant.tape

    return outcome(run)


def compare(seed, length, monkeypatch):
    """Compare what the kernel appends with what Python does; return whether there is a tape."""
    monkeypatch.setattr(repeats, "FEW", 10**9)
    expected = tape_of_products(seed, length)
    monkeypatch.setattr(repeats, "FEW", 2)
    found = tape_of_products(seed, length)
    if isinstance(expected, Exception):
        assert type(found) is type(expected)
        return False
    assert found.digest == expected.digest, seed
    return True


@pytest.fixture
def templates_at_once(monkeypatch):
    """Let two instructions that are alike have a template, however many others need Python."""
    monkeypatch.setattr(repeats, "ALIKE", 2)
    monkeypatch.setattr(repeats, "PATIENCE", 10**9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(*SEEDS, BLOCK))
def test_templates_change_no_bit_of_a_programs_tape(first, templates_at_once, monkeypatch):
    made = [compare(seed, 6, monkeypatch) for seed in range(first, first + BLOCK)]
    assert sum(made) > BLOCK // 3  # the others end with an error, in plain NumPy too


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(repeats, "ALIKE", 2)
        patch.setattr(repeats, "PATIENCE", 10**9)
        for number in range(*map(int, sys.argv[1:3])):
            try:
                compare(number, 12, patch)
            except Exception as error:
                print(number, type(error).__name__, error, flush=True)
