"""Results of elementwise functions have the order of axes that their operands have in memory."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.derive.tapes import gradient
from numbatape.engine.strips.strip_rows import LEAST

RNG = np.random.default_rng(5)
SHAPE = (3, 5, 4)
W = RNG.normal(size=SHAPE)
V = RNG.normal(size=SHAPE[0])
ORDERS = [(0, 2, 1), (1, 0, 2), (1, 2, 0)]


def of_transposed(x, order):
    """A function of an array with other axes, data, a row or column, and sums over an axis."""
    y = np.tanh(x.transpose(order)) * W.transpose(order)
    y = y + V.reshape([SHAPE[0] if axis == 0 else 1 for axis in order])
    return np.sum(np.sin(y) / (1.0 + np.sum(np.exp(y), axis=order.index(2), keepdims=True)))


def chain(x, order):
    return np.sum(np.log1p(np.exp(np.tanh(x.transpose(order)))))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("f", "x"),
    [(of_transposed, RNG.normal(size=SHAPE)), (chain, RNG.normal(size=(2, LEAST // 2, 2)))],
    ids=["two sweeps", "one sweep"],
)
def test_transposed_arrays_have_the_bits_of_the_arrays_themselves(f, x, order):
    (value, slopes), (its, its_slopes) = (
        nt.value_and_grad(f)(x, nt.Static(axes)) for axes in (order, (0, 1, 2))
    )
    assert value == its
    np.testing.assert_array_equal(slopes, its_slopes)
    product, its = (nt.hvp(lambda x, axes=axes: f(x, axes))(x, x) for axes in (order, (0, 1, 2)))
    np.testing.assert_allclose(product, its, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("data", [W[0], W[0].T.copy().T], ids=["rows", "columns"])
def test_data_take_the_order_of_what_they_are_multiplied_with(data):
    """They are copied once; neither the function nor its gradient copies anything again."""
    x = RNG.normal(size=SHAPE[:0:-1])
    tape = nt.prepare_gradient_cache(lambda x: np.sum(np.tanh(x.T) * data), x).tape
    for each in (tape, gradient(tape, x.shape)):
        main = each.code["out"][each.prologue :]
        strides = [each.layouts[k].strides for k in each.values["layout"][main].tolist()]
        assert {s[0] for s in strides if len(s) == 2} == {1}
        assert each.prologue == 1


def test_what_lies_in_two_orders_is_copied_to_rows_once():
    x = RNG.normal(size=(4, 4))

    def f(x):
        return np.sum(np.sin(np.exp(x.T)) * np.exp(x) + np.sin(np.exp(x.T)) * x)

    tape = nt.prepare_gradient_cache(f, x).tape
    assert tape.listing().count("copy") == 1
    assert gradient(tape, x.shape).listing().count("copy") <= 3  # and its cotangent once
    nt.testing.check_derivatives(f, x)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda a, b: np.sum(np.tanh(a @ b)), [(3, 4), (4, 5)]),
        (lambda a, b, c: np.sum((c - a @ np.maximum(b, 0.0)) ** 2), [(3, 4), (4, 5), (3, 5)]),
        (lambda a, b: np.sum(np.exp(a @ b).ravel()[1:]), [(2, 3, 4), (4, 4)]),
    ],
    ids=["product", "layers", "stack"],
)
def test_sizes_that_guards_make_equal_say_that_slopes_are_dense(f, shapes):
    """Rows of the slopes are as long as one argument's, and as far apart as another's: they were copied."""
    args = [RNG.normal(size=shape) for shape in shapes]
    tape = gradient(nt.prepare_gradient_cache(f, *args).tape, tuple(np.concatenate(shapes).tolist()))
    assert "copy         s" not in tape.listing()
    nt.testing.check_derivatives(f, *args)
