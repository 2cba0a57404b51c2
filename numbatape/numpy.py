"""NumPy with functions that know traced arrays: ``import numbatape.numpy as np``.

While tracing, the user's own functions get these in place of NumPy's without importing them. Code that this
does not reach (constructors, objects in objects, libraries) can import them; outside of a trace
they do what NumPy's functions do. Everything else is NumPy's own.

Examples
--------
>>> import numbatape as nt, numbatape.numpy as np
>>> class Model:
...     def weights(self, x):
...         w = np.zeros(2)
...         w[0] = x[0] ** 2
...         return w
...     def __call__(self, x):
...         return np.sum(self.weights(x))
>>> nt.grad(Model())(np.array([3.0, 1.0]))
array([6., 0.])
"""

from __future__ import annotations

import numpy as _numpy

from .recording import contents as _contents  # noqa: F401  (it announces the functions that are replaced)
from .stand_ins.rebinding import table as _table

_proxy = vars(_table(writes=True).modules[id(_numpy)][1])
globals().update({name: value for name, value in _proxy.items() if not name.startswith("__")})
__version__, __getattr__ = _numpy.__version__, _proxy["__getattr__"]
