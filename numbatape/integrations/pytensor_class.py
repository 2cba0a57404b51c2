"""The class of PyTensor ops. PyTensor is imported with this file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import TensorType, as_tensor_variable, zeros_like

from ..verbs.vjp import vjp


class NumbatapeOp(Op):
    """A function of a list of arrays, with a list of arrays as its result.

    Parameters
    ----------
    f : callable
    inputs, outputs : list of numpy.ndarray
        Examples, for dtypes and numbers of dimensions.
    source : callable
        The user's function, for the name.
    """

    __props__ = ("f",)

    def __init__(self, f, inputs, outputs, source):
        self.f, self._inputs, self._outputs, self._source = f, inputs, outputs, source
        self._pullback: NumbatapeOp | None = None

    def __str__(self) -> str:
        return f"numbatape({getattr(self._source, '__name__', self._source)})"

    def make_node(self, *variables):
        given = [as_tensor_variable(variable) for variable in variables]
        given = [
            v.astype(x.dtype) if v.dtype != x.dtype else v for v, x in zip(given, self._inputs, strict=True)
        ]
        for k, (variable, x) in enumerate(zip(given, self._inputs, strict=True)):
            if variable.ndim != x.ndim:
                raise TypeError(f"{self}: argument {k} has {variable.ndim} dimensions, its example {x.ndim}")
        types = [TensorType(str(y.dtype), (None,) * y.ndim) for y in self._outputs]
        return Apply(self, given, [kind() for kind in types])

    def perform(self, node, inputs, output_storage):
        for cell, value, example in zip(output_storage, self.f(*inputs), self._outputs, strict=True):
            cell[0] = np.asarray(value, example.dtype)

    def pullback(self, inputs, outputs, cotangents):
        floats = [k for k, x in enumerate(self._inputs) if x.dtype.kind == "f"]
        if self._pullback is None:
            self._pullback = NumbatapeOp(
                pulled(self.f, len(self._outputs)),
                [*(np.asarray(y) for y in self._outputs), *self._inputs],
                [self._inputs[k] for k in floats],
                f"pullback of {self}",
            )
        bars = [
            zeros_like(y) if isinstance(ct.type, DisconnectedType) else ct
            for y, ct in zip(outputs, cotangents, strict=True)
        ]
        found = iter(self._pullback(*bars, *inputs, return_list=True))
        return [next(found) if k in floats else disconnected_type() for k in range(len(inputs))]

    def connection_pattern(self, node):
        return [[x.dtype.kind == "f"] * len(self._outputs) for x in self._inputs]


if not hasattr(Op, "pullback"):  # PyTensor 2, with which PyMC 5 comes, has another name for it
    NumbatapeOp.L_op = NumbatapeOp.pullback


def pulled(f: Callable, count: int) -> Callable:
    """Return the pullback as a function of some cotangents and the arguments, with a list as its result."""

    def pullback(*leaves):
        cotangents, args = leaves[:count], leaves[count:]
        found = vjp(f, *args)[1](list(cotangents))
        return [part for part in found if part is not None]

    return pullback
