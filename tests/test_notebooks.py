"""Tables for notebooks, tapes as graphs, and profiles."""

import html.parser
import itertools
import shutil
import sys
import types

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES


def branching(p, n):
    y = np.sin(p["x"]) * p["x"]
    if np.sum(y) > 0:
        y = y + np.exp(p["x"][0]) * n
    return np.sum(y**2)


P = {"x": np.linspace(0.1, 1.0, 500)}


@pytest.fixture
def cache():
    made = nt.prepare_gradient_cache(branching, P, 3)
    nt.value_and_gradient(made, P, 3)
    return made


class Cells(html.parser.HTMLParser):
    """The texts of the cells of a table; it raises at tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_tables(cache):
    facts = Cells(cache._repr_html_()).texts
    assert {
        "GradientCache of branching",
        "(500,)",
        "differentiated",
        "data",
        "argument 0 (`p`), leaf .x",
    } <= {*facts}
    assert any(text.startswith(f"{len(cache.tape)}, ") for text in facts)
    tape = Cells(cache.tape._repr_html_()).texts
    assert {"sin", "guard", "output", "input 0"} <= {*tape}
    guards = Cells(cache.guards()._repr_html_()).texts
    assert "if np.sum(y) > 0:" in guards  # the text is escaped
    assert any(text.startswith("{True: ") for text in guards)


def test_cells_have_the_names_that_ipython_gives_them(monkeypatch):
    names = {__file__: ("Cell", "In[3]")}
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    made = nt.prepare_gradient_cache(lambda x: np.sum(x**2), np.ones(2))
    number = made.tape.lines[0].number
    assert f"# Cell In[3]:{number}\n" in made.tape.listing()
    assert made.profile()[0]["line"] == f"Cell In[3]:{number}"
    with pytest.raises(nt.UnsupportedOperationError, match=r"at Cell In\[3\]:\d+ in test_cells"):
        nt.grad(lambda x: np.sum(np.spacing(x)))(np.ones(3))
    shell.compile.format_code_name = {}.get
    assert str(made.tape.lines[0]).startswith(f"{__file__}:{number} in ")


def test_long_tapes_are_shortened():
    def f(x):
        for k in range(100):
            x = np.sin(x) + k
        return x

    tape = nt.prepare_gradient_cache(f, 1.0).tape
    assert "tape.listing()" in tape._repr_html_() and len(Cells(tape._repr_html_()).texts) < 5 * len(tape)


def test_profile(cache):
    value, (gradient, _) = nt.value_and_gradient(cache, P, 3)
    profile = cache.profile(repeats=3)
    assert [row["op"] for row in profile] == [cache.tape.name_of(k) for k in range(len(cache.tape))]
    assert [row["instruction"] for row in profile] == list(range(len(profile)))
    assert all(row["forward"] >= 0.0 and row["reverse"] >= 0.0 for row in profile)
    sine = next(row for row in profile if row["op"] == "sin")
    assert sine["bytes"] == 8 * 500 and sine["source"] == 'y = np.sin(p["x"]) * p["x"]'
    lines = profile.by_line()
    assert sum(entry["bytes"] for entry in lines) == sum(row["bytes"] for row in profile)
    assert sum(entry["instructions"] for entry in lines) == len(profile)
    costs = [entry["forward"] + entry["reverse"] for entry in lines]
    assert costs == sorted(costs, reverse=True) and sum(costs) == pytest.approx(profile.seconds)
    assert "np.sin" in str(profile) and "np.sin" in "".join(Cells(profile._repr_html_()).texts)
    again = nt.value_and_gradient(cache, P, 3)  # the cache is as it was
    assert again[0] == value and np.array_equal(again[1][0]["x"], gradient["x"])
    other = nt.value_and_gradient(cache, {"x": -P["x"]}, 2)
    assert other[0] == pytest.approx(branching({"x": -P["x"]}, 2))


def test_profiles_of_numbers_and_of_derivatives():
    """Arithmetic that passes its result in a register is measured one by one, too, with the same results."""

    def f(x):
        total = x[0]
        for k in range(1, 5):
            total = total * x[k] + 1.0
        return total

    cache, x = nt.prepare_gradient_cache(f, np.arange(1.0, 6.0)), np.arange(1.0, 6.0)
    before = nt.value_and_gradient(cache, x)
    assert len(cache.profile(1)) == len(cache.tape)
    space = cache._space  # what the last sweeps of the profile have left
    assert space.outputs[0] == before[0] and np.array_equal(space.gradients[0], before[1][0])
    hessian = nt.prepare_hessian_cache(lambda x: np.sum(x**3), x)
    nt.value_gradient_and_hessian(hessian, x)
    assert len(hessian.profile(1)) == len(hessian.tape)


def test_a_graph_as_text():
    graph = nt.show(branching, P, 3)
    lines = str(graph).splitlines()
    assert lines[0].split()[:2] == ["%0", "p.x"] and lines[1].split()[:2] == ["%1", "n"]
    assert any("sin(%0)" in line and "test_notebooks.py:" in line for line in lines)
    assert any("guard is True" in line for line in lines) and "result(" in lines[-1]
    for number, line in enumerate(lines):  # each step reads earlier ones
        reads = [int(part) for part in line.partition("(")[2].partition(")")[0].replace("%", "").split(", ")
                 if part.isdigit() and f"%{part}" in line.partition("(")[2]]  # fmt: skip
        assert line.startswith(f"%{number}") and all(part < number for part in reads)
    assert repr(graph) == str(graph)
    cache = nt.prepare_gradient_cache(branching, P, 3)
    assert str(nt.show(cache)).splitlines()[0].split()[1] == "p.x"


def test_a_graph_for_graphviz(monkeypatch):
    graph = nt.show(lambda x: np.sum(np.sin(x) * 2.0), np.ones(3))
    assert graph.dot.startswith("digraph tape {") and "n0 -> n1;" in graph.dot and 'label="2"' in graph.dot
    assert graph.dot.count("{") == graph.dot.count("}") == 1
    monkeypatch.setattr(shutil, "which", lambda name: None)
    bundle = graph._repr_mimebundle_()
    assert bundle["text/plain"] == str(graph) and "sin" in Cells(bundle["text/html"]).texts


def test_a_graph_that_graphviz_draws(monkeypatch, tmp_path):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho '<svg>'; head -c 12; echo '</svg>'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    bundle = nt.show(np.sum, np.ones(3))._repr_mimebundle_()
    assert bundle["image/svg+xml"].split() == ["<svg>", "digraph", "tape</svg>"]


def test_profiles_say_what_passes_did():
    """A pass gets what the one before leaves; the ops that it names add up to the difference."""

    def f(x):
        total = 0.0
        for k in range(30):
            total = total + np.sin(x[k])
        return total + np.sum(x * np.cos(x))

    cache = nt.prepare_gradient_cache(f, np.linspace(0.1, 1.0, 30))
    profile = cache.profile(1)
    passes = profile.by_pass()
    names = [each["pass"] for each in passes]
    assert names == sorted(names, key=PASSES.index) and {"reroll", "fuse"} <= set(names)
    for each in passes:
        assert each["seconds"] > 0.0
        assert sum(each["ops"].values()) == each["after"] - each["before"]
    assert all(each["after"] == after["before"] for each, after in itertools.pairwise(passes))
    assert passes[-1]["after"] == len(cache.tape)
    fused = next(each for each in passes if each["pass"] == "fuse")
    assert fused["ops"] == {"mul": -1, "sum": -1, "dot": 1}
    texts = "".join(Cells(profile._repr_html_()).texts)
    assert all(name in str(profile) and name in texts for name in names)
    unchanged = nt.prepare_gradient_cache(f, np.ones(30), config=nt.Config(passes="none"))
    assert unchanged.profile(1).by_pass() == []
