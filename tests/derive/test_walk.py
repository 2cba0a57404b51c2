"""What the kernel appends to a tape by templates is, bit for bit, what pullbacks would have appended."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES
from numbatape.derive import accumulators, tapes, walk_memory
from numbatape.derive import repeats as walk
from numbatape.derive.tapes import adjoint, pushforward
from numbatape.tape.cell_literals import CellLiterals
from numbatape.tape.shared_results import Results
from tests.derive.emitted_bodies import emitted
from tests.derive.test_tapes import sizes

COUNT = 40  # turns of a loop
UNROLLED = tuple(name for name in PASSES if name != "reroll")  # leaves instructions that are alike to walks


def scalars(x, y):
    total = x[0] * y[0]
    for k in range(COUNT):
        total = np.sin(total) * y[1] + x[k % 3] / (1.0 + total * total)
    return total


def literals(x, y):
    """Numbers that differ from turn to turn; some partials are computed from them."""
    total = x[0]
    for k in range(COUNT):
        total = (
            total * (0.5 + 0.01 * k) + x[1] / (k + 1.0) - y[0] ** (2.0 + k % 4) + np.maximum(total, 0.1 * k)
        )
    return total


def signs(x, y):
    """Only numbers as cotangents."""
    total = x[0]
    for k in range(COUNT):
        total = total - 2.0 * (x[k % 3] - 0.5 * y[k % 2]) + y[1]
    return total


def cells(x, y):
    """Cells of an array that is written to and read, cell by cell and as a whole."""
    h = np.zeros(COUNT)
    h[0] = x[0]
    for k in range(1, COUNT):
        h[k] = 0.5 * h[k - 1] + np.tanh(h[k - 1] * y[0]) + x[k % 3]
    return np.sum(h * h) + h[COUNT // 2]


def arrays(x, y):
    a = np.outer(x, y[:1]) + np.eye(3)
    m, total = x, 0.0
    for k in range(COUNT):
        m = np.tanh(a @ m) + np.array([0.1, 0.2, 0.3 * k])
        s = a.T @ a + np.eye(3) * y[1]
        total = total + m @ np.linalg.solve(s, m) - np.sum(s, axis=0)[k % 3] + np.log(np.linalg.det(s))
    return total


def broadcasts(x, y):
    total = np.ones((2, 3)) * x
    for _ in range(COUNT):
        total = np.where(total > 1.0, total * y[:, None], np.exp(-total)) + x[0] * y[1]
        total = total + np.max(total, axis=1)[:, None] + np.broadcast_to(np.mean(total), (2, 3))
    return np.sum(total)


def narrow(x, y):
    """In float32, where literals are other numbers."""
    x, total = x.astype(np.float32), y[0].astype(np.float32)
    for k in range(COUNT):
        total = total * x[k % 3] + np.float32(0.1 * k) * total - np.log1p(total * total)
    return total.astype(float)


def parts(x, y):
    """Cells of arrays whose tangents begin inside of another array's."""
    table, total = np.stack([x * (k + y[0]) for k in range(COUNT)]), y[1]
    for k in range(COUNT):
        z = table[k].copy()
        total = total + z[0] * z[1] + z[0] ** 2 * z[1] - z[1] ** 2 * z[2] + z[2] / z[0]
    return total


def rebuilt(x, y):
    """Another cell in each turn of an array that is made anew, so that sums of parts begin anew."""
    h, total = x, y[0]
    for k in range(COUNT):
        h = np.array([h[0] * 0.7, np.sin(h[1]), h[2] * y[1]])
        total = total + h[k % 3] * 0.5 + h[2 - k % 3] * total
    return total


def zeros(x, y):
    """The first of the turns that are alike multiplies by zero, the number that sums of parts begin with."""
    h, total = x, y[0]
    for k in range(COUNT):
        h = np.array([h[0] * 0.7, h[1], h[2] * y[1]])
        total = total + np.exp(h[1] * (0.1 * abs(k - 2))) + h[1] * h[0]
    return total


