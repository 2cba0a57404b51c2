"""What a prepared cache says of itself: its `repr`, and tables in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..tape.html_tables import table
from ..tape.tape import CONSTANT

if TYPE_CHECKING:
    from ..programs.program import Program
    from .base import PreparedCache

MOST_SPECS = 12  # leaves of the arguments that are named


def _arguments(cache: PreparedCache) -> list:
    """Return ``(leaf, spec)`` of the traced leaves; a complex one is named once, by its real part."""
    return [(leaf, spec) for leaf, spec, _ in cache._prepared.traced() if spec.part != "imag"]


def _name(program: Program) -> str:
    return getattr(program.function, "__name__", str(program.function))


def as_text(cache: PreparedCache) -> str:
    """Return the `repr` of a cache."""
    plan, program = cache._space.plan, cache._program
    listed = [f"{spec.path}: {np.shape(leaf)} {spec.whole_dtype}" for leaf, spec in _arguments(cache)]
    specs = ", ".join(listed[:MOST_SPECS])
    if len(listed) > MOST_SPECS:
        specs += f", and {len(listed) - MOST_SPECS} leaves more"
    strips = ""
    if plan.strips is not None:
        inside = sum(stop - start for start, stop in plan.strips.extents)
        strips = " of value and gradient together" + f", {inside} of them strip by strip" * (inside > 0)
    changes = [each for each in plan.tape.rewrites if each.before != each.after]
    rewrites = "".join(f", {each.name} {each.before} to {each.after}" for each in changes)
    return (
        f"<{type(cache).__name__} of {_name(program)}: "
        f"mode {cache.mode}; {specs}; {len(plan.tape)} instructions{strips} "
        f"({plan.prologue} on constants alone), {len(plan.tape.guards)} guards, "
        f"{len(program.variants)} variants, passes {program.config.passes}{rewrites}; "
        f"tape {plan.tape.nbytes} bytes, plan {plan.nbytes} bytes, workspace {cache._space.nbytes} bytes>"
    )


def as_tables(cache: PreparedCache) -> str:
    """Return what a notebook shows of a cache."""
    plan, program = cache._space.plan, cache._program
    kept = sum(len(each.variants) for each in cache._programs())
    rows = [
        (spec.path, np.shape(leaf), spec.whole_dtype, "data" if spec.level == CONSTANT else "differentiated")
        for leaf, spec in _arguments(cache)
    ]
    arguments = table("Arguments", ("argument", "shape", "dtype", "role"), rows[:MOST_SPECS])
    facts = [
        ("mode", cache.mode),
        ("instructions", f"{len(plan.tape)}, {plan.prologue} of them on constants alone"),
        ("guards", len(plan.tape.guards)),
        ("traces", f"{cache.traces}, {kept} of them kept"),
        ("passes", program.config.passes),
        ("bytes", f"tape {plan.tape.nbytes}, plan {plan.nbytes}, workspace {cache._space.nbytes}"),
    ]
    return table(f"{type(cache).__name__} of {_name(program)}", ("", ""), facts) + arguments
