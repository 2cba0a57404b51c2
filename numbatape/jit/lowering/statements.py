"""Statements, and with them a whole function for given types of its arguments."""

from __future__ import annotations

import ast

from . import arithmetic, arms, cells, parallel_loops, simd_loops
from .expressions import Expressions
from .names import assigned_once
from .subset import refused, result_type
from .writer import LLVM, Value

# Lines of LLVM IR. The dispatch chains of the sweeps have more, and the largest helper of a kernel has fewer.
LARGE = 2000
# A function of so few is copied to each of its calls, as LLVM would do.
SMALL = 45


class _Widened(Exception):
    """A variable got a value of a wider type than it had, so the function must be written again."""


class Function(Expressions):
    """A function of the module for arguments of given types.

    A variable has one type, which can hold all values that are assigned to it. Types become known while the
    lines are written. If the type of a variable turns out to be too narrow, the function is written once
    more, with the wider type from the start. A variable that is assigned once (`assigned_once`) is the name
    of its value; others have slots on the stack, which LLVM turns into registers.

    Attributes
    ----------
    result
        The type of what the function returns; "none" if it returns nothing.
    entry
        Whether it can be called from outside of the module.
    body
        Its lines.
    """

    def __init__(self, module, node: ast.FunctionDef, types: tuple[str, ...], symbol: str, entry: bool):
        super().__init__(module)
        self.node, self.symbol, self.entry = node, symbol, entry
        self.parameters = [argument.arg for argument in node.args.args]
        if len(types) != len(self.parameters):
            raise refused(node, f"called with {len(types)} arguments")
        self.stated = "int" if entry and node.returns is None else result_type(node)
        self.result = self.stated
        self.types, self.single = types, assigned_once(node)
        self.loops: list[tuple[str, str]] = []
        known = dict(zip(self.parameters, types, strict=True))
        while True:
            super().__init__(module)
            self.locals = dict(known)
            try:
                self.body = self._written()
                return
            except _Widened:
                known = {
                    name: arithmetic.unified(known.get(name), kind) for name, kind in self.locals.items()
                }

    def _written(self) -> str:
        for name, kind in zip(self.parameters, self.types, strict=True):
            given = Value(f"%{name}.given", kind)
            if name in self.single:
                self.locals.pop(name, None)
                self._fix(name, given, fresh=True)
                continue
            value = self.cast(given, self.locals[name], self.node)
            self.line(f"store {LLVM[self.locals[name]]} {value}, ptr %{name}")
        self.statements(self.node.body)
        if not self.ended:
            if self.result not in (None, "none"):
                raise refused(self.node, "the end is reached without a result")
            self.result = "none"
            self.end("ret void")
        head = [f"  %{name} = alloca {LLVM[kind]}" for name, kind in self.locals.items()]
        return "\n".join(["start.0:", *head, *self.slots, *self.lines])

    def definition(self, calls: int) -> str:
        """Return the text of the function, which is called at so many places of its module."""
        given = ", ".join(
            f"{LLVM[kind]} %{name}.given" for name, kind in zip(self.parameters, self.types, strict=True)
        )
        linkage = "" if self.entry else "internal fastcc "
        head = f"{linkage}{LLVM[self.result]} {self.symbol}({given}) nounwind{self._inlined(calls)}"
        return "\n".join([*self.tables, f"define {head} {{", self.body, "}"])

    def _inlined(self, calls: int) -> str:
        """Return LLVM's attribute for whether to copy the function to where it is called.

        By default LLVM optimises a function, copies it into its only caller, and then optimises the caller
        with all that it contains. Told to copy at once, it optimises everything only once, which takes a
        fifth less time; and the short list of passes (`numbatape.jit.compiler`) copies nothing else. The
        dispatch chains are too large for that, and must not be copied at all.
        """
        if self.entry:
            return ""
        if self.large or self.tables:
            return " noinline"
        return " alwaysinline" if calls == 1 or len(self.lines) <= SMALL else ""

    @property
    def large(self) -> bool:
        """Whether it is a dispatch chain of a sweep."""
        return len(self.lines) > LARGE

    def _fix(self, name: str, value: Value, fresh: bool) -> None:
        """Let a name stand for a value.

        Parameters
        ----------
        fresh
            Whether the value has just been computed. If it is the address of cells, then a pointer that is
            made here serves all uses of it; an older value may be used where this line is not reached.
        """
        self.fixed[name] = value
        if fresh and value.type == "int" and cells.kind_of(name, self.module.cells) is not None:
            self.pointers[value.text] = self.new(f"inttoptr i64 {value.text} to ptr")

    def type_of(self, name: str) -> str:
        """Return the type of a variable that has a value."""
        return self.fixed[name].type if name in self.fixed else self.locals[name]

    def assign(self, name: str, value: Value, node: ast.AST, older: int | None = None) -> None:
        """Give a variable a value; ``older`` is how many names there were before it was computed."""
        if value.type == "none":
            raise refused(node, "a call without a result has no value")
        if name in self.single:
            self._fix(
                name, value, older is not None and value.text == f"%t.{self.count}" and self.count > older
            )
            return
        kind = arithmetic.unified(self.locals.get(name), value.type)
        if self.locals.setdefault(name, kind) != kind:
            self.locals[name] = kind
            raise _Widened
        self.line(f"store {LLVM[kind]} {self.cast(value, kind, node)}, ptr %{name}")

    def statements(self, body: list[ast.stmt]) -> None:
        """Write statements."""
        for statement in body:
            if self.ended:  # the statements that follow a return, break or continue cannot be reached
                return
            write = getattr(self, f"_{type(statement).__name__}", None)
            if write is None:
                raise refused(statement, f"no statement of the kernel language ({type(statement).__name__})")
            write(statement)

    def _Assign(self, node):
        if len(node.targets) != 1:
            raise refused(node, "one target at a time")
        (target,) = node.targets
        if isinstance(target, ast.Name):
            older = self.count
            self.assign(target.id, self.expression(node.value), node, older)
        elif isinstance(target, ast.Subscript):
            value = self.expression(node.value)
            kind, place = self.cell(target)
            cells.store(self, kind, place, self.cast(value, cells.LOADED[kind], node))
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            values = [self.expression(value) for value in node.value.elts]
            for name, value in zip(target.elts, values, strict=True):
                if not isinstance(name, ast.Name):
                    raise refused(node, "several targets are names")
                self.assign(name.id, value, node)
        else:
            raise refused(node, "a target is a name, a cell, or names for as many expressions")

    def _AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            old = self.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            new = self.operation(node.op, old, self.expression(node.value), node)
            self.assign(node.target.id, new, node)
        elif isinstance(node.target, ast.Subscript):
            kind, place = self.cell(node.target)
            old = cells.load(self, kind, place)
            new = self.operation(node.op, old, self.expression(node.value), node)
            cells.store(self, kind, place, self.cast(new, cells.LOADED[kind], node))
        else:
            raise refused(node, "a target is a name or a cell")

    def _If(self, node):
        then, behind = self.label("then"), self.label("behind")
        other = self.label("else") if node.orelse else behind
        arms.condition(self, node, then, other)
        self.begin(then)
        self.statements(node.body)
        closed = self.ended
        self.jump(behind)
        if node.orelse:
            self.begin(other)
            self.statements(node.orelse)
            if closed and self.ended:
                return  # Both branches have left, so nothing follows.
        self.begin(behind)

    def _While(self, node):
        choice = arms.choice_of(node)
        if choice is not None:
            arms.write(self, node, choice)
            return
        head, turn, behind = self.label("while"), self.label("turn"), self.label("behind")
        endless = isinstance(node.test, ast.Constant) and node.test.value
        leaves = not endless or any(isinstance(part, ast.Break) for part in ast.walk(node))
        self.begin(head)
        self.condition(node.test, turn, behind)
        self._turn(node, turn, head, behind)
        self._back(head)
        if leaves:
            self.begin(behind)

    def _Arm(self, node):
        arms.write_arm(self, node)

    def _For(self, node):
        """Write a loop; its bounds are computed before it begins."""
        call = node.iter
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if name not in ("range", "parallel", "simd"):
            raise refused(node, "a loop is over range(...), parallel(...) or simd(...)")
        if not isinstance(node.target, ast.Name) or node.orelse or not 1 <= len(call.args) <= 3:
            raise refused(node, "a loop has a name that counts, and no else")
        given = [self.cast(self.expression(argument), "int", call) for argument in call.args]
        if name == "simd":
            if len(given) != 1:
                raise refused(node, "a loop over simd(...) begins at 0")
            simd_loops.SimdLoop(self, node, given[0])
            return
        first, last, step = ("0", *given, "1") if len(given) == 1 else (*given, "1")[:3]
        if not step.lstrip("-").isdigit() or int(step) == 0:
            raise refused(call, "a step is a number, and not 0")
        behind, at_most_three = self.label("behind"), False
        if name == "parallel":
            if step != "1":
                raise refused(node, "a loop over parallel(...) goes on by one")
            first, at_most_three = parallel_loops.write(self, node, first, last, behind)
        head, turn, onward = (self.label(hint) for hint in ("for", "turn", "next"))
        before, i, following = self.block, f"%i.{head}", f"%next.{head}"
        self.begin(head)
        self.line(f"{i} = phi i64 [ {first}, %{before} ], [ {following}, %{onward} ]")
        self.branch(self.new(f"icmp {'slt' if int(step) > 0 else 'sgt'} i64 {i}, {last}"), turn, behind)
        self.begin(turn)
        self.assign(node.target.id, Value(self.opaque(i) if at_most_three else i, "int"), node)
        self._turn(node, None, onward, behind)
        self.begin(onward)
        self.line(f"{following} = add nsw i64 {i}, {step}")
        self._back(head)
        self.begin(behind)

    def _turn(self, node, label: str | None, onward: str, behind: str) -> None:
        """Write a loop's body, in which ``continue`` goes to one label and ``break`` to the other."""
        if label is not None:
            self.begin(label)
        self.loops.append((onward, behind))
        self.statements(node.body)
        self.loops.pop()

    def _back(self, head: str) -> None:
        """Jump to a loop's head. LLVM shall neither unroll the loop nor turn it into SIMD code."""
        self.jump(head, self.module.plain_loop())

    def _Break(self, node):
        self.jump(self.loops[-1][1])

    def _Continue(self, node):
        self.jump(self.loops[-1][0])

    def _Pass(self, node):
        pass

    def _Return(self, node):
        value = Value("", "none") if node.value is None else self.expression(node.value)
        kind = value.type if self.result is None else arithmetic.unified(self.result, value.type)
        if "none" in (kind, self.result, value.type) and not kind == value.type == (self.result or kind):
            raise refused(node, "a function returns a value everywhere, or nowhere")
        if self.stated not in (None, kind):
            raise refused(node, f"the function returns a value of type {self.stated}")
        if self.result not in (None, kind):
            self.result = kind
            raise _Widened
        self.result = kind
        text = "" if kind == "none" else " " + self.cast(value, kind, node)
        self.end(f"ret {LLVM[kind]}{text}")

    def _Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.expression(node.value)
        elif not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            raise refused(node, "an expression that nobody uses")
