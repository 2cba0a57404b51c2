"""Imports inside numbatape point downwards only: the picture of docs/how-it-works.md, asserted."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "numbatape"
LAYERS = (
    {"errors"},
    {"config"},
    {"threads"},
    {"jit"},
    {"tape"},
    {"ops"},
    {"emitter"},
    {"trace", "engine"},  # siblings: neither imports the other
    {"sparse"},
    {"caches"},
    {"verbs", "numpy"},
    {"testing"},
    {"integrations"},
    {"logdensity"},
    {"__main__"},
)
LAYER = {part: level for level, parts in enumerate(LAYERS) for part in parts}
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def imported_parts(path: Path):
    """Yield (line, part of numbatape) for each import in a file; "" is the public package."""
    home = ("numbatape", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) + 1 - node.level] if node.level else ()
            base = (*above, *(node.module or "").split("."))
            names = [".".join(filter(None, (*base, alias.name))) for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "numbatape":
                yield node.lineno, parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for line, part in imported_parts(path):
        level = LAYER.get(part, LAYER["verbs"])  # `import numbatape` sees what the verbs see
        assert part == own or level < LAYER[own], f"{path}:{line}: {own} imports {part or 'numbatape'}"


def test_every_part_has_a_layer():
    parts = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p.is_dir() and list(p.glob("*.py")))}
    assert parts - {"__init__"} <= set(LAYER)
