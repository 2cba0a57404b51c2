"""Random programs of writes and reads, against NumPy's value and a form without writes."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import numbatape as nt

SHAPES = ((4,), (2, 3), (6,))
WEIGHTS = np.cos(np.arange(1.0, 7.0))


class Cells:
    """An array as positions in a list of scalars: writes replace entries of the list."""

    def __init__(self, memory, places):
        self.memory, self.places = memory, places

    def __getitem__(self, key):
        return Cells(self.memory, self.places[key])

    def read(self):
        entries = [self.memory[k] for k in self.places.reshape(-1).tolist()]
        return np.reshape(np.stack(entries), self.places.shape) if entries else np.zeros(self.places.shape)

    def write(self, key, values):
        places = self.places[key]
        values = np.broadcast_to(values, np.shape(places))
        flat = np.reshape(values, (-1,))
        new = [flat[k] for k in range(np.size(places))]
        for place, value in zip(np.ravel(places).tolist(), new, strict=True):
            self.memory[place] = value


class Array:
    """The same interface over a real array."""

    def __init__(self, data):
        self.data = data

    def __getitem__(self, key):
        return Array(self.data[key])

    def read(self):
        return self.data

    def write(self, key, values):
        self.data[key] = values


def fresh_cells(start):
    return Cells(dict(enumerate(start.reshape(-1))), np.arange(start.size).reshape(start.shape))


axis_keys = st.one_of(
    st.integers(-2, 1),
    st.builds(
        slice, st.sampled_from([None, 0, 1]), st.sampled_from([None, 2, -1]), st.sampled_from([None, -1])
    ),
    st.just(slice(None)),
    st.lists(st.integers(-2, 1), min_size=1, max_size=3),
)
keys = st.one_of(axis_keys, st.just(Ellipsis))
names = st.sampled_from(["x", "z", "v"])
steps = st.one_of(
    st.tuples(st.just("view"), names, keys),
    st.tuples(st.just("set"), names, keys, names, keys),
    st.tuples(st.just("scalar"), names, keys, st.floats(-1, 1)),
    st.tuples(st.just("iadd"), names, keys, names, keys),
    st.tuples(st.just("imul"), names, keys, st.sampled_from([0.5, -1.5])),
    st.tuples(st.just("copy"), names, st.sampled_from(["sin", "square"])),
    st.tuples(st.just("use"), names, keys),
)


def run(program, x, z, make):
    """Interpret a program; ``make`` turns a start value into one of the two kinds of array."""
    env = {"x": make(x), "z": make(z)}
    env["v"] = env["x"]
    total = 0.0
    for op, name, *rest in program:
        array = env[name]
        if op == "view":
            if isinstance(rest[0], (slice, type(Ellipsis))):  # the others are copies or scalars
                env["v"] = array[rest[0]]
            continue
        if op == "copy":
            env[name] = make(getattr(np, rest[0])(array.read()))
            continue
        key = rest[0]
        shape = np.shape(np.empty(np.shape(array.read()))[key])
        if op == "set":
            source = env[rest[1]][rest[2]].read()
            values = np.sum(source) * 1.0 if np.shape(source) != shape else source * 1.0
            if np.shape(source) == shape and shape:
                values = source  # unprocessed: it may be a view of what is written
            array.write(key, values)
        elif op == "scalar":
            array.write(key, rest[1])
        elif op == "iadd":
            array.write(key, array[key].read() + np.sum(env[rest[1]][rest[2]].read()))
        elif op == "imul":
            if isinstance(array, Array) and isinstance(key, (slice, type(Ellipsis))):
                part = array.data[key]
                part *= rest[1]
            else:
                array.write(key, array[key].read() * rest[1])
        elif op == "use":
            total = total + np.sum(array[key].read() ** 2)
    for array in env.values():
        result = np.reshape(array.read(), (-1,))
        total = total + np.sum(result * WEIGHTS[: result.size])
    return total


def valid(program, shape):
    try:
        run(program, np.ones(shape), np.ones(shape), lambda a: Array(a.copy()))
    except (IndexError, ValueError):
        return False
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=1, max_size=8), st.sampled_from(SHAPES), st.booleans())
def test_random_programs(program, shape, made_inside):
    if not valid(program, shape):
        return

    def mutating(x):
        z = np.zeros(shape) if made_inside else x * 2.0
        return run(program, x, z, Array)

    def functional(x):
        z = np.zeros(shape) if made_inside else x * 2.0
        return run(program, x, z, fresh_cells)

    x = np.linspace(0.3, 1.1, int(np.prod(shape))).reshape(shape)
    kept = x.copy()
    expected = mutating(x.copy())
    value, gradient = nt.value_and_grad(mutating)(x)
    assert (x == kept).all()
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, nt.grad(functional)(x), rtol=1e-11, atol=1e-13)
    again = nt.value_and_grad(mutating)(x + 0.1)
    np.testing.assert_allclose(again[0], mutating(x + 0.1), rtol=1e-12)
