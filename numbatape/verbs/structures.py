"""`flatten`: containers of arrays as one vector, and back."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import DtypeError, SpecError, StructureError
from ..programs.arguments import as_array
from ..trace import pytrees
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import sample_of


class Piece(NamedTuple):
    """Where a float leaf is in the vector.

    Attributes
    ----------
    keys : tuple
        The way to the leaf: keys, names of fields, places. Empty if the tree is a single array.
    start : int
        The place of its first entry.
    shape : tuple of int
    dtype : numpy.dtype
    is_array : bool
        Whether the leaf is an array; a number otherwise.
    """

    keys: tuple
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype
    is_array: bool

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def path(self) -> str:
        """The leaf's name: ``mu``, ``prior.scale``, ``[0]``; ``x`` if the tree is a single array."""
        return path_of(self.keys) or "x"

    def names(self) -> list[str]:
        """Return one name for each entry, with its indices in brackets: ``theta[0,1]``."""
        if not self.shape:
            return [self.path]
        return [f"{self.path}[{','.join(map(str, place))}]" for place in np.ndindex(*self.shape)]

    def cut(self, vector):
        """Return the part of a vector, or of vectors along leading axes, that is this leaf."""
        if self.is_array:
            part = vector[..., self.start : self.start + self.size]
            part = np.reshape(part, (*vector.shape[:-1], *self.shape))
        else:
            part = vector[(*(slice(None),) * (vector.ndim - 1), self.start)]
        return part if part.dtype == self.dtype else part.astype(self.dtype)


def path_of(keys: tuple) -> str:
    """Return the name of a leaf: ``a.b[0]``."""
    steps = [f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key}]" for key in keys]
    return "".join(steps).removeprefix(".")


class Unflatten:
    """The way back from a vector to containers of arrays; `flatten` makes it.

    Parameters
    ----------
    leaves : list
        All leaves of the tree. Those that are not in the vector are returned as they are.
    structure : optree.PyTreeSpec
    pieces : list of Piece or None
        One entry for each leaf; None for leaves that are not in the vector.

    Attributes
    ----------
    size : int
        The length of the vector.
    names : tuple of str
        One name for each entry of the vector, ``theta[0]`` for instance.
    pieces : tuple of Piece
        What is in the vector: one entry for each array or number, with its `path`, `shape` and `start`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> vector, unflatten = nt.flatten({"mu": 1.0, "theta": np.zeros(2)})
    >>> unflatten.names
    ('mu', 'theta[0]', 'theta[1]')
    """

    def __init__(self, leaves: list, structure, pieces: list[Piece | None]):
        self._leaves, self._structure, self._places = leaves, structure, pieces
        self.pieces = tuple(piece for piece in pieces if piece is not None)
        self.size = sum(piece.size for piece in self.pieces)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for piece in self.pieces for name in piece.names())

    def __call__(self, vector):
        """Return the tree whose numbers are those of a vector.

        Parameters
        ----------
        vector : array
            Of shape ``(size,)``. Leading axes (chains and draws) become leading axes of each leaf.

        Returns
        -------
        pytree
            Of the structure that was flattened, with its shapes and dtypes.

        Raises
        ------
        SpecError
            If the last axis has another length than ``size``, or entries are no real numbers.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> _, unflatten = nt.flatten((0.0, np.zeros((2, 2))))
        >>> unflatten(np.arange(5.0))
        (np.float64(0.0), array([[1., 2.],
               [3., 4.]]))
        """
        vector = as_ndarrays(vector)
        if sample_of(vector) is vector:
            vector = as_array(vector, "the vector of unflatten")
        if vector.dtype.kind not in "fiub":
            raise DtypeError(f"unflatten needs real numbers, got {vector.dtype}")
        if vector.ndim == 0 or vector.shape[-1] != self.size:
            raise SpecError(
                f"unflatten needs a vector of {self.size} entries, or an array whose last axis has as many, "
                f"got shape {np.shape(sample_of(vector))}"
            )
        return self.filled([piece.cut(vector) for piece in self.pieces])

    def filled(self, parts):
        """Return the tree with other arrays, one for each of `pieces`.

        Parameters
        ----------
        parts : sequence of arrays

        Returns
        -------
        pytree

        Examples
        --------
        >>> import numbatape as nt
        >>> nt.flatten({"a": 1.0, "n": 3})[1].filled([2.0])
        {'a': 2.0, 'n': 3}
        """
        parts = iter(parts)
        rows = zip(self._leaves, self._places, strict=True)
        return pytrees.unflatten(
            self._structure, [leaf if piece is None else next(parts) for leaf, piece in rows]
        )

    def leaves_of(self, tree, what: str = "the structure") -> list:
        """Return the leaves of a tree like this one that are in the vector.

        Parameters
        ----------
        tree : pytree
        what : str
            What messages call the tree.

        Returns
        -------
        list of arrays

        Raises
        ------
        StructureError
            If the tree has another structure.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> nt.flatten({"a": 1.0, "n": 3})[1].leaves_of({"a": 2.0, "n": 4})
        [2.0]
        """
        leaves, structure = pytrees.flatten(tree)
        if structure != self._structure:
            expected, got = (
                ", ".join(path_of(keys) for keys in s.paths()) for s in (self._structure, structure)
            )
            raise StructureError(f"{what} should hold {expected or 'an array'}, got {got or 'an array'}")
        return [leaf for leaf, piece in zip(leaves, self._places, strict=True) if piece is not None]

    def __reduce__(self):
        return _unflatten_of, (self(np.zeros(self.size)),)

    def __repr__(self) -> str:
        shown = [f"{piece.path}{list(piece.shape) if piece.shape else ''}" for piece in self.pieces]
        return f"<unflatten {self.size} numbers: {', '.join(shown[:12])}{', ...' * (len(shown) > 12)}>"


