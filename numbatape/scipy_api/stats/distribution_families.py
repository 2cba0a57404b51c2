"""``scipy.stats``'s newer interface in traced functions: ``Normal``, ``Mixture``, ``make_distribution``, ...

Families are computed by the laws of the older interface (`numbatape.scipy_api.stats.laws`), where the normal
distribution is called ``norm``. Variables and families that were made outside are replaced, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from ...errors import UnsupportedOperationError
from ...numpy_api.function_tables import MAKERS
from ...trace.operands import values_of
from ...usercode.frames import where_in_user_code
from .distributions import LAWS, StandIn, named
from .random_variables import Folded, RandomVariable, Shifted
from .transformed_variables import Mixture, OrderStatistic, Truncated

# What the older interface calls the answers of a variable.
EVERYWHERE = {"cdf": "cdf", "logcdf": "logcdf", "ccdf": "sf", "logccdf": "logsf"}
MOMENTS = {"mean": "mean", "variance": "var", "standard_deviation": "std", "support": "support"}
CONTINUOUS = {"pdf": "pdf", "logpdf": "logpdf", "icdf": "ppf", "iccdf": "isf"}
CONTINUOUS |= {"median": "median", "entropy": "entropy"}
DISCRETE = {"pmf": "pmf", "logpmf": "logpmf"}
# The law of a family, and its parameters by those of the family.
FAMILIES: dict[str, tuple[str, Callable]] = {
    "Normal": ("norm", lambda mu=0.0, sigma=1.0: {"loc": mu, "scale": sigma}),
    "Uniform": ("uniform", lambda a, b: {"loc": a, "scale": b - a}),
    "Logistic": ("logistic", lambda: {}),
    "Binomial": ("binom", lambda n, p: {"n": n, "p": p}),
}
# What SciPy's classes of transformed variables are here, and their own parameters.
TRANSFORMATIONS: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "ShiftedScaledDistribution": (Shifted, ("loc", "scale")),
    "TruncatedDistribution": (Truncated, ("lb", "ub")),
    "OrderStatisticDistribution": (OrderStatistic, ("r", "n")),
    "FoldedDistribution": (Folded, ()),
}
OPTIONS = ("tol", "validation_policy", "cache_policy")


class Variable(RandomVariable):
    """A variable of a family.

    Parameters
    ----------
    make
        SciPy's class.
    law
        The stand-in for the distribution of the older interface.
    parameters : dict
        Those of that distribution.
    given : dict
        Those of the family.
    """

    def __init__(self, make, law, parameters: dict, given: dict):
        super().__init__(*given.values())
        self._make, self._law, self._kwargs, self._given = make, law, parameters, given

    def __getattr__(self, name: str):
        given = self.__dict__.get("_given", {})
        return given[name] if name in given else super().__getattr__(name)

    def __repr__(self) -> str:
        return f"{self._make.__name__}({', '.join(self._given)})"

    def _original(self):
        return self._make(**self._given)

    def _skewness(self):
        return self._law.stats(**self._kwargs, moments="s")

    def kurtosis(self, *, method=None, convention="non-excess"):
        """Return the kurtosis, which is 3 for a normal variable, or with ``convention="excess"`` 0."""
        self._refuse_method("kurtosis", method)
        with np.errstate(all="ignore"):
            excess = self._law.stats(**self._kwargs, moments="k")
        return self._narrowed({"non-excess": 3.0, "excess": 0.0}[convention] + excess)

    def _raw(self, order: int):
        with np.errstate(all="ignore"):
            return self._law.moment(order, **self._kwargs) if order else 1.0 + 0.0 * self.mean()

    def moment(self, order=1, kind="raw", *, method=None):
        """Return a moment: raw, central, or standardized."""
        self._refuse_method("moment", method)
        order = int(order)
        if kind == "raw":
            return self._narrowed(
                self._law.moment(order, **self._kwargs) if order else 1.0 + 0.0 * self.mean()
            )
        spread = self.standard_deviation() ** order if kind == "central" else 1.0
        if kind not in ("central", "standardized"):
            return self._original().moment(order, kind)  # SciPy's own error
        if order > 4:
            raise self.refuse(f"moment({order}, {kind!r})")
        nothing = 0.0 * self.mean()
        shape = (
            lambda: 1.0 + nothing,
            lambda: nothing,
            lambda: 1.0 + nothing,
            self.skewness,
            self.kurtosis,
        )[order]()
        return self._narrowed(spread * shape)


class DiscreteVariable(Variable):
    """A variable of a family of whole numbers."""

    discrete = True


def _by_law(old: str) -> Callable:
    return lambda self, *x: getattr(self._law, old)(*x, **self._kwargs)


for _class, _names in ((Variable, EVERYWHERE | MOMENTS | CONTINUOUS), (DiscreteVariable, DISCRETE)):
    for _new, _old in _names.items():
        setattr(_class, f"_{_new}", _by_law(_old))
for _new in ("pdf", "logpdf"):
    setattr(DiscreteVariable, f"_{_new}", None)  # SciPy's own object knows


class Family:
    """The stand-in for a class of random variables.

    Parameters
    ----------
    make
        SciPy's class.
    law : str
        The name of the distribution in the older interface.
    translate : callable
        That distribution's parameters, as a function of the family's.
    """

    def __init__(self, make, law: str, translate: Callable):
        self._make, self._law, self._translate = make, law, translate

    def __getattr__(self, name: str):
        return getattr(self._make, name)

    def __call__(self, *args, **given):
        own = {key: value for key, value in given.items() if key not in OPTIONS}
        try:
            bound = inspect.signature(self._translate).bind(**own)
        except TypeError:
            bound = None
        if args or bound is None:
            self._make(*args, **{key: values_of(value) for key, value in given.items()})  # SciPy's own error
            raise UnsupportedOperationError(
                f"{self._make.__name__}({', '.join(given)}) at {where_in_user_code()} is not supported in "
                f"traced functions; its parameters are {inspect.signature(self._translate)}"
            )
        bound.apply_defaults()
        own = {key: as_parameter(value) for key, value in bound.arguments.items()}
        _, law = named(self._law)  # this imports the laws
        kind = DiscreteVariable if LAWS[self._law].discrete else Variable
        return kind(self._make, law, self._translate(**own), own)


def as_parameter(value):
    """Return a parameter as SciPy keeps it: a list becomes an array."""
    return np.asarray(value)[()] if isinstance(value, (list, tuple)) else value


def family_of(make, distribution) -> Family:
    """Return the family that ``make_distribution`` makes of a distribution of the older interface."""
    name = getattr(distribution, "name", None)
    found = named(name)
    if found is None or type(found[0]) is not type(distribution) or name not in LAWS:
        raise UnsupportedOperationError(
            f"make_distribution({name or distribution!r}) at {where_in_user_code()}: there is no formula for "
            "its density in traced functions. Write the density with NumPy, or use a law of SciPy's"
        )
    shapes = [part.strip() for part in (distribution.shapes or "").split(",") if part.strip()]
    translate = lambda **given: given  # noqa: E731
    kinds = [inspect.Parameter(shape, inspect.Parameter.KEYWORD_ONLY) for shape in shapes]
    translate.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    return Family(make, name, translate)


def variable_of(value) -> RandomVariable:
    """Return the variable for one that may be SciPy's own."""
    if isinstance(value, RandomVariable):
        return value
    found = stand_in_of(value)
    if not isinstance(found, RandomVariable):
        raise UnsupportedOperationError(
            f"{value!r} at {where_in_user_code()} has no formulas in traced functions"
        )
    return found


