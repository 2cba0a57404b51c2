"""Random functions with loops over scalars, as source text: what re-rolling rewrites, and what it leaves."""

from __future__ import annotations

import numpy as np

UNARY = (
    "np.sin({})",
    "np.exp(0.1 * {})",
    "np.tanh({})",
    "{} ** 2",
    "-{}",
    "np.sqrt(1.0 + {} ** 2)",
    "np.abs({})",
)
BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / (2.0 + {} ** 2)",
    "np.maximum({}, {})",
    "np.logaddexp({}, {})",
)
UPDATES = (
    "{s} + {e}",
    "{s} - {e}",
    "{e} + {s}",
    "{s} * (1.0 + 0.001 * {e})",
    "0.5 * {s} + {e}",
    "{e} - {s} / (2.0 + {e} ** 2)",
    "-0.3 * ({s} - {e})",
    "np.tanh({s} + {e})",
)


class LoopProgram:
    """A function of a vector ``x`` of 40 numbers and a data vector ``y`` of 60, of loops over scalars.

    Parameters
    ----------
    seed
        Of the random choices.

    Attributes
    ----------
    source
        The function's text; it is called ``f``.
    """

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.lines = ["def f(x, y, index):", "    s, t, u, v = x[0], 0.0, x[1], 1.0", "    a = [x[2]]"]
        self.lines.append("    w = np.zeros(60)")
        for _ in range(self.rng.integers(1, 4)):
            self._loop()
        self.lines.append("    z = np.sum(w * y) if len(a) % 2 else w[-1] + w[3]")
        self.lines.append("    return s + t + 0.1 * u + 0.01 * v + sum(a) + z")
        self.source = "\n".join(self.lines) + "\n"

    def _pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def _leaf(self, i: str, j: str | None) -> str:
        leaves = [
            f"x[{i}]",
            f"x[{i} + 3]",
            f"x[39 - {i}]",
            f"x[2 * ({i} // 2)]",
            f"x[index[{i}]]",
            f"y[{i} + 5]",
            f"y[2 * {i} % 60]",
            f"y[index[{i}]]",
            "x[7]",
            "0.3",
            "s",
            "u",
            "a[-1]",
            "a[0]",
            f"a[{i} % len(a)]",
            f"w[{i}]",
            f"w[{i} - 1]",
            f"w[{i} - 3]",
            f"float({i})",
        ]
        if j:
            leaves += [f"x[{j}]", f"x[{i} + {j}]", f"y[{j}]", f"y[3 * {j} + {i}]"] * 3
        else:
            leaves += [f"x[{i}]", f"y[{i}]"] * 3
        return self._pick(leaves)

    def _expression(self, i: str, j: str | None, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.15:
            return self._leaf(i, j)
        if self.rng.random() < 0.4:
            return "(" + self._pick(UNARY).format(self._expression(i, j, depth - 1)) + ")"
        return (
            "("
            + self._pick(BINARY).format(self._expression(i, j, depth - 1), self._expression(i, j, depth - 1))
            + ")"
        )

    def _loop(self) -> None:
        turns, nested = int(self.rng.integers(9, 30)), self.rng.random() < 0.3
        pad, i, j = "        ", "i", None
        self.lines.append(f"    for i in range({turns}):")
        if nested:
            first = len(self.lines)
            j = "j"
            if self.rng.random() < 0.5:
                self._statement(pad, i, None)
            bound = self._pick(["4", "10", "i % 3", "max(1, i // 4)"])
            self.lines.append(f"        for j in range({bound}):")
            pad += "    "
            assert len(self.lines) > first
        for _ in range(self.rng.integers(1, 5)):
            self._statement(pad, i, j)

    def _statement(self, pad: str, i: str, j: str | None) -> None:
        expression = self._expression(i, j, int(self.rng.integers(1, 4)))
        name = self._pick("sstuv")
        kind = self._pick(
            ["update", "update", "update", "local", "append", "write", "branch", "exit", "array", "test"]
        )
        if kind == "update":
            self.lines.append(f"{pad}{name} = " + self._pick(UPDATES).format(s=name, e=expression))
        elif kind == "local":
            self.lines.append(f"{pad}e = {expression}")
            self.lines.append(f"{pad}t = t + e * e")
        elif kind == "append":
            self.lines.append(f"{pad}a.append({expression})")
        elif kind == "write":
            place = self._pick([i, f"59 - {i}", f"2 * {i}", f"index[{i}]", "5"])
            self.lines.append(f"{pad}w[{place}] = {expression}")
        elif kind == "branch":
            test = self._pick([f"{i} % 3 == 0", f"y[{i}] > 0.0", f"x[{i}] > 0.2", f"{i} > 4", f"s > x[{i}]"])
            self.lines.append(f"{pad}if {test}:")
            self.lines.append(f"{pad}    {name} = " + self._pick(UPDATES).format(s=name, e=expression))
        elif kind == "exit":
            self.lines.append(f"{pad}if {i} > {self.rng.integers(8, 25)}:")
            self.lines.append(f"{pad}    " + self._pick(["break", "continue"]))
        elif kind == "array":
            self.lines.append(f"{pad}{name} = {name} + np.sum(x[{i} : {i} + 3] * 0.1) * {expression}")
        else:
            self.lines.append(f"{pad}{name} = {name} + np.where({expression} > 0.1, x[{i}], 0.5)")

    def function(self):
        """Return the function."""
        scope = {"np": np}
        exec(compile(self.source, f"<loops {self.source!r}>", "exec"), scope)
        return scope["f"]

    def arguments(self):
        """Return x, y, index."""
        rng = np.random.default_rng(5)
        return rng.normal(size=40) * 0.7, rng.normal(size=60), tuple(rng.integers(0, 40, 40).tolist())
