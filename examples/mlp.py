"""A neural network: which of two spirals does a point belong to?

Three layers in a dictionary of arrays, cross entropy, minibatches, and Adam in ten lines of NumPy.

Shows: gradients of containers, a prepared cache for the loop (data as `nt.Constant`, so that a
batch of another size needs no other trace), and the input's own gradient at the end.
"""

import numpy as np

import numbatape as nt


def spirals(rng, n):
    """Return points of two spirals that turn around each other, and which of the two it is."""
    side = rng.integers(0, 2, size=n)
    turn = 3.0 * np.pi * np.sqrt(rng.uniform(0.02, 1.0, size=n))
    points = (turn / (3 * np.pi))[:, None] * np.column_stack(
        [np.cos(turn + np.pi * side), np.sin(turn + np.pi * side)]
    )
    return points + 0.01 * rng.normal(size=(n, 2)), side.astype(float)


def network(layers, x):
    """Return the log-odds that points belong to the second spiral."""
    for layer in layers[:-1]:
        x = np.tanh(x @ layer["weights"] + layer["bias"])
    return (x @ layers[-1]["weights"] + layers[-1]["bias"])[:, 0]


def loss(layers, x, side):
    odds = network(layers, x)
    return np.mean(np.logaddexp(0.0, odds) - side * odds)


def adam(gradient, x, steps, rate=0.01, decay=(0.9, 0.999)):
    """Minimise by Kingma's and Ba's method; ``gradient(x, step)`` is a vector."""
    mean, square = np.zeros_like(x), np.zeros_like(x)
    for step in range(1, steps + 1):
        g = gradient(x, step)
        mean = decay[0] * mean + (1 - decay[0]) * g
        square = decay[1] * square + (1 - decay[1]) * g**2
        x = x - rate * mean / (1 - decay[0] ** step) / (np.sqrt(square / (1 - decay[1] ** step)) + 1e-8)
    return x


def main(steps=3000, width=32):
    rng = np.random.default_rng(0)
    x, side = spirals(rng, 2000)
    sizes = [2, width, width, 1]
    layers = [
        {"weights": rng.normal(size=(a, b)) * np.sqrt(1.0 / a), "bias": np.zeros(b)}
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    start, unflatten = nt.flatten(layers)
    cache = nt.prepare_gradient_cache(loss, layers, nt.Constant(x[:100]), nt.Constant(side[:100]))

    def gradient(vector, step):
        batch = rng.integers(0, len(x), size=100)
        _, (found, _, _) = nt.value_and_gradient(cache, unflatten(vector), x[batch], side[batch])
        return nt.flatten(found)[0]

    layers = unflatten(adam(gradient, start, steps))
    new_x, new_side = spirals(rng, 1000)
    right = np.mean((network(layers, new_x) > 0) == new_side)
    print(f"{len(start)} weights, {steps} steps: {100 * right:.1f} % of new points are right")
    assert right > 0.97
    assert cache.traces == 1

    # A network that is differentiated by its input: which way is the border of the two spirals?
    normal = nt.elementwise_grad(network, argnums=1)(layers, new_x[:3])
    step = 1e-6 * np.eye(2)
    steps = [(network(layers, new_x[:3] + h) - network(layers, new_x[:3] - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(normal.T, steps, rtol=1e-5, atol=1e-6)
    print("slopes of the log-odds at three points:", normal.round(1).tolist())


if __name__ == "__main__":
    main()
