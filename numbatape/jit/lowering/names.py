"""Which variables of a function are names of one value each, so that they need no memory."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from .arms import Arm


def assigned_once(function: ast.FunctionDef) -> set[str]:
    """Return the variables that are assigned once, and read only where that was done before.

    These are parameters that are never assigned, and names whose assignment stands, for each line that reads
    them, further up in the same block or in one around it.
    """
    given = {argument.arg for argument in function.args.args}
    stores: Counter[str] = Counter()
    early: set[str] = set()  # what is read where it may not have a value yet
    _read_block(function.body, given, stores, early)
    once = {name for name, count in stores.items() if count == 1}
    return (once - given | given - stores.keys()) - early


def _read_block(block: Sequence[ast.stmt], known: set[str], stores: Counter[str], early: set[str]) -> None:
    known = set(known)
    for statement in block:
        if isinstance(statement, ast.For):
            _read(statement.iter, known, stores, early)
            inside = set(known)
            _read(statement.target, inside, stores, early)
            _read_block(statement.body, inside, stores, early)
        elif isinstance(statement, (ast.If, ast.While)):
            _read(statement.test, known, stores, early)
            _read_block(statement.body, known, stores, early)
            _read_block(statement.orelse, known, stores, early)
        elif isinstance(statement, Arm):
            _read_block(statement.body, known, stores, early)
            _read_block(statement.head, known, stores, early)
        elif isinstance(statement, ast.Assign):
            _read(statement.value, known, stores, early)
            for target in statement.targets:
                _read(target, known, stores, early)
        else:
            _read(statement, known, stores, early)


def _read(node: ast.AST, known: set[str], stores: Counter[str], early: set[str]) -> None:
    """Count the names that are assigned, which are known from here on, and note what is read too early."""
    left = [node]
    while left:
        part = left.pop()
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Store):
                stores[part.id] += 1
                known.add(part.id)
            elif part.id not in known:
                early.add(part.id)
        elif not isinstance(part, ast.Constant):
            left.extend(ast.iter_child_nodes(part))
