"""The class of PyTensor ops. PyTensor is imported with this file."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.ops import JAXOp
from pytensor.link.numba.dispatch.basic import get_numba_type, numba_funcify, numba_njit
from pytensor.tensor import TensorType, as_tensor_variable, zeros_like

from ..verbs.vjp import vjp
from .jax_functions import as_jax_function


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
        self._jax: Callable | None = None

    def __getstate__(self):
        return self.__dict__ | {"_jax": None}  # JAX's functions cannot be copied to other processes

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
        for cell, value in zip(output_storage, self.arrays(inputs), strict=True):
            cell[0] = value

    def arrays(self, inputs) -> tuple:
        """Return the outputs."""
        with np.errstate(all="ignore"):  # compiled ops give no warnings either
            found = self.f(*inputs)
        return tuple(np.asarray(value, like.dtype) for value, like in zip(found, self._outputs, strict=True))

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

    def perform_jax(self, *inputs):
        """Return the outputs for PyTensor's JAX linker, which asks the ops of the class `JAXOp` so."""
        if self._jax is None:
            # If the result is a number, JAX gets its gradient from the same sweep.
            one = len(self._outputs) == 1
            self._jax = as_jax_function(first_of(self.f) if one else self.f, *self._inputs)
        found = self._jax(*inputs)
        return found if len(self._outputs) == 1 else tuple(found)

    def connection_pattern(self, node):
        return [[x.dtype.kind == "f"] * len(self._outputs) for x in self._inputs]


JAXOp.register(NumbatapeOp)  # the linker finds it by class, and nobody has to import JAX for that
if not hasattr(Op, "pullback"):  # PyTensor 2, with which PyMC 5 comes, has another name for it
    NumbatapeOp.L_op = NumbatapeOp.pullback


@numba_funcify.register(NumbatapeOp)
def _in_numba(op, node, **_):
    """Return the function by which code that Numba has compiled calls Python for an op.

    PyTensor has one for all ops that it does not know, with a warning.
    """
    kinds = [get_numba_type(output.type) for output in node.outputs]
    kind = kinds[0] if len(kinds) == 1 else numba.types.Tuple(kinds)

    def in_python(inputs):
        found = op.arrays(inputs)
        return found[0] if len(found) == 1 else found

    @numba_njit
    def call(*inputs):
        with numba.objmode(found=kind):
            found = in_python(inputs)
        return found

    return call


def pulled(f: Callable, count: int) -> Callable:
    """Return the pullback as a function of some cotangents and the arguments, with a list as its result."""

    def pullback(*leaves):
        cotangents, args = leaves[:count], leaves[count:]
        found = vjp(f, *args)[1](list(cotangents))
        return [part for part in found if part is not None]

    return pullback


def first_of(f: Callable) -> Callable:
    """Return a function of whose list of results there is one as the function that returns this result."""

    def first(*leaves):
        return f(*leaves)[0]

    first.__wrapped__ = f  # type: ignore[attr-defined]  # what it captures is watched
    return first
