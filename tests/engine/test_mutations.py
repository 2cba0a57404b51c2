"""The verifier against tapes with something changed at random: refused, or they reach no other memory.

Each instruction is interpreted over cells of which only its own operands' storages may be touched.
`tests.engine.mutations` runs any number of such tapes compiled, between pages that nothing may touch.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, make_plan
from numbatape.errors import VerificationError
from numbatape.ops import OPS, status
from numbatape.ops.fourier_tables import plan_of, real_plan_of
from numbatape.trace.primitives import array_instruction
from tests.engine.mutations import (
    PROGRAMS,
    dimensions,
    mutate_tape,
    op_cases,
    run_checked,
    tapes,
    traced,
)
from tests.every_case import every


@functools.cache
def all_tapes():
    return tapes()


def test_every_op_stays_within_its_operands():
    rng = np.random.default_rng(0)
    for name, tape, arrays in all_tapes():
        assert run_checked(make_plan(tape, dimensions(*arrays)), rng, arrays, 20_000), name
    names = {name.split()[0] for name, _, _ in all_tapes()}
    assert {op.name for op in OPS} - names <= {
        "cast",
        "fill",
        "agree",
        "arange",
        "call",
        "scatter",
        "scatter1",
        "spread",
        "stencil",  # in programs, as "call" is
    }
    there = {tape.name_of(k).split(".")[0] for _, tape, _ in all_tapes() for k in range(len(tape))}
    assert {"call", "stencil"} <= there


@pytest.mark.filterwarnings("ignore:floating point number truncated:RuntimeWarning")  # of orders
@pytest.mark.parametrize("seed", range(4))
def test_mutated_tapes(seed):
    found = all_tapes()
    refused = finished = 0
    for k in range(1250):
        rng = np.random.default_rng([seed, k])
        _, tape, arrays = found[int(rng.integers(len(found)))]
        try:
            plan = make_plan(mutate_tape(rng, tape), dimensions(*arrays))
        except VerificationError:
            refused += 1
            continue
        finished += run_checked(plan, rng, arrays)
    assert refused > 400
    assert finished > 400


# ---- each rule by name


def program(name):
    function, arrays, levels = PROGRAMS[name]
    return traced(function, *arrays, levels=levels), dimensions(*arrays)


@pytest.mark.parametrize("count", [-1, 10**6])
@pytest.mark.parametrize("field", ["uniform", "prologue"])
def test_counts_of_instructions(field, count):
    tape, sizes = program("vectors")
    with pytest.raises(VerificationError, match=field):
        make_plan(dataclasses.replace(tape, **{field: count}), sizes)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("wrong", [-1.0, 0.5, 7.0, 1e9, -1e300, np.nan, np.inf])
def test_a_damaged_table_of_a_transform_stops_the_sweep(place, wrong):
    """Length, number of factors, factors: what the kernel computes places from."""
    arrays = np.ones(6), np.ones(6), plan_of(6)
    tape = traced(lambda *args: array_instruction("fft", args, np.ones((2, 6))), *arrays, levels="xxc")
    plan = make_plan(tape, dimensions(*arrays))
    table = arrays[2].copy()
    space = Workspace(plan)
    for cells, array in zip(space.inputs, (*arrays[:2], table), strict=True):
        cells[...] = array
    assert space.forward() == status.DONE
    table[place] = wrong
    space.inputs[2][...] = table
    assert space.forward() == status.INDEX


@pytest.mark.parametrize("wrong", [-1.0, 0.5, 7.0, 1e300, np.nan])
def test_a_damaged_table_of_real_numbers_stops_the_sweep(wrong):
    arrays = np.ones(12), real_plan_of(12, 1.0, 1.0)
    tape = traced(lambda *args: array_instruction("rfft", args, np.ones((2, 7))), *arrays, levels="xc")
    space = Workspace(make_plan(tape, dimensions(*arrays)))
    for place, stops in ((0, False), (10, True), (11, True)):
        table = arrays[1].copy()
        table[place] = wrong
        space.inputs[0][...], space.inputs[1][...] = arrays[0], table
        assert space.forward() == (status.INDEX if stops else status.DONE)


@pytest.mark.parametrize("entries", [6, 8])
def test_spectra_have_room(entries):
    arrays = np.ones(12), real_plan_of(12, 1.0, 1.0)
    tape = traced(lambda *args: array_instruction("rfft", args, np.ones((2, entries))), *arrays, levels="xc")
    space = Workspace(make_plan(tape, dimensions(*arrays)))
    for cells, array in zip(space.inputs, arrays, strict=True):
        cells[...] = array
    assert space.forward() == status.INDEX


@pytest.mark.parametrize("number", [-1.0, 0.5, 7.0, 1e300, np.nan])
def test_the_number_of_a_call(number):
    tape, sizes = program("rules")
    place = next(k for k in range(len(tape)) if tape.name_of(k) == "call")
    value = tape.values[tape.code["c"][place]]
    literals = [
        item._replace(
            data=np.where(
                np.arange(item.data.size) + item.offset == value["offset"], number, item.data.reshape(-1)
            ),
        )
        if item.storage == value["storage"]
        else item
        for item in tape.literals
    ]
    with pytest.raises(VerificationError, match=f"instruction {place}, call.*no literal, or.*no such rule"):
        make_plan(dataclasses.replace(tape, literals=tuple(literals)), sizes)


def test_the_number_of_a_call_is_not_computed():
    """What the tape's cells hold before a sweep is not what they hold in it."""
    square = nt.primitive(lambda x: x * x, pullback=lambda ybar, y, x: (2.0 * x * ybar,))
    tape = traced(lambda x: np.sum(square(x * np.max(x))), np.ones(3))
    place = next(k for k in range(len(tape)) if tape.name_of(k) == "call")
    code = tape.code.copy()
    code["c"][place] = tape.code["out"][next(k for k in range(len(tape)) if tape.name_of(k) == "max")]
    with pytest.raises(VerificationError, match="number is no literal"):
        make_plan(dataclasses.replace(tape, code=code), (3,))