def stand_in_of(value):
    """Return the stand-in for a variable, or a class of variables, that was made outside of the function."""
    if isinstance(value, type):
        distribution = _distribution_of(value)
        return None if distribution is None else family_of(value, distribution)
    return _thawed(value, getattr(value, "_original_parameters", {}))


def _distribution_of(cls):
    """Return the distribution of the older interface that a class was made of, or None."""
    own = [getattr(method, "__self__", None) for method in vars(cls).values()]
    found = [one for one in own if one is not None and not isinstance(one, type)]
    return found[0] if found else None


def _thawed(value, given: dict):
    """Return the stand-in for a variable with the parameters that it, or what is made of it, keeps."""
    kind, inner = type(value).__name__, getattr(value, "_dist", None)
    if kind == "Mixture":
        return Mixture([variable_of(one) for one in value.components], value.weights)
    if inner is None:
        kind = "Normal" if kind == "StandardNormal" else kind
        family = Family(type(value), *FAMILIES[kind]) if kind in FAMILIES else stand_in_of(type(value))
        return None if family is None else family(**given)
    if kind not in TRANSFORMATIONS:
        return None
    make, names = TRANSFORMATIONS[kind]
    x = _thawed(inner, {key: part for key, part in given.items() if key not in names})
    return None if x is None else make(x, *(given[key] for key in names))


def _made_family(original):
    def make_distribution(dist):
        dist = dist._original if isinstance(dist, StandIn) else dist
        return family_of(original(dist), dist)

    return make_distribution


_MAKERS = MAKERS["scipy.stats"]
for _name, (_law, _translate) in FAMILIES.items():
    _MAKERS[_name] = functools.partial(Family, law=_law, translate=_translate)
_MAKERS["make_distribution"] = _made_family
