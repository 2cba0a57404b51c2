"""NumPy's functions and ufuncs of traced arrays, as compositions of primitives: one file per topic."""