def test_a_call_needs_its_rule():
    tape, sizes = program("rules")
    with pytest.raises(VerificationError, match="no such rule"):
        make_plan(dataclasses.replace(tape, calls=()), sizes)


@pytest.mark.parametrize("operand", ["out", "a"])
def test_a_rule_gets_all_its_cells(operand):
    square = nt.primitive(lambda x, y: x * y, pullback=lambda ybar, z, x, y: (y * ybar, None))
    x = np.ones(3)
    tape = traced(lambda x, c: np.sum(square(x, c)), x, x, levels="xc")
    place = next(k for k in range(len(tape)) if tape.name_of(k) == "call")
    values, layouts = tape.values.copy(), list(tape.layouts)
    layouts.append(layouts[values["layout"][tape.code[operand][place]]]._replace(dims=(2,)))
    values = np.append(values, values[tape.code[operand][place]])
    values["layout"][-1] = len(layouts) - 1
    code = tape.code.copy()
    code[operand][place] = len(values) - 1
    other = dataclasses.replace(tape, code=code, values=values, layouts=tuple(layouts))
    with pytest.raises(VerificationError, match="the rule needs longer operands"):
        make_plan(other, (3, 3))


@pytest.mark.parametrize("name", ["eigh", "svd", "qr", "fft"])
def test_packed_results_have_room(name):
    """The signature does not say how long these results are."""
    function, arrays, levels = next((f, a, lv) for n, f, a, lv in op_cases() if n == f"{name} float64")
    tape = traced(function, *arrays, levels=levels)
    layouts = list(tape.layouts)
    k = int(tape.values["layout"][tape.code["out"][0]])
    layouts[k] = layouts[k]._replace(dims=(layouts[k].dims[0] - 1, *layouts[k].dims[1:]))
    with pytest.raises(VerificationError, match=r"record is damaged"):
        make_plan(dataclasses.replace(tape, layouts=tuple(layouts)), dimensions(*arrays))


def test_dimensions_fit_a_set_of_bits():
    tape, sizes = program("scalars")
    layouts = (*tape.layouts, tape.layouts[0]._replace(dims=(1,) * 70, strides=(0,) * 70))
    with pytest.raises(VerificationError, match="too many dimensions"):
        make_plan(dataclasses.replace(tape, layouts=layouts), sizes)


# ---- numbers that no word holds

BEYOND = (2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**100, -(2**100))


def _each(tape, field, change):
    """Return the tape with each item of a field changed."""
    return dataclasses.replace(tape, **{field: tuple(map(change, getattr(tape, field)))})