def numbers(x, y):
    """Cotangents that are numbers, some of which are also in formulas."""
    total = np.max(x)
    for k in range(COUNT):
        z = np.exp(x * (0.1 * k))
        turned = [np.max(np.tanh(z)), np.max(np.sqrt(z)), np.prod(np.arctan(z)), np.std(1.0 / (1.0 + z * z))]
        total = total + np.dot([1.0, 0.5, 2.0, -1.0], turned) if k % 2 else total + 0.3 * turned[k // 2 % 4]
    return total


def flattened(x, y):
    """Cotangents that were added through another view of an array, and repeat one number."""
    a, total = np.outer(x, y), y[0]
    for k in range(COUNT):
        b = a * (0.9 + 0.01 * k) + total
        total = np.sin(total + np.sum(np.sin(b) * a))
        a = np.tanh(b)
    return total


def windows(x, y):
    """Cells in arrays that are read as slices; the first cell that the adjoint meets begins its array."""
    total = y[0]
    for k in range(COUNT):
        h = np.zeros(4)
        h[1] = total * y[1]
        h[(COUNT - 1 - k) // 4 % 4] = np.tanh(total)
        total = total + np.sum(h[1:] * x)
    return total


def beside_vectors(x, y):
    """Cells of an array beside vectors: with lanes, their cotangents have as many dimensions."""
    total = np.sum(y)
    for k in range(COUNT):
        total = total + np.sum(np.hypot(x * y[0], 2.0 + x[k % 3]))
    return total


def lines(x, y):
    """The adjoint ends on an instruction that is like others, and has a line of its own."""
    total = np.sin(x[0])
    for k in range(COUNT):
        total = total + np.sin(x[k % 3]) * y[0]
    return total


FUNCTIONS = [
    scalars,
    literals,
    signs,
    cells,
    arrays,
    broadcasts,
    narrow,
    parts,
    rebuilt,
    zeros,
    numbers,
    flattened,
]
POINT = np.array([0.3, -0.2, 0.7]), np.array([0.9, 0.4])


def by_python(monkeypatch):
    monkeypatch.setattr(walk, "FEW", 10**9)


def by_kernel(monkeypatch):
    monkeypatch.setattr(walk, "FEW", 2)


@pytest.fixture
def kernels_work(monkeypatch):
    """Count the instructions that the kernel walked, and those for which it came back to Python."""
    counts = {"walked": 0, "python": 0}
    by_kernel, in_python = walk.Walk._by_kernel, walk.Walk._in_python

    def counted(self):
        done = by_kernel(self)
        counts["walked"] += done
        return done

    def noted(self, at, new):
        counts["python"] += 1
        in_python(self, at, new)

    monkeypatch.setattr(walk.Walk, "_by_kernel", counted)
    monkeypatch.setattr(walk.Walk, "_in_python", noted)
    return counts


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", ["reverse_over_forward", "forward_over_reverse"])
def test_templates_change_no_bit_of_a_tape(function, mode, monkeypatch, kernels_work):
    """Of a Hessian's tape: both walks, and the adjoint of what the pushforward has appended."""

    def tape():
        config = nt.Config(second_order_mode=mode, passes=UNROLLED)
        cache = nt.prepare_hvp_cache(lambda x, y: function(x, y), *POINT, config=config)
        nt.value_and_hvp(cache, POINT, *POINT)
        (variant,) = cache._single.program.snapshot()
        return variant.tape

    by_python(monkeypatch)
    expected = tape()
    assert not kernels_work["walked"]
    by_kernel(monkeypatch)
    found = tape()
    assert found.digest == expected.digest
    assert [found.line_of(k) for k in range(len(found))] == [expected.line_of(k) for k in range(len(found))]
    assert kernels_work["walked"] > 4 * COUNT


def derived_both_ways(derive, monkeypatch):
    """Return digest and lines of the tape that ``derive()`` returns: by Python, and by the kernel."""
    found = []
    for way in (by_python, by_kernel):
        way(monkeypatch)
        monkeypatch.setattr(tapes, "_kept", Results())
        tape = derive()
        found.append((tape.digest, [tape.line_of(k) for k in range(len(tape))]))
    return found


@pytest.mark.parametrize("function", [scalars, cells, arrays, windows, beside_vectors, lines])
@pytest.mark.parametrize("derive", [adjoint, pushforward])
@pytest.mark.parametrize("lanes", [None, 3])
def test_templates_serve_finished_tapes(function, derive, lanes, monkeypatch, kernels_work):
    """With one cotangent (or tangent) for each value, and with lanes of them."""
    tape = nt.prepare_gradient_cache(function, *POINT).tape
    expected, found = derived_both_ways(lambda: derive(tape, sizes(*POINT), lanes=lanes), monkeypatch)
    assert found == expected
    assert kernels_work["walked"] > COUNT


def repeated_numbers(e, x):
    """Each turn has a cell of its own for one of three numbers, as literals have that passes add."""
    total = x
    for k in range(COUNT):
        e.tape.cell_literals = CellLiterals()
        total = e.row("sin", total * (2.0 + k % 3))
    return (total,)


@pytest.mark.parametrize("derive", [adjoint, pushforward])
@pytest.mark.parametrize("lanes", [None, 3])
def test_a_number_may_be_in_several_cells_of_a_tape(derive, lanes, monkeypatch, kernels_work):
    tape = emitted(repeated_numbers, ())
    expected, found = derived_both_ways(lambda: derive(tape, (), lanes=lanes), monkeypatch)
    assert found == expected
    assert kernels_work["walked"] > COUNT


def captured(x, y):
    """One array that each turn reads; its cotangents are of two levels if it takes part as a number, too."""
    w = np.outer(x, y)
    h = w * y[0]
    for _ in range(COUNT):
        h = np.tanh(h * w) + w
    return np.sum(h)


@pytest.mark.parametrize("function", [literals, cells, narrow, captured])
@pytest.mark.parametrize("lanes", [None, 3])
def test_parts_of_an_array_are_added_up_as_columns(function, lanes, monkeypatch):
    tape = nt.prepare_gradient_cache(function, *POINT).tape
    found = []
    for many in (10**9, 2):
        monkeypatch.setattr(accumulators, "MANY", many)
        monkeypatch.setattr(tapes, "_kept", Results())
        found.append(adjoint(tape, sizes(*POINT), lanes=lanes).digest)
    assert found[0] == found[1]


def turned(x, y):
    """An array that each turn reads as it is and turned, from parts whose cotangents are not all the same."""
    a, m = np.outer(x, x) + np.eye(3), x
    for k in range(COUNT):
        m = np.tanh(a @ m) + a.T @ m * y[k % 2]
    return np.sum(m)


def test_cotangents_of_parts_of_an_array_go_from_the_kernel_to_the_tape_as_columns(monkeypatch):
    tape = nt.prepare_gradient_cache(turned, *POINT, config=nt.Config(passes=UNROLLED)).tape
    waiting, given, add_columns = [], [], accumulators.Cells.add_columns

    def noted(self, buffer, values, cts):
        add_columns(self, buffer, values, cts)
        waiting.append(len(buffer.pending))
        given.append(len(values))

    monkeypatch.setattr(accumulators.Cells, "add_columns", noted)
    expected, found = derived_both_ways(lambda: adjoint(tape, sizes(*POINT)), monkeypatch)
    assert found == expected
    assert max(given) > COUNT
    assert not any(waiting)  # none of them was listed


@pytest.mark.parametrize("function", [scalars, flattened])
def test_most_instructions_need_no_python(function, monkeypatch, kernels_work):
    by_kernel(monkeypatch)
    cache = nt.prepare_hvp_cache(function, *POINT, config=nt.Config(passes=UNROLLED))
    nt.value_and_hvp(cache, POINT, *POINT)
    assert kernels_work["python"] < kernels_work["walked"] // 20


@pytest.mark.parametrize("function", [scalars, cells])
def test_most_instructions_need_no_python_with_lanes(function, monkeypatch, kernels_work):
    """Views of cells that templates make are arguments of further templates."""
    tape = nt.prepare_gradient_cache(function, *POINT).tape
    monkeypatch.setattr(tapes, "_kept", Results())
    by_kernel(monkeypatch)
    pushforward(tape, sizes(*POINT), lanes=3)
    assert kernels_work["python"] < kernels_work["walked"] // 10


def test_a_walk_of_instructions_that_differ_goes_on_without_the_kernel(monkeypatch, kernels_work):
    """Each power is of another number, so that each has another signature."""

    def powers(x, y):
        total = x[0]
        for k in range(COUNT):
            total = total + (y[0] + x[k % 3]) ** (2.5 + k)
        return total

    def tape():
        config = nt.Config(passes=UNROLLED)
        cache = nt.prepare_hvp_cache(lambda x, y: powers(x, y), *POINT, config=config)
        nt.value_and_hvp(cache, POINT, *POINT)
        (variant,) = cache._single.program.snapshot()
        return variant.tape

    by_python(monkeypatch)
    expected = tape()
    by_kernel(monkeypatch)
    monkeypatch.setattr(walk, "PATIENCE", 5)
    monkeypatch.setattr(walk, "SHARE", 10**6)
    assert tape().digest == expected.digest
    assert 0 < kernels_work["walked"] < COUNT


def test_tapes_outgrow_the_memory_of_a_walk(monkeypatch, kernels_work):
    """What the kernel appends is taken, and the memory grows, as often as needed."""
    by_python(monkeypatch)
    tape = nt.prepare_gradient_cache(scalars, *POINT).tape
    expected = adjoint(tape, sizes(*POINT)).digest
    by_kernel(monkeypatch)
    monkeypatch.setattr(tapes, "_kept", Results())
    monkeypatch.setattr(walk_memory, "ROOM", 150)
    monkeypatch.setattr(walk_memory, "ROOM_EACH", 0)
    make_room, rooms = walk_memory.Memory.make_room, []

    def noted(self, room):
        rooms.append(room)
        make_room(self, room)

    monkeypatch.setattr(walk_memory.Memory, "make_room", noted)
    assert adjoint(tape, sizes(*POINT)).digest == expected
    assert len(rooms) > 1


def test_cotangents_of_cells_of_arrays_are_viewed_where_they_are():
    """The cotangent of an entry that an array op has computed is a view at the entry's offset."""
    weights = np.linspace(-1.0, 1.0, 120)

    def function(x):
        w = np.zeros(120)
        for k in range(120):
            w[k] = np.sum(x[k : k + 3] * 0.1)
        return np.sum(w * w * weights)

    x = np.linspace(0.0, 1.0, 122)
    _, slopes = nt.batch(function)(np.stack([x, x + 0.1]))
    np.testing.assert_allclose(slopes[0], nt.grad(function)(x), rtol=1e-12, atol=1e-14)
