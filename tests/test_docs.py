"""The pages' code runs and prints what they say; the list of supported functions is the table's.

Fences of README.md and docs/*.md: a ``python`` block runs, in one namespace a page; a
``python raises`` block must raise, and a ``python needs NAME`` block runs where that package is
installed. A ``text`` block right below shows what was printed, or the exception; "..." stands for
anything. Other fences are not run.

``python tests/test_docs.py`` writes the list of supported functions into docs/interface.md.
"""

import dataclasses
import doctest
import functools
import importlib
import importlib.util
import inspect
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import numbatape as nt
import numbatape.integrations
from numbatape.numpy_api.function_tables import MAKERS, REAL, WRITERS, full_name
from numbatape.ops import OPS, Elementwise, resolve
from numbatape.recording.contents import load_all
from numbatape.scipy_api.special.composed_ufuncs import UFUNCS
from tests.every_case import every

load_all()

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "numbatape"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```\n(?:```text\n(?P<text>.*?)^```\n)?", re.M | re.S)
LIST = re.compile(r"(?<=<!-- supported -->\n).*?(?=<!-- /supported -->)", re.S)
MARK = "- - -"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch, capsys):
    module = types.ModuleType(f"page_{page.stem}")
    module.__file__ = str(page)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    source = page.read_text()
    for fence in FENCE.finditer(source):
        kind = fence["kind"].strip()
        if kind not in (
            "python",
            "python raises",
        ):  # those that need a package run in test_page_with_packages
            continue
        line = source.count("\n", 0, fence.start("body"))
        code = compile("\n" * line + fence["body"], str(page), "exec")
        if kind == "python":
            exec(code, module.__dict__)
            shown = capsys.readouterr().out
        else:
            with pytest.raises(Exception) as raised:  # noqa: PT011  (the text below it says which)
                exec(code, module.__dict__)
            shown = f"{raised.type.__name__}: {raised.value}\n"
            assert fence["text"], f"{page.name}:{line}: show the error in a text block"
        if fence["text"]:
            same = doctest.OutputChecker().check_output(fence["text"], shown, FLAGS)
            assert same, f"{page.name}:{line}: the page shows\n{fence['text']}\nthe code gave\n{shown}"


def packages_of(page) -> list[str]:
    """Return the packages that blocks of a page need."""
    return sorted(set(re.findall(r"^```python needs (\w+)$", page.read_text(), re.M)))


def page_with_package(page, package, folder) -> tuple[Path, list[str]]:
    """Write a page's blocks that need a package, behind those that need none; return what they show."""
    program, expected = "", []
    for fence in FENCE.finditer(page.read_text()):
        if fence["kind"] in ("python", f"python needs {package}"):
            program += f"print({MARK!r})\n{fence['body']}\n"
            expected.append(fence["text"] or "")
    script = folder / f"{page.stem}.py"
    script.write_text(program)
    return script, expected


def compare_shown(page, expected: list[str], output: str) -> None:
    _, *shown = output.split(f"{MARK}\n")
    for wanted, found in zip(expected, shown, strict=True):
        same = not wanted or doctest.OutputChecker().check_output(wanted, found, FLAGS)
        assert same, f"{page.name} shows\n{wanted}\nthe code gave\n{found}"


# Blocks with nutpie run in tests/integrations/test_programs.py, with other programs that import it.
@pytest.mark.parametrize(
    "page, package",
    [(page, package) for page in PAGES for package in packages_of(page) if package != "nutpie"],
    ids=lambda value: getattr(value, "name", value),
)
def test_page_with_packages(page, package, tmp_path):
    """A page's blocks that need a package run in a process of their own."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    script, expected = page_with_package(page, package, tmp_path)
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compare_shown(page, expected, done.stdout)


@every("page", PAGES)
def test_files_that_a_page_names(page):
    """Python files in backquotes are in the repository, or in the package."""
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text()))
    assert {path for path in named if not ((ROOT / path).exists() or (PACKAGE / path).exists())} == set()


@functools.cache
def words_of_the_code() -> set[str]:
    """Return all words in the repository's Python files."""
    parts = PACKAGE, ROOT / "tests", ROOT / "benchmarks"
    return {
        word for part in parts for path in part.rglob("*.py") for word in re.findall(r"\w+", path.read_text())
    }


INSIDE = runpy.run_path(str(ROOT / "docs" / "conf.py"))["NAVIGATION"]["Inside"]


@pytest.mark.parametrize("name", INSIDE)
def test_names_of_the_code_that_a_page_uses(name):
    """Identifiers in backquotes occur in the code, and files and folders are there."""
    quoted = re.findall(r"`([^`\n]+)`", without_code(ROOT / "docs" / f"{name}.md"))
    names = {
        text.rpartition(".")[2]
        for text in quoted
        if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", text) and text[-3:] != ".py"
    }
    files = {text for text in quoted if re.fullmatch(r"\w+\.py", text)}
    places = {text for text in quoted if re.fullmatch(r"\w+/[\w/]*(\.py)?", text)}
    assert names
    assert places or name == "adding-an-op"
    assert names - words_of_the_code() == set()
    assert files - {path.name for path in PACKAGE.rglob("*.py")} == set()
    assert {
        place for place in places if not (PACKAGE / place).exists() and not (ROOT / place).exists()
    } == set()


