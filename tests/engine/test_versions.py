"""The versions of the code that makes machine code are declared, and rise with that code."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest

import numbatape.jit
from numbatape.jit import versions

JIT = Path(numbatape.jit.__file__).parent
FILES = {
    "COMPILER": [
        "compiler.py",
        "machine.py",
        *sorted(f"lowering/{path.name}" for path in JIT.glob("lowering/*.py")),
    ],
    "BUILTINS": [
        *("builtin.py", "steady.py", "by_sizes.py", "by_paths.py", "watches.py"),
        *("object_layout.py", "audit.py", "c_function.py", "crew.py"),
    ],
}


def meaning(node) -> str:
    """Return a syntax tree as text, without places and docstrings, the same for every version of Python."""
    if isinstance(node, list):
        return "[" + ",".join(map(meaning, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if "body" in fields and isinstance(fields["body"], list):
        fields["body"] = [part for part in fields["body"] if not is_text(part)]
    given = {name: value for name, value in fields.items() if value not in (None, [])}
    return f"{type(node).__name__}({','.join(f'{name}={meaning(value)}' for name, value in given.items())})"


def is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def digest(texts) -> str:
    return hashlib.sha256("\n".join(meaning(ast.parse(text)) for text in texts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", FILES)
def test_the_declared_version_is_that_of_the_code(name):
    found = digest((JIT / file).read_text() for file in FILES[name])
    assert getattr(versions, name) == found, (
        f"{', '.join(FILES[name])} have changed, so the code that they make may be another. "
        f'Write {name} = "{found}" in numbatape/jit/versions.py: stored kernels are compiled again.'
    )


@pytest.mark.parametrize(
    "other, same",
    [
        ('def f(x):\n    """Other words."""\n    # a comment\n    return x + 1\n', True),
        ("def f(x):\n\n    return (x + 1)\n", True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x):\n    return x - 1\n", False),
        ("def f(x, y):\n    return x + 1\n", False),
        ('def f(x):\n    "".join("")\n    return x + 1\n', False),
    ],
)
def test_words_about_the_code_are_not_part_of_its_version(other, same):
    text = 'def f(x):\n    """Words."""\n    return x + 1\n'
    assert (digest([text]) == digest([other])) == same