def _layouts(which, number):
    def change(layout):
        return layout._replace(**{which: tuple(number for _ in getattr(layout, which))})

    return lambda tape: _each(tape, "layouts", change)


def _items(field, name, number):
    return lambda tape: _each(tape, field, lambda item: item._replace(**{name: number}))


def _sizes(number, rows=False):
    def change(tape):
        sizes = tape.sizes
        if rows:
            sizes = dataclasses.replace(sizes, rows=(*sizes.rows, (1, -1, number)))
        else:
            guards = tuple(dataclasses.replace(guard, left=number) for guard in sizes.guards)
            sizes = dataclasses.replace(sizes, guards=guards)
        return dataclasses.replace(tape, sizes=sizes)

    return change


PLACES = {
    "dimensions": functools.partial(_layouts, "dims"),
    "strides": functools.partial(_layouts, "strides"),
    "input": functools.partial(_items, "inputs", "value"),
    "dimensions of an input": lambda n: _items("inputs", "dims", (n,)),
    "level of an input": functools.partial(_items, "inputs", "level"),
    "storage of a literal": functools.partial(_items, "literals", "storage"),
    "offset of a literal": functools.partial(_items, "literals", "offset"),
    "output": lambda n: lambda tape: dataclasses.replace(tape, outputs=(n,)),
    "prologue": lambda n: lambda tape: dataclasses.replace(tape, prologue=n),
    "uniform": lambda n: lambda tape: dataclasses.replace(tape, uniform=n),
    "relation of sizes": _sizes,
}


@functools.cache
def branching():
    return traced(lambda x: np.sum(x * np.arange(3.0)) if x[0] > 0 else x[1], np.ones(3))


@every("number", BEYOND)
@every("place", PLACES)
def test_numbers_beyond_the_words_of_tables(place, number):
    """They are the tape's fault, not an `OverflowError` of whoever makes an array of words of them."""
    with pytest.raises(VerificationError):
        make_plan(PLACES[place](number)(branching()), (3,))


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**100])
def test_sizes_beyond_words(number):
    with pytest.raises(VerificationError, match="sizes cannot be evaluated"):
        make_plan(_sizes(number, rows=True)(branching()), (3,))


def test_sizes_that_square_one_another():
    """Sixty rows of this kind would be a number of 2**60 bits."""
    sizes = dataclasses.replace(branching().sizes, rows=((0, 0, 0), *((3, -k, -k) for k in range(1, 60))))
    with pytest.raises(VerificationError, match="64-bit"):
        make_plan(dataclasses.replace(branching(), sizes=sizes), (3,))


def test_an_empty_result_may_be_said_to_begin_anywhere():
    """It has no cells: nothing is read or seeded there."""
    tape = traced(lambda x: x[2:2] * 2.0, np.ones(3))
    values = tape.values.copy()
    values["offset"][tape.outputs[0]] = 2**31 - 1
    storages = tape.storages.copy()
    storages["size"][0] = 8  # so that the address is beyond 32 bits
    space = Workspace(make_plan(dataclasses.replace(tape, values=values, storages=storages), (3,)))
    assert space.forward() == status.DONE
    space.reverse()
    assert space.outputs[0].size == 0
    np.testing.assert_array_equal(space.gradients[0], np.zeros(3))


def test_source_lines_of_guards():
    tape = _items("guards", "position", len(branching().lines))(branching())
    with pytest.raises(VerificationError, match="a guard's source line"):
        make_plan(tape, (3,))


@pytest.mark.parametrize("change", [lambda data: data.reshape(1, -1), lambda data: data * 1j])
def test_literals_are_rows_of_real_numbers(change):
    tape = _each(branching(), "literals", lambda item: item._replace(data=change(item.data)))
    with pytest.raises(VerificationError, match="no row of real numbers"):
        make_plan(tape, (3,))


@pytest.mark.parametrize("table", ["code", "values", "storages"])
def test_tables_are_made_of_their_words(table):
    rows = getattr(branching(), table)
    wide = rows.astype([(name, "i8") for name in rows.dtype.names])
    for other in (wide, rows[None]):
        with pytest.raises(VerificationError, match=f"table {table} is made of other words"):
            make_plan(dataclasses.replace(branching(), **{table: other}), (3,))
