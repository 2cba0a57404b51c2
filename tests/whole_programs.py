"""Random whole programs as text that a person can read: state, helpers, a function and calls of it.

An expression is made from a form with typed holes: {S} a scalar, {V} any vector, {U} a vector as long as the
result, {M} a square matrix of that size, {B} a mask for the result; {s} and {v} are names of variables,
{c} a number. Vectors have a length class, so that most of what is written runs; the rest raises, in NumPy
and in numbatape alike.
"""

import random
import re

from tests.program_forms import FORMS, STATE

CALLS = 4


class Writer:
    """Writes one function; ``scalars`` and ``vectors`` (by length class) are the names in scope."""

    def __init__(self, rng, scalars, vectors):
        self.rng, self.scalars, self.vectors = rng, scalars, vectors
        self.lines, self.count, self.depth = [], 0, 1

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def put(self, line):
        self.lines.append("    " * self.depth + line)

    def some_class(self):
        return self.rng.choice(list(self.vectors))

    def fill(self, form, size, budget):
        """Fill the holes of a form; vectors of {U}, {u}, {M} and {B} have the length class ``size``."""
        return (
            re.sub(r"(?<!{){([A-Za-z])}(?!})", lambda hole: self.hole(hole[1], size, budget), form)
            .replace("{{", "{")
            .replace("}}", "}")
        )

    def hole(self, kind, size, budget):
        rng = self.rng
        if kind == "c":
            return str(rng.choice([0.3, -0.4, 0.7, 1.2, 0.15]))
        if kind == "d":
            return str(rng.choice([0.9, 1.2, 0.6]))
        if kind == "s":
            return rng.choice(self.scalars)
        if kind in "uv":
            return rng.choice(self.vectors[size if kind == "u" else self.some_class()])
        if kind in "VWN":  # vectors, masks and matrices of any size: one size within a form
            size, kind = self.any_size or self.some_class(), {"V": "U", "W": "B", "N": "M"}[kind]
        if kind in "SU" and (budget <= 0 or rng.random() < 0.35):
            return rng.choice(self.scalars if kind == "S" else self.vectors[size])
        forms = FORMS[kind][:2] if kind == "M" and budget <= 0 else FORMS[kind]
        forms = [form for form in forms if self.calls_helper or "helper" not in form]
        text = self.expression(rng.choice(forms), size, budget - 1)
        return text if re.fullmatch(r"\w+(\.\w+)*(\([^()]*\))?", text) else f"({text})"

    any_size = None
    calls_helper = True

    def expression(self, form, size=None, budget=1):
        size = size or self.some_class()
        kept, self.any_size = self.any_size, self.some_class() if "{W}" in form else None
        text = self.fill(form, size, budget)
        self.any_size = kept
        return text

    def of(self, kind, size=None, budget=1):
        return self.expression(self.rng.choice(FORMS[kind]), size, budget)

    def block(self, length):
        """Write an indented block; names that are new in it go out of scope with it."""
        scalars, vectors = list(self.scalars), {k: list(v) for k, v in self.vectors.items()}
        self.depth += 1
        for _ in range(self.rng.randint(1, length)):
            self.statement()
        self.depth -= 1
        self.scalars, self.vectors = scalars, vectors

    def statement(self):
        kinds = [self.scalar, self.vector, self.resize, self.write, self.write, self.view, self.attempt]
        if self.depth < 3:
            kinds += [self.branch, self.branch, self.loop, self.loop, self.match]
        if self.depth > 1:
            kinds += [self.again, self.again, self.leave]
        kinds += [self.state] * (self.rng.random() < 0.2)
        self.rng.choice(kinds)()

    def scalar(self):
        text = self.of("S")
        self.scalars.append(self.fresh("s"))
        self.put(f"{self.scalars[-1]} = {text}")

    def vector(self):
        size = self.some_class()
        text = self.of("U", size)
        self.vectors[size].append(self.fresh("v"))
        self.put(f"{self.vectors[size][-1]} = {text}")

    def again(self):
        size, rng = self.some_class(), self.rng
        if rng.random() < 0.5:
            self.put(f"{rng.choice(self.scalars)} = {self.of('S')}")
        else:
            self.put(f"{rng.choice(self.vectors[size])} = {self.of('U', size)}")

    def resize(self):
        if len(self.vectors) < 4:
            text, name = self.of("resize"), self.fresh("v")
            self.put(f"{name} = {text}")
            self.vectors[name] = [name]
        else:
            self.scalar()

    def write(self):
        size = self.some_class()
        form = self.rng.choice(FORMS["write"])
        target = self.rng.choice(self.vectors[size])
        text = self.expression(form.replace("{u}", target), size)
        if re.match(r"\w+\[", text) and self.rng.random() < 0.1:
            text = re.sub(rf"^{target}\b", "TABLE", text)
        self.put(text)

    def view(self):
        size = self.some_class()
        name = self.fresh("v")
        self.put(f"{name} = {self.of('view', size)}")
        self.vectors[size].append(name)

    def branch(self):
        self.put(f"if {self.of('C')}:")
        self.block(3)
        if self.rng.random() < 0.3:
            self.put(f"elif {self.of('C')}:")
            self.block(2)
        if self.rng.random() < 0.5:
            self.put("else:")
            self.block(2)

    def match(self):
        size = self.some_class()
        name, cases = self.rng.choice(self.vectors[size]), ["np.ndarray()", "float() | int()"]
        if self.rng.random() < 0.5:
            name, cases = self.rng.choice(self.scalars), ["float()", "np.ndarray()"]
        self.put(f"match {name}:")
        self.depth += 1
        for case in (*cases[: self.rng.randint(1, 2)], "_"):
            self.put(f"case {case}:")
            self.block(1)
        self.depth -= 1

    def loop(self):
        kind, s = self.rng.randrange(5), self.rng.choice(self.scalars)
        v = self.rng.choice(self.vectors[self.some_class()])
        if kind == 0:
            i = self.fresh("i")
            self.put(f"{i} = 0")
            self.put(f"while ({self.of('C')}) and {i} < {self.rng.randint(2, 5)}:")
            self.depth += 1
            self.put(f"{i} += 1")
            self.put(f"{s} = {s} * 0.6 - 0.1")
            self.depth -= 1
            self.block(2)
        elif kind == 1:
            i = self.fresh("i")
            self.put(f"for {i} in range(len({v})):")
            self.depth += 1
            self.put(
                self.rng.choice([f"{s} = {s} * 0.8 + {v}[{i}] * 0.3", f"{v}[{i}] = {v}[{i} - 1] * 0.5 + {s}"])
            )
            if self.rng.random() < 0.4:
                self.put(f"if {v}[{i}] > {self.hole('c', None, 0)}:")
                self.put(self.rng.choice(["    break", "    continue", f"    {s} = {s} - 0.2"]))
            self.depth -= 1
            if self.rng.random() < 0.5:
                self.block(1)
        elif kind == 2:
            e = self.fresh("e")
            entries = self.rng.choice(
                [v, f"zip({v}, {v}[::-1])", f"enumerate({v})", f"{v}.flat", f"({v} + 0.1)"]
            )
            self.put(f"for {e} in {entries}:")
            inner = f"{e}[0] * {e}[1]" if entries.startswith(("zip", "enum")) else f"np.tanh({e})"
            self.put(f"    {s} = {s} * 0.7 + {inner} * 0.2")
        elif kind == 3:
            self.put("for _ in range(abs(k) % 3):")
            self.block(2)
        else:
            parts = self.fresh("t")
            self.put(f"{parts} = []")
            self.put(f"for {parts}e in {v}:")
            self.put(f"    if {parts}e < {self.hole('d', None, 0)}:")
            self.put(f"        {parts}.append({parts}e * {s})")
            found = self.rng.choice([f"sum({parts})", f"len({parts})", f"np.sum(np.array({parts}))"])
            self.put(f"{s} = {s} * 0.5 + {found} * 0.1")

    def attempt(self):
        size, s = self.some_class(), self.rng.choice(self.scalars)
        attempt, errors = self.rng.choice(FORMS["attempt"]).split("|")
        text = self.expression(attempt.replace("{s}", s), size)
        if self.rng.random() < 0.1:
            self.put(text)
            return
        self.put("try:")
        self.put(f"    {text}")
        if self.rng.random() < 0.3:
            self.put(f"    {s} = {s} * 0.9")
        self.put(f"except {errors}:")
        handled = [f"{s} = {s} - 0.7", f"return {s} * 0.3 - 2.0", "pass", f"{s} = np.sin({s})"]
        self.put(f"    {self.rng.choice(handled)}")
        if self.rng.random() < 0.2:
            self.put(self.rng.choice(["else:", "finally:"]))
            self.put(f"    {s} = {s} + 0.25")

    def leave(self):
        if self.rng.random() < 0.3:
            self.put(f"return {self.of('S')} * 1.0")
        else:
            self.again()

    def state(self):
        self.put(self.rng.choice(["model.calls += 1", f"model.log.append({self.rng.choice(self.scalars)})"]))

    def total(self):
        terms = [f"{0.3 + 0.1 * j:.1f} * {s}" for j, s in enumerate(self.scalars)]
        terms += [f"np.sum(np.sin({v}))" for names in self.vectors.values() for v in names]
        self.put("return " + " + ".join(terms))


