"""Models as BridgeStan's: `to_bridgestan_like`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ..caches.gradient import GradientCache, prepare_gradient_cache, value_and_gradient
from ..caches.hessian import HessianCache, prepare_hessian_cache, value_gradient_and_hessian
from ..caches.hvp import HvpCache, prepare_hvp_cache, value_and_hvp
from ..errors import StructureError
from ..programs.roles import Constant
from .vector_functions import density_of, with_data


def to_bridgestan_like(
    logp: Callable[..., Any],
    start: Any = None,
    transforms: Any = None,
    *,
    data: Any = None,
    dims: Any = None,
    coords: Any = None,
) -> Any:
    """Return a model with the methods of BridgeStan's ``StanModel``, for programs that are written for it.

    Parameters
    ----------
    logp : callable
        ``logp(parameters, **data)`` → log-density; or what `transforms.unconstrained` returned.
    start : pytree of arrays and numbers
        Parameters at which the density is finite; they say names and shapes.
    transforms : optional
        Constraints of the parameters, see `transforms.unconstrained`.
    data : dict, optional
        Keyword arguments of ``logp``, as for `to_nutpie`.
    dims, coords : dict, optional
        Names of the parameters' axes, and labels along them.

    Returns
    -------
    StanLikeModel
        With `log_density`, `log_density_gradient`, `log_density_hessian`,
        `log_density_hessian_vector_product`, `param_constrain`, `param_unconstrain` and others.

    Raises
    ------
    SpecError
        If there is no start, or one outside of its constraint.
    StructureError
        If ``transforms`` names something that is no parameter; methods raise it for vectors of another
        length.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> from numbatape.integrations import to_bridgestan_like
    >>> logp = lambda p, y: np.sum(-0.5 * ((y - p["mu"]) / p["sigma"]) ** 2 - np.log(p["sigma"]))
    >>> start = {"mu": 0.0, "sigma": 1.0}
    >>> positive = {"sigma": nt.transforms.positive}
    >>> model = to_bridgestan_like(logp, start, positive, data={"y": np.array([1.0, 2.0])})
    >>> model.param_unc_num(), model.param_names()
    (2, ['mu', 'sigma'])
    >>> model.log_density_gradient(np.array([1.5, 0.0]))
    (-0.25, array([ 0. , -0.5]))
    >>> model.param_constrain(np.array([1.5, 0.0]))
    array([1.5, 1. ])
    """
    return StanLikeModel(density_of(logp, start, transforms, dims, coords), dict(data or {}))


class StanLikeModel:
    """A model with the methods of BridgeStan's ``StanModel``; `to_bridgestan_like` makes it.

    A log-density has all its terms: ``propto=True`` drops none. Entries of arrays are in the order of NumPy
    (row by row), and names count from 1 with dots, as Stan's do: ``theta.2.1``.
    """

    def __init__(self, density, data):
        self._density, self._data = density, data
        self._caches: dict = {}

    def __repr__(self) -> str:
        return f"<{self.name()}: {self.param_unc_num()} unconstrained parameters, as BridgeStan's StanModel>"

    # ---- names and sizes

    def name(self) -> str:
        """Return the name of the log-density."""
        return self._density.__name__

    def model_info(self) -> str:
        """Return what the model is, as text."""
        return repr(self._density)

    def param_num(self, *, include_tp: bool = False, include_gq: bool = False) -> int:
        """Return the number of constrained numbers; there are no others than parameters."""
        return len(self._density.names)

    def param_unc_num(self) -> int:
        """Return the length of the unconstrained vector."""
        return self._density.size

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Return a name for each constrained number."""
        return [_dotted(name) for name in self._density.names]

    def param_unc_names(self) -> list[str]:
        """Return a name for each entry of the unconstrained vector."""
        return [_dotted(name) for name in self._density.unconstrained_names]

    # ---- parameters

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, out=None, rng=None):
        """Return the constrained numbers that an unconstrained vector stands for, as one vector."""
        parts = self._density.by_path(self._density.constrain(np.asarray(theta_unc, float)))
        found = [np.ravel(part) for part in parts.values()]
        return _into(out, np.concatenate(found) if found else np.zeros(0))

    def param_unconstrain(self, theta, *, out=None):
        """Return the unconstrained vector of a vector of constrained numbers."""
        theta = np.asarray(theta, float)
        sizes = {path: int(np.prod(shape)) for path, shape in self._density.shapes.items()}
        if theta.shape != (sum(sizes.values()),):
            raise StructureError(f"theta needs {sum(sizes.values())} entries, got shape {theta.shape}")
        parts = np.split(theta, np.cumsum(list(sizes.values()))[:-1])
        shapes = self._density.shapes.values()
        tree = self._density.of_leaves([np.reshape(part, s) for part, s in zip(parts, shapes, strict=True)])
        return _into(out, self._density.unconstrain(tree))

    def param_unconstrain_json(self, theta_json: str, *, out=None):
        """Return the unconstrained vector of parameters in JSON, by their names."""
        given = json.loads(theta_json)
        missing = [path for path in self._density.shapes if path not in given]
        if missing:
            raise StructureError(
                f"the JSON has no {', '.join(missing)}; it has {', '.join(given) or 'nothing'}"
            )
        leaves = [np.asarray(given[path], float)[()] for path in self._density.shapes]
        return _into(out, self._density.unconstrain(self._density.of_leaves(leaves)))

    # ---- densities

    def log_density(self, theta_unc, *, propto: bool = True, jacobian: bool = True) -> float:
        """Return the log-density at an unconstrained vector.

        Parameters
        ----------
        theta_unc : array
        propto : bool
            Has no influence: no term is dropped.
        jacobian : bool
            Whether the Jacobian determinants of the constraints are added.
        """
        return self.log_density_gradient(theta_unc, jacobian=jacobian)[0]

    def log_density_gradient(self, theta_unc, *, propto: bool = True, jacobian: bool = True, out=None):
        """Return ``(log-density, gradient)``; see `log_density`."""
        cache = self._cache(prepare_gradient_cache, jacobian)
        value, (gradient, *_) = value_and_gradient(cache, np.asarray(theta_unc, float))
        return float(value), _into(out, gradient)

    def log_density_hessian(
        self, theta_unc, *, propto: bool = True, jacobian: bool = True, out_grad=None, out_hess=None
    ):
        """Return ``(log-density, gradient, Hessian)``; see `log_density`."""
        cache = self._cache(prepare_hessian_cache, jacobian)
        value, gradient, hessian = value_gradient_and_hessian(cache, np.asarray(theta_unc, float))
        return float(value), _into(out_grad, gradient), _into(out_hess, hessian)

    def log_density_hessian_vector_product(
        self, theta_unc, v, *, propto: bool = True, jacobian: bool = True, out=None
    ):
        """Return ``(log-density, Hessian times v)``; see `log_density`."""
        cache = self._cache(prepare_hvp_cache, jacobian)
        value, _, product = value_and_hvp(cache, np.asarray(v, float), np.asarray(theta_unc, float))
        return float(value), _into(out, product)

    def _cache(self, prepare, jacobian: bool) -> GradientCache | HessianCache | HvpCache:
        key = prepare, jacobian
        if key not in self._caches:
            density = self._density
            whole = with_data(density, self._data)
            function = whole if jacobian else lambda x, *data: whole(x, *data) - density.log_jacobian(x)
            self._caches[key] = prepare(function, density.start, *map(Constant, self._data.values()))
        return self._caches[key]


def _dotted(name: str) -> str:
    """Return a name with Stan's indices: ``theta.2.1`` for ``theta[1,0]``."""
    path, bracket, indices = name.partition("[")
    if not bracket:
        return path
    return ".".join([path, *(str(int(k) + 1) for k in indices.rstrip("]").split(","))])


def _into(out, value):
    """Return a value, in an array of the caller's if there is one."""
    if out is None:
        return value
    if np.shape(out) != np.shape(value):
        raise StructureError(f"out needs shape {np.shape(value)}, got {np.shape(out)}")
    out[...] = value
    return out
