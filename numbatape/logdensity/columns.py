"""Match a model's parameter names with a file's columns, and make theta of each draw."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np

from numbatape.errors import SpecError
from numbatape.logdensity.draws import Draws
from numbatape.logdensity.element_names import Index, by_array, split_name
from numbatape.logdensity.exits import InputError, ModelError, running_model
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model


def thetas_of(model: Model, draws: Draws) -> Matrix:
    """Return theta for every draw, (draws, parameters), as the model wants it."""
    theta = draws.theta
    if theta is not None and draws.model_sha256 == model.sha256 and model.names is not None:
        thetas = theta.values[:, match_columns(model.names, theta)]
    elif model.unconstrain is not None:
        thetas = _unconstrain(model, draws)
    elif model.parameters.from_columns is not None:
        thetas = _from_columns(model, draws)
    elif model.names is not None:
        thetas = draws.values[:, match_columns(model.names, draws)]
    elif draws.names is not None:
        # CmdStan's own columns (lp__, stepsize__) are no parameters.
        kept = [k for k, name in enumerate(draws.names) if not name.endswith("__")]
        thetas = draws.values[:, kept]
    else:
        thetas = draws.values
    if thetas.shape[1] == 0:
        raise InputError(f"{draws.source}: has no column of a parameter")
    return np.ascontiguousarray(thetas)


def match_columns(names: Sequence[str], draws: Draws) -> list[int]:
    """Return the position of each name's column; ``x[1]``, ``x.1`` and ``x[0]`` may be one.

    Arrays are matched as a whole: one whose indices include a 0 counts from 0, any other from 1.
    """
    if draws.names is None:
        if draws.values.shape[1] != len(names):
            raise InputError(
                f"{draws.source}: {draws.values.shape[1]} columns without names, but the model has "
                f"{len(names)} parameters"
            )
        return list(range(len(names)))
    wanted, found = by_array(names), by_array(draws.names)
    position: dict[str, int] = {}
    missing = []
    for array, places in wanted.items():
        columns = found.get(array, {})
        shift = _shift(array, places, columns, draws.source)
        for index, (k,) in places.items():
            matches = columns.get(tuple(i + shift for i in index), [])
            if len(matches) > 1:
                spelled = " and ".join(draws.names[m] for m in matches)
                raise InputError(f"{draws.source}: duplicate column: {spelled} are the same")
            if not matches:
                missing.append(names[k])
            else:
                position[names[k]] = matches[0]
    if missing:
        raise InputError(f"{draws.source}: {_say_missing(missing, draws.names)}")
    return [position[name] for name in names]


def _shift(
    array: tuple[str, int], wanted: dict[Index, list[int]], found: dict[Index, list[int]], source: str
) -> int:
    """Return what to add to the model's indices to get the file's."""
    if not array[1] or not found:
        return 0
    shift = _origin(found) - _origin(wanted)
    if shift and all(index in found for index in wanted):
        shifted = {tuple(i + shift for i in index) for index in wanted}
        if shifted != set(found):
            raise InputError(
                f"{source}: cannot tell whether {array[0]} counts from 0 or from 1: the model names a part "
                f"of the array, and the file's starts at {_origin(found)}; name the whole array"
            )
    return shift


def _origin(indices: Iterable[Index]) -> int:
    return 0 if any(0 in index for index in indices) else 1


def _say_missing(missing: Sequence[str], columns: Sequence[str]) -> str:
    near = difflib.get_close_matches(missing[0], columns, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return (
        f"missing column{'s' * (len(missing) > 1)} {_shortened(missing)}{hint}; the file has "
        f"{_shortened(columns)}"
    )


def _shortened(names: Sequence[str], limit: int = 12) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


class MissingColumnError(InputError, KeyError):
    """A column that `unconstrain` asked for; a KeyError, so that the model may catch it."""

    __str__ = Exception.__str__  # KeyError's own method would put the message in quotes.


class Draw(dict[str, float]):
    """One draw by column name; ``x[1]`` and ``x.1`` find each other."""

    __slots__ = ("aliases", "source")
    aliases: dict[tuple[str, Index], str]
    source: str

    def __missing__(self, key: str) -> float:
        # The index is not shifted: from one lookup, `x[1]` of a file that counts from 0 could not
        # be told from `x[1]` of one that counts from 1.
        name = self.aliases.get(split_name(key))
        if name is None:
            raise MissingColumnError(f"{self.source}: {_say_missing([key], list(self))}")
        return self[name]


def _from_columns(model: Model, draws: Draws) -> Matrix:
    """Make theta of constrained parameters; it is NaN in draws that are not finite."""
    columns, from_columns = model.parameters.columns, model.parameters.from_columns
    assert columns is not None and from_columns is not None and model.names is not None
    values = draws.values[:, match_columns(columns, draws)]
    finite = finite_rows(values)
    thetas = np.full((len(values), len(model.names)), np.nan)
    try:
        thetas[finite] = from_columns(values[finite])
    except SpecError as error:  # a draw that does not satisfy a constraint
        raise InputError(f"{draws.source}: {error}") from error
    return thetas


def _unconstrain(model: Model, draws: Draws) -> Matrix:
    """Call the model's `unconstrain` on each draw; where that fails for a draw with a NaN, theta is NaN."""
    names, unconstrain = draws.names, model.unconstrain
    assert unconstrain is not None
    if names is None:
        raise InputError(f"{draws.source}: `unconstrain` needs column names, and this file has none")
    aliases = {split_name(name): name for name in reversed(names)}
    finite = finite_rows(draws.values)
    thetas: Matrix | None = None
    with np.errstate(all="ignore"):
        for number, row in enumerate(draws.values.tolist()):
            draw = Draw(zip(names, row, strict=True))
            draw.aliases, draw.source = aliases, draws.source
            try:
                with running_model(f"{model.path.name}: unconstrain at draw {number}"):
                    theta = np.asarray(unconstrain(draw), dtype=np.float64)
            except ModelError:
                if finite[number]:
                    raise
                continue
            if thetas is None:
                thetas = _room_for(theta, len(draws.values), model)
            elif theta.shape != thetas.shape[1:]:
                raise ModelError(
                    f"{model.path.name}: unconstrain returned shape {theta.shape} at draw {number}, "
                    f"{thetas.shape[1:]} before"
                )
            thetas[number] = theta
    if thetas is None:
        raise InputError(f"{draws.source}: no draw is finite")
    return thetas


def _room_for(theta: Matrix, draws: int, model: Model) -> Matrix:
    """Return a matrix of NaN with a row like `theta` for each draw, after checking `theta`."""
    if theta.ndim != 1:
        raise ModelError(f"{model.path.name}: unconstrain returned shape {theta.shape}, expected a vector")
    if model.names is not None and len(model.names) != theta.size:
        raise ModelError(
            f"{model.path.name}: unconstrain returned {theta.size} values, but `names` has {len(model.names)}"
        )
    return np.full((draws, theta.size), np.nan)
