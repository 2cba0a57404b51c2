"""Endless loops that end with a choice of many arms by a number: each arm jumps to the next one itself.

A loop that comes back to one jump after each arm has the processor predict all arms' successors there. So an
arm that ends with ``continue`` gets a copy of the statements in front of the choice, and a jump of its own by
a table of the arms' addresses.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

FEWEST = 8  # arms; a shorter choice is left to LLVM


class Choice(NamedTuple):
    """The last statement of a loop: what the arms are chosen by, their statements, and those for the rest."""

    name: str
    arms: dict[int, list[ast.stmt]]
    rest: list[ast.stmt]


def choice_of(node: ast.While) -> Choice | None:
    """Return the choice that an endless loop ends with, if all of its arms end with ``continue``."""
    if not isinstance(node.test, ast.Constant) or any(map(_leaves, node.body)):
        return None
    arms: dict[int, list[ast.stmt]] = {}
    names, rest = set(), node.body[-1:]
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        test = rest[0].test
        if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)):
            break
        left, (right,) = test.left, test.comparators
        if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant)):
            break
        names.add(left.id)
        arms[right.value] = rest[0].body
        rest = rest[0].orelse
    go_on = all(isinstance(body[-1], ast.Continue) for body in arms.values())
    return Choice(names.pop(), arms, rest) if len(arms) >= FEWEST and len(names) == 1 and go_on else None


def _leaves(node: ast.AST) -> bool:
    """Whether a statement has a ``break`` of the loop that it stands in."""
    if isinstance(node, (ast.For, ast.While)):
        return False
    return isinstance(node, ast.Break) or any(map(_leaves, ast.iter_child_nodes(node)))


def write(function, node: ast.While, choice: Choice) -> None:
    """Write such a loop into a function of the module."""
    head, rest = function.label("while"), function.label("rest")
    labels = {number: function.label("arm") for number in choice.arms}
    size = max(labels) + 1
    table = f'{function.symbol[:-1]}.{head}"'
    addresses = (f"ptr blockaddress({function.symbol}, %{labels.get(k, rest)})" for k in range(size))
    function.tables.append(f"{table} = private constant [{size} x ptr] [{', '.join(addresses)}]")
    targets = ", ".join(f"label %{label}" for label in (*labels.values(), rest))

    def choose() -> None:
        """Write the statements in front of the choice, and the jump to an arm."""
        function.statements(node.body[:-1])
        number = function.expression(ast.Name(choice.name, ast.Load())).text
        known = function.label("known")
        function.branch(function.new(f"icmp ult i64 {number}, {size}"), known, rest)
        function.begin(known)
        place = function.new(f"getelementptr [{size} x ptr], ptr {table}, i64 0, i64 {number}")
        function.end(f"indirectbr ptr {function.new(f'load ptr, ptr {place}')}, [ {targets} ]")

    function.loops.append((head, ""))  # There is no way out but a return.
    function.begin(head)
    choose()
    for number, body in choice.arms.items():
        function.begin(labels[number])
        function.statements(body[:-1])
        choose()
    function.begin(rest)
    function.statements(choice.rest)
    function.jump(head)
    function.loops.pop()
