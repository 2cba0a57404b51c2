"""Functions as JAX's: `as_jax_function`, and log-densities for blackjax and numpyro."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..trace import pytrees
from ..verbs.first_order import value_and_grad
from ..verbs.vjp import vjp
from .vector_functions import density_of, package, require_finite_start


def as_jax_function(f: Callable[..., Any], *examples: Any) -> Any:
    """Return a function of JAX arrays that computes what ``f`` does, and has derivatives by reverse mode.

    JAX calls back into Python for the value, and for the pullback. It works inside of ``jax.jit``,
    ``jax.vmap`` (point by point) and ``jax.grad``, to any order; forward mode (``jax.jvp``,
    ``jax.hessian``, which uses it) is JAX's error for such functions. Numbers are computed in the dtypes of
    the examples, and returned in JAX's: float32 unless ``jax_enable_x64`` is set.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of arrays and containers of arrays, which returns arrays.
    *examples : arrays, numbers, or pytrees of them
        Arguments with the structures, shapes and dtypes of those to come.

    Returns
    -------
    callable
        A JAX function of the same arguments.

    Raises
    ------
    ModuleNotFoundError
        If JAX is not installed.
    TypeError
        If there are no examples, or later arguments have other structures or shapes, or a container is of
        a class that JAX does not know.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import as_jax_function
    >>> f = as_jax_function(lambda x: np.sum(x**3), np.zeros(2))  # doctest: +SKIP
    >>> jax.jit(jax.grad(f))(jax.numpy.ones(2))  # doctest: +SKIP
    Array([3., 3.], dtype=float32)
    """
    jax = package("jax", "as_jax_function")
    if not examples:
        raise TypeError(
            "as_jax_function needs examples of the function's arguments, for the shapes of its result"
        )
    return _function(jax, f, [_plain(example) for example in examples])


def _function(jax, f: Callable, examples: list):
    """Return a JAX function that calls ``f``, whose derivatives come from sweeps, too."""
    tree = jax.tree_util
    with np.errstate(all="ignore"):  # the examples are for shapes and dtypes, many are zeros
        results = f(*examples)
    _require_known(jax, examples, "an example")
    _require_known(jax, results, "the result")
    inputs = [leaf.dtype for leaf in tree.tree_leaves(examples)]
    expected = tree.tree_map(lambda x: jax.ShapeDtypeStruct(np.shape(x), _jax_dtype(jax, x)), results)

    def computed(*args):
        leaves, structure = tree.tree_flatten(list(args))
        arrays = [np.asarray(x, dtype)[()] for x, dtype in zip(leaves, inputs, strict=True)]
        with np.errstate(all="ignore"):  # what JAX has compiled gives no warnings either
            found = f(*tree.tree_unflatten(structure, arrays))
        likes, whole = tree.tree_flatten(expected)
        parts = zip(tree.tree_leaves(found), likes, strict=True)
        return tree.tree_unflatten(whole, [np.asarray(x, like.dtype) for x, like in parts])

    @jax.custom_vjp
    def function(*args):
        _require_alike(jax, args, examples)  # what a callback raises, JAX shows as an internal error
        return jax.pure_callback(computed, expected, *args, vmap_method="sequential")

    # The derivatives are JAX functions of the same kind, made when somebody differentiates.
    if pytrees.flatten(results)[1] == pytrees.LEAF and np.ndim(results) == 0:
        both = lru_cache(maxsize=1)(lambda: _function(jax, _value_and_slopes(f), examples))

        def forward(*args):  # One sweep computes the value and the gradient.
            return both()(*args)

        def backward(slopes, cotangent):
            return tuple(tree.tree_map(lambda slope: _times(jax, cotangent, slope), slopes))

    else:
        ones = tree.tree_map(lambda x: np.ones(np.shape(x), np.asarray(x).dtype)[()], results)
        pulled = lru_cache(maxsize=1)(lambda: _function(jax, _pulled(f), [ones, *examples]))

        def forward(*args):
            return function(*args), args

        def backward(args, cotangent):
            floats = tree.tree_map(lambda y, ct: ct if _is_float(y) else np.zeros_like(y), results, cotangent)
            return tuple(tree.tree_map(lambda slope: _times(jax, 1.0, slope), pulled()(floats, *args)))

    function.defvjp(forward, backward)
    return function


def _require_known(jax, values, where: str) -> None:
    """Refuse containers that JAX takes for leaves: classes of the user's that are not registered with it."""
    for leaf in jax.tree_util.tree_leaves(values):
        if pytrees.flatten(leaf)[1] != pytrees.LEAF:
            name = type(leaf).__name__
            raise TypeError(
                f"{where} is or contains a {name}, a container that JAX does not know: decorate the class "
                f"with @jax.tree_util.register_dataclass, or register it as a pytree"
            )


def _require_alike(jax, args, examples) -> None:
    """Refuse arguments whose structures or shapes are not those of the examples."""
    tree = jax.tree_util
    if len(args) != len(examples):
        raise TypeError(f"the function has {len(examples)} arguments (as many as examples), got {len(args)}")
    for k, (arg, example) in enumerate(zip(args, examples, strict=True)):
        found, wanted = tree.tree_structure(arg), tree.tree_structure(example)
        if found != wanted:
            raise TypeError(f"argument {k} has the structure {found}, its example {wanted}")
        for leaf, like in zip(tree.tree_leaves(arg), tree.tree_leaves(example), strict=True):
            if np.shape(leaf) != np.shape(like):
                raise TypeError(f"argument {k} has the shape {np.shape(leaf)}, its example {np.shape(like)}")


