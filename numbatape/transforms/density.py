"""`unconstrained`: a log-density of constrained parameters as one of a vector of real numbers."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError
from ..late import imported
from ..stand_ins import rebinding
from ..trace.primitives import sample_of
from ..trace.trace import current
from ..verbs.structures import Piece, Unflatten, flatten
from .chosen_transforms import require_known, transform_of
from .transform import Transform, real
from .without_labels import without_labels

_KINDS = (("vector", "POSITIONAL_OR_KEYWORD"), ("args", "VAR_POSITIONAL"), ("kwargs", "VAR_KEYWORD"))
_SIGNATURE = [inspect.Parameter(name, getattr(inspect.Parameter, kind)) for name, kind in _KINDS]


class Unconstrained:
    """A log-density of a vector without constraints; `unconstrained` makes it.

    Called as ``density(vector, *data)``, it constrains the vector, calls the model's log-density and adds the
    logarithms of the Jacobian determinants. It can be differentiated, batched and prepared as any function.

    Attributes
    ----------
    size : int
        The length of the vector.
    start : numpy.ndarray
        The starting point, unconstrained.
    names, unconstrained_names : tuple of str
        One name for each constrained number and for each entry of the vector.
    shapes : dict
        Path of each parameter → its constrained shape.
    dims, coords : dict
        Names of the parameters' axes, and the labels along them, for ArviZ.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> from numbatape import transforms
    >>> density = transforms.unconstrained(lambda s: -s, 2.0, transforms.positive)
    >>> isinstance(density, transforms.Unconstrained)
    True
    >>> density(np.zeros(1))
    np.float64(-1.0)
    """

    # ``__call__`` is a slot, because a method that passes the arguments on would cost time in each call.
    __slots__ = ("__call__", "__dict__", "__weakref__")

    def __init__(
        self,
        logp: Callable,
        unflatten: Unflatten,
        transforms: list[Transform],
        start,
        dims: dict,
        coords: dict,
    ):
        self._unflatten, self._transforms = unflatten, transforms
        self.dims, self.coords = dims, coords
        self.names = unflatten.names
        self.shapes = {piece.path: piece.shape for piece in unflatten.pieces}
        self._free = []
        first = 0
        for piece, transform in zip(unflatten.pieces, transforms, strict=True):
            with _named(piece):
                shape = transform.free_shape(piece.shape)
            self._free.append(piece._replace(start=first, shape=shape))
            first += int(np.prod(shape))
        self.size = first
        self._given = start
        self.start = np.array(self.unconstrain(start), float)
        constrained = self._constrained

        def density(vector, *args, **kwargs):
            parameters, log_jacobian = constrained(vector)
            # Inside of a trace, a copy of the model's function runs.
            run = logp if current() is None else rebinding.rebind(logp)
            value = run(parameters, *args, **kwargs)
            return value if log_jacobian is None else value + log_jacobian

        self.__wrapped__ = logp
        self.__signature__ = inspect.Signature(_SIGNATURE)
        self.__name__ = getattr(logp, "__name__", "logp")
        self.__call__ = density

    def _constrained(self, vector):
        """Return the parameters' tree, and the sum of the logarithms of the Jacobian determinants, if any."""
        found, log_jacobian = [], None
        for piece, y, transform in zip(
            self._unflatten.pieces, self._free_parts(vector), self._transforms, strict=True
        ):
            x = transform.constrain(y)
            found.append(x if x.dtype == piece.dtype else x.astype(piece.dtype))
            if transform is not real:
                terms = transform.log_jacobian(y)
                axes = tuple(range(np.ndim(sample_of(vector)) - 1, np.ndim(sample_of(terms))))
                terms = np.sum(terms, axes) if axes else terms
                log_jacobian = terms if log_jacobian is None else log_jacobian + terms
        return self._unflatten.filled(found), log_jacobian

    def _free_parts(self, vector) -> list:
        """Return the unconstrained numbers of each parameter."""
        if not isinstance(sample_of(vector), np.ndarray):
            vector = np.asarray(vector, float)
        shape = np.shape(sample_of(vector))
        if shape[-1:] != (self.size,):
            raise SpecError(
                f"the unconstrained parameters are a vector of {self.size} entries, or an array whose last "
                f"axis has as many; got shape {shape}"
            )
        return [piece.cut(vector) for piece in self._free]

    def constrain(self, vector: Any) -> Any:
        """Return the parameters that an unconstrained vector stands for.

        Parameters
        ----------
        vector : array
            Of shape ``(size,)``; leading axes (chains and draws) become leading axes of each parameter.

        Returns
        -------
        pytree
            Of the structure of the starting point.

        Raises
        ------
        SpecError
            If the last axis has another length.

        Examples
        --------
        >>> import numpy as np
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda s: -s, 2.0, transforms.positive)
        >>> density.constrain(np.array([[0.0], [1.0]])).round(3)
        array([1.   , 2.718])
        """
        return self._constrained(vector)[0]

    def by_path(self, parameters: Any) -> dict:
        """Return the arrays of parameters by their paths, which are the keys of ``shapes``.

        Parameters
        ----------
        parameters : pytree
            Of the structure of the starting point.

        Returns
        -------
        dict
            Arrays and numbers in the order of the leaves.

        Raises
        ------
        StructureError
            If the parameters have another structure.

        Examples
        --------
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda p: -p["a"][0], {"a": [2.0]}, transforms.positive)
        >>> density.by_path({"a": [3.0]})
        {'a[0]': 3.0}
        """
        return dict(zip(self.shapes, self._unflatten.leaves_of(parameters, "the parameters"), strict=True))

    def of_leaves(self, leaves: Any) -> Any:
        """Return parameters of which `by_path` would return some arrays, in the order of ``shapes``.

        Parameters
        ----------
        leaves : sequence of arrays
            One for each parameter.

        Returns
        -------
        pytree
            Of the structure of the starting point. Shapes are not checked.

        Raises
        ------
        SpecError
            If there is another number of arrays than of parameters.

        Examples
        --------
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda p: -p["a"][0], {"a": [2.0]}, transforms.positive)
        >>> density.of_leaves([3.0])
        {'a': [3.0]}
        """
        if len(leaves) != len(self.shapes):
            raise SpecError(f"{len(leaves)} arrays for {len(self.shapes)} parameters")
        return self._unflatten.filled(leaves)

    def log_jacobian(self, vector: Any) -> Any:
        """Return what the constraints add to the log-density.

        Parameters
        ----------
        vector : array
            As for `constrain`.

        Returns
        -------
        number or array
            The sum over all parameters; with leading axes one for each point.

        Raises
        ------
        SpecError
            If the last axis has another length.

        Examples
        --------
        >>> import numpy as np
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda s: -s, 2.0, transforms.positive)
        >>> density.log_jacobian(np.array([0.5]))
        np.float64(0.5)
        """
        found = self._constrained(vector)[1]
        # Adding zero makes a copy, which is no view of the vector.
        return 0.0 if found is None else found + 0.0

    def unconstrain(self, parameters: Any) -> Any:
        """Return the unconstrained vector of which `constrain` makes some parameters.

        Parameters
        ----------
        parameters : pytree
            Of the structure of the starting point.

        Returns
        -------
        array
            Of shape ``(size,)``.

        Raises
        ------
        StructureError
            If the parameters have another structure.
        SpecError
            If a parameter does not satisfy its constraint.

        Examples
        --------
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda s: -s, 2.0, transforms.positive)
        >>> density.unconstrain(1.0)
        array([0.])
        """
        parts = []
        leaves = self._unflatten.leaves_of(parameters, "the parameters")
        for leaf, piece, free, transform in zip(
            leaves, self._unflatten.pieces, self._free, self._transforms, strict=True
        ):
            shape = np.shape(sample_of(leaf))
            lead = shape[: len(shape) - len(piece.shape)]
            if shape != (*lead, *piece.shape):
                raise SpecError(f"{piece.path} needs shape {piece.shape}, got {shape}")
            with _named(piece):
                parts.append(np.reshape(transform.unconstrain(leaf), (*lead, free.size)))
        return np.concatenate(parts, -1) if parts else np.zeros(0)

    @property
    def unconstrained_names(self) -> tuple[str, ...]:
        """One name for each entry of the vector.

        Examples
        --------
        >>> from numbatape import transforms
        >>> density = transforms.unconstrained(lambda p: -p["a"], {"a": 2.0}, transforms.positive)
        >>> density.unconstrained_names
        ('a',)
        """
        return tuple(name for piece in self._free for name in piece.names())

    def __reduce__(self):
        shipped = imported("..caches.shipping", __package__).Shipped(self.__wrapped__)
        transforms = [None if transform is real else transform for transform in self._transforms]
        return _made_again, (shipped, self._unflatten, transforms, self._given, self.dims, self.coords)

    def __deepcopy__(self, memo):
        logp = copy.deepcopy(self.__wrapped__, memo)
        made = (self._unflatten, self._transforms, self._given, self.dims, self.coords)
        return self if logp is self.__wrapped__ else Unconstrained(logp, *made)

    def __repr__(self) -> str:
        rows = zip(self._unflatten.pieces, self._transforms, strict=True)
        shown = [f"{p.path}{list(p.shape) if p.shape else ''}: {t.name}" for p, t in rows]
        return f"<unconstrained {self.__name__}: {self.size} numbers ({', '.join(shown)})>"


