"""One-shot verbs: prepare on first use, cached per function, structure, dtypes and sizes."""

from __future__ import annotations

import functools

import numpy as np
import optree

from .caches.arguments import Flattened, as_constant, require_active, require_floats
from .caches.base import parameter_names, python_function
from .caches.program import Evaluator, VariantWorkspace
from .caches.pullback import seed_cotangent
from .caches.registry import shelf_of
from .caches.results import gradients_of, scalar_output, seed_output, value_and_aux, value_of
from .errors import SpecError
from .tape.tape import ACTIVE
from .trace import pytrees
from .trace.array import TracedArray
from .trace.primitives import stop_gradient as _stop_traced
from .trace.record import Output


def _argnums(argnums, count: int) -> tuple[int, ...]:
    chosen = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    for k in chosen:
        if not isinstance(k, (int, np.integer)) or not -count <= k < count:
            raise SpecError(f"argnums={argnums!r} names argument {k}, but there are {count} arguments")
    return tuple(int(k) % count for k in chosen)


def _flatten(args, kwargs, chosen, names) -> Flattened:
    """Take the arguments of a call apart; all but the chosen ones are constants."""
    roles = tuple(arg if k in chosen else as_constant(arg) for k, arg in enumerate(args))
    flat = Flattened(roles, {name: as_constant(value) for name, value in kwargs.items()}, names)
    require_floats(flat, chosen)
    return flat


def value_and_grad(f, argnums=0, has_aux=False):
    """Return a function that computes the value and the gradient of ``f``.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar, or ``(scalar, aux)``.
    argnums : int or tuple of int
        What to differentiate with respect to. The other arguments are constants.
    has_aux : bool
        ``f`` returns ``(value, aux)``; aux is passed through.

    Returns
    -------
    callable
        ``g(*args, **kwargs)`` → ``(value, gradient)`` or ``((value, aux), gradient)``; the
        gradient has the structure of the argument, and is a tuple if ``argnums`` is one.

    Raises
    ------
    SpecError, OutputError, UnsupportedOperationError
        From the call; see `prepare_gradient_cache`. Integers cannot be differentiated.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.value_and_grad(lambda x, y: np.sum(x * y), argnums=(0, 1))(np.ones(2), np.arange(2.0))
    (np.float64(1.0), (array([0., 1.]), array([1., 1.])))
    """
    target, names = python_function(f), parameter_names(f)
    shelf = shelf_of(target)
    scalar = value_and_aux if has_aux else scalar_output
    single = isinstance(argnums, (int, np.integer))

    @functools.wraps(f)
    def call(*args, **kwargs):
        chosen = _argnums(argnums, len(args))
        flat = _flatten(args, kwargs, chosen, names)
        evaluator, idle = shelf.borrow(target, flat)
        space = evaluator.forward(flat)
        seed_output(space, scalar(space.variant.recording))
        space.reverse()
        value, grads = value_of(space), gradients_of(flat, space)
        idle.append(evaluator)
        return value, grads[chosen[0]] if single else tuple(grads[k] for k in chosen)

    return call


def grad(f, argnums=0, has_aux=False):
    """Return a function that computes the gradient of ``f``.

    Parameters are those of `value_and_grad`.

    Returns
    -------
    callable
        ``g(*args, **kwargs)`` → gradient, or ``(gradient, aux)`` with ``has_aux``.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
    array([1., 1., 1.])
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def call(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return call


def derivative(f):
    """Return the derivative of a function of one scalar; the output may have any shape.

    Parameters
    ----------
    f : callable
        Function of one float (further arguments are constants).

    Returns
    -------
    callable
        ``g(x, *constants)`` → derivative, with the structure and shapes of ``f``'s result.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> float(nt.derivative(np.sin)(0.0))
    1.0
    >>> nt.derivative(lambda t: np.stack([t, t**2]))(3.0)
    array([1., 6.])
    """
    target, names = python_function(f), parameter_names(f)
    shelf = shelf_of(target)

    @functools.wraps(f)
    def call(x, *constants, **kwargs):
        if np.ndim(_plain(x)) != 0:
            raise SpecError(
                f"derivative needs a function of one scalar, got shape {np.shape(_plain(x))}; "
                "perhaps you meant grad or jacobian"
            )
        flat = _flatten((x, *constants), kwargs, (0,), names)
        evaluator, idle = shelf.borrow(target, flat)
        result = _columns(evaluator.forward(flat))
        idle.append(evaluator)
        return result

    return call


def _plain(x):
    return x._value if x.__class__ is TracedArray else x


def _columns(space: VariantWorkspace):
    """Return the derivative of every output: a reverse sweep an entry."""
    recording = space.variant.recording
    gradient = next(view for view in space.gradients if view is not None)
    entries = np.zeros(space.seed.size)
    active = any(level == ACTIVE for level in recording.levels)
    for k in range(space.seed.size if active else 0):
        space.seed[...] = 0.0
        space.seed[k] = 1.0
        space.reverse()
        entries[k] = gradient[()]
    first = 0
    parts = []
    for kept, level in zip(recording.values, recording.levels, strict=True):
        size = np.size(kept)
        part = entries[first : first + size] if level == ACTIVE else np.zeros(size)
        first += size if level == ACTIVE else 0
        part = part.reshape(np.shape(kept)).astype(_tangent_dtype(kept))
        parts.append(part if isinstance(kept, np.ndarray) else part[()])

    def derivative_of(leaf):
        if leaf.__class__ is Output:
            return parts[leaf.number]
        return np.zeros(np.shape(leaf), _tangent_dtype(leaf))[()]

    return optree.tree_map(derivative_of, recording.result, none_is_leaf=True, namespace=pytrees.NAMESPACE)


def _tangent_dtype(value) -> np.dtype:
    dtype = np.asarray(value).dtype
    return dtype if dtype.kind == "f" else np.dtype(float)


def vjp(f, *primals):
    """Return the value of ``f`` and its pullback at some point.

    Parameters
    ----------
    f : callable
        Function with any output.
    *primals
        Where to evaluate it.

    Returns
    -------
    value
        ``f(*primals)``.
    pullback : callable
        ``pullback(ybar)`` → tuple, one entry an argument. It owns its forward state: pullbacks of
        several calls may be alive at once.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> y, pullback = nt.vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.ones(2))
    (array([2., 4.]),)
    """
    target = python_function(f)
    flat = Flattened(primals, {}, parameter_names(f))
    require_active(flat)
    # An evaluator of its own: nobody else touches the state that the pullback reads.
    space = Evaluator(shelf_of(target).program(target, flat)).forward(flat)

    def pullback(ybar):
        seed_cotangent(space, ybar)
        space.reverse()
        return gradients_of(flat, space)

    return value_of(space), pullback


def stop_gradient(x):
    """Return a copy of ``x`` with zero derivative.

    Parameters
    ----------
    x
        Traced or plain array or number, or a pytree of them.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: x[0] * nt.stop_gradient(x)[1])(np.array([3.0, 4.0]))
    array([4., 0.])
    """
    return optree.tree_map(
        lambda leaf: (
            _stop_traced(leaf)
            if leaf.__class__ is TracedArray
            else leaf.copy()
            if isinstance(leaf, np.ndarray)
            else leaf
        ),
        x,
        none_is_leaf=True,
        namespace=pytrees.NAMESPACE,
    )
