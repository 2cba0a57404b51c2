"""The op table: what a row is, how rows are registered, how they are found.

Everything that the project knows about an op is in its row: kernels, tests, docs and micro-benchmarks iterate
over the table, so that a new op is one row in one place.

Two kinds of row:

* `Elementwise` (made by `unary`, `binary`, `ternary`): formulas in the operands ``x, y, w`` and the result
  ``z``; broadcasting, strides, dtypes, forward and reverse kernels are generated from them.
* `ArrayOp` (made by `array_op`): a gufunc signature and a pair of kernels over core dimensions; batch
  dimensions are looped over by the generated wrapper.

Formulas and kernels are Python in a small kernel language: ``math.*``, the functions of
`numbatape.ops.scalars` and ``sc.name(...)``, which is SciPy's ufunc inner loop (`numbatape.jit`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from functools import cached_property

import numpy as np

from ..savings import frozen
from ..tape.rows import Traits

OPERANDS = "xyw"

Interval = tuple[float, float]
REAL: Interval = (-3.0, 3.0)
POSITIVE: Interval = (0.1, 4.0)
UNIT: Interval = (-0.95, 0.95)
PROBABILITY: Interval = (0.05, 0.95)
ABOVE_ONE: Interval = (1.05, 4.0)
BOOLEAN: Interval = (0.0, 1.0)  # tests draw 0 or 1 from this interval, and no number between them
POSITIVES = (POSITIVE, POSITIVE)
BOOLEANS = (BOOLEAN, BOOLEAN)

# It stands for a partial without a formula; a derivative that needs it raises (`numbatape.derive.partials`).
UNKNOWN = "math.nan"

Function = Callable | str  # "sc.psi" names a ufunc of scipy.special, whose import costs 0.3 s


@frozen(eq=False)
class Elementwise(Traits):
    """One elementwise op. What passes decide by is in `numbatape.tape.rows.Traits`.

    Parameters
    ----------
    name
        Name on tapes and in listings.
    value
        Formula of the result ``z``.
    numpy
        The NumPy/SciPy functions that this row serves (see `resolve`); the first is the oracle
        of the tests.
    partials
        One formula per operand, in ``x, y, w, z``; None means zero everywhere (no adjoint).
    second
        ``{"xx": ..., "xy": ...}`` in ``x, y, w, z`` and the first partials ``dx, dy, dw``;
        an absent entry is zero.
    domains
        One sampling interval per operand, for tests and benchmarks.
    hot
        Whether one-cell instructions get an arm in the dispatch chain. At most about 50:
        compile time grows faster than the chain.
    edges
        Extra points (tuples of operands) that tests compare with the oracle.
    opaque
        Operands whose derivative has no closed form (orders, degrees of freedom): the tracer refuses
        those that carry one.
    smooth
        ``{"x": ...}``: another formula of the same partial, which is used to differentiate it again, where
        the formula in ``partials`` has a case (``... if x != y else 0.5``) whose derivative is not the
        function's, or one that takes fewer instructions on a tape, where all cases are computed.
    steps
        Operands whose partial is rightly (or by convention) a constant in a case of its formula, so that its
        derivative is zero there. A test refuses other partials with such a case.
    follows
        The last operand as a formula in the others, where it follows from them: partials are total ones.
    oracle
        The op by NumPy and SciPy, where the first of ``numpy`` does not take the same operands.
    commutes
        Whether the operands may change places.
    twice
        The op that it is of an operand and itself.
    in_register
        Operands that its arms take from a register where they are the result of the instruction before. Only
        results of ops that have some stay there.
    single_loop
        Name of the ufunc whose float32 loop runs long instructions over float32 cells, where there is no
        ``loop`` for float64.
    signed
        The function of `numbatape.ops.scalars` that gives the loop's result for the first operand's absolute
        value, its last argument, the sign that it has for the operands. Where it is given, the loop is
        called with absolute values if an operand is negative: NumPy's takes far longer for negative numbers.
    python
        Whether only ``Config(values="numpy")`` uses it, for the bits of Python's own functions.
    third_of
        Of a row with a partial that is `UNKNOWN`: the function of `scipy.special` whose third derivative that
        is, and which other functions have the same, for the error.
    paired
        The op that strips compute in one loop with it, because both share work: a function of the same
        operand, or of this and the result. Both have the bits of their formulas there.
    vector_arm
        Its place among the ops that have arms for contiguous vectors (`numbatape.engine.vectors`), or None.
    two_tiers
        As of an `ArrayOp`.
    """

    name: str
    value: str
    numpy: tuple[Function, ...]
    partials: tuple[str | None, ...]
    second: dict[str, str] = field(default_factory=dict)
    domains: tuple[Interval, ...] = (REAL,)
    hot: bool = False
    edges: tuple[tuple[float, ...], ...] = ()
    opaque: str = ""
    smooth: dict[str, str] = field(default_factory=dict)
    steps: str = ""
    follows: str = ""
    oracle: Callable | None = None
    commutes: bool = False
    twice: str = ""
    in_register: str = ""
    single_loop: str | None = None
    signed: str = ""
    python: bool = False
    third_of: str = ""
    paired: str = ""
    vector_arm: int | None = None
    two_tiers: str = ""
    elementwise: bool = field(default=True, kw_only=True)

    def differentiable_partial(self, operand: int) -> str | None:
        """Return the formula of a partial from which higher derivatives are made."""
        return self.smooth.get(OPERANDS[operand], self.partials[operand])

    @property
    def arity(self) -> int:
        return len(self.partials)

    @property
    def differentiable(self) -> bool:
        return any(p is not None for p in self.partials)

    def loop_for(self, values: str) -> str | None:
        """Return the ufunc whose inner loop computes the values, or None for the formula.

        With ``Config(values="numpy")`` that is the first of ``numpy`` where its bits are a matter of
        choice: not for exact ops, nor for predicates, whose loops give booleans.
        """
        if values == "fast" or self.exact or not self.numpy:
            return self.loop
        first = self.numpy[0]
        if isinstance(first, str):
            return first
        signature = "d" * self.arity + "->d"
        return first.__name__ if isinstance(first, np.ufunc) and signature in first.types else self.loop

    def is_hot(self, values: str) -> bool:
        """Whether one-cell instructions run in the dispatch chain, whose arms are formulas."""
        return self.hot and (values == "fast" or self.loop_for(values) is None)

    @property
    def jumps(self) -> bool:
        return any(partial is None or "rint" in partial for partial in self.partials)

    @property
    def linear(self) -> bool:
        """Whether the reverse rule reads neither operands nor result (1, -1, 0)."""
        return all(p is None or re.fullmatch(r"-?1\.0", p) for p in self.partials)


@frozen(eq=False)
class ArrayOp(Traits):
    """One array op: a gufunc signature and its kernels. Passes decide by `numbatape.tape.rows.Traits`.

    Kernels are plain functions whose parameters are found by name: ``v`` (value cells), ``g``
    (adjoint cells), ``d`` (float64 value cells, where index operands live), ``o a b c`` (first
    cell of the result and of each operand), the letters of the signature (core sizes),
    ``so0 so1 sa0 ...`` (core strides, in cells), ``s`` (first cell of the scratch), ``need_a
    need_b need_c`` (whether that operand takes an adjoint). ``forward`` returns a status
    (`numbatape.ops.status`), ``reverse`` adds into ``g[a...]`` and returns nothing; both are
    called once a batch element.

    Parameters
    ----------
    signature
        NumPy's, e.g. ``"(m,k),(k,n)->(m,n)"``; one result.
    pullback
        The reverse rule as further instructions, from which derivatives of every order are made:
        ``pullback(e, ct, z, operands, need)`` with an emitter (`numbatape.emitter`), the cotangent of the
        result ``z``, and symbols. It returns one cotangent per operand, None where none is needed. A
        cotangent has the operand's shape, or one that broadcasts to it; batch dimensions come first.
        Formulas: Giles, "Collected matrix derivative results" (2008).
    pushforward
        Optional: the tangent of the result as further instructions, ``pushforward(e, z, operands, tangents)``
        with None for a tangent of zero. Otherwise the pullback is transposed, which may take more
        instructions.
    scratch
        Cells of scratch that a batch element needs, as a formula in the signature's letters; they keep their
        contents from forward to reverse.
    linear, bilinear
        Whether the result is linear in the operands, or in each of them.
    cases
        Tuples of operand shapes for tests.
    make
        Optional: ``make(rng, shapes) -> operands`` for ops that need special input.
    across
        Optional (``forward_across`` and ``reverse_across`` of the class): kernels for ``turns`` batch
        elements at once, which lie ``step_o``, ``step_a``, ... cells apart.
    beside
        When ``across`` serves, as a condition in these names and those of sizes and strides.
    fallible
        Whether ``forward`` may return another status than done.
    one_module
        Whether both directions are compiled as one module, because nearly all of their code is the same.
    two_tiers
        The directions whose kernels are compiled again in the background (`numbatape.jit.background`): with
        all of LLVM's passes calls take 0.9 of the time or less.
    extents
        What must hold between the letters, as a condition in them, where the signature does not say how
        long the result is: kernels write that many cells.
    failure
        What NumPy says of a factorisation that fails.
    nonempty
        Whether an operand must have entries.
    adds_parts
        The kernel of a part of the core axis where the result follows from its results for the parts; it
        returns a float64. It is given the cells, the operands' first cells, and sizes and strides by name.
    rooted
        Whether the result is the square root of the sum of its results for the parts, not the sum.
    cut
        The letter of a core axis along which parts of the result are computed from parts of those operands
        that have it: gathered entries from as many positions, and the whole table. If the result does not
        have it, parts are added to a result of zeros (`adds_at`).
    part_of_rows, part_of_sums
        Of a product with a vector: kernels for some rows of the matrix, from which some entries of the result
        follow, or something that is added to all of them.
    light
        Whether it takes about as long for each cell as arithmetic does.
    stepwise
        Letters of the operands with which the result changes in steps alone: their derivatives are 0.
    depends, interacts
        What sparsity patterns need to know, see `numbatape.ops.dependencies`.
    oracle
        The op computed by NumPy and SciPy for one batch element, where the first of ``numpy`` does not do
        that. With a parameter ``shape`` it gets the core dimensions of the result.
    """

    name: str
    signature: str
    numpy: tuple[Function, ...]
    forward: Callable
    reverse: Callable | None
    pullback: Callable | None = None
    pushforward: Callable | None = None
    scratch: str = "0"
    linear: bool = False
    bilinear: bool = False
    cases: tuple = ()
    make: Callable | None = None
    across: tuple[Callable, Callable] | None = None
    beside: str = ""
    one_module: bool = False
    two_tiers: str = ""
    extents: str = "True"
    failure: str = "Singular matrix"
    nonempty: bool = False
    adds_parts: Callable | None = None
    rooted: bool = False
    cut: str = ""
    part_of_rows: Callable | None = None
    part_of_sums: Callable | None = None
    light: bool = False
    stepwise: str = ""
    depends: Callable | None = None
    interacts: Callable | None = None
    oracle: Callable | None = None

    @cached_property
    def operands(self) -> tuple[tuple[str, ...], ...]:
        """Core dimensions, the result's first: ``(("m", "n"), ("m", "k"), ("k", "n"))``."""
        inputs, result = self.signature.split("->")
        groups = [result, *re.findall(r"\([^)]*\)", inputs)]
        return tuple(tuple(re.findall(r"\w+", group)) for group in groups)

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """Core sizes in order of first appearance, inputs before the result."""
        result, *inputs = self.operands
        return tuple(dict.fromkeys(letter for group in (*inputs, result) for letter in group))

    @property
    def arity(self) -> int:
        return len(self.operands) - 1

    @property
    def adds_at(self) -> bool:
        """Whether entries, the operand before the positions, are added at these to a result."""
        return self.cut not in ("", *self.operands[0])

    @property
    def differentiable(self) -> bool:
        return self.reverse is not None

    @property
    def jumps(self) -> bool:
        return self.calls or bool(self.index) or not self.differentiable


