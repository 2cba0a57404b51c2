"""Writes formulas, sums and products of contiguous cells as SIMD code (`COUNTS` has the names).

LLVM would turn a loop over cells into SIMD code too. But its code begins with tests (whether operands
overlap, whether there are enough iterations) that take longer than eight multiplications, and its number of
lanes depends on the processor. Here the lanes are written down, so that sums have the same bits on every
machine and at every optimisation level. The functions of the same names in `numbatape.jit.language` define
what is computed: `strip` in the arithmetic of the module's cells, all others in float64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from . import row_products, simd_lanes, slim_products, transposes
from .arithmetic import REAL
from .cells import BYTES, ELEMENT
from .subset import names_in, refused
from .writer import Value, number

# Cells of an iteration of a strip: a vector of 512 bits, which LLVM cuts into what the processor has. With
# two vectors of 256 bits, a batch of arK took 1.17 times as long on a processor with AVX-512. (Two vectors of
# 512 bits, or loops that LLVM unrolls, would win 4 %, for a sixth more of the time of compilation.)
STRIP_WIDTHS = {"f64": 8, "f32": 16}
# Cells of an iteration of an adjoint, which loads one operand more, and stores it.
ADJOINT_WIDTH = 4
# By function: how many of its first arguments are literals, and how many are values.
COUNTS = {
    "strip": (2, 6),
    "strip_adjoint": (3, 7),
    "lane_sum": (0, 3),
    "lane_dot": (0, 5),
    "lane_gaps": (0, 5),
    "lane_dots": (0, 10),
    "eight_dots": (0, 9),
    "add_slim_rows": (0, 10),
    "transpose8": (0, 6),
}
NONE = Value("", "none")


def call(to, node: ast.Call) -> Value:
    """Write a call of a strip."""
    name = node.func.id
    literals, values = COUNTS[name]
    if len(node.args) != literals + values or not all(
        isinstance(a, ast.Constant) for a in node.args[:literals]
    ):
        raise refused(node, f"takes {literals} literals and {values} values")
    if name == "lane_dots":
        *places, scale = node.args
        given = [to.cast(to.expression(argument), "int", node) for argument in places]
        return row_products.write(to, *given, to.cast(to.expression(scale), "float", node))
    given = [to.cast(to.expression(argument), "int", node) for argument in node.args[literals:]]
    if name == "transpose8":
        return transposes.write(to, *given)
    if name == "eight_dots":
        return slim_products.write_dots(to, *given)
    if name == "add_slim_rows":
        return slim_products.write_rows(to, _in_strips, *given)
    fixed = [argument.value for argument in node.args[:literals]]
    if name == "strip":
        return _strip(to, node, *fixed, *given)
    if name == "strip_adjoint":
        return _strip_adjoint(to, node, *fixed, *given)
    pairs = [given[k : k + 2] for k in range(0, values - 1, 2)]
    return _lane_sum(to, pairs, given[-1], name == "lane_gaps")


def _total(to, value: str, width: int) -> str:
    """Return the sum of lanes: the upper half is added to the lower one until one is left."""
    if width == 1:
        return value
    while width > 1:
        kind, width = simd_lanes.of(width), width // 2
        halves = []
        for first in (0, width):
            mask = ", ".join(f"i32 {first + k}" for k in range(width))
            halves.append(to.new(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{mask}>"))
        value = to.new(f"fadd <{width} x double> {halves[0]}, {halves[1]}")
    return to.new(f"extractelement <1 x double> {value}, i32 0")


def _formula(to, tree: ast.expr, names: dict[str, str], width: int, element: str, node) -> str:
    """Write a formula of + - * / over SIMD lanes, or one of them where a value is not zero."""
    kind = simd_lanes.of(width, element)

    def part(tree: ast.expr) -> str:
        return _formula(to, tree, names, width, element, node)

    if isinstance(tree, ast.Constant):
        return simd_lanes.splat(float(tree.value), width, element)
    if isinstance(tree, ast.Name):
        return names[tree.id]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return to.new(f"fneg {kind} {part(tree.operand)}")
    if isinstance(tree, ast.IfExp):  # x if y != 0.0 else z; NaN is not zero
        tested = part(tree.test.left)
        chosen = to.new(f"fcmp une {kind} {tested}, {simd_lanes.splat(0.0, width, element)}")
        usual = part(tree.orelse)
        if not any(isinstance(each, ast.Div) for each in ast.walk(tree.body)):
            rare = part(tree.body)
            return to.new(f"select {simd_lanes.of(width, 'i1')} {chosen}, {kind} {rare}, {kind} {usual}")
        return _rarely(to, chosen, usual, lambda: part(tree.body), width, element)
    if not isinstance(tree, ast.BinOp) or type(tree.op) not in REAL:
        raise refused(node, "a strip's formula has + - * / and one choice")
    left, right = (part(side) for side in (tree.left, tree.right))
    return to.new(f"{REAL[type(tree.op)]} {kind} {left}, {right}")


def _rarely(to, chosen: str, usual: str, rare: Callable[[], str], width: int, element: str) -> str:
    """Write a choice whose first side takes long: it is computed only if some lane chose it."""
    kind, some = simd_lanes.of(width, element), chosen
    if width > 1:
        bits = to.new(f"bitcast <{width} x i1> {chosen} to i{width}")
        some = to.new(f"icmp ne i{width} {bits}, 0")
    before, slow, behind = to.block, to.label("rare"), to.label("behind")
    to.branch(some, slow, behind)
    to.begin(slow)
    both = to.new(f"select {simd_lanes.of(width, 'i1')} {chosen}, {kind} {rare()}, {kind} {usual}")
    to.begin(behind)
    return to.new(f"phi {kind} [ {usual}, %{before} ], [ {both}, %{slow} ]")


def _loop(to, first: str, count: str, width: int, body: Callable, total: str | None):
    """Write a loop of ``width`` cells per iteration; return the cell where it ends, and the total."""
    start, turn, behind = to.block, to.label("strip"), to.label("behind")
    latch = to.label("latch")  # where a turn ends: its body may have blocks of its own
    rest = to.new(f"and i64 {to.new(f'sub i64 {count}, {first}')}, {-width}")
    whole = to.new(f"add i64 {first}, {rest}")
    to.branch(to.new(f"icmp sgt i64 {whole}, {first}"), turn, behind)
    to.begin(turn)
    i, following = f"%i.{turn}", f"%next.{turn}"
    running, added = f"%sum.{turn}", f"%added.{turn}"
    to.line(f"{i} = phi i64 [ {first}, %{start} ], [ {following}, %{latch} ]")
    if total is not None:
        kind = simd_lanes.of(width)
        to.line(f"{running} = phi {kind} [ {simd_lanes.splat(0.0, width)}, %{start} ], [ {added}, %{latch} ]")
        to.line(f"{added} = fadd {kind} {running}, {body(i, width)}")
    else:
        body(i, width)
    to.begin(latch)
    to.line(f"{following} = add i64 {i}, {width}")
    again = to.new(f"icmp slt i64 {following}, {whole}")
    if total is None:
        to.branch(again, turn, behind)
        to.begin(behind)
        return whole, None
    done = to.label("done")
    to.branch(again, turn, done)
    to.begin(done)
    new = to.new(f"fadd double {total}, {_total(to, added, width)}")
    to.begin(behind)
    return whole, to.new(f"phi double [ {total}, %{start} ], [ {new}, %{done} ]")


def _in_strips(to, count: str, widths: tuple[int, ...], body: Callable, total: str | None = None):
    """Write ``body(first, width)`` for ``count`` cells: one loop for each width, then halves for the rest.

    Returns
    -------
    str or None
        The total, to which the results of the body are added.
    """
    first = "0"
    for width in widths:
        first, total = _loop(to, first, count, width, body, total)
    width = widths[-1]
    while width > 1:
        width //= 2
        before, some, behind = to.block, to.label("rest"), to.label("behind")
        left = to.new(f"and i64 {count}, {width}")
        to.branch(to.new(f"icmp ne i64 {left}, 0"), some, behind)
        to.begin(some)
        added = body(first, width)
        if total is not None:
            added = to.new(f"fadd double {total}, {_total(to, added, width)}")
        inside = to.block
        to.begin(behind)
        if total is not None:
            total = to.new(f"phi double [ {total}, %{before} ], [ {added}, %{inside} ]")
        first = to.new(f"add i64 {first}, {left}")
    return total


class _Operands:
    """The operands of a formula. One-cell operands are loaded once, contiguous ones in every iteration.

    The formula is computed in the arithmetic of the cells: a strip over float32 cells rounds after each
    operation.
    """

    def __init__(
        self, to, node, formula: str, pattern: str, cells: dict[str, tuple[str, str]], kind: str = "f64"
    ):
        self.to, self.node, self.cells, self.kind = to, node, cells, kind
        self.tree = ast.parse(formula, mode="eval").body
        used = names_in(self.tree)
        fixed = {name for name, kind in zip("xyw", pattern, strict=False) if kind == "s"}
        self.fixed = {name: simd_lanes.load(to, *cells[name], 1, self.kind) for name in sorted(used & fixed)}
        self.moving = sorted(used - fixed)
        self.tree = self._computed_once(self.tree)

    def _computed_once(self, tree: ast.expr) -> ast.expr:
        """Return the formula with a name for each part that is one number, which is computed here."""
        if isinstance(tree, ast.BinOp):
            parts = [part.id for part in ast.walk(tree) if isinstance(part, ast.Name)]
            if self.fixed.keys() >= set(parts) and parts:
                name, element = f"part{len(self.fixed)}", ELEMENT[self.kind]
                self.fixed[name] = _formula(self.to, tree, self.fixed, 1, element, self.node)
                return ast.Name(name)
            return ast.BinOp(self._computed_once(tree.left), tree.op, self._computed_once(tree.right))
        return tree

    def value(self, i: str, width: int) -> tuple[str, dict[str, str]]:
        """Return the formula's value for the cells from i on, and the lanes that it is made of."""
        to, names, element = self.to, {}, ELEMENT[self.kind]
        for name in self.moving:
            base, first = self.cells[name]
            names[name] = simd_lanes.load(to, base, to.new(f"add i64 {first}, {i}"), width, self.kind)
        names |= {name: simd_lanes.repeated(to, x, width, element) for name, x in self.fixed.items()}
        return _formula(to, self.tree, names, width, element, self.node), names


