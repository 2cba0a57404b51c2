"""`strip` and `strip_adjoint` in their raw form: a formula over contiguous cells, as SIMD in LLVM IR.

Written as IR because a loop in Numba's language costs 0.5 s to compile, and runs behind tests (do
operands overlap, are there enough turns) that take longer than eight multiplications. The twins in
`numbatape.jit.language` say what they compute.
"""

from __future__ import annotations

import ast
import inspect

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I32, I64, F32, F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
ELEMENT = {"f64": F64, "f32": F32}
WIDTH = 4  # cells a turn; what is left takes a pair and a single cell
OPERATIONS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}


def _lanes(width: int):
    return F64 if width == 1 else ir.VectorType(F64, width)


def _constant(number: float, width: int):
    return ir.Constant(_lanes(width), number if width == 1 else [number] * width)


def _cells(builder, base, index, width, element=F64):
    pointer = builder.gep(builder.inttoptr(base, element.as_pointer()), [index])
    lanes = element if width == 1 else ir.VectorType(element, width)
    return pointer if width == 1 else builder.bitcast(pointer, lanes.as_pointer())


def _load(builder, base, index, width, element=F64):
    """Load cells as lanes of float64."""
    value = builder.load(_cells(builder, base, index, width, element), align=4 if element is F32 else 8)
    return builder.fpext(value, _lanes(width)) if element is F32 else value


def _store(builder, value, base, index, width, element):
    """Store lanes of float64 to cells, which rounds them once."""
    lanes = element if width == 1 else ir.VectorType(element, width)
    rounded = builder.fptrunc(value, lanes) if element is F32 else value
    builder.store(rounded, _cells(builder, base, index, width, element), align=4 if element is F32 else 8)


def _splat(builder, value, width):
    if width == 1:
        return value
    undefined = ir.Constant(_lanes(width), ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, width), [0] * width))


def _total(builder, value, width):
    while width > 1:
        width //= 2
        halves = [list(range(k, k + width)) for k in (0, width)]
        masks = [ir.Constant(ir.VectorType(I32, width), half) for half in halves]
        value = builder.fadd(*(builder.shuffle_vector(value, value, mask) for mask in masks))
    return value if value.type == F64 else builder.extract_element(value, I32(0))


def _evaluate(builder, node, names: dict, width: int):
    """Emit a formula of + - * / over lanes, or one of them where a value is not zero."""
    if isinstance(node, ast.Constant):
        return _constant(float(node.value), width)
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return builder.fneg(_evaluate(builder, node.operand, names, width))
    if isinstance(node, ast.IfExp):  # x if y != 0.0 else z; NaN is not zero
        test = _evaluate(builder, node.test.left, names, width)
        chosen = builder.fcmp_unordered("!=", test, _constant(0.0, width))
        sides = (_evaluate(builder, side, names, width) for side in (node.body, node.orelse))
        return builder.select(chosen, *sides)
    left, right = (_evaluate(builder, side, names, width) for side in (node.left, node.right))
    return getattr(builder, OPERATIONS[type(node.op)])(left, right)


def _loop(builder, first, count, width, body, total):
    """Emit a loop of ``width`` cells a turn; return where it ends and the total behind it."""
    start = builder.basic_block
    turn, behind = builder.append_basic_block("turn"), builder.append_basic_block("behind")
    whole = builder.add(first, builder.and_(builder.sub(count, first), I64(-width)))
    builder.cbranch(builder.icmp_signed(">", whole, first), turn, behind)
    builder.position_at_end(turn)
    i = builder.phi(I64)
    running = None if total is None else builder.phi(_lanes(width))
    added = body(i, width, running)
    following = builder.add(i, I64(width))
    i.add_incoming(first, start)
    i.add_incoming(following, turn)
    if total is None:
        builder.cbranch(builder.icmp_signed("<", following, whole), turn, behind)
        builder.position_at_end(behind)
        return whole, None
    running.add_incoming(_constant(0.0, width), start)
    running.add_incoming(added, turn)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", following, whole), turn, done)
    builder.position_at_end(done)
    new = builder.fadd(total, _total(builder, added, width))
    builder.branch(behind)
    builder.position_at_end(behind)
    result = builder.phi(F64)
    result.add_incoming(total, start)
    result.add_incoming(new, done)
    return whole, result


def _in_strips(builder, count, body, total=None):
    """Emit ``total = body(first, width, total)`` over ``count`` cells; return the last total.

    A total is a chain of additions, each waiting for the one before: 16 cells a turn make four.
    """
    first = I64(0)
    for width in (WIDTH,) if total is None else (4 * WIDTH, WIDTH):
        first, total = _loop(builder, first, count, width, body, total)
    for width in (2, 1):
        before = builder.basic_block
        with builder.if_then(builder.icmp_signed("!=", builder.and_(count, I64(width)), I64(0))):
            added = body(first, width, None if total is None else _constant(0.0, width))
            if total is not None:
                added = builder.fadd(total, _total(builder, added, width))
            inside = builder.basic_block
        if total is not None:
            joined = builder.phi(F64)
            joined.add_incoming(total, before)
            joined.add_incoming(added, inside)
            total = joined
        first = builder.add(first, builder.and_(count, I64(width)))
    return total