def _times(jax, factor, slope):
    """Return a cotangent. For an integer argument, JAX wants zeros of a dtype of its own."""
    return factor * slope if _is_float(slope) else np.zeros(slope.shape, jax.dtypes.float0)


def _is_float(x) -> bool:
    return isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def _value_and_slopes(f: Callable) -> Callable:
    """Return a function that returns ``(value, slopes)``; an argument that is no float is its own slope."""

    def value_and_slopes(*args):
        chosen = tuple(k for k, arg in enumerate(args) if any(map(_is_float, pytrees.leaves(arg))))
        value, found = value_and_grad(f, chosen)(*args)
        return value, _instead_of_none(args, chosen, found)

    return value_and_slopes


def _pulled(f: Callable) -> Callable:
    """Return the pullback as a function of a cotangent and the arguments."""

    def pulled(cotangent, *args):
        found = vjp(f, *args)[1](cotangent)
        return _instead_of_none(args, range(len(args)), found)

    return pulled


def _instead_of_none(args, chosen, slopes) -> list:
    """Return one tree of slopes for each argument; instead of None it has the argument's own leaf."""
    result = list(args)
    for k, found in zip(chosen, slopes, strict=True):
        if found is not None:
            leaves, structure = pytrees.flatten(args[k])
            parts = structure.flatten_up_to(found)
            both = zip(leaves, parts, strict=True)
            result[k] = pytrees.unflatten(structure, [x if part is None else part for x, part in both])
    return result


def _plain(example):
    """Return an example with NumPy's arrays and numbers in it."""
    leaves, structure = pytrees.flatten(example)
    return pytrees.unflatten(structure, [np.asarray(leaf)[()] for leaf in leaves])


def _jax_dtype(jax, x):
    return jax.dtypes.canonicalize_dtype(np.asarray(x).dtype)


def to_blackjax(
    logp: Callable[..., Any],
    start: Any = None,
    transforms: Any = None,
    *,
    dims: Any = None,
    coords: Any = None,
) -> Any:
    """Return a log-density for blackjax, of an unconstrained vector: ``blackjax.nuts(to_blackjax(...))``.

    Parameters
    ----------
    logp : callable or Unconstrained
        ``logp(parameters)`` → log-density; or what `transforms.unconstrained` returned.
    start : array, number, or pytree of them, optional
        Parameters that satisfy the constraints. Left out where ``logp`` is an `Unconstrained`.
    transforms : Transform or pytree of them, optional
        Constraints, as for `transforms.unconstrained`.
    dims, coords : dict, optional
        As for `transforms.unconstrained`.

    Returns
    -------
    callable
        A JAX function of the vector; its attribute ``density`` is the `Unconstrained`, with the starting
        point and the way back to parameters.

    Raises
    ------
    ModuleNotFoundError
        If JAX is not installed.
    SpecError
        If the starting point does not satisfy a constraint, or the log-density is not finite there.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import to_blackjax
    >>> logdensity = to_blackjax(lambda x: -0.5 * np.sum(x**2), np.zeros(2))  # doctest: +SKIP
    >>> kernel = blackjax.nuts(logdensity, step_size=0.5, inverse_mass_matrix=np.ones(2))  # doctest: +SKIP
    """
    return _sampled(package("jax", "to_blackjax"), logp, start, transforms, dims, coords, 1.0)


def to_numpyro(
    logp: Callable[..., Any],
    start: Any = None,
    transforms: Any = None,
    *,
    dims: Any = None,
    coords: Any = None,
) -> Any:
    """Return a potential energy for numpyro, of an unconstrained vector: ``NUTS(potential_fn=...)``.

    Parameters
    ----------
    logp : callable or Unconstrained
        ``logp(parameters)`` → log-density; or what `transforms.unconstrained` returned.
    start : array, number, or pytree of them, optional
        Parameters that satisfy the constraints. Left out where ``logp`` is an `Unconstrained`.
    transforms : Transform or pytree of them, optional
        Constraints, as for `transforms.unconstrained`.
    dims, coords : dict, optional
        As for `transforms.unconstrained`.

    Returns
    -------
    callable
        A JAX function of the vector: minus the log-density. Its attribute ``density`` is the `Unconstrained`.

    Raises
    ------
    ModuleNotFoundError
        If JAX is not installed.
    SpecError
        If the starting point does not satisfy a constraint, or the log-density is not finite there.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import to_numpyro
    >>> potential = to_numpyro(lambda x: -0.5 * np.sum(x**2), np.zeros(2))  # doctest: +SKIP
    >>> mcmc = MCMC(NUTS(potential_fn=potential), num_warmup=500, num_samples=500)  # doctest: +SKIP
    >>> mcmc.run(jax.random.key(0), init_params=potential.density.start)  # doctest: +SKIP
    """
    return _sampled(package("jax", "to_numpyro"), logp, start, transforms, dims, coords, -1.0)


def _sampled(jax, logp, start, transforms, dims, coords, factor: float):
    density = density_of(logp, start, transforms, dims, coords)
    with np.errstate(all="ignore"):
        value = density(density.start)
    require_finite_start(value, density, {}, "blackjax" if factor > 0.0 else "numpyro")
    function = _function(jax, density, [density.start])

    def sampled(vector):
        if getattr(vector, "shape", None) != density.start.shape:
            got = f"shape {vector.shape}" if hasattr(vector, "shape") else type(vector).__name__
            raise TypeError(
                f"the position is the unconstrained vector of {density.start.size} numbers, as "
                f".density.start is (.density.constrain returns parameters); got {got}"
            )
        return factor * function(vector)

    sampled.density = density  # type: ignore[attr-defined]
    return sampled
