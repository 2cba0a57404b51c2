"""``fit`` of ``scipy.stats``' distributions to traced data: where the likelihood has no slope.

SciPy finds the estimate; how it moves with the data follows from the implicit function theorem. An estimate
at the edge of what is possible, such as the least entry as the location of a law, has another equation: those
of three laws are written out, others raise.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..numpy_api.registration import unsupported_argument
from ..trace.operands import find_trace, lift, lift_first, values_of
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import failing
from ..usercode.frames import UsersLine, where_in_user_code
from ..verbs.first_order import grad
from .implicit import Solution

NEAR = 1e-2  # how far from a maximum, by a step of Newton's method, an estimate of SciPy's may be


def _names(original) -> list[str]:
    return [*(original.shapes or "").replace(",", " ").split(), "loc", "scale"]


def _fixed(original, options: dict) -> dict[int, str]:
    """Return the options that fix a parameter, by the number of the parameter."""
    names = _names(original)
    found = {}
    for k, name in enumerate(names):
        aliases = [f"f{name}"] if name in ("loc", "scale") else [f"f{k}", f"f{name}", f"fix_{name}"]
        for alias in aliases:
            if options.get(alias) is not None:
                found[k] = alias
    return found


def fit(distribution):
    """Return the method ``fit`` of the stand-in for a distribution."""
    original = distribution._original
    name = f"scipy.stats.{original.name}.fit"

    def call(data, *starts, **options):
        data, starts, options = as_ndarrays(data), as_ndarrays(starts), as_ndarrays(options)
        trace = find_trace(data, starts, tuple(options.values()))
        if trace is None:
            return original.fit(data, *starts, **options)
        fixed = _fixed(original, options)
        given = {k: options[key] for k, key in fixed.items()}
        others = [value for key, value in options.items() if key not in fixed.values()]
        if find_trace(starts, others) is not None:
            raise unsupported_argument(name, "traced starting values", "the estimate does not depend on them")
        if str(options.get("method", "mle")).lower() != "mle":
            raise unsupported_argument(name, f"method={options['method']!r}", "'MLE' is")
        with failing(trace):
            written = WRITTEN.get(original.name)
            if written is not None:
                original.fit(values_of(data), *starts, **{key: values_of(x) for key, x in options.items()})
                return written(lift_first(data, *given.values()), given.get(0), given.get(1))
            return _estimate(distribution, name, data, starts, options, fixed, given, trace)

    return call


def _exponential(data, loc, scale) -> tuple:
    least = np.min(data)
    if loc is None:
        loc = least
    elif least < loc:  # a guard: SciPy raises at points where it is so
        raise ValueError("the data is left of the location")
    return _python_number(loc), _python_number(np.mean(data) - loc if scale is None else scale)


def _uniform(data, loc, scale) -> tuple:
    least, largest = np.min(data), np.max(data)
    if scale is not None:
        if scale < largest - least:
            raise ValueError("the data is wider than the scale")
        return _python_number(0.5 * (least + largest - scale)), _python_number(scale)
    if loc is not None and least < loc:
        raise ValueError("the data is left of the location")
    loc = least if loc is None else loc
    return _python_number(loc), _python_number(largest - loc)


def _laplace(data, loc, scale) -> tuple:
    loc = np.median(data) if loc is None else loc
    return loc, np.sum(np.abs(data - loc)) / len(data) if scale is None else scale


def _python_number(x):
    return x.item() if hasattr(x, "item") else float(x)


WRITTEN = {"expon": _exponential, "uniform": _uniform, "laplace": _laplace}


def _estimate(distribution, name, data, starts, options, fixed, given, trace) -> tuple:
    """Return estimated parameters, differentiated by the stationary likelihood."""
    original, count = distribution._original, len(_names(distribution._original))
    free = [k for k in range(count) if k not in fixed]
    line, place = UsersLine(), where_in_user_code()
    numbers = [lift(trace, np.asarray(0.0) + value) for value in given.values()]

    def filled(estimate, known) -> list:
        every = dict(zip(fixed, known, strict=True)) | {k: estimate[j] for j, k in enumerate(free)}
        return [every[k] for k in range(count)]

    def slope(estimate, data, *known):
        return grad(lambda y: -np.sum(distribution.logpdf(data, *filled(y, known))))(estimate)

    def solve(data, *known):
        settled = options | {fixed[k]: float(value) for k, value in zip(fixed, known, strict=True)}
        found = np.array(line.call(original.fit, data, *starts, **settled), float)[free]
        with np.errstate(all="ignore"):
            distance = solution.distance(found, data, *known)
        if not distance <= NEAR:
            raise UnsupportedOperationError(
                f"{name} at {place}: the estimate is not where the likelihood has no slope, but at the edge "
                "of what is possible, so it has no derivative here; fix a parameter (floc=0), or write the "
                "formula of the estimate"
            )
        return found

    solution = Solution(name, slope, solve, any_size=True)
    found = solution.of(lift_first(data), *numbers)
    return tuple(filled(found, list(given.values())))


MAKERS["scipy.stats"]["_methods.fit"] = fit
