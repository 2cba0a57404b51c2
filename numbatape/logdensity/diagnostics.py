"""Whether chains have converged: R-hat, effective draws and divergences, by ArviZ."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from numbatape.logdensity.element_names import element_name
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.optional import optional

ROWS_SHOWN = 12
SUSPICIOUS = 1.01  # An R-hat above this is reported (Vehtari et al. 2021).
FEWEST_DRAWS = 4  # ArviZ gives no diagnostics for fewer draws.
COLUMNS = ("mean", "sd", "ess_bulk", "ess_tail", "r_hat")


def diagnosed(variables: Arrays) -> list[dict[str, Any]]:
    """Return one row for each number among the variables: name, mean, deviation, effective draws, R-hat."""
    arviz = optional("arviz", "sampling")
    rows = []
    for name, array in variables.items():
        for index in np.ndindex(array.shape[2:]):
            draws = array[(slice(None), slice(None), *index)]
            rows.append({"name": element_name(name, index), **_row(arviz, draws)})
    return rows


def _row(arviz: Any, draws: np.ndarray) -> dict[str, float | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [draws.mean(), draws.std(ddof=1) if draws.size > 1 else np.nan]
        if draws.shape[1] < FEWEST_DRAWS or not np.isfinite(draws).all() or np.ptp(draws) == 0.0:
            found += [np.nan] * 3
        else:
            found += [arviz.ess(draws, method="bulk"), arviz.ess(draws, method="tail")]
            found.append(arviz.rhat(draws) if len(draws) > 1 else np.nan)
    numbers = map(float, found)
    return {key: x if np.isfinite(x) else None for key, x in zip(COLUMNS, numbers, strict=True)}


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows as the lines of a table; of many, those with the largest R-hat, worst first."""
    shown = rows
    if len(rows) > ROWS_SHOWN:
        shown = sorted(rows, key=lambda row: (-(row["r_hat"] or 0.0), row["ess_bulk"] or 0.0))[:ROWS_SHOWN]
    width = max([len("name"), *(len(row["name"]) for row in shown)])
    lines = [f"{'':<{width}}  {'mean':>10} {'sd':>10} {'ESS bulk':>9} {'ESS tail':>9} {'R-hat':>7}"]
    for row in shown:
        mean, sd, bulk, tail, r_hat = (row[key] for key in COLUMNS)
        lines.append(
            f"{row['name']:<{width}}  {_number(mean, '.4g'):>10} {_number(sd, '.4g'):>10} "
            f"{_number(bulk, '.0f'):>9} {_number(tail, '.0f'):>9} {_number(r_hat, '.4f'):>7}"
        )
    if len(rows) > len(shown):
        lines.append(f"the {len(shown)} of {len(rows)} numbers with the largest R-hat")
    return lines


def _number(value: float | None, kind: str) -> str:
    return "-" if value is None else format(value, kind)
