"""``np.einsum``: diagonal views, sums, and pairwise contractions through matrix products."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from ..tape.tape import as_dtype
from ..trace.array import TracedArray
from ..trace.axes import drop_axes, merge, over_axes, unmerge
from ..trace.operands import adopt, find_trace, lift, values_of
from ..trace.primitives import array_instruction, elementwise, expand, layout_of, transpose
from .products import multiply_matrices
from .registration import records


@dataclass(frozen=True)
class Term:
    """An operand with one label per axis."""

    array: TracedArray
    labels: str


def parse(subscripts: str, arrays) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result; broadcast axes get labels of their own."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    spare = [c for c in string.ascii_letters if c not in text]
    terms = []
    width = 0
    for labels, x in zip(inputs.split(","), arrays, strict=True):
        count = np.ndim(x) - len(labels.replace("...", "")) if "..." in labels else 0
        width = max(width, count)
        terms.append(labels.replace("...", _aligned(spare, count)))
    broadcast = _aligned(spare, width)
    if arrow:
        return terms, output.replace("...", broadcast)
    every = "".join(terms)
    once = sorted(c for c in set(every) if every.count(c) == 1 and c not in broadcast)
    return terms, broadcast + "".join(once)


def _aligned(labels, count: int) -> str:
    """Return labels of broadcast axes, which align at the right: the last is the first label."""
    return "".join(reversed(labels[:count]))


def interleaved(operands) -> tuple[str, list]:
    """Return the text and arrays of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    arrays, lists = list(operands[:-1:2]), list(operands[1::2])
    result = operands[-1] if len(operands) % 2 else None
    labels = sorted({k for entry in lists for k in entry if k is not Ellipsis})
    letter = dict(zip(labels, string.ascii_letters, strict=False))

    def text(entry):
        return "".join("..." if k is Ellipsis else letter[k] for k in entry)

    subscripts = ",".join(map(text, lists))
    return (subscripts if result is None else f"{subscripts}->{text(result)}"), arrays


@records(np.einsum, complex="complex_products.einsum", several=True)
def einsum(value, *operands, out=None, optimize=False, dtype=None, order="K", casting="safe"):
    in_words = isinstance(operands[0], str)
    subscripts, arrays = (operands[0], operands[1:]) if in_words else interleaved(operands)
    trace = find_trace(arrays)
    arrays = [lift(trace, x) for x in arrays]
    if dtype is not None:  # `value` says that the rule for casting allows it
        arrays = [np.astype(x, as_dtype(dtype)) for x in arrays]
    labels, output = parse(subscripts, values_of(arrays))
    terms = [_without_repeats(Term(x, its)) for x, its in zip(arrays, labels, strict=True)]
    terms = _without_ones(terms)
    for pair in _order(subscripts, arrays):
        chosen = [terms[k] for k in sorted(pair)]
        terms = [term for k, term in enumerate(terms) if k not in pair]
        while len(chosen) > 1:
            first, second, *chosen = chosen
            needed = set(output).union(*(term.labels for term in (*terms, *chosen)))
            chosen.insert(0, contract_pair(first, second, needed))
        terms.append(chosen[0])
    result = _arranged(terms[0], output)
    if value.dtype == bool:
        result = np.not_equal(result, 0)  # cells hold the number of true products
    return adopt(result, value)


def _order(subscripts, arrays) -> list[tuple[int, ...]]:
    if len(arrays) <= 2:
        return [tuple(range(len(arrays)))]
    return np.einsum_path(subscripts, *values_of(arrays), optimize="greedy")[0][1:]


def _without_repeats(term: Term) -> Term:
    """Turn ``ii`` into the view of the diagonal."""
    x, labels = term.array, term.labels
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = np.diagonal(x, 0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return Term(x, labels)


def _without_ones(terms: list[Term]) -> list[Term]:
    """Drop axes of size one whose label is longer elsewhere: they broadcast."""
    longest: dict[str, int] = {}
    for term in terms:
        for label, n in zip(term.labels, np.shape(term.array._value), strict=True):
            longest[label] = n if longest.get(label, 1) == 1 else longest[label]
    result = []
    for term in terms:
        shape = np.shape(term.array._value)
        drop = [k for k, label in enumerate(term.labels) if shape[k] == 1 != longest[label]]
        labels = "".join(label for k, label in enumerate(term.labels) if k not in drop)
        result.append(Term(drop_axes(term.array, drop) if drop else term.array, labels))
    return result


def _summed(term: Term, keep) -> Term:
    axes = [k for k, label in enumerate(term.labels) if label not in keep]
    if not axes:
        return term
    labels = "".join(label for label in term.labels if label in keep)
    return Term(over_axes("sum", term.array, axes, np.sum), labels)


def _arranged(term: Term, output: str):
    """Return the array with the result's axes in order."""
    term = _summed(term, output)
    return transpose(term.array, [term.labels.index(label) for label in output])


def contract_pair(a: Term, b: Term, needed) -> Term:
    """Return the product of two terms, summed over the labels that no other term and no result needs."""
    a, b = _summed(a, {*needed, *b.labels}), _summed(b, {*needed, *a.labels})
    common = [label for label in a.labels if label in b.labels]
    batch = [label for label in common if label in needed]
    inner = [label for label in common if label not in needed]
    rows = [label for label in a.labels if label not in common]
    columns = [label for label in b.labels if label not in common]
    left = transpose(a.array, [a.labels.index(label) for label in (*batch, *rows, *inner)])
    right = transpose(b.array, [b.labels.index(label) for label in (*batch, *inner, *columns)])
    labels = "".join((*batch, *rows, *columns))
    if not inner:
        return Term(_outer(left, right, len(batch), len(rows), len(columns)), labels)
    ones = [1] * len(batch)
    left = merge(left, [*ones, len(rows), len(inner)])
    right = merge(right, [*ones, len(inner), len(columns)])
    if not rows and not columns:
        left, right = drop_axes(left, (-2,)), drop_axes(right, (-1,))
        dots = array_instruction("dot", (left, right), np.vecdot(left._value, right._value))
        return Term(dots, labels)
    size = {}
    for term in (a, b):
        size.update(zip(term.labels, layout_of(term.array).dims, strict=True))
    return Term(unmerge(multiply_matrices(left, right), [size[label] for label in labels]), labels)


def _outer(left, right, batch: int, rows: int, columns: int):
    total = batch + rows + columns
    if columns:
        left = expand(left, tuple(range(batch + rows, total)))
    if rows:
        right = expand(right, tuple(range(batch, batch + rows)))
    return elementwise("mul", left, right)