def _made_again(shipped, unflatten: Unflatten, transforms: list, start, dims: dict, coords: dict):
    chosen = [real if transform is None else transform for transform in transforms]
    return Unconstrained(shipped.function, unflatten, chosen, start, dims, coords)


@contextlib.contextmanager
def _named(piece: Piece):
    """Put a parameter's name in front of the message of an error."""
    try:
        yield
    except SpecError as error:
        raise type(error)(f"{piece.path}: {error}") from None


def unconstrained(
    logp: Callable, start: Any, transforms: Any = None, *, dims: Any = None, coords: Any = None
) -> Unconstrained:
    """Return the log-density of unconstrained parameters, with the Jacobian determinants of the transforms.

    Parameters
    ----------
    logp : callable
        ``logp(parameters, *data)`` → log-density of the constrained parameters.
    start : array, number, or pytree of them
        Parameters that satisfy the constraints: they give structure, shapes and starting point. What is not
        a float is passed on as it is. An ``xarray.DataArray`` gives its dimensions and coordinates, too.
    transforms : Transform, or pytree of them, optional
        A transform for all parameters, or a dictionary (for a dataclass: by the names of its fields) with
        those of some; all others are `real`.
    dims : dict, optional
        Path of a parameter → names of its axes.
    coords : dict, optional
        Name of an axis → its labels.

    Returns
    -------
    Unconstrained
        Called as ``density(vector, *data)``.

    Raises
    ------
    StructureError
        If ``transforms`` names a parameter that is not there.
    SpecError
        If the starting point does not satisfy a constraint, or ``dims`` and ``coords`` do not fit it.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> from numbatape import transforms
    >>> def logp(p, y):
    ...     return np.sum(-0.5 * ((y - p["mu"]) / p["sigma"]) ** 2 - np.log(p["sigma"]))
    >>> start = {"mu": 0.0, "sigma": 1.0}
    >>> density = transforms.unconstrained(logp, start, {"sigma": transforms.positive})
    >>> nt.grad(density)(density.start, np.array([1.0, 2.0]))
    array([3., 4.])
    >>> density.constrain(np.zeros(2))
    {'mu': np.float64(0.0), 'sigma': np.float64(1.0)}
    """
    if not callable(logp):
        raise TypeError(f"{logp!r} is not callable")
    start, dims, coords = without_labels(start, dims, coords)
    _, unflatten = flatten(start)
    if not unflatten.pieces:
        raise SpecError(
            "the starting point holds no floats, so there are no parameters (0 is data; write 0.0)"
        )
    chosen = [transform_of(transforms, piece.keys, ()) for piece in unflatten.pieces]
    require_known(transforms, [piece.keys for piece in unflatten.pieces], ())
    shapes, lengths = {piece.path: piece.shape for piece in unflatten.pieces}, dict[str, int]()
    for path, axes in dims.items():
        if path not in shapes or len(axes) != len(shapes[path]):
            known = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise SpecError(f"dims[{path!r}] = {axes!r}: parameters and their shapes are {known}")
        for axis, length in zip(axes, shapes[path], strict=True):
            labels = len(coords[axis]) if axis in coords else lengths.setdefault(axis, length)
            if labels != length:
                raise SpecError(
                    f"dims[{path!r}] = {axes!r}: {axis!r} has {length} entries there, and {labels} "
                    + ("labels in coords" if axis in coords else "in another parameter")
                )
    return Unconstrained(logp, unflatten, chosen, start, dims, coords)