def without_code(page) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page) -> set[str]:
    """Return the names by which links reach the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@every("page", PAGES)
def test_links(page):
    """Links to files and headings of the repository lead somewhere; README.md is no page of the site."""
    text = re.sub(r"`[^`\n]*`", "", without_code(page))
    for file, heading in re.findall(r"\]\((?!http)([^)#\s]*)#?([^)\s]*)\)", text):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: {file}"
        assert not heading or heading in anchors(target), f"{page.name}: {file}#{heading}"


def test_navigation_has_every_page():
    """The site (docs/conf.py) and docs/index.md lead to all pages, in one order."""
    navigation = runpy.run_path(str(ROOT / "docs" / "conf.py"))["NAVIGATION"]
    listed = [page for pages in navigation.values() for page in pages]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(listed) == sorted(pages)
    tables = (ROOT / "docs" / "index.md").read_text().partition("## Start")[2]
    assert re.findall(r"\((\S+)\.md\)", tables) == listed


def test_every_folder_is_explained():
    """docs/how-it-works.md says what each folder of the package is for, and each file beside the folders."""
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    text = text[text.index("## Folders") : text.index("## The way of")]
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} <= set(re.findall(r"(\w+)/ ", text))
    assert {path.stem for path in PACKAGE.glob("[!_]*.py")} <= set(re.findall(r"\w+", text))


def supported() -> str:
    """Return the functions that have a rule, one list a kind, from the op table and the tracer's."""
    rows = [(resolve(f), op) for op in OPS if isinstance(op, Elementwise) for f in op.numpy]
    names = {f: name for f, _ in rows if (name := public_name(f))}
    handled = [f for f, rule in REAL.registered.items() if f not in names]
    kinds = {
        "Elementwise, with a derivative": [names[f] for f, op in rows if op.differentiable and f in names],
        "Elementwise, without": [names[f] for f, op in rows if not op.differentiable and f in names],
        "NumPy's other functions": [full_name(f) for f in handled if f.__name__ != "trapz"],
        "SciPy's ufuncs by composition": [f"scipy.special.{name}" for name in UFUNCS],
        "In place": [full_name(f) for f in WRITERS.registered],
        "Through stand-ins": [f"{module}.{name}" for module, entries in MAKERS.items() for name in entries],
    }
    seen: set[str] = set()
    text = ""
    for kind, group in kinds.items():
        names = {name.replace("numpy.", "np.") for name in group if "._" not in name} - seen
        text += f"**{kind}**: {', '.join(f'`{name}`' for name in sorted(names))}.\n\n"
        seen |= names
    return text


def public_name(function) -> str | None:
    name = function.__name__
    for module in (np, scipy.special):
        if getattr(module, name, None) is function and not isinstance(function, type):
            return f"{module.__name__.replace('numpy', 'np')}.{name}"
    return None


def exists(name: str) -> bool:
    """Whether this NumPy, or this SciPy, has a function."""
    module, _, rest = name.rpartition(".")
    return hasattr(importlib.import_module(module.replace("np", "numpy")), rest)


def test_list_of_supported_functions():
    page = (ROOT / "docs" / "interface.md").read_text()
    listed, present = (set(re.findall("`(.*?)`", text)) for text in (LIST.search(page)[0], supported()))
    missing = present - listed
    assert not missing, f"run python tests/test_docs.py; missing on the page: {sorted(missing)}"
    gone = {name for name in listed - present if exists(name)}
    assert not gone, "no longer supported: run python tests/test_docs.py"


def test_interface_names_everything():
    page = (ROOT / "docs" / "interface.md").read_text()
    fields = [field.name for field in dataclasses.fields(nt.Config)]
    missing = [name for name in (*nt.__all__, *fields) if not re.search(rf"`{name}\b", page)]
    assert not missing


def keywords(function) -> set[str]:
    """Return the names of a function's parameters that callers may write out."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds}


@pytest.mark.parametrize(
    "module",
    [nt, nt.distributed, nt.integrations, nt.testing, nt.transforms],
    ids=lambda module: module.__name__,
)
def test_interface_names_every_keyword(module):
    """Each keyword of a public function stands in the page's code."""
    page = (ROOT / "docs" / "interface.md").read_text()
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", page))))
    functions = {name: getattr(module, name) for name in module.__all__}
    missing = {
        f"{name}({keyword}=...)"
        for name, function in functions.items()
        if inspect.isfunction(function)
        for keyword in keywords(function) - words
    }
    assert not missing


if __name__ == "__main__":
    page = ROOT / "docs" / "interface.md"
    page.write_text(LIST.sub(lambda match: supported(), page.read_text()))