def _strip(to, node, formula: str, pattern: str, v, o, a, b, c, n) -> Value:
    kind = to.module.cells
    operands = _Operands(to, node, formula, pattern, {"x": (v, a), "y": (v, b), "w": (v, c)}, kind)

    def body(i, width):
        value = operands.value(i, width)[0]
        place = simd_lanes.place(to, v, to.new(f"add i64 {o}, {i}"), kind)
        to.line(f"store {simd_lanes.of(width, ELEMENT[kind])} {value}, ptr {place}, align {BYTES[kind]}")

    _in_strips(to, n, (STRIP_WIDTHS[kind],), body)
    return NONE


def _strip_adjoint(to, node, term: str, pattern: str, operand: int, v, g, o, a, b, c, n) -> Value:
    """Add adjoints of a strip to an operand: cell by cell, or as one sum if the operand is a single cell.

    A product with a cotangent of zero is zero, so that an infinite partial does no harm there.
    """
    target = (a, b, c)[operand]
    cells = {"x": (v, a), "y": (v, b), "w": (v, c), "z": (v, o), "gz": (g, o)}
    operands = _Operands(to, node, term, pattern, cells)

    def added(i, width):
        value, names = operands.value(i, width)
        if term in ("gz", "-gz"):
            return value
        kind, zero = simd_lanes.of(width), simd_lanes.splat(0.0, width)
        some = to.new(f"fcmp une {kind} {names['gz']}, {zero}")
        return to.new(f"select {simd_lanes.of(width, 'i1')} {some}, {kind} {value}, {kind} {zero}")

    def update(i, width):
        value, kind = added(i, width), simd_lanes.of(width)
        place = simd_lanes.place(to, g, to.new(f"add i64 {target}, {i}"))
        old = to.new(f"load {kind}, ptr {place}, align 8")
        to.line(f"store {kind} {to.new(f'fadd {kind} {old}, {value}')}, ptr {place}, align 8")

    if pattern[operand] == "v":
        _in_strips(to, n, (ADJOINT_WIDTH,), update)
        return NONE
    total = _in_strips(to, n, simd_lanes.SUM_WIDTHS, added, number(0.0))
    place = simd_lanes.place(to, g, target)
    old = to.new(f"load double, ptr {place}")
    to.line(f"store double {to.new(f'fadd double {old}, {total}')}, ptr {place}")
    return NONE


def _lane_sum(to, operands, count: str, gaps: bool) -> Value:
    """Write the sum of cells, or of the products or squared differences of two arrays' cells."""
    kind = to.module.cells

    def body(i, width):
        values = [
            simd_lanes.load_wide(to, base, to.new(f"add i64 {first}, {i}"), width, kind)
            for base, first in operands
        ]
        if len(values) == 1:
            return values[0]
        if gaps:
            values = [to.new(f"fsub {simd_lanes.of(width)} {values[0]}, {values[1]}")] * 2
        return to.new(f"fmul {simd_lanes.of(width)} {values[0]}, {values[1]}")

    return Value(_in_strips(to, count, simd_lanes.SUM_WIDTHS, body, number(0.0)), "float")
