"""`DerivativeError`, which the checks raise, and the comparison that raises it."""

from __future__ import annotations

import numpy as np


class DerivativeError(AssertionError):
    """A check of `numbatape.testing` failed; the message has the worst coordinate and both numbers.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.testing.check_derivatives(lambda x: nt.stop_gradient(x) * x, 2.0)
    Traceback (most recent call last):
    ...
    numbatape.testing.derivative_error.DerivativeError: the gradient at argument 0: 2.27... computed, 4.5...
    """


def compare(what: str, got, names: tuple[str, str], wanted, tolerance, where: str = "") -> None:
    """Raise if two arrays differ by more than a tolerance anywhere.

    Parameters
    ----------
    what
        What is compared, for the message.
    names
        Where ``got`` and ``wanted`` come from.
    tolerance
        Absolute; one number, or one per entry.
    where
        Name of the array whose indices the message shows.
    """
    got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    if got.shape != wanted.shape:
        raise DerivativeError(f"{what}: shape {got.shape} {names[0]}, {wanted.shape} {names[1]}")
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        excess = np.where(same, 0.0, np.abs(got - wanted) - tolerance)
    excess = np.where(np.isnan(excess), np.inf, excess)
    if not (excess > 0.0).any():
        return
    worst = np.unravel_index(np.argmax(excess), got.shape)
    place = f" at {where}{[int(k) for k in worst]}" if got.ndim else ""
    count = int(np.count_nonzero(excess > 0.0))
    more = f" ({count} of {got.size} entries differ)" if got.size > 1 else ""
    raise DerivativeError(
        f"{what}{place}: {float(got[worst])!r} {names[0]}, {float(wanted[worst])!r} {names[1]}{more}"
    )
