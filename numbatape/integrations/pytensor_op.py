"""`as_pytensor_op`: a function as an op of PyTensor, for models of PyMC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..late import imported
from ..trace import pytrees
from .vector_functions import package, traced


def as_pytensor_op(f: Callable[..., Any], *examples: Any) -> Any:
    """Return a function of PyTensor variables that computes what ``f`` does, and can be differentiated.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of arrays and containers of arrays, which returns arrays.
    *examples : arrays, numbers, or pytrees of them
        Arguments with the structures, numbers of dimensions and dtypes of those to come.

    Returns
    -------
    callable
        Takes variables, or containers of variables, of the same structure; returns variables in the
        structure of ``f``'s result. ``pytensor.grad`` of them works to any order.

    Raises
    ------
    ModuleNotFoundError
        If PyTensor is not installed.
    TypeError
        If there are no examples, or the result holds what is no array.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import as_pytensor_op
    >>> logp = as_pytensor_op(lambda x: -0.5 * np.sum(x**2), np.zeros(3))  # doctest: +SKIP
    >>> x = pytensor.tensor.vector("x")  # doctest: +SKIP
    >>> pytensor.function([x], pytensor.grad(logp(x), x))(np.ones(3))  # doctest: +SKIP
    array([-1., -1., -1.])
    """
    package("pytensor", "as_pytensor_op")
    pytensor_class = imported(".pytensor_class", __package__)
    if not examples:
        raise TypeError(
            "as_pytensor_op needs examples of the function's arguments, for their dtypes and dimensions"
        )
    inputs, structure = pytrees.flatten(examples)
    with np.errstate(all="ignore"):  # they are for dimensions and dtypes, many are zeros
        outputs, whole = pytrees.flatten(f(*examples))
    for leaf in (*inputs, *outputs):
        if np.asarray(leaf).dtype.kind not in "fiub":
            raise TypeError(
                f"as_pytensor_op is of real arrays and containers of them, got {type(leaf).__name__}"
            )

    def of_leaves(*leaves):
        return pytrees.flatten(traced(f)(*pytrees.unflatten(structure, leaves)))[0]

    of_leaves.__wrapped__ = f  # type: ignore[attr-defined]
    op = pytensor_class.NumbatapeOp(
        of_leaves, [np.asarray(x) for x in inputs], [np.asarray(y) for y in outputs], f
    )

    def call(*variables):
        found = op(*structure.flatten_up_to(variables), return_list=True)
        return pytrees.unflatten(whole, found)

    call.op = op  # type: ignore[attr-defined]
    return call