def program(seed, length=6):
    """Return the text of a program, and the lines that change its state before each call."""
    rng = random.Random(seed)
    writer = Writer(rng, ["0.4"], {"z": ["z"]})
    writer.calls_helper = False
    writer.put(f"if {rng.choice(['np.sum(z) > 0.2', 'len(z) > 2', 'np.max(z, initial=0.1) < gain'])}:")
    writer.put(f"    return {writer.expression(rng.choice(_plain()), 'z')}")
    writer.put(f"return {writer.expression(rng.choice(_plain()), 'z')} * gain")
    helper = ["def helper(z, gain=0.8, k=1, scale=0.7):", *writer.lines]
    form = rng.choice(["scalar", "dict", "tuple", "matrix"])
    inner = {"scalar": ["p"], "dict": ['p["a"]'], "tuple": ["p[1]"], "matrix": ["p[0, 0]"]}[form]
    vectors = {"scalar": [], "dict": ['p["w"]'], "tuple": ["p[0]"], "matrix": ["p[0]"]}[form]
    writer = Writer(rng, ["scale", *inner], {"x": ["x", *vectors]})
    writer.put("s = np.sum(x) * 0.5")
    writer.scalars = ["s", *[f"q{j}" for j, _ in enumerate(inner)]]
    for j, text in enumerate(inner):
        writer.put(f"q{j} = {text}")
    for j, text in enumerate(vectors):
        writer.put(f"w{j} = {text}")
    writer.vectors = {"x": ["x", *[f"w{j}" for j, _ in enumerate(vectors)]]}
    if rng.random() < 0.7:
        writer.put("y = x * 1.0")
        writer.vectors["x"].append("y")
    for _ in range(rng.randint(2, length)):
        writer.statement()
    writer.total()
    function = ["def f(x, p, k, scale=0.7):", *writer.lines]
    between = [rng.choice(FORMS["between"]) if rng.random() < 0.3 else "" for _ in range(CALLS)]
    return "\n".join([STATE, "", *helper, "", "", *function, ""]), form, between


def _plain():
    return [form for form in FORMS["U"] if "helper" not in form and "{M}" not in form]