def parameters(kernel: Callable) -> tuple[str, ...]:
    """Return the names of a kernel's parameters, which say what it is called with."""
    code = kernel.__code__
    return code.co_varnames[: code.co_argcount]


Op = Elementwise | ArrayOp

_rows: list[Op] = []


def _functions(numpy) -> tuple[Function, ...]:
    return numpy if isinstance(numpy, tuple) else (numpy,)


def resolve(function: Function) -> Callable:
    """Return the function that an entry of ``op.numpy`` stands for; imports SciPy for "sc.psi"."""
    if not isinstance(function, str):
        return function
    import scipy.special

    return getattr(scipy.special, function.removeprefix("sc."))


def unary(name, value, numpy, domain=REAL, dx=None, dxx=None, **options):
    """Register an op of one operand."""
    second = {"xx": dxx} if dxx else {}
    _rows.append(Elementwise(name, value, _functions(numpy), (dx,), second, (domain,), **options))


def binary(
    name, value, numpy, domains=(REAL, REAL), dx=None, dy=None, dxx=None, dxy=None, dyy=None, **options
):
    """Register an op of two operands."""
    second = {k: f for k, f in (("xx", dxx), ("xy", dxy), ("yy", dyy)) if f}
    _rows.append(Elementwise(name, value, _functions(numpy), (dx, dy), second, domains, **options))


