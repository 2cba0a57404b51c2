"""``__array_function__``: NumPy's functions of traced arrays, as compositions of primitives."""
