"""A tape as a graph: what each instruction reads, as text and in the language of Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from .html_tables import table
from .listing import operand
from .tape import POOLS


class Step(NamedTuple):
    """An input, a result or an instruction.

    Attributes
    ----------
    label : str
        The name of an input, or of an op.
    sizes : str
        What its result is called on the tape, and its sizes.
    reads : list
        The steps whose results it reads, by number; a literal as text.
    line : str
        The user's source line.
    """

    label: str
    sizes: str
    reads: list
    line: str = ""


class Graph:
    """A tape as a graph; `numbatape.show` makes it.

    It prints as text, one line for each step. A notebook draws it if the program ``dot`` of Graphviz is
    there, and shows a table otherwise.

    Attributes
    ----------
    dot : str
        The graph in the language of Graphviz.
    """

    def __init__(self, tape, names: list[str]):
        self._title = f"{len(tape)} instructions"
        self._steps = _steps(tape, names)

    def __str__(self) -> str:
        width = len(str(len(self._steps)))
        lines = []
        for number, step in enumerate(self._steps):
            read = ", ".join(f"%{part}" if isinstance(part, int) else part for part in step.reads)
            line = (
                f"%{number:<{width}}  {step.label}({read})" if read else f"%{number:<{width}}  {step.label}"
            )
            lines.append(f"{line}  {step.sizes}" + (f"  # {step.line}" if step.line else ""))
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def dot(self) -> str:
        lines = ["digraph tape {", '  node [shape=box, fontname="monospace", fontsize=10];']
        for number, step in enumerate(self._steps):
            shape = "" if step.reads else ", shape=ellipse"
            label = _quoted(f"{step.label}\n{step.sizes}" if step.sizes else step.label)
            lines.append(f"  n{number} [label={label}, tooltip={_quoted(step.line)}{shape}];")
            for k, part in enumerate(step.reads):
                if isinstance(part, int):
                    lines.append(f"  n{part} -> n{number};")
                else:
                    lines.append(f"  n{number}_{k} [label={_quoted(part)}, shape=plaintext];")
                    lines.append(f"  n{number}_{k} -> n{number};")
        return "\n".join([*lines, "}"])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        """Return what a notebook shows: a drawing if Graphviz is there, a table, and text."""
        bundle = {"text/plain": str(self)}
        program = shutil.which("dot")
        if program is not None:
            drawn = subprocess.run([program, "-Tsvg"], input=self.dot, capture_output=True, text=True)
            if drawn.returncode == 0:
                bundle["image/svg+xml"] = drawn.stdout
                return bundle
        bundle["text/html"] = self._repr_html_()
        return bundle

    def _repr_html_(self) -> str:
        rows = []
        for number, step in enumerate(self._steps):
            read = ", ".join(f"%{part}" if isinstance(part, int) else part for part in step.reads)
            rows.append((f"%{number}", step.label, read, step.sizes, step.line))
        return table(self._title, ("", "step", "reads", "result", "line"), rows)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _steps(tape, names: list[str]) -> list[Step]:
    """Return inputs, instructions and results of a tape in their order."""
    steps: list[Step] = []
    cells: dict[tuple, int] = {}  # the step that writes a single cell
    storages: dict[int, list[int]] = {}  # the steps that write to a storage

    def place(value: int) -> tuple[int, int]:
        storage, offset, _ = (int(field) for field in tape.values[value])
        return storage, offset

    def wrote(value: int) -> None:
        storage, offset = place(value)
        if storage < len(POOLS):
            cells[storage, offset] = len(steps) - 1
        else:
            storages.setdefault(storage, []).append(len(steps) - 1)

    def sources(value: int) -> list:
        storage, offset = place(value)
        if storage < len(POOLS):
            found = cells.get((storage, offset))
            return [operand(tape, value)] if found is None else [found]
        return list(storages.get(storage, ())) or [operand(tape, value)]

    for slot, name in zip(tape.inputs, names, strict=True):
        steps.append(Step(name, operand(tape, slot.value), []))
        wrote(slot.value)
    for number, row in enumerate(tape.instructions()):
        line = tape.line_of(number)
        reads = [part for value in row.operands for part in sources(value)]
        where = line.short if line else ""
        if row.is_guard:
            steps.append(Step(f"guard is {tape.guards[row.aux].outcome}", "", reads, where))
        else:
            steps.append(Step(tape.name_of(number), operand(tape, row.out), reads, where))
            wrote(row.out)
    for value in tape.outputs:
        steps.append(Step("result", operand(tape, value), sources(value)))
    return steps
