"""The benchmark harness: its workloads are right, its checks check, its tables add up."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `benchmarks` is not installed

from benchmarks import (
    costs,
    first_gradient,
    growth,
    linalg,
    report,
    run,
    scalar_cost,
    timing,
    tracing,
    vmap,
    workloads,
)
from benchmarks.check import WrongGradient, check, directional_derivative
from benchmarks.peers import engines, rebound

SMALL = workloads.catalogue(shrink=20)


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_gradient_of_every_workload(workload):
    call, read = engines("numbatape")["numbatape"](workload)
    assert check(workload, *read(call())) <= 1e-8


@pytest.mark.parametrize("engine", ["numbatape reuse", "numbatape bound"])
@pytest.mark.parametrize("name", ["sum_10", "simple_mlp_small", "eight_schools_nc", "garch11"])
def test_other_call_paths(engine, name):
    workload = next(w for w in SMALL if w.name == name)
    call, read = engines("numbatape")[engine](workload)
    call()
    assert check(workload, *read(call())) <= 1e-8


@pytest.mark.parametrize(
    "posterior", [each for each in workloads.posteriors() if each[2] is not None], ids=lambda p: p[0]
)
def test_posteriors_have_the_reference_log_density(posterior):
    """Posteriordb gives a reference for all but one of them."""
    _, function, model, data = posterior
    for point in workloads.reference(model):
        value = function(np.array(point["theta"]), *data)
        assert value == pytest.approx(point["value"], rel=1e-10)


@pytest.mark.parametrize("function", first_gradient.FUNCTIONS.values(), ids=lambda f: f.__name__)
def test_first_gradient_functions(function):
    workload = workloads.Workload("", function, (np.linspace(0.5, 0.9, 10),))
    call, read = engines("numbatape")["numbatape"](workload)
    assert check(workload, *read(call())) <= 1e-8


def test_programs_of_first_runs(tmp_path):
    """They run, and processor time is that of the child alone."""
    first_gradient.sixteen_functions()
    program = "import numbatape as nt; print(nt.kernel_info()['shipped'])"
    for wheel in (True, False):
        seconds, printed = first_gradient.processor_time(program, str(tmp_path), wheel)
        assert seconds > 0.0
        assert printed.strip().isdigit()


@pytest.mark.parametrize("name", [name for name in tracing.CASES if name != "Kalman filter"])
def test_functions_that_are_traced(name):
    case = tracing.CASES[name]
    workload = workloads.Workload("", case.function, (case.x,))
    assert check(workload, *tracing.first_gradient(case.function, case.x)) <= 1e-8


@pytest.mark.usefixtures("only_new_objects")
def test_a_recorded_number_takes_at_most_200_bytes():
    assert 0 < tracing.bytes_an_operation(8_000) <= 200


def test_closed_forms_agree_with_differences():
    for workload in SMALL:
        if workload.gradient is None or workload.name.startswith("large_single_block"):
            continue
        rng = np.random.default_rng(3)
        direction = [rng.standard_normal(np.shape(x)) for x in workload.active]
        gradient = workload.gradient(*workload.active, *workload.data)
        expected = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
        slope = directional_derivative(
            lambda *x, w=workload: w.function(*x, *w.data), workload.active, direction
        )
        assert slope == pytest.approx(expected, rel=1e-8), workload.name


def test_names_of_workloads_are_unique():
    names = [w.name for w in SMALL]
    assert len(set(names)) == len(names) == 31


@pytest.mark.parametrize(
    "value, gradient, message",
    [
        (3.0, np.ones(3), "value"),
        (0.6, np.ones(4), "shapes"),
        (0.6, np.array([1.0, 1.0, 1.0 + 1e-6]), "relative error"),
        (0.6, np.full(3, np.nan), "relative error"),
    ],
)
def test_check_finds_what_is_wrong(value, gradient, message):
    workload = workloads.Workload("", workloads.total, (np.array([0.1, 0.2, 0.3]),))
    with pytest.raises(WrongGradient, match=message):
        check(workload, value, [gradient])


def test_check_accepts_the_truth():
    x = np.array([0.1, 0.2, 0.3])
    workload = workloads.Workload("", workloads.sum_sin, (x,))
    assert check(workload, np.sum(np.sin(x)), [np.cos(x)]) < 1e-9


def test_rebound_functions_use_the_other_namespace():
    class Doubling:
        def sum(self, x):
            return 2 * np.sum(x)

    assert rebound(workloads.total, np=Doubling())(np.ones(3)) == 6
    assert workloads.total(np.ones(3)) == 3


def test_interleaved_rounds():
    seen = []
    times = timing.interleave(
        {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=4, seconds=1e-5
    )
    assert {"a", "b"} == set(times) == set(seen)
    for timed in times.values():
        assert timed["rounds"] == 4
        assert 0 < timed["q1"] <= timed["median"] <= timed["q3"]


def test_slow_calls_take_part_in_few_rounds(monkeypatch):
    monkeypatch.setattr(timing, "SLOW_CALL", 0.0)
    times = timing.interleave({"slow": lambda: None}, rounds=9, seconds=1e-6)
    assert times["slow"]["rounds"] == timing.SLOW_ROUNDS


def test_summary():
    assert timing.summary([4.0, 1.0, 3.0, 2.0, 5.0]) == {
        "median": 3.0,
        "q1": 2.0,
        "q3": 4.0,
        "minimum": 1.0,
        "rounds": 5,
    }
    assert timing.summary([2.0])["q3"] == 2.0


def test_scalar_cost_is_the_slope(monkeypatch):
    monkeypatch.setattr(
        scalar_cost, "interleave", lambda *_: {1000: {"median": 3e-6}, 5000: {"median": 11e-6}}
    )
    prepare = lambda workload: (None, None)  # noqa: E731
    assert scalar_cost.cost(prepare, scalar_cost.add, 1, 0.1) == pytest.approx(2e-9)
    assert scalar_cost.cost(prepare, scalar_cost.multiply_add, 1, 0.1) == pytest.approx(1e-9)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (1.26e-9, "1.26 ns"),
        (5e-7, "500 ns"),
        (1.3e-6, "1.30 µs"),
        (4.56e-5, "45.6 µs"),
        (0.25, "250 ms"),
        (12.0, "12.0 s"),
        (None, "-"),
    ],
)
def test_time_text(seconds, text):
    assert report.time_text(seconds) == text


def made_up():
    """Results of two workloads; the second ran with NumPy and numbatape only."""

    def timed(median):
        return {"median": median, "q1": 0.9 * median, "q3": 1.1 * median, "first_call": 0.01}

    first = {
        "numpy": timed(2e-6),
        "numbatape": timed(1e-6),
        "numbatape reuse": timed(8e-7),
        "numbatape bound": timed(4e-7),
        "jax": timed(1e-5),
        "casadi": timed(2e-6),
        "casadi bound": timed(2e-7),
    }
    second = {
        "numpy": timed(2e-6),
        "numbatape": timed(4e-6),
        "jax": {"skipped": "TypeError: no"},
    }
    return {
        "machine": {"Python": "3", "machine": "abacus"},
        "workloads": {"sum_10": {"engines": first}, "other": {"engines": second}},
        "scalar_cost": {"y + x[i]": {"numbatape bound": 4e-9, "casadi bound": None}},
    }


def test_ratios_compare_like_with_like():
    header, first, second, mean = report.ratio_table(made_up())
    assert header[1:] == ["/ numpy", "/ jax", "/ casadi", "/ casadi bound", "/ fastest peer"]
    # bound against bound (4e-7 / 2e-7); the fastest peer is the fastest with fresh results
    assert first == ["sum_10", "0.50", "0.10", "0.50", "2.00", "0.50"]
    assert second == ["other", "2.00", "-", "-", "-", "-"]
    assert mean == ["geometric mean", "1.00", "0.10", "0.50", "2.00", "0.50"]


def test_geometric_mean():
    assert report.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert report.geometric_mean([]) is None


def test_tables_show_a_dash_for_what_did_not_run():
    header, first, second = report.steady_table(made_up())
    assert header[:3] == ["workload", "numpy", "numbatape"]
    assert first[2] == "1.00 µs (900 ns to 1.10 µs)"
    assert second[header.index("jax")] == "-"
    assert report.call_path_table(made_up())[1] == ["sum_10", "1.00 µs", "800 ns", "400 ns"]


def test_report_is_aligned_markdown():
    text = report.report(made_up())
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert "| y + x[i] |         4.00 ns |            - |" in tables
    assert all(line.endswith("|") for line in tables)
    assert "## Process start" not in text  # not measured, no empty table


@pytest.mark.parametrize("name", linalg.tasks(3))
def test_gradients_of_linear_algebra(name):
    function, active, data = linalg.tasks(6)[name]
    linalg.check(name, function, active, data, linalg.gradient_call(function, active, data))


def test_maps_over_rows():
    for name, calls in vmap.tasks(5).items():
        vmap.check(name, calls)


def test_table_of_linear_algebra():
    header, row = report.linalg_table({"linalg": {"qr": {"numpy": 1e-3, "numbatape": 2.5e-3}}})
    assert header == ["function", "numpy", "numbatape", "/ numpy"]
    assert row == ["qr", "1.00 ms", "2.50 ms", "2.50"]


@pytest.mark.usefixtures("only_new_objects")
def test_tables_of_costs(monkeypatch):
    monkeypatch.setattr(costs, "fresh_process", lambda rounds: 0.5)
    tables = {"A call": costs.of_calls(1, 1e-6), "Memory": costs.of_memory()}
    text = report.report({"machine": {}, "workloads": {}, "costs": tables})
    assert "## A call" in text and "500 ms" in text
    assert "4 096 bytes" in text


def test_tables_are_written_between_the_marks_of_a_page():
    page = "before\n<!-- tables -->\nold\n<!-- /tables -->\nafter\n"
    once = report.in_page(page, "new\n")
    assert once == "before\n<!-- tables -->\n\nnew\n\n<!-- /tables -->\nafter\n"
    assert report.in_page(once, "new\n") == once
    with pytest.raises(ValueError, match="no place"):
        report.in_page("nothing", "new")


def test_run_in_process(tmp_path, capsys):
    out = tmp_path / "out.json"
    markdown = tmp_path / "out.md"
    options = ["--filter", "^sum_10$", "--quick", "--peers", ""]
    assert run.main([*options, "--json", str(out), "--markdown", str(markdown)]) == 0
    found = json.loads(out.read_text())["workloads"]["sum_10"]["engines"]
    assert list(found) == ["numpy", "numbatape", "numbatape reuse", "numbatape bound"]
    assert all(timed["median"] > 0 for timed in found.values())
    assert "| sum_10 " in markdown.read_text()
    assert markdown.read_text() == capsys.readouterr().out.removesuffix("\n")


def test_an_absent_peer_fails_the_run_and_says_why(capsys):
    assert run.main(["--filter", "^$", "--quick", "--peers", "abacus"]) == 1
    assert "failed: abacus: ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize("name", growth.LOOPS)
def test_loops_that_grow(name):
    """They have ten operations a turn, and right gradients."""
    workload = workloads.Workload("", growth.LOOPS[name](5), (np.linspace(0.5, 0.9, 10),))
    call, read = engines("numbatape")["numbatape"](workload)
    assert check(workload, *read(call())) <= 1e-8
    assert {*growth.one_loop(name, 100)} == {"Python's value", "first call", "later calls", "memory"}


def test_charts_of_growth(tmp_path):
    results = {
        part: {name: {str(10**k): {"a call": 1e-6 * 10**k, "memory": 1e6} for k in (1, 2)} for name in names}
        for part, names in (("vectors", growth.VECTORS), ("loops", growth.LOOPS))
    }
    assert growth.tables(results).count("1 MB") == 8
    known = tmp_path / "growth.json"
    known.write_text(json.dumps(results))
    growth.main(["--from", str(known), "--charts", str(tmp_path / "charts")])
    for part in results:
        assert (tmp_path / "charts" / f"{part}.svg").read_text().count("a call") == 2
