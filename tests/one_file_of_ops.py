"""Run by `tests.test_op_table`: numbatape with the file of ops that docs/adding-an-op.md shows.

Usage: ``python -m tests.one_file_of_ops FOLDER``, where FOLDER holds the file.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np

import numbatape as nt


def import_ops(folder: str):
    """Import the op table as if the folder's files were among those of ``numbatape/ops``."""
    spec = importlib.util.find_spec("numbatape.ops")
    spec.submodule_search_locations.append(folder)
    package = sys.modules["numbatape.ops"] = nt.ops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def check(function, reference, slope, bend) -> None:
    """Compare ``sum(function(x)) * x[0]`` with what is known: value, derivatives, pattern, lanes."""
    x = np.array([0.4, 1.3, -2.2, 0.9])

    def f(x):
        return np.sum(function(x) * x[0])

    value, gradient = nt.value_and_grad(f)(x)
    first = np.eye(4)[0]
    exact = slope(x) * x[0] + np.sum(reference(x)) * first
    np.testing.assert_allclose(value, np.sum(reference(x)) * x[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, exact, rtol=1e-12, atol=1e-13)
    hessian = np.diag(bend(x) * x[0]) + np.outer(first, slope(x)) + np.outer(slope(x), first)
    np.testing.assert_allclose(nt.hessian(f)(x), hessian, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(nt.hvp(f)(x, np.ones(4)), hessian @ np.ones(4), rtol=1e-11, atol=1e-12)
    pattern = nt.sparsity(f, x, order=2).toarray() != 0
    np.testing.assert_array_equal(pattern, hessian != 0)
    values, gradients = nt.batch(f)(np.stack([x, 0.5 * x]))
    np.testing.assert_allclose(values[0], value, rtol=1e-13)
    np.testing.assert_allclose(gradients[0], gradient, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradients[1], nt.grad(f)(0.5 * x), rtol=1e-13, atol=1e-15)
    cache = nt.prepare_gradient_cache(f, x, config=nt.Config(debug_mode=True, silence_debug_messages=True))
    np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0], exact, rtol=1e-12, atol=1e-13)


def main(folder: str) -> None:
    ops = import_ops(folder)
    import scipy.special as sc

    from tests.test_op_table import missing

    mine = sys.modules["numbatape.ops.mine"]
    added = [op for op in ops.OPS if op.name in ("itmodstruve0", "log_cosh_sum")]
    assert len(added) == 2
    assert [missing(op) for op in added] == [[], []]
    check(
        mine.log_cosh_sum,
        lambda x: np.log(np.cosh(x)),
        np.tanh,
        lambda x: 1.0 / np.cosh(x) ** 2,
    )
    check(
        sc.itmodstruve0,
        sc.itmodstruve0,
        lambda x: sc.modstruve(0.0, x),
        lambda x: 2.0 / np.pi + sc.modstruve(1.0, x),
    )
    tape = nt.prepare_gradient_cache(lambda x: mine.log_cosh_sum(sc.itmodstruve0(x)), np.ones(3)).tape
    assert [tape.name_of(k) for k in range(len(tape))] == ["itmodstruve0", "log_cosh_sum"]
    print("added")


if __name__ == "__main__":
    main(sys.argv[1])
