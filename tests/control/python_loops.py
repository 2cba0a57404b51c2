"""Structured control flow as plain Python: what the functions of `numbatape.control` must agree with."""

import numpy as np
import optree


class Python:
    """The loops as ordinary Python code, which a trace unrolls."""

    @staticmethod
    def scan(f, init, xs=None, length=None, reverse=False):
        arrays, structure = optree.tree_flatten(xs, none_is_leaf=False)
        count = len(arrays[0]) if arrays else length
        order = range(count - 1, -1, -1) if reverse else range(count)
        outputs = []
        for k in order:
            init, y = f(init, optree.tree_unflatten(structure, [x[k] for x in arrays]))
            outputs.append(y)
        if reverse:
            outputs.reverse()
        return init, optree.tree_map(lambda *rows: np.stack(rows), *outputs) if outputs else None

    @staticmethod
    def fori_loop(lower, upper, body, carry):
        for i in range(lower, upper):
            carry = body(i, carry)
        return carry

    @staticmethod
    def map(f, xs):
        return Python.scan(lambda carry, x: (carry, f(x)), None, xs)[1]

    @staticmethod
    def cond(pred, true_fun, false_fun, *operands):
        return true_fun(*operands) if pred else false_fun(*operands)

    @staticmethod
    def switch(index, branches, *operands):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    @staticmethod
    def while_loop(cond_fun, body_fun, carry, max_steps=None):
        while cond_fun(carry):
            carry = body_fun(carry)
        return carry
