"""Random scans, as source text: carries that depend on each other in circles, in chains, or not at all."""

from __future__ import annotations

import numpy as np

import numbatape as nt
from tests.control.python_loops import Python

UNARY = ("np.sin({})", "np.exp(-{} ** 2)", "np.tanh({})", "-{}", "{} ** 2", "np.abs({})", "1.0 * {}")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} / (2.0 + {} ** 2)", "np.maximum({}, {})")
PRODUCTS = ("{} @ a", "a.T @ {}", "np.tanh({} @ w) @ w.T", "np.sin(w[:, 1:4] @ {})", "np.ones((3, 3)) @ {}")
UPDATES = (
    "{c} + {e}",
    "{c} - {e}",
    "{e} + {c}",
    "0.5 * {c} + {e}",
    "{e} - {c} / (2.0 + {e} ** 2)",
    "{c} + x[1] * ({e} - {c})",
    "-0.3 * ({c} - {e})",
    "{e} - ({e} - 0.4 * {c})",
    "np.tanh({c} + {e})",
    "{e}",
    "{c}",
    "x[2]",
    "0.7",
)
SHAPES = ("", "[:2]", "[:3]")


class ScanProgram:
    """A function of a vector ``x`` of 7 numbers and of data ``y`` with 7 rows of 3, which is a scan.

    Parameters
    ----------
    seed
        Of the random choices.

    Attributes
    ----------
    source
        The function's text. It is called ``f``, and takes the namespace that has ``scan`` first.
    """

    def __init__(self, seed: int):
        self.rng = rng = np.random.default_rng(seed)
        vectors = rng.random() < 0.4
        count = int(rng.integers(1, 4))
        firsts = [self._pick(("0.3", "x[3]", "0.0", "1")) for _ in range(count)]
        wide = [vectors and rng.random() < 0.5 for _ in range(count)]
        firsts = [
            f"{first} + np.zeros(3)" if its else f"float({first})" if first == "1" else first
            for first, its in zip(firsts, wide, strict=True)
        ]
        self.scalars = ["v", "r[0]", "x[4]", "2.0", "x[j]", *(f"c{k}" for k in range(count) if not wide[k])]
        self.vectors = ["r", "x[:3]", "y[j]", *(f"c{k}" for k in range(count) if wide[k])]
        body = []
        for k in range(int(rng.integers(1, 5))):
            as_vector = vectors and rng.random() < 0.4
            body.append(f"t{k} = {self._expression(as_vector)}")
            (self.vectors if as_vector else self.scalars).append(f"t{k}")
        if rng.random() < 0.3:
            body.append(f"m = np.stack([{self._scalar()}, {self._scalar()}, {self._scalar()}])")
            self.vectors.append("m")
            self.scalars.append("m[1]")
        if rng.random() < 0.3:
            body.append(f"p = np.sum({self._pick(self.vectors)} * r)")
            self.scalars.append("p")
        following = []
        for k in range(count):
            e = self._pick(self.vectors if wide[k] and rng.random() < 0.6 else self.scalars)
            body.append(f"n{k} = " + self._pick(UPDATES).format(c=f"c{k}", e=e))
            if wide[k]:
                body.append(f"n{k} = n{k} + np.zeros(3)")
            following.append(f"n{k}")
            (self.vectors if wide[k] else self.scalars).append(f"n{k}")
        outputs = [self._pick([*self.scalars, *self.vectors]) for _ in range(int(rng.integers(0, 3)))]
        carries, tuple_of = (", ".join(names) + "," for names in ([f"c{k}" for k in range(count)], following))
        lines = [
            "def f(flow, x, y):",
            "    a, w = 0.3 * np.outer(x[:3], x[1:4]), 0.3 * np.outer(x[1:4], np.cos(x[:6]))",
            "    def step(carry, row):",
            f"        {carries} = carry",
            "        v, r, j = row",
        ]
        lines += [f"        {line}" for line in body]
        lines += [f"        return ({tuple_of}), ({''.join(f'0.0 + {name}, ' for name in outputs)})"]
        options = ", reverse=True" if rng.random() < 0.3 else ""
        rows = "x, y, np.arange(len(x))[::-1]"
        lines += [f"    last, ys = flow.scan(step, ({', '.join(firsts)},), ({rows}){options})"]
        lines += [
            "    total = sum(np.sum(z * np.arange(1.0, 1.0 + np.size(z)).reshape(np.shape(z))) for z in ys)"
        ]
        lines += ["    return total + sum(np.sum(np.sin(z)) for z in last)"]
        self.source = "\n".join(lines) + "\n"

    def _pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def _scalar(self) -> str:
        return self._pick(self.scalars)

    def _expression(self, as_vector: bool) -> str:
        def one():
            return self._pick(self.vectors if as_vector else self.scalars)

        if as_vector and self.rng.random() < 0.4:
            return self._pick(PRODUCTS).format(one())
        if self.rng.random() < 0.5:
            text = self._pick(UNARY).format(one())
            return f"{text} + np.zeros(3)" if as_vector and self.rng.random() < 0.2 else text
        return self._pick(BINARY).format(
            one(), self._pick([*self.scalars, *(self.vectors if as_vector else ())])
        )

    def function(self):
        """Return the function."""
        space = {"np": np}
        exec(self.source, space)
        return space["f"]


def arguments(seed: int, length: int):
    """Return a vector and data for a program; both have so many rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=length) if length < 10 else rng.uniform(0.1, 0.9, length)  # most long loops diverge
    return x, rng.normal(size=(length, 3))


def checked(seed: int, second: bool = True, length: int = 7) -> bool:
    """Compare a program with the Python loop that it stands for; return whether its value is finite."""
    f = ScanProgram(seed).function()
    x, y = arguments(seed, length)
    value = f(Python, x, y)
    if not np.isfinite(value) or abs(value) > 1e6:
        return False
    scanned, looped = (lambda x, y=y, flow=flow: f(flow, x, y) for flow in (nt, Python))
    wanted = nt.value_and_grad(looped)(x)
    found = nt.value_and_grad(scanned)(x)
    size = 1.0 + np.abs(wanted[1]).max()
    np.testing.assert_allclose(found[0], value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-10, atol=1e-10 * size)
    if second:
        v = np.cos(np.arange(len(x)))
        found, wanted = (nt.hvp(g)(x, v) for g in (scanned, looped))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * (size + np.abs(wanted).max()))
        np.testing.assert_allclose(
            nt.jvp(scanned, (x,), (v,))[1], nt.grad(looped)(x) @ v, rtol=1e-9, atol=1e-9 * size
        )
        points = np.stack([x, 1.1 * x])
        found, wanted = (nt.batch(g)(points)[1] for g in (scanned, looped))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * (size + np.abs(wanted).max()))
    return True
