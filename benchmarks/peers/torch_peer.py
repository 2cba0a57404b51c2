"""PyTorch, eager: the workload on a handful of torch functions under NumPy's names."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.peers import rebound

torch.set_num_threads(1)


class TorchNumpy:
    """NumPy's names as far as the workloads use them; plain numbers stay NumPy's."""

    pi, arange = np.pi, torch.arange

    def __getattr__(self, name):
        function = getattr(torch, name)
        plain = getattr(np, name)
        return lambda x, *rest: (function if torch.is_tensor(x) else plain)(x, *rest)

    def maximum(self, x, floor):
        """Elementwise maximum with a number."""
        return torch.clamp(x, min=floor)

    def eye(self, n):
        """Identity in float64."""
        return torch.eye(n, dtype=torch.float64)

    linalg = torch.linalg


def solve_triangular(L, y, lower):
    """Solve for a vector."""
    return torch.linalg.solve_triangular(L, y[:, None], upper=not lower)[:, 0]


NAMES = {"np": TorchNumpy(), "expit": torch.special.expit, "solve_triangular": solve_triangular}


def prepare(workload):
    """Tensors share the arrays' memory; the graph is built again at every call."""
    function = rebound(workload.function, **NAMES)
    data = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in workload.data]
    arrays = [np.asarray(x) for x in workload.active]

    def call():
        active = [torch.from_numpy(x).requires_grad_() for x in arrays]
        value = function(*active, *data)
        gradients = torch.autograd.grad(value, active)
        return value.item(), [g.numpy() for g in gradients]

    return call, lambda result: result


ENGINES = {"torch": prepare}
