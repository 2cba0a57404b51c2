"""Imports inside numbatape point one way, between folders and between files.

Those that wait until a function runs (`numbatape.late.imported`) count; those for annotations alone
(``if TYPE_CHECKING``) do not, as nothing runs them.
"""

import ast
import functools
import itertools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "numbatape"
LAYERS = (
    {"errors", "late", "savings"},
    {"config"},
    {"threads", "stalls"},
    {"jit"},
    {"tape"},
    {"ops"},
    {"emitter"},
    {"derive"},
    {"usercode", "engine"},  # the engine and what traces do not know each other
    {"trace"},
    {"rules"},
    {"matrix"},
    {"nested"},
    {"numpy_api"},
    {"scipy_api"},
    {"capture"},
    {"stand_ins"},
    {"control"},
    {"recording"},
    {"subtapes"},
    {"sparse"},
    {"programs"},
    {"steady_calls"},
    {"caches"},
    {"verbs", "numpy"},
    {"testing", "transforms"},
    {"solvers"},
    {"integrations"},
    {"distributed"},
    {"logdensity"},
    {"__main__"},
)
LAYER = {part: level for level, parts in enumerate(LAYERS) for part in parts}
TRACING = {
    "usercode",
    "trace",
    "rules",
    "nested",
    "matrix",
    "numpy_api",
    "scipy_api",
    "capture",
    "stand_ins",
    "recording",
    "subtapes",
}
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


IMPORTING = ast.Import, ast.ImportFrom, ast.Call


@functools.cache
def importing(path: Path) -> list[tuple[ast.AST, bool]]:
    """Return the statements and calls of a file that may import, each with whether a function has it.

    Each file is parsed once, and what runs of it walked over once: both take long.
    """
    found = []
    text = path.read_text()
    # Nine in ten nodes are in expressions, where calls of `imported` alone import.
    parts = ast.iter_child_nodes if "imported(" in text else statements
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(text), False)]
    while waiting:
        node, inside = waiting.pop()
        inside = inside or isinstance(node, ast.FunctionDef)
        for child in parts(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, IMPORTING):
                found.append((child, inside))
            waiting.append((child, inside))
    return found


def statements(node: ast.AST) -> list[ast.AST]:
    """Return the statements in a statement, and what has some: handlers of exceptions and cases."""
    fields = "body", "orelse", "finalbody", "handlers", "cases"
    lists = [part for field in fields if isinstance(part := getattr(node, field, None), list)]
    return list(itertools.chain(*lists))


def late_name(node: ast.AST, home: tuple[str, ...]) -> str:
    """Return the dotted name in a call ``imported("..file", __package__)``, or ""."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "imported"):
        return ""
    name = node.args[0]
    if not isinstance(name, ast.Constant):
        return ""
    file = name.value.lstrip(".")
    above = len(name.value) - len(file)
    return ".".join((*home[: len(home) + 1 - above], file)) if above else file


@functools.cache
def imported_names(path: Path) -> list[tuple[int, str]]:
    """Return (line, dotted name) of what a file imports of numbatape."""
    home = ("numbatape", *path.relative_to(PACKAGE).parts[:-1])
    found = []
    for node, _ in importing(path):
        if late := late_name(node, home):
            names = [late]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) + 1 - node.level] if node.level else ()
            base = (*above, *(node.module or "").split("."))
            names = [".".join(filter(None, (*base, alias.name))) for alias in node.names]
        else:
            continue
        found += [(node.lineno, name) for name in names if name.partition(".")[0] == "numbatape"]
    return found


def imported_parts(path: Path):
    """Yield (line, part of numbatape) for each import in a file; "" is the public package."""
    for line, name in imported_names(path):
        parts = tuple(name.split(".")[1:])
        yield line, parts[0] if parts else ""


@functools.cache
def part_of(path: Path) -> str:
    """Return the folder that a file is in, or the file's own name."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("own", sorted({part_of(path) for path in FILES}))
def test_imports_point_downwards(own):
    for path in FILES:
        for line, part in imported_parts(path) if part_of(path) == own else ():
            if "engine" in (own, part):
                assert not {own, part} & TRACING, f"{path}:{line}: engine and tracing do not know each other"
            level = LAYER.get(part, LAYER["verbs"])  # `import numbatape` sees what the verbs see
            assert part == own or level < LAYER[own], f"{path}:{line}: {own} imports {part or 'numbatape'}"


def test_every_part_has_a_layer():
    parts = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p.is_dir() and list(p.glob("*.py")))}
    assert parts - {"__init__"} <= set(LAYER)


# Late imports of files that build on the importing one, which few programs need. Only these close circles.
HANDED_ON = {
    ("programs.variant", "programs.one_way"): "the workspace of tapes that are swept once",
    ("engine.calls", "engine.moving.moving_calls"): "loops whose sizes change",
    ("numpy_api.registration", "numpy_api.small_integers"): "integers of fewer than 64 bits",
    ("trace.pytrees", "trace.frames.data_frames"): "the containers of pandas, polars and xarray",
    (
        "scipy_api.interpolate.interpolation",
        "scipy_api.interpolate.fitpack",
    ): "FITPACK's splines",
}


def test_no_circle_of_files():
    """Files are in an order in which each imports only from those before it."""
    files = {
        ".".join(("numbatape", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in FILES
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    waiting = {}
    for name, path in files.items():
        imported = {target for _, target in imported_names(path)}
        # ``from .file import something`` names the something; the file is what stands in front of it.
        targets = {t if t in files else t.rpartition(".")[0] for t in imported} & files.keys() - {name}
        short = name.removeprefix("numbatape.")
        waiting[name] = {t for t in targets if (short, t.removeprefix("numbatape.")) not in HANDED_ON}
    while ready := {name for name, needed in waiting.items() if not needed}:
        waiting = {name: needed - ready for name, needed in waiting.items() if name not in ready}
    assert not waiting, f"in circles, or above one: {sorted(waiting)}"


# File names that stand in several folders, and what makes these files the same thing at several layers.
SHARED_NAMES = {
    "batch": "the verb, and its cache",
    "c_function": "the C function that serves a cache, and the tables that it reads",
    "calls": "calls of rules: the op, and what sweeps run for it; in the compiler, calls of any function",
    "convolutions": "the ops, and SciPy's functions",
    "crew": "the function that threads run, and the tables that it reads",
    "determinants": "the ops, and the functions composed of them",
    "directions": "the verbs along given directions, and what their caches share",
    "fft": "the op, and NumPy's functions",
    "indexing": "reading entries of traced arrays, and the ops gather and scatter",
    "jacobians": "the verbs, and what they record inside of a trace",
    "linalg": "BLAS and LAPACK, the ops, NumPy's functions",
    "ordering": "the ops, and NumPy's functions",
    "products": "the ops, and NumPy's functions",
    "steady": "the builtin that serves a steady call, and the tables that it reads",
}


def test_no_two_files_of_one_name():
    """A name stands for one thing; two layers of one thing may share it."""
    names = [path.stem for path in FILES if not path.stem.startswith("__")]
    assert {name for name in names if names.count(name) > 1} == SHARED_NAMES.keys(), (
        "rename, or give a reason"
    )


def test_late_imports_have_one_form():
    """Inside of functions files are imported by `numbatape.late.imported`, for which forks wait."""
    for path in FILES:
        for node, inside in importing(path):
            if inside and isinstance(node, ast.ImportFrom) and node.level and path.stem != "__main__":
                raise AssertionError(f"{path}:{node.lineno}: write imported(...)")
