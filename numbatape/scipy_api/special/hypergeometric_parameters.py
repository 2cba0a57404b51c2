"""Hypergeometric functions 0F1, 1F1 and 2F1 with derivatives for their parameters.

There is no closed form. The power series, DLMF 16.2.1, is differentiated term by term: its terms are Taylor
polynomials in changes of the parameters, whose factors ``a + k`` and ``1/(c + k)`` become linear. Near a
factor of zero, such as in polynomials, nothing is special. The series of 2F1 is used up to 1/2; beyond, the
function is continued by Taylor series of its differential equation, 15.10.1, each of which covers half of the
way to a singularity, so that whole differences of parameters are no exception. Where the signs of terms
alternate they may cancel to any number of digits, so the terms are decimal numbers; digits are added until
two sums agree. Derivatives have a relative error of 1e-16; an entry takes some 0.3 ms where the series
converges at once, and up to 0.2 s near the singularities of 2F1 and where 1F1's argument is -300.

Rows of the op table serve calls in which only the last argument has a derivative.
"""

from __future__ import annotations

import decimal
import functools
import math
from decimal import Decimal

import numpy as np
import scipy.special as sc

from ..stats.laws import pick
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS, is_active, ufunc

# Further decimal digits are tried in this order, until two results agree.
FURTHER_DIGITS = (0, 12, 36, 84, 180, 372)
LARGEST = 1e5  # the largest argument of 1F1: its series has some three times as many terms


