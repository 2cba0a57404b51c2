"""What the verbs share: which arguments are differentiated, and a call taken apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..caches.arguments import Flattened, as_constant, require_floats
from ..caches.complex_leaves import require_complex
from ..errors import ForeignTraceError, SpecError
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.trace import current


def dispatch(trees, outer: Callable, inner: Callable):
    """Return ``outer()``, or ``inner()`` inside of a function that is being traced.

    On plain arguments a derivative is computed then and there, unless the function turns out to use
    traced values from outside.
    """
    if current() is None:
        return outer()
    if not any(leaf.__class__ is TracedArray for leaf in pytrees.leaves(trees)):
        try:
            return outer()
        except ForeignTraceError:
            pass
    return inner()


def chosen_arguments(argnums, count: int) -> tuple[int, ...]:
    """Return the argument numbers that ``argnums`` names."""
    chosen = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    for k in chosen:
        if not isinstance(k, (int, np.integer)) or not -count <= k < count:
            raise SpecError(f"argnums={argnums!r} names argument {k}, but there are {count} arguments")
    return tuple(int(k) % count for k in chosen)


def flatten_call(args, kwargs, chosen, names, holomorphic: bool = False) -> Flattened:
    """Take the arguments of a call apart; all but the chosen ones are constants."""
    roles = tuple(arg if k in chosen else as_constant(arg) for k, arg in enumerate(args))
    flat = Flattened(roles, {name: as_constant(value) for name, value in kwargs.items()}, names, holomorphic)
    require_floats(flat, chosen)
    if holomorphic:
        require_complex(flat)
    return flat
