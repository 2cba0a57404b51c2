"""Endless loops that end with a choice of many arms by a number: each arm jumps to the next one itself.

A loop that comes back to one jump after each arm has the processor predict all arms' successors there. So an
arm gets a copy of the statements in front of the choice, and a jump of its own by a table of the arms'
addresses.

Arms are functions, whose last act is to call the next one in their own place (LLVM's ``musttail``, which is a
jump). What the loop's variables hold goes from one to the next as arguments, which are registers. In one
function, each of whose jumps may lead to every arm, LLVM would need time for all pairs of arms: 0.4 s for 66,
2.9 s for 192.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from .subset import refused
from .writer import LLVM

FEWEST = 8  # arms; a shorter choice is left to LLVM
BYTE = 8  # bits; tables have an arm for each byte, so that a number that is one needs no comparison
TABLE = "table_of_arms"  # The argument of arms that has its address, which takes ten bytes to load.


class Choice(NamedTuple):
    """The last statement of a loop: what the arms are chosen by, their statements, and those for the rest."""

    name: str
    arms: dict[int, list[ast.stmt]]
    rest: list[ast.stmt]


class Jump(NamedTuple):
    """How an arm is left.

    Attributes
    ----------
    name
        What the next arm is chosen by.
    carried
        The variables that arms get, and their types. The last one is TABLE.
    result
        The type of what the function returns.
    table, size, rest
        The symbol of the table of arms, how many it has, and the symbol of the arm for all other numbers.
    """

    name: str
    carried: dict[str, str]
    result: str
    table: str
    size: int
    rest: str


class Arm(ast.stmt):
    """The body of an arm, and what follows it: the statements in front of the choice, and the jump."""

    _fields = ("body", "head")

    def __init__(self, body: list[ast.stmt], head: list[ast.stmt], jump: Jump):
        super().__init__(body=body, head=head)
        self.jump = jump


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
    """Write such a loop, with which a function of the module ends."""
    if function.loops or function.node.body[-1] is not node:
        raise refused(node, "a dispatch loop is the last statement of its function")
    head = node.body[:-1]
    function.statements(head)
    if function.result in (None, "none"):
        raise refused(node, "a dispatch loop ends where a statement in front of its choice returns")
    carried = {**_carried(function, head, choice), TABLE: "int"}
    stem = function.symbol[:-1]
    bodies = {number: body[:-1] for number, body in choice.arms.items()}
    symbols = {number: f'{stem}.arm{number}"' for number in bodies}
    rest, size = f'{stem}.rest"', 1 << max(BYTE, max(symbols).bit_length())
    jump = Jump(choice.name, carried, function.result, f'{stem}.arms"', size, rest)
    for number, body in bodies.items():
        function.module.arm(_definition(function.node, Arm(body, head, jump)), carried, symbols[number])
    function.module.arm(_definition(function.node, Arm(choice.rest, head, jump)), carried, rest)
    addresses = ", ".join(f"ptr {symbols.get(k, rest)}" for k in range(size))
    function.tables.append(f"{jump.table} = private constant [{size} x ptr] [{addresses}]")
    _jump(function, jump, "call")


def write_arm(function, node: Arm) -> None:
    """Write the body of the function that an arm is."""
    onward = function.label("onward")
    function.loops.append((onward, ""))  # There is no way out but a return.
    function.statements(node.body)
    function.loops.pop()
    function.begin(onward)
    function.statements(node.head)
    for name, kind in node.jump.carried.items():
        if name != TABLE and function.type_of(name) != kind:
            raise refused(node.head[0], f"{name} is {kind} in front of the loop, and not in an arm")
    _jump(function, node.jump, "musttail call")


def condition(function, node: ast.If, then: str, other: str) -> None:
    """Write a condition. In an arm, one that returns rarely holds, and a number is mostly not zero.

    Otherwise LLVM puts what is done mostly behind a jump, and processors begin few jumps in a cycle. For the
    same reason a number is compared with zero by its bits: as floats, two jumps tell zeros and NaN apart.
    """
    note, test = "", node.test
    if isinstance(function.node.body[0], Arm):
        if isinstance(node.body[-1], ast.Return):
            note = function.module.likely(False)
        elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq) and _is_zero(test):
            value = function.expression(test.left)
            if value.type == "float":
                bits = function.new(f"bitcast double {value.text} to i64")
                doubled = function.new(f"shl i64 {function.opaque(bits)}, 1")
                nonzero = function.new(f"icmp ne i64 {doubled}, 0")
                function.branch(nonzero, then, other, function.module.likely(True))
                return
    function.condition(test, then, other, note)


def _is_zero(test: ast.Compare) -> bool:
    (right,) = test.comparators
    return isinstance(right, ast.Constant) and right.value == 0.0


def _carried(function, head: list[ast.stmt], choice: Choice) -> dict[str, str]:
    """Return the variables that arms, or the statements in front of the choice, read: parameters first."""
    inside = [*head, *choice.rest, *(statement for body in choice.arms.values() for statement in body)]
    read = {
        part.id
        for statement in inside
        for part in ast.walk(statement)
        if isinstance(part, ast.Name)  # ``x += 1`` reads what it stores to
    }
    outside = [*function.node.body[:-1], *head]
    stored = (
        part.id
        for statement in outside
        for part in ast.walk(statement)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    )
    names = dict.fromkeys([*function.parameters, *stored])
    alone = choice.name in {part.id for body in inside for part in ast.walk(body) if _is_load(part)}
    return {name: function.type_of(name) for name in names if name in read and (name != choice.name or alone)}


def _is_load(part: ast.AST) -> bool:
    return isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)


def _definition(around: ast.FunctionDef, arm: Arm) -> ast.FunctionDef:
    """Return the function that an arm is."""
    names = [ast.arg(name) for name in arm.jump.carried]
    arguments = ast.arguments([], names, None, [], [], None, [])
    return ast.copy_location(ast.FunctionDef(around.name, arguments, [arm], [], None), around)


def _jump(function, jump: Jump, call: str) -> None:
    """Write the call of the next arm, with whose result the function ends."""
    number = function.expression(ast.Name(jump.name, ast.Load())).text
    table = f"%{TABLE}.given" if call.startswith("must") else f"ptrtoint (ptr {jump.table} to i64)"
    *variables, _ = jump.carried.items()
    values = [(kind, function.expression(ast.Name(name, ast.Load())).text) for name, kind in variables]
    given = ", ".join(f"{LLVM[kind]} {text}" for kind, text in [*values, ("int", table)])
    known, other = function.label("known"), function.label("other")
    function.branch(
        function.new(f"icmp ult i64 {number}, {jump.size}"), known, other, function.module.likely(True)
    )
    for label in (known, other):
        function.begin(label)
        target = jump.rest
        if label == known:
            first = function.new(f"inttoptr i64 {table} to ptr")
            place = function.new(f"getelementptr ptr, ptr {first}, i64 {number}")
            target = function.new(f"load ptr, ptr {place}")
        result = function.new(f"{call} fastcc {LLVM[jump.result]} {target}({given})")
        function.end(f"ret {LLVM[jump.result]} {result}")
