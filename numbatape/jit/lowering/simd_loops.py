"""Writes loops over `simd`: eight iterations at once, with one copy of the body for all strides.

A vector of contiguous cells is loaded and stored as a whole. Where cells are a stride apart, and for the last
iterations, lanes are gathered and scattered one by one.
"""

from __future__ import annotations

import ast

from . import cells
from .simd import VECTORS, WIDTH, SimdExpressions, ids, repeated, spread
from .subset import refused
from .writer import Value

VECTOR = VECTORS[WIDTH]
BOOL = VECTOR["bool"]
IDS = ids(WIDTH)


class SimdLoop:
    """A loop ``for i in simd(n)`` in a function.

    Its statements assign to variables that differ between lanes, store to cells ``v[first + i * stride]`` or
    add to them, and add to a number of the function's. A condition in it is the same for all lanes, and so is
    the number of turns of a loop over `range`, which goes on with the variables that it finds.
    """

    def __init__(self, to, node: ast.For, count: str):
        self.to, self.name = to, node.target.id
        self.lanes = SimdExpressions(to, {}, self._load)
        head, turn, onward, behind = (to.label(hint) for hint in ("simd", "turn", "next", "behind"))
        before, following = to.block, f"%next.{head}"
        to.begin(head)
        counter = f"%i.{head}"
        to.line(f"{counter} = phi i64 [ 0, %{before} ], [ {following}, %{onward} ]")
        to.branch(to.new(f"icmp slt i64 {counter}, {count}"), turn, behind)
        to.begin(turn)
        self.i = to.opaque(counter)
        left = to.new(f"sub i64 {count}, {self.i}")
        self.whole = to.new(f"icmp sge i64 {left}, {WIDTH}")
        self.some = to.new(f"icmp ult <{WIDTH} x i64> {IDS}, {spread(to, left, VECTOR['int'])}")
        for statement in node.body:
            if self._is_number(statement):
                raise refused(statement, "over SIMD lanes, a loop's variable only says which cells")
            self._statement(statement)
        to.begin(onward)
        to.line(f"{following} = add nsw i64 {counter}, {WIDTH}")
        to.jump(head, to.module.plain_loop())
        to.begin(behind)

    def _is_number(self, node: ast.AST) -> bool:
        """Whether the loop's variable is used beside cells, where each lane has another number."""
        if isinstance(node, ast.Subscript):
            return False
        if isinstance(node, ast.Name):
            return node.id == self.name
        return any(map(self._is_number, ast.iter_child_nodes(node)))

    def _statement(self, node: ast.stmt) -> None:
        """Write a statement for all lanes."""
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.Assign) and isinstance(target, ast.Name):
            self.lanes.names[target.id] = self.lanes.expression(node.value)
        elif isinstance(node, ast.Assign) and isinstance(target, ast.Subscript):
            value = self.lanes.expression(node.value)
            self._store(target, self.lanes.cast(value, "float", node), added=False)
        elif (
            isinstance(node, ast.AugAssign) and isinstance(target, ast.Name) and target.id in self.lanes.names
        ):
            old = self.lanes.names[target.id]
            self.lanes.names[target.id] = self.lanes.operation(
                node.op, old, self.lanes.expression(node.value), node
            )
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            value = self.lanes.cast(self.lanes.expression(node.value), "float", node)
            if isinstance(target, ast.Subscript):
                self._store(target, value, added=True)
            else:
                self._total(target, value)
        else:
            raise refused(node, "no statement of a loop over SIMD lanes")

    def _if(self, node: ast.If) -> None:
        """Write a branch on a condition that is the same for all lanes; its arms may only add."""
        to = self.to
        then, other, behind = to.label("then"), to.label("else"), to.label("behind")
        to.condition(node.test, then, other)
        for label, body in ((then, node.body), (other, node.orelse)):
            to.begin(label)
            for statement in body:
                if not isinstance(statement, ast.AugAssign):
                    raise refused(statement, "under a condition, a loop over SIMD lanes only adds")
                self._statement(statement)
            to.jump(behind)
        to.begin(behind)

    def _for(self, node: ast.For) -> None:
        """Write a loop inside of this one; variables of this one that it assigns are carried on in lanes."""
        to, call = self.to, node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
            raise refused(node, "over SIMD lanes, a loop is over range(...)")
        given = [to.cast(to.expression(argument), "int", call) for argument in call.args]
        first, last = given if len(given) == 2 else ("0", *given)
        names = self.lanes.names
        assigned = {
            part.id
            for part in ast.walk(node)
            if isinstance(getattr(part, "ctx", None), ast.Store) and isinstance(part, ast.Name)
        }
        carried = {name: value for name, value in names.items() if name in assigned}
        head, turn, onward, behind = (to.label(hint) for hint in ("each", "turn", "next", "behind"))
        before, i, following = to.block, f"%i.{head}", f"%next.{head}"
        to.begin(head)
        to.line(f"{i} = phi i64 [ {first}, %{before} ], [ {following}, %{onward} ]")
        begun = {}
        for name, value in carried.items():
            if value.type != "float":
                raise refused(node, "what a loop inside of a loop over SIMD lanes carries on are floats")
            ends = f"[ {value.text}, %{before} ], [ %{name}.end.{head}, %{onward} ]"
            begun[name] = Value(f"%{name}.{head}", "float")
            to.line(f"{begun[name].text} = phi {VECTOR['float']} {ends}")
        to.branch(to.new(f"icmp slt i64 {i}, {last}"), turn, behind)
        to.begin(turn)
        to.assign(node.target.id, Value(i, "int"), node)
        self.lanes.names = {**names, **begun}
        for statement in node.body:
            self._statement(statement)
        to.begin(onward)
        for name in carried:
            end = self.lanes.cast(self.lanes.names[name], "float", node)
            to.line(f"%{name}.end.{head} = freeze {VECTOR['float']} {end}")
        to.line(f"{following} = add nsw i64 {i}, 1")
        to.jump(head, to.module.plain_loop())
        to.begin(behind)
        self.lanes.names = {**names, **begun}

    def _total(self, target: ast.Name, value: str) -> None:
        """Add the lanes to a number one after another, as a loop does."""
        to, vector = self.to, VECTOR["float"]
        reduce = to.module.intrinsic(f"llvm.vector.reduce.fadd.v{WIDTH}f64", "double", f"double, {vector}")
        # Adding the negative zero changes nothing, not even the sign of zero.
        terms = to.new(f"select {BOOL} {self.some}, {vector} {value}, {vector} {repeated(-0.0, 'float')}")
        old = to.cast(to.expression(ast.Name(target.id, ast.Load())), "float", target)
        total = to.new(f"call double {reduce}(double {old}, {vector} {terms})")
        to.line(f"store double {total}, ptr %{target.id}")

    # ---- cells

    def _place(self, node: ast.Subscript) -> tuple[str, str, str | None]:
        """Return the kind of a cell, the pointer to that of the first lane, and the stride; None is 1."""
        to, kind = self.to, self._kind(node)
        first, step = node.slice, None
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add):
            first, step = first.left, first.right
        if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult):
            step, stride = step.left, to.cast(to.expression(step.right), "int", node)
        else:
            stride = None
        if not (isinstance(step, ast.Name) and step.id == self.name):
            raise refused(node, "over SIMD lanes, a cell's place is `first + i` or `first + i * stride`")
        start = to.cast(to.expression(first), "int", node)
        moved = self.i if stride is None else to.new(f"mul i64 {self.i}, {stride}")
        base = to.pointer(to.cast(to.expression(node.value), "int", node))
        return kind, to.element(base, cells.ELEMENT[kind], to.new(f"add i64 {start}, {moved}")), stride

    def _kind(self, node: ast.Subscript) -> str:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        kind = cells.kind_of(name, self.to.module.cells)
        if kind not in ("f64", "f32"):
            raise refused(node, "over SIMD lanes, cells are floats")
        return kind

    def _contiguous(self, stride: str | None) -> str:
        if stride is None:
            return self.whole
        return self.to.new(f"and i1 {self.whole}, {self.to.new(f'icmp eq i64 {stride}, 1')}")

    def _pointers(self, kind: str, first: str, stride: str | None) -> str:
        to, vector = self.to, f"<{WIDTH} x i64>"
        offsets = (
            IDS if stride is None else to.new(f"mul {vector} {IDS}, {spread(to, stride, VECTOR['int'])}")
        )
        return to.new(f"getelementptr {cells.ELEMENT[kind]}, ptr {first}, {vector} {offsets}")

    def _gathered(self, kind: str, pointers: str, mask: str) -> str:
        to, (vector, suffix) = self.to, vector_of(kind)
        arguments = f"<{WIDTH} x ptr>, i32, {BOOL}, {vector}"
        gather = to.module.intrinsic(f"llvm.masked.gather.{suffix}.v{WIDTH}p0", vector, arguments)
        # Lanes without a cell hold 1.0, for which no function takes long or fails.
        ones = f"<{', '.join([f'{cells.ELEMENT[kind]} 1.0'] * WIDTH)}>"
        return to.new(
            f"call {vector} {gather}(<{WIDTH} x ptr> {pointers}, i32 {cells.BYTES[kind]}, "
            f"{BOOL} {mask}, {vector} {ones})"
        )

    def _load(self, node: ast.Subscript) -> Value:
        """Read a cell a lane: one vector if they are contiguous, one cell at stride zero, else a gather."""
        to = self.to
        row = self._row(node)
        if row is not None:
            return self._load_at(node, row)
        kind, first, stride = self._place(node)
        vector, _ = vector_of(kind)
        near, far, same, apart, behind = (
            to.label(hint) for hint in ("whole", "far", "same", "apart", "loaded")
        )
        arrivals = []
        to.branch(self._contiguous(stride), near, far)
        to.begin(near)
        arrivals.append((to.new(f"load {vector}, ptr {first}, align {cells.BYTES[kind]}"), near))
        to.jump(behind)
        to.begin(far)
        if stride is not None:
            to.branch(to.new(f"icmp eq i64 {stride}, 0"), same, apart)
            to.begin(same)
            one = to.new(f"load {cells.ELEMENT[kind]}, ptr {first}")
            arrivals.append((spread(to, one, vector), same))
            to.jump(behind)
            to.begin(apart)
        arrivals.append((self._gathered(kind, self._pointers(kind, first, stride), self.some), to.block))
        to.begin(behind)
        value = to.new(f"phi {vector} {', '.join(f'[ {text}, %{label} ]' for text, label in arrivals)}")
        return Value(widened(to, kind, value), "float")

    def _row(self, node: ast.Subscript) -> ast.Name | None:
        """Return the variable of lanes that says which cell each reads, as ``first + row * stride``."""
        step = node.slice.right if isinstance(node.slice, ast.BinOp) else None
        if not (isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult)):
            return None
        found = isinstance(step.left, ast.Name) and step.left.id in self.lanes.names
        return step.left if found else None

    def _load_at(self, node: ast.Subscript, row: ast.Name) -> Value:
        """Read the cell of each lane's row, if all lanes do without a mask, which not all processors have."""
        to, kind = self.to, self._kind(node)
        vector, index = vector_of(kind)[0], VECTOR["int"]
        place = node.slice
        start, stride = (
            spread(to, to.cast(to.expression(part), "int", node), index)
            for part in (place.left, place.right.right)
        )
        offset = to.new(f"mul {index} {self.lanes.cast(self.lanes.names[row.id], 'int', node)}, {stride}")
        base = to.pointer(to.cast(to.expression(node.value), "int", node))
        cell = to.new(f"add {index} {start}, {offset}")
        pointers = to.new(f"getelementptr {cells.ELEMENT[kind]}, ptr {base}, {index} {cell}")
        near, far, behind = (to.label(hint) for hint in ("whole", "some", "loaded"))
        to.branch(self.whole, near, far)
        to.begin(near)
        all_lanes = self._gathered(kind, pointers, repeated(True, "bool"))
        to.jump(behind)
        to.begin(far)
        some_lanes = self._gathered(kind, pointers, self.some)
        to.begin(behind)
        value = to.new(f"phi {vector} [ {all_lanes}, %{near} ], [ {some_lanes}, %{far} ]")
        return Value(widened(to, kind, value), "float")

    def _store(self, node: ast.Subscript, value: str, added: bool) -> None:
        """Write, or add to, a cell for each lane: one vector if they are contiguous, else a scatter."""
        to = self.to
        kind, first, stride = self._place(node)
        vector, suffix = vector_of(kind)
        near, far, behind = (to.label(hint) for hint in ("whole", "apart", "stored"))

        def new(old: str) -> str:
            if not added:
                return rounded(to, kind, value)
            total = to.new(f"fadd {VECTOR['float']} {widened(to, kind, old)}, {value}")
            return rounded(to, kind, total)

        to.branch(self._contiguous(stride), near, far)
        to.begin(near)
        old = to.new(f"load {vector}, ptr {first}, align {cells.BYTES[kind]}") if added else ""
        to.line(f"store {vector} {new(old)}, ptr {first}, align {cells.BYTES[kind]}")
        to.jump(behind)
        to.begin(far)
        pointers = self._pointers(kind, first, stride)
        lanes = new(self._gathered(kind, pointers, self.some) if added else "")
        arguments = f"{vector}, <{WIDTH} x ptr>, i32, {BOOL}"
        scatter = to.module.intrinsic(f"llvm.masked.scatter.{suffix}.v{WIDTH}p0", "void", arguments)
        to.line(
            f"call void {scatter}({vector} {lanes}, <{WIDTH} x ptr> {pointers}, "
            f"i32 {cells.BYTES[kind]}, {BOOL} {self.some})"
        )
        to.begin(behind)


def vector_of(kind: str, width: int = WIDTH) -> tuple[str, str]:
    """Return the type of so many cells, and its name in those of LLVM's functions."""
    return f"<{width} x {cells.ELEMENT[kind]}>", f"v{width}{kind}"


def widened(to, kind: str, value: str, width: int = WIDTH) -> str:
    if kind == "f64":
        return value
    return to.new(f"fpext {vector_of(kind, width)[0]} {value} to {VECTORS[width]['float']}")


def rounded(to, kind: str, value: str, width: int = WIDTH) -> str:
    if kind == "f64":
        return value
    return to.new(f"fptrunc {VECTORS[width]['float']} {value} to {vector_of(kind, width)[0]}")