class _Operands:
    """The loads that a formula needs: of one cell once, of contiguous ones at every turn."""

    def __init__(self, builder, formula: str, pattern: str, cells: dict, element=F64):
        self.builder, self.cells, self.element = builder, cells, element
        self.tree = ast.parse(formula, mode="eval").body
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        fixed = {name for name, kind in zip("xyw", pattern, strict=False) if kind == "s"}
        self.fixed = {k: _load(builder, *cells[k], 1, element) for k in sorted(used & fixed)}
        self.moving = sorted(used - fixed)

    def value(self, i, width):
        """Return the formula's value for the cells from i on, and the lanes that it is made of."""
        builder, names = self.builder, {}
        for name in self.moving:
            base, first = self.cells[name]
            names[name] = _load(builder, base, builder.add(first, i), width, self.element)
        names |= {k: _splat(builder, x, width) for k, x in self.fixed.items()}
        return _evaluate(builder, self.tree, names, width), names


def strip(kind: str, formula: str, pattern: str):
    """Return the intrinsic ``(v, o, a, b, c, n)`` for a formula and a pattern, over cells of a dtype."""
    element = ELEMENT[kind]

    def codegen(context, builder, signature, args):
        v, o, a, b, c, n = args
        operands = _Operands(builder, formula, pattern, {"x": (v, a), "y": (v, b), "w": (v, c)}, element)

        def body(i, width, _):
            value = operands.value(i, width)[0]
            _store(builder, value, v, builder.add(o, i), width, element)

        _in_strips(builder, n, body)
        return context.get_dummy_value()

    declared = types.void(*[types.int64] * 6)
    return intrinsic(lambda tc, v, o, a, b, c, n: (declared, codegen))


def strip_adjoint(kind: str, term: str, pattern: str, operand: int):
    """Return the intrinsic ``(v, g, o, a, b, c, n)`` that adds a term to an operand's adjoint."""
    assert kind == "f64"  # kernels have none over other cells
    linear = term in ("gz", "-gz")

    def codegen(context, builder, signature, args):
        v, g, o, a, b, c, n = args
        target = (a, b, c)[operand]
        cells = {"x": (v, a), "y": (v, b), "w": (v, c), "z": (v, o), "gz": (g, o)}
        operands = _Operands(builder, term, pattern, cells)

        def added(i, width):
            value, names = operands.value(i, width)
            if linear:
                return value
            zero = _constant(0.0, width)
            return builder.select(builder.fcmp_unordered("!=", names["gz"], zero), value, zero)

        def update(i, width, _):
            value = added(i, width)
            place = _cells(builder, g, builder.add(target, i), width)
            builder.store(builder.fadd(builder.load(place, align=8), value), place, align=8)

        if pattern[operand] == "v":
            _in_strips(builder, n, update)
        else:
            total = _in_strips(builder, n, lambda i, w, t: builder.fadd(t, added(i, w)), _constant(0.0, 1))
            place = _cells(builder, g, target, 1)
            builder.store(builder.fadd(builder.load(place), total), place)
        return context.get_dummy_value()

    declared = types.void(*[types.int64] * 7)
    return intrinsic(lambda tc, v, g, o, a, b, c, n: (declared, codegen))


def _lane_sum(kind, arity, gaps=False):
    """Return the codegen of the sum of cells, or of products or squared differences of two arrays' cells."""
    element = ELEMENT[kind]

    def load(builder, base, index, width):
        lanes = element if width == 1 else ir.VectorType(element, width)
        pointer = builder.gep(builder.inttoptr(base, element.as_pointer()), [index])
        value = builder.load(builder.bitcast(pointer, lanes.as_pointer()), align=4)
        return value if kind == "f64" else builder.fpext(value, _lanes(width))

    def codegen(context, builder, signature, args):
        *operands, n = args

        def body(i, width, total):
            pairs = [operands[k : k + 2] for k in range(0, 2 * arity, 2)]
            values = [load(builder, base, builder.add(first, i), width) for base, first in pairs]
            if gaps:
                values = [builder.fsub(*values)] * 2
            return builder.fadd(total, values[0] if arity == 1 else builder.fmul(*values))

        return _in_strips(builder, n, body, _constant(0.0, 1))

    return codegen


def lane_sum(kind):
    """Return the intrinsic ``(v, a, n)`` for cells of a dtype."""
    codegen = _lane_sum(kind, 1)
    declared = types.float64(*[types.int64] * 3)
    return intrinsic(lambda tc, v, a, n: (declared, codegen))


def lane_dot(kind):
    """Return the intrinsic ``(av, a, bv, b, n)`` for cells of a dtype."""
    codegen = _lane_sum(kind, 2)
    declared = types.float64(*[types.int64] * 5)
    return intrinsic(lambda tc, av, a, bv, b, n: (declared, codegen))


def lane_gaps(kind):
    """Return the intrinsic ``(av, a, bv, b, n)`` of squared differences."""
    codegen = _lane_sum(kind, 2, gaps=True)
    declared = types.float64(*[types.int64] * 5)
    return intrinsic(lambda tc, av, a, bv, b, n: (declared, codegen))


MAKERS = {"strip": strip, "strip_adjoint": strip_adjoint}


class Strips(ast.NodeTransformer):
    """Give each ``strip("x*y", "vs", ...)`` of a module an intrinsic of its own, found in ``made``."""

    def __init__(self, kind: str):
        self.kind, self.made = kind, {}

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in MAKERS:
            return node
        count = len(inspect.signature(MAKERS[name]).parameters) - 1
        given = [argument.value for argument in node.args[:count]]
        new = f"{name}_{len(self.made)}"
        self.made[new] = MAKERS[name](self.kind, *given)
        return ast.Call(ast.Name(new, ast.Load()), node.args[count:], [])
