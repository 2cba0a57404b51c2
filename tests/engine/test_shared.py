"""Functions that kernels share are modules of their own, and mean what they mean within a kernel."""

import pytest

from numbatape.engine import library
from numbatape.jit import compiler, interpreted, linalg, loader, shared, symbols
from numbatape.jit.lowering import OutsideOfKernelLanguage, lower

HALF = """
STEP = 2

def half(x, more: int) -> float:
    if more > STEP:
        return 1
    return x / STEP
"""
SUM = """
def both(n, x: float) -> int:
    return n + int(half(x, n) * 4.0) + extra(n)

def extra(n):
    return 100 if n > 2 else 200
"""
ENTRY = """
def forward(w, pc):
    return both(pc, 3) * 10 + int(half(pc, 0))
"""
HEAD = "# cells: f64\n"


def outcomes(address):
    return [loader.Kernels({"forward": address}).function("forward")(0, n) for n in range(6)]


def test_a_kernel_gets_the_same_numbers_from_shared_functions(tmp_path, monkeypatch):
    """Whether they are modules of their own, stand in the kernel, or are interpreted by Python."""
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "cache"))
    text = HEAD + HALF + SUM + ENTRY
    apart = outcomes(loader.load("shared_sample", text).address["forward"])
    within = loader.link(compiler.compile_source(text, "within"), "within")
    assert apart == outcomes(within.address["forward"])
    assert apart == outcomes(interpreted.entry_points(text)["forward"])
    assert len(set(apart)) == 6
    stored = {path.name.rpartition("-")[0] for path in (tmp_path / "cache").glob("*.nto")}
    assert stored == {"shared_sample", "shared-half-f64", "shared-both-f64"}


def test_a_shared_function_is_the_same_for_all_kernels_that_call_it():
    """In whatever order they have it, beside whatever else, with variables of whatever names."""
    other = "def half_of(w, pc):\n    more = half(w, pc)\n    extra = more\n    return int(extra)\n"
    own, modules = shared.split(HEAD + HALF + SUM + ENTRY)
    assert shared.split(HEAD + SUM + ENTRY + HALF) == (own, modules)
    assert [name for name, _ in modules] == ["shared-half-f64", "shared-both-f64"]
    assert "extra" not in own
    assert lower(own, "key").externals == tuple(map(shared.symbol_of, (modules[1].text, modules[0].text)))
    singles = shared.split("# cells: f32, two tiers\n" + other + HALF)[1]
    assert singles[0].text == modules[0].text.replace("f64", "f32")
    assert shared.split(HEAD + ENTRY)[1] == ()


def test_a_kernel_is_stored_under_another_name_if_a_function_that_it_shares_changes():
    own, modules = shared.split(HEAD + HALF + SUM + ENTRY)
    changed, others = shared.split(HEAD + HALF.replace("STEP = 2", "STEP = 3") + SUM + ENTRY)
    assert changed != own
    assert not {text for _, text in modules} & {text for _, text in others}


@pytest.mark.parametrize(
    "text",
    [
        HALF.replace("-> float", "-> int"),
        HALF.replace("-> float", "-> bool"),
        HALF.replace("more: int", "more: array"),
    ],
    ids=["another result", "no result", "no parameter"],
)
def test_annotations_that_say_something_else_are_refused(text):
    with pytest.raises(OutsideOfKernelLanguage, match=r"annotation|value of type int"):
        lower(HEAD + text + "\ndef forward(w, pc):\n    return int(half(2, 1))\n", "key")


def test_the_library_has_each_shared_function_once_and_before_its_callers():
    seen = set()
    for name, text in library.texts(("f64",), ("fast",)):
        own, modules = linalg.parts(text)
        assert seen >= {shared.symbol_of(module.text) for module in modules}
        if shared.is_shared(text):
            assert own == text
            assert name.startswith("shared-")
            assert shared.symbol_of(text) not in seen
            seen.add(shared.symbol_of(text))
    assert len(seen) > 10
    assert symbols.address_of(shared.symbol_of("no text of a module")) is None
