"""Functions as PyTorch's: `as_torch_function`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..trace import pytrees
from ..verbs.directions import jvp
from ..verbs.vjp import vjp
from .vector_functions import package


def as_torch_function(f: Callable[..., Any]) -> Any:
    """Return a function of PyTorch's tensors that computes what ``f`` does, and has derivatives.

    It is a ``torch.autograd.Function``: tensors become NumPy arrays (without a copy on the CPU), and
    ``backward`` is the pullback of ``f``, which can be differentiated again, to any order. It works with
    ``torch.func``, too: grad, jvp, hessian, and vmap (point by point). dtypes stay: float32 in PyTorch is
    float32 in NumPy.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of arrays, numbers and containers of them, which returns such.

    Returns
    -------
    callable
        Function of tensors, numbers and containers of them. Tensors of floats are differentiated; everything
        else is data. All numbers and arrays of the result become tensors.

    Raises
    ------
    ModuleNotFoundError
        If PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import as_torch_function
    >>> f = as_torch_function(lambda x: np.sum(np.sin(x) ** 2))  # doctest: +SKIP
    >>> x = torch.ones(2, requires_grad=True)  # doctest: +SKIP
    >>> f(x).backward(); x.grad  # doctest: +SKIP
    tensor([0.9093, 0.9093])
    """
    torch = package("torch", "as_torch_function")
    if not callable(f):
        raise TypeError(f"{f!r} is not callable")
    operations: dict = {}  # the keys are structures of the arguments

    def function(*args):
        leaves, structure = pytrees.flatten(args)
        if structure not in operations:
            operations[structure] = _OfLeaves(f, structure)
        found = _node(torch).apply(operations[structure], *leaves)
        return pytrees.unflatten(operations[structure].output, list(found))

    function.__name__ = function.__qualname__ = getattr(f, "__name__", "function")
    function.__doc__ = f.__doc__
    return function


class _Operation:
    """A function of leaves that returns a tuple of leaves, and its derivatives as such functions.

    Parameters
    ----------
    value : callable
    run : callable, optional
        Does the same for plain numbers, and notes what a traced function may not note: it would then run in
        each call.
    """

    def __init__(self, value: Callable, run: Callable | None = None):
        self.value, self.run = value, run or value
        self._derived: dict = {}

    def pullback(self, chosen: tuple[int, ...], count: int) -> _Operation:
        """Return the function from the cotangents of ``count`` results, and arguments, to some cotangents."""

        def pulled(*given):
            found = vjp(self.value, *given[count:])[1](given[:count])
            return tuple(np.zeros_like(given[count + k]) if found[k] is None else found[k] for k in chosen)

        key = chosen, count
        if key not in self._derived:
            self._derived[key] = _Operation(pulled)
        return self._derived[key]

    def pushforward(self, count: int) -> _Operation:
        """Return the function from ``count`` arguments, and a tangent for each, to the results' tangents."""

        def pushed(*given):
            return jvp(self.value, given[:count], given[count:])[1]

        if count not in self._derived:
            self._derived[count] = _Operation(pushed)
        return self._derived[count]


class _OfLeaves(_Operation):
    """A function of trees as one of leaves.

    Attributes
    ----------
    output
        The structure of the last result.
    """

    def __init__(self, f: Callable, structure):
        self.output: Any = None

        def value(*leaves):
            return tuple(pytrees.leaves(f(*pytrees.unflatten(structure, leaves))))

        def run(*leaves):
            parts, self.output = pytrees.flatten(f(*pytrees.unflatten(structure, leaves)))
            return tuple(parts)

        super().__init__(value, run)


@cache
def _node(torch):
    """Return the class whose ``apply`` runs an operation, and has the operation's derivatives."""

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(operation, *leaves):
            given = [leaf.detach().cpu().numpy() if torch.is_tensor(leaf) else leaf for leaf in leaves]
            device = next((leaf.device for leaf in leaves if torch.is_tensor(leaf)), None)
            return tuple([torch.tensor(np.asarray(part), device=device) for part in operation.run(*given)])

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.operation, *leaves = inputs
            ctx.tensors = [k for k, leaf in enumerate(leaves) if torch.is_tensor(leaf)]
            ctx.leaves = [None if torch.is_tensor(leaf) else leaf for leaf in leaves]
            saved = [leaves[k] for k in ctx.tensors]
            ctx.save_for_backward(*saved)
            ctx.save_for_forward(*saved)
            ctx.count = len(output)
            ctx.mark_non_differentiable(*[part for part in output if not part.is_floating_point()])

        @staticmethod
        def backward(ctx, *bars):
            leaves = Node.leaves_of(ctx)
            chosen = tuple(k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
            found = iter(Node.apply(ctx.operation.pullback(chosen, ctx.count), *bars, *leaves))
            return None, *[next(found) if k in chosen else None for k in range(len(leaves))]

        @staticmethod
        def jvp(ctx, _, *tangents):
            leaves = Node.leaves_of(ctx)
            filled = [
                torch.zeros_like(leaf) if torch.is_tensor(leaf) and tangent is None else tangent
                for leaf, tangent in zip(leaves, tangents, strict=True)
            ]
            return tuple(Node.apply(ctx.operation.pushforward(len(leaves)), *leaves, *filled))

        @staticmethod
        def vmap(info, places, operation, *leaves):
            rows = []
            for k in range(info.batch_size):
                pairs = zip(leaves, places[1:], strict=True)
                point = [leaf if at is None else leaf.select(at, k) for leaf, at in pairs]
                rows.append(Node.apply(operation, *point))
            stacked = tuple(map(torch.stack, zip(*rows, strict=True)))
            return stacked, (0,) * len(stacked)

        @staticmethod
        def leaves_of(ctx) -> list:
            leaves = list(ctx.leaves)
            for k, tensor in zip(ctx.tensors, ctx.saved_tensors, strict=True):
                leaves[k] = tensor
            return leaves

    return Node
