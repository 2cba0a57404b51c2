"""`Transform`: what all transforms have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..errors import ShapeError, SpecError
from ..trace.array import TracedArray


class Transform(ABC):
    """A smooth, invertible map from numbers without constraints to a value with one.

    All methods take arrays with leading axes (chains and draws, say) and treat each entry along them alike.
    `constrain` and `log_jacobian` can be differentiated, to any order.

    Attributes
    ----------
    name : str
        What messages call the transform.
    axes : int
        How many of the last axes belong to one value: 0 for numbers, 1 for vectors, 2 for matrices.

    Examples
    --------
    >>> from numbatape import transforms
    >>> isinstance(transforms.simplex, transforms.Transform)
    True
    """

    name: str
    axes = 0

    @abstractmethod
    def constrain(self, y: Any) -> Any:
        """Return the constrained value; it raises nothing.

        Parameters
        ----------
        y : array or number
            Any real numbers.

        Returns
        -------
        array or number
            A value that satisfies the constraint.

        Examples
        --------
        >>> from numbatape import transforms
        >>> transforms.ordered.constrain([0.0, 0.0, 0.0])
        array([0., 1., 2.])
        """

    @abstractmethod
    def log_jacobian(self, y: Any) -> Any:
        """Return the logarithm of the absolute Jacobian determinant of `constrain`.

        Of a value with fewer degrees of freedom than entries (a simplex, a Cholesky factor) it is the
        determinant with respect to the entries that determine the others, as in Stan. It raises nothing.

        Parameters
        ----------
        y : array or number
            Any real numbers.

        Returns
        -------
        array or number
            One number for each value: the last `axes` axes are gone.

        Examples
        --------
        >>> from numbatape import transforms
        >>> transforms.positive.log_jacobian(2.0)
        np.float64(2.0)
        """

    @abstractmethod
    def unconstrain(self, x: Any) -> Any:
        """Return the numbers without constraints of which `constrain` makes a value.

        Parameters
        ----------
        x : array or number
            A value that satisfies the constraint.

        Returns
        -------
        array or number
            Real numbers, of the shape that `free_shape` says.

        Raises
        ------
        SpecError
            If ``x`` does not satisfy the constraint.

        Examples
        --------
        >>> from numbatape import transforms
        >>> transforms.interval(0.0, 1.0).unconstrain(0.5)
        np.float64(0.0)
        """

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the unconstrained numbers of a value with some shape.

        Parameters
        ----------
        shape : tuple of int
            Of the constrained value.

        Returns
        -------
        tuple of int
            The shape of what `constrain` takes and `unconstrain` returns.

        Raises
        ------
        ShapeError
            If no value of this kind has the shape.

        Examples
        --------
        >>> from numbatape import transforms
        >>> transforms.simplex.free_shape((4,))
        (3,)
        """
        if len(shape) < self.axes:
            what = "a vector" if self.axes == 1 else "a matrix"
            raise ShapeError(f"transforms.{self.name} is of {what}, got shape {tuple(shape)}")
        return tuple(shape)

    def __repr__(self) -> str:
        return f"transforms.{self.name}"


def require(transform: Transform, holds, x, constraint: str) -> None:
    """Raise where a value does not satisfy a constraint; traced values are not checked."""
    if type(x) is not TracedArray and not np.all(holds):
        shown = np.array2string(np.asarray(x), threshold=6, precision=4)
        raise SpecError(f"transforms.{transform.name} needs {constraint}, got {shown}")


def as_floats(x):
    """Return an array or a number as NumPy's; a traced value, or a float, as it is."""
    return x if getattr(getattr(x, "dtype", None), "kind", "") == "f" else np.asarray(x, float)[()]


class Real(Transform):
    """No constraint."""

    name = "real"

    def constrain(self, y):
        return as_floats(y)

    def log_jacobian(self, y):
        return 0.0 * as_floats(y)

    def unconstrain(self, x):
        return as_floats(x)


real = Real()