def _unflatten_of(tree) -> Unflatten:
    return flatten(tree)[1]


def flatten(tree: Any) -> Any:
    """Return the numbers of a container of arrays as one vector, and the function that goes back.

    Both directions can be differentiated: call them inside of a function, or give the vector to one.

    Parameters
    ----------
    tree : array, number, or pytree of them
        Lists, tuples, dictionaries, named tuples and dataclasses of arrays and numbers.

    Returns
    -------
    vector : array of one dimension
        The float arrays and numbers of the tree, one after the other; dictionaries in the order of their
        keys, as in `jax.flatten_util.ravel_pytree`.
    unflatten : Unflatten
        ``unflatten(vector)`` → a tree of the same structure, shapes and dtypes. What is not a float (an
        integer, a string) is not in the vector, and comes back as it was. ``unflatten.names`` names the
        entries of the vector.

    Raises
    ------
    DtypeError
        If a leaf is complex.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> vector, unflatten = nt.flatten({"b": np.array([1.0, 2.0]), "a": 3.0})
    >>> vector
    array([3., 1., 2.])
    >>> unflatten(2 * vector)
    {'b': array([2., 4.]), 'a': np.float64(6.0)}
    >>> nt.grad(lambda v: unflatten(v)["a"] ** 2)(vector)
    array([6., 0., 0.])
    """
    leaves, structure = pytrees.flatten(tree)
    leaves = [as_ndarrays(leaf) for leaf in leaves]
    pieces: list[Piece | None] = []
    parts, start = [], 0
    for leaf, keys in zip(leaves, structure.paths(), strict=True):
        sample = sample_of(leaf)
        dtype = getattr(sample, "dtype", None)
        kind = dtype.kind if isinstance(dtype, np.dtype) else "O"  # a class has no dtype of its own
        if isinstance(sample, complex) or kind == "c":
            raise DtypeError(
                f"{path_of(keys) or 'the argument'} is complex: flatten its real and imaginary parts"
            )
        if not isinstance(sample, float) and kind != "f":
            pieces.append(None)
            continue
        if isinstance(sample, np.ndarray) and type(sample) is not np.ndarray:
            leaf = sample = as_array(sample, path_of(keys) or "the argument")
        shape = np.shape(sample) if sample is leaf else leaf.shape  # of a traced array, that is a guard
        piece = Piece(keys, start, shape, np.asarray(sample).dtype, isinstance(sample, np.ndarray))
        pieces.append(piece)
        parts.append(np.reshape(leaf, (-1,)))
        start += piece.size
    return np.concatenate(parts) if parts else np.zeros(0), Unflatten(leaves, structure, pieces)