def ternary(name, value, numpy, domains, dx=None, dy=None, dw=None, second=None, **options):
    """Register an op of three operands."""
    _rows.append(Elementwise(name, value, _functions(numpy), (dx, dy, dw), second or {}, domains, **options))


def array_op(name, signature, numpy=(), **options):
    """Register the class that follows as an `ArrayOp`, with the functions in it that `ArrayOp` names."""

    def register(block):
        _rows.append(
            ArrayOp(
                name,
                signature,
                _functions(numpy),
                block.forward,
                getattr(block, "reverse", None),
                depends=getattr(block, "depends", None),
                interacts=getattr(block, "interacts", None),
                oracle=getattr(block, "oracle", None),
                pullback=getattr(block, "pullback", None),
                pushforward=getattr(block, "pushforward", None),
                across=(block.forward_across, block.reverse_across) if "beside" in options else None,
                **options,
            )
        )
        return block

    return register


def register_row(op: Op) -> None:
    """Register a row that was made elsewhere."""
    _rows.append(op)


def registered(name: str) -> Op:
    """Return a row that is there already."""
    return next(op for op in _rows if op.name == name)


def freeze() -> tuple[Op, ...]:
    """Return all rows in order; an op's opcode is its position."""
    names = [row.name for row in _rows]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"ops registered twice: {twice}"
    return tuple(_rows)
