"""One-shot verbs: prepare on first use, cached per function, structure, dtypes and sizes."""

from __future__ import annotations

import functools
import weakref

import numpy as np
import optree

from .caches.arguments import NAMESPACE, STATIC, Constant, Flattened, Static
from .caches.base import PreparedCache, parameter_names, python_function
from .caches.gradient import GradientCache
from .caches.program import Evaluator, Program
from .caches.pullback import PullbackCache
from .caches.registry import Pool
from .config import Config
from .errors import DtypeError, OutputError, SpecError
from .tape.tape import ACTIVE
from .trace.array import TracedArray
from .trace.primitives import stop_gradient as _stop_traced
from .trace.record import Output


def _argnums(argnums, count: int) -> tuple[int, ...]:
    chosen = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    for k in chosen:
        if not isinstance(k, (int, np.integer)) or not -count <= k < count:
            raise SpecError(f"argnums={argnums!r} names argument {k}, but there are {count} arguments")
    return tuple(int(k) % count for k in chosen)


def _with_roles(args, kwargs, chosen) -> tuple[tuple, dict]:
    """Make constants of the arguments that are not differentiated."""

    def role(k, arg):
        return arg if k in chosen or isinstance(arg, (Constant, Static)) else Constant(arg)

    marked = {k: v if isinstance(v, (Constant, Static)) else Constant(v) for k, v in kwargs.items()}
    return tuple(role(k, arg) for k, arg in enumerate(args)), marked


def _require_floats(flat: Flattened, chosen) -> None:
    """Raise for an argument without any float; integers inside of a container are constants."""
    for argument in chosen:
        own = [(v, s) for v, s in zip(flat.leaves, flat.specs, strict=True) if s.argument == argument]
        if any(spec.level == ACTIVE for _, spec in own):
            continue
        for leaf, spec in own:
            what = str(spec.dtype) if spec.dtype is not None else type(leaf).__name__
            raise DtypeError(
                f"{spec.path} is {what}: only float64 and float32 can be differentiated; pass a float "
                "(x.astype(float)), or leave it out of argnums"
            )
        raise DtypeError(f"argument {argument} is empty: there is nothing to differentiate")


class _AuxGradientCache(PreparedCache):
    """A gradient cache of a function that returns ``(value, aux)``."""

    def _check_output(self, space) -> None:
        _aux_output(space.variant.recording)

    def run(self, flat):
        space = self._evaluator.forward(flat)
        output = _aux_output(space.variant.recording)
        value = self._value(space)
        space.seed[...] = 0.0
        if output is not None:
            first = 0
            for number, level in enumerate(space.variant.recording.levels):
                if level == ACTIVE:
                    cells = space.outputs[number].size
                    space.seed[first : first + cells] = 1.0 if number == output.number else 0.0
                    first += cells
        space.reverse()
        self._space = space
        return value, self._gradients(flat, space)


def _aux_output(recording):
    from dataclasses import replace

    from .caches.base import scalar_output

    result = recording.result
    if not isinstance(result, tuple) or len(result) != 2:
        raise OutputError(
            f"has_aux=True needs a function that returns (value, aux), got {type(result).__name__}"
        )
    return scalar_output(replace(recording, result=result[0]))


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
    cls = _AuxGradientCache if has_aux else GradientCache
    names = parameter_names(f)

    def prepare(flat: Flattened):
        cache = cls(Program(python_function(f), flat, Config()), {})
        cache._names = names
        cache._space = cache._evaluator.forward(flat)
        cache._check_output(cache._space)
        return cache

    pool = Pool(prepare)

    @functools.wraps(f)
    def call(*args, **kwargs):
        chosen = _argnums(argnums, len(args))
        marked, marked_kwargs = _with_roles(args, kwargs, chosen)
        flat = Flattened(marked, marked_kwargs, names)
        _require_floats(flat, chosen)
        cache, shelf = pool.borrow(flat)
        value, grads = cache.run(flat) if has_aux else cache._evaluate(flat)
        shelf.append(cache)  # a call that raised drops its cache; the next one clones
        single = isinstance(argnums, (int, np.integer))
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
    names = parameter_names(f)

    def prepare(flat: Flattened):
        cache = PullbackCache(Program(python_function(f), flat, Config()), {})
        cache._space = cache._evaluator.forward(flat)
        return cache

    pool = Pool(prepare)

    @functools.wraps(f)
    def call(x, *constants, **kwargs):
        if np.ndim(_plain(x)) != 0:
            raise SpecError(
                f"derivative needs a function of one scalar, got shape {np.shape(_plain(x))}; "
                "perhaps you meant grad or jacobian"
            )
        marked, marked_kwargs = _with_roles((x, *constants), kwargs, (0,))
        flat = Flattened(marked, marked_kwargs, names)
        _require_floats(flat, (0,))
        cache, shelf = pool.borrow(flat)
        result = _columns(cache, flat)
        shelf.append(cache)
        return result

    return call


def _plain(x):
    return x._value if x.__class__ is TracedArray else x


def _columns(cache: PullbackCache, flat: Flattened):
    """Return the derivative of every output: one forward sweep, a reverse sweep an entry."""
    space = cache._evaluator.forward(flat)
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
        size = np.size(kept) if level == ACTIVE else 0
        dtype = np.asarray(kept).dtype
        part = entries[first : first + size] if size else np.zeros(np.size(kept))
        part = part.reshape(np.shape(kept)).astype(dtype if dtype.kind == "f" else float)
        parts.append(part if isinstance(kept, np.ndarray) else part[()])
        first += size
    return optree.tree_map(
        lambda leaf: parts[leaf.number] if leaf.__class__ is Output else np.zeros(np.shape(leaf))[()],
        recording.result,
        none_is_leaf=True,
        namespace=NAMESPACE,
    )


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
    names = parameter_names(f)
    flat = Flattened(primals, {}, names)
    if not any(spec.level == ACTIVE for spec in flat.specs):
        raise DtypeError("nothing to differentiate: no argument is float64 or float32")
    cache = PullbackCache(_program_of(f, flat), {})
    cache._evaluator = Evaluator(cache._program)
    space = cache._space = cache._evaluator.forward(flat)
    value = cache._value(space)

    def pullback(ybar):
        cache.seed(space, ybar)
        space.reverse()
        return cache._gradients(flat, space)

    return value, pullback


_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _program_of(f, flat: Flattened) -> Program:
    """Return the program of a function for a signature; traces are shared between `vjp` calls."""
    target = python_function(f)
    key = (flat.structure, tuple((s.level, s.dtype, s.ndim, s.kind) for s in flat.specs))
    try:
        shelf = _programs.setdefault(target, {})
    except TypeError:  # cannot be hashed or weakly referenced: trace in each call
        return Program(target, flat, Config())
    if key not in shelf:
        shelf[key] = Program(target, flat, Config())
    return shelf[key]


def stop_gradient(x):
    """Return ``x``, with zero derivative.

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
        lambda leaf: _stop_traced(leaf) if leaf.__class__ is TracedArray else leaf,
        x,
        none_is_leaf=True,
        namespace=NAMESPACE,
    )
