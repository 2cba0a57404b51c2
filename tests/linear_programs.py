"""Random recurrences that are linear in one number, which a turn may read in several places."""

from __future__ import annotations

import numpy as np


class LinearProgram:
    """A loop whose turns make ``a*z + b`` of ``z``, by sums, differences and products in a random order.

    Parameters
    ----------
    seed
        Of the operations.
    turns
        How often the loop runs.
    """

    def __init__(self, seed: int, turns: int = 40):
        rng = np.random.default_rng(seed)
        self.turns, self.data = turns, rng.uniform(0.5, 1.5, turns)
        count = int(rng.integers(2, 7))
        self.steps = [
            (int(rng.integers(9)), int(rng.integers(k + 1)), int(rng.integers(k + 1))) for k in range(count)
        ]
        self.scale = float(rng.choice([0.25, 0.5, 0.3]))
        self.squares = bool(rng.integers(2))  # whether coefficients depend on the state
        self.sums = bool(rng.integers(2))

    def __call__(self, x):
        z, total = x[0], 0.0
        for datum in self.data:
            nodes = [z]
            for what, i, j in self.steps:
                a, b = nodes[i], nodes[j]
                if what == 0:
                    node = a + b
                elif what == 1:
                    node = a - b
                elif what == 2:
                    node = -a
                elif what == 3:
                    node = a * x[1]
                elif what == 4:
                    node = a * datum
                elif what == 5:
                    node = a / datum
                elif what == 6:
                    node = x[2] - a
                elif what == 7:
                    node = a + datum
                else:
                    node = a * b * 0.1 if self.squares else a - 0.5 * b
                nodes.append(node)
            z = self.scale * (nodes[-1] + nodes[-2]) / (len(nodes) + 1)
            if self.sums:
                total = total + z
        return total + z