class _Changes:
    """Arithmetic with Taylor polynomials in changes of parameters, as lists of coefficients, in place."""

    def __init__(self, orders: tuple[int, ...]):
        sizes = [n + 1 for n in orders]
        self.count = math.prod(sizes)
        # For each parameter, the place of the coefficient whose order in it is one less, or None.
        self.below = []
        stride = self.count
        for size in sizes:
            stride //= size
            self.below.append([i - stride if i // stride % size else None for i in range(self.count)])

    def one(self) -> list[Decimal]:
        return [Decimal(1)] + [Decimal(0)] * (self.count - 1)

    def multiply(self, terms, number, k) -> None:
        """Multiply by ``number`` plus the change of parameter k."""
        below = self.below[k]
        for i in range(self.count - 1, -1, -1):
            j = below[i]
            terms[i] = terms[i] * number if j is None else terms[i] * number + terms[j]

    def divide(self, terms, number, k) -> None:
        below = self.below[k]
        for i in range(self.count):
            j = below[i]
            terms[i] = (terms[i] if j is None else terms[i] - terms[j]) / number


class Series:
    """A function with ``tops`` and then bottom parameters, of which derivatives of some orders are taken."""

    def __init__(self, parameters: list[Decimal], tops: int, orders: tuple[int, ...]):
        self.parameters, self.tops = parameters, tops
        self.changes = _Changes(orders)
        # From here on, all factors of terms are positive.
        self.positive = max(2, *(int(-p) + 2 for p in parameters))

    def _times_ratio(self, terms, k) -> None:
        """Multiply terms by what the k-th coefficient's derivative has more than that of the one before."""
        for n, p in enumerate(self.parameters):
            (self.changes.multiply if n < self.tops else self.changes.divide)(terms, p + k, n)

    def series(self, x: Decimal, derivative: int) -> list[Decimal]:
        """Return a derivative for x, by its power series."""
        terms = self.changes.one()
        for k in range(derivative):
            self._times_ratio(terms, k)
        total, k, small = terms[:], 0, 0
        while small < 3 and any(terms):
            self._times_ratio(terms, k + derivative)
            k += 1
            factor = x / k
            terms = [term * factor for term in terms]
            total = [a + b for a, b in zip(total, terms, strict=True)]
            small = small + 1 if k > self.positive and _negligible(terms, total) else 0
        return total

    def continued(self, x: Decimal, derivative: int) -> list[Decimal]:
        """Return the derivative of a 2F1 for x, from the values at the nearest point of the series."""
        half = Decimal("0.5")
        at = max(min(x, half), -half)
        if at == x:
            return self.series(x, derivative)
        value, slope = self.series(at, derivative), self.series(at, derivative + 1)
        a, b, c = (p + derivative for p in self.parameters)
        while at != x:
            to = min(x, at + (1 - at) / 2) if x > 0 else max(x, at + at / 2)
            value, slope = self._step(a, b, c, value, slope, at, to - at)
            at = to
        return value

    def _step(self, a, b, c, value, slope, at, step):
        """Return a 2F1 and its derivative one step further, by the Taylor series of its equation."""
        changes = self.changes
        u, w = value, [s * step for s in slope]  # two terms of the series
        total, moved = [p + q for p, q in zip(u, w, strict=True)], w[:]
        leading, turn = at * (1 - at), 1 - 2 * at
        shift = c - (a + b + 1) * at
        k, small = 0, 0
        while small < 3:
            product = u[:]
            changes.multiply(product, a + k, 0)
            changes.multiply(product, b + k, 1)
            # The other product is (k turn + c - (a + b + 1) at) w, in which a, b and c change.
            other = [term * (k * turn + shift) for term in w]
            for n, weight in ((0, -at), (1, -at), (2, 1)):
                for i, j in enumerate(changes.below[n]):
                    if j is not None:
                        other[i] += weight * w[j]
            first, second = step * step / (leading * (k + 1) * (k + 2)), step / (leading * (k + 2))
            u, w = w, [first * p - second * q for p, q in zip(product, other, strict=True)]
            k += 1
            total = [p + q for p, q in zip(total, w, strict=True)]
            moved = [p + (k + 1) * q for p, q in zip(moved, w, strict=True)]
            small = small + 1 if k > self.positive and _negligible(w, total) else 0
        return total, [p / step for p in moved]


def _negligible(terms, total) -> bool:
    limit = Decimal(10) ** -(decimal.getcontext().prec + 2)
    return all(abs(a) <= limit * abs(b) for a, b in zip(terms, total, strict=True))


@functools.lru_cache(maxsize=4096)  # sweeps of a Hessian ask for the same slopes
def _slope(tops: int, orders: tuple[int, ...], parameters: tuple[float, ...], x: float) -> float:
    """Return the derivative of some orders for the parameters, and of the last of them for x."""
    bottoms = parameters[tops:]
    if not all(map(math.isfinite, (*parameters, x))) or any(c <= 0.0 and c == math.floor(c) for c in bottoms):
        return math.nan
    gauss, kummer = tops == 2, tops == 1
    if (gauss and x >= 1.0) or (kummer and abs(x) > LARGEST):
        return math.nan
    before = None
    # Terms of 1F1 at negative x are as large as exp(-x), and their sum is not.
    first = 24 + int(0.44 * max(0.0, -x) if kummer else 0.0)
    for further in FURTHER_DIGITS:
        with decimal.localcontext(prec=first + further, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            function = Series(list(map(Decimal, parameters)), tops, orders[:-1])
            at = Decimal(x)
            found = (function.continued if gauss else function.series)(at, orders[-1])[-1]
            if before is not None and abs(found - before) <= Decimal("1e-17") * abs(found):
                break
            before = found
    return float(found) * math.prod(map(math.factorial, orders[:-1]))


def _with_parameters(name: str, tops: int, bottoms: int):
    """Register a function, and return its derivatives as a function of orders and arguments."""
    count = tops + bottoms + 1

    def slopes(*args):
        def one(*numbers):
            orders, (*parameters, x) = map(int, numbers[:count]), map(float, numbers[count:])
            return _slope(tops, tuple(orders), tuple(parameters), x)

        return np.vectorize(one, otypes=[float])(*args)[()]

    def of_slope(k):
        return lambda z, *args: slope(*(n + 1.0 if i == k else n for i, n in enumerate(args)))

    slope = formula_rule(f"{name}_slope", {count + k: of_slope(k) for k in range(count)}, home=__name__)

    def of_parameter(k):
        return lambda z, *args: slope(*(float(i == k) for i in range(count)), *args)

    def of_argument(z, *args):
        """Return the derivative by 16.3.1."""
        *parameters, x = args
        factor = math.prod(parameters[:tops]) / math.prod(parameters[tops:])
        return factor * getattr(sc, name)(*(p + 1.0 for p in parameters), x)

    of_parameters = {k: of_parameter(k) for k in range(count - 1)}
    UFUNCS[name] = formula_rule(name, {**of_parameters, count - 1: of_argument})
    return slopes


def _at_one(a, b, c):
    """Return the value at x = 1, by 15.4.20."""
    return sc.gamma(c) * sc.gamma(c - a - b) * sc.rgamma(c - a) * sc.rgamma(c - b)


hyp0f1_slope = _with_parameters("hyp0f1", 0, 1)
hyp1f1_slope = _with_parameters("hyp1f1", 1, 1)
hyp2f1_slope = _with_parameters("hyp2f1", 2, 1)


_inside = UFUNCS["hyp2f1"]


@ufunc("hyp2f1")
def hyp2f1(a, b, c, x):
    if not any(map(is_active, (a, b, c))) or is_active(x):
        return _inside(a, b, c, x)
    # 2F1 has a value at 1 where c > a + b.
    end = np.equal(x, 1.0) & np.greater(c, a + b)
    return pick(end, lambda: _at_one(a, b, c), lambda: _inside(a, b, c, x))
