"""Sizes that guards allow one number alone."""

from __future__ import annotations

import pytest

from numbatape.tape.sizes import Sizes


@pytest.fixture
def sizes():
    found = Sizes()
    n, m, k = (found.input(number, value) for number, value in enumerate((3, 4, 5)))
    found.guard(n, "==", 3)
    found.guard(2, "==", found.sub(m, 2))
    found.guard(k, ">=", 5)
    return found


def test_a_settled_size_is_its_number(sizes):
    n, m = sizes.input(0, 3), sizes.input(1, 4)
    assert [sizes.settled(code) for code in (0, 7, n)] == [0, 7, 3]
    assert sizes.settled(sizes.mul(n, n)) == 9
    assert sizes.settled(sizes.sub(m, 2)) == 2
    assert sizes.settled(sizes.add(sizes.mul(n, 20), sizes.sub(m, 2))) == 62


def test_other_sizes_stay_codes(sizes):
    k, n = sizes.input(2, 5), sizes.input(0, 3)
    for code in (k, sizes.mul(n, k), sizes.sub(n, sizes.mul(n, n))):
        assert sizes.settled(code) == code


def test_guards_settle_more_than_what_they_name(sizes):
    m, n, p = (sizes.input(number, value) for number, value in ((1, 4), (0, 3), (3, 3)))
    both, q = sizes.add(m, p), sizes.input(4, 7)
    assert sizes.settled(m) == 4  # of the guard that m - 2 is 2
    assert sizes.settled(p) == p
    sizes.guard(p, "==", n)
    sizes.guard(q, "==", both)
    assert [sizes.settled(code) for code in (p, q, sizes.sub(q, p))] == [3, 7, 4]
    table = sizes.freeze()
    assert table.broken_guard(table.evaluate((3, 4, 5, 3, 7))) is None
    for dimensions in ((3, 4, 5, 4, 8), (3, 5, 5, 3, 8), (3, 4, 5, 3, 8)):
        assert table.broken_guard(table.evaluate(dimensions)) is not None


def test_what_is_settled_holds_for_all_sizes_that_guards_allow(sizes):
    n, k = sizes.input(0, 3), sizes.input(2, 5)
    codes = [sizes.mul(n, 4), sizes.add(n, n), sizes.mul(n, k), sizes.floordiv(sizes.mul(n, 6), n)]
    table = sizes.freeze()
    for dimensions in ((3, 4, 5), (3, 4, 9)):
        values = table.evaluate(dimensions)
        assert table.broken_guard(values) is None
        for code in codes:
            settled = sizes.settled(code)
            assert settled < 0 or settled == (code if code >= 0 else values[-code - 1])


@pytest.mark.parametrize("size", [0, 1, 7, "input", "product", "sum"])
def test_products_of_many_codes_with_one_are_those_of_each(size):
    found = []
    for several in (False, True):
        sizes = Sizes()
        n, m = sizes.input(0, 3), sizes.input(1, 4)
        by = {"input": n, "product": sizes.mul(n, m), "sum": sizes.add(m, 2)}.get(size, size)
        codes = [0, 1, 2, 9, m, sizes.mul(m, 3), 2, sizes.sub(n, m)]
        products = sizes.multiples(by, codes) if several else [sizes.mul(code, by) for code in codes]
        found.append((products, sizes.rows, sizes.values))
    assert found[0] == found[1]


def test_negative_strides_of_reversals_cancel(sizes):
    k, minus = sizes.input(2, 5), sizes.negative(-1)
    offset, stride, counts = 0, 1, []
    for _ in range(6):  # x[::-1] begins at the last entry and goes back
        offset = sizes.add(offset, sizes.mul(sizes.sub(k, 1), stride))
        stride = sizes.mul(minus, stride)
        counts.append(len(sizes.rows))
    assert (offset, stride) == (0, 1)
    assert counts[1:] == [counts[1]] * 5


def test_a_sum_without_one_of_its_terms_is_the_other(sizes):
    k, n = sizes.input(2, 5), sizes.input(0, 3)
    first = sizes.sub(sizes.mul(k, n), k)
    for left, right in ((first, n), (n, first)):
        end = sizes.add(left, right)
        assert sizes.sub(end, first) == n
        assert sizes.sub(sizes.add(end, 2), sizes.add(first, 1)) == sizes.add(n, 1)
        assert sizes.sub(end, sizes.add(first, 1)) == sizes.sub(n, 1)
    assert sizes.sub(sizes.add(k, k), k) == k
    table = sizes.freeze()
    code = sizes.sub(sizes.add(first, n), k)
    assert code < 0
    for a, b in ((3, 5), (7, 2)):
        assert sizes.freeze().evaluate((a, 4, b))[-code - 1] == a * b - b + a - b
    assert len(sizes.rows) == len(table.rows) + 1


@pytest.mark.parametrize("factor", [-1, -3])
def test_products_with_negative_numbers_are_those_of_numbers(sizes, factor):
    k, n, code = sizes.input(2, 5), sizes.input(0, 3), sizes.negative(factor)
    made = [sizes.mul(code, 4), sizes.mul(code, k), sizes.mul(sizes.mul(k, code), sizes.mul(n, code))]
    made += [sizes.add(k, sizes.mul(n, code)), sizes.add(sizes.mul(n, code), k)]
    assert sizes.multiples(code, [4, k]) == made[:2]
    assert made[0] == sizes.negative(4 * factor)
    assert made[2] == sizes.mul(factor * factor, sizes.mul(k, n))
    table = sizes.freeze()
    for a, b in ((3, 5), (7, 2), (0, 9)):
        values = table.evaluate((a, 4, b))
        found = [values[-code - 1] if code < 0 else code for code in made]
        expected = [4 * factor, b * factor, factor * factor * a * b, b + factor * a, b + factor * a]
        assert found == expected
