"""NumPy's functions and ufuncs of traced arrays, as compositions of primitives: a file a topic."""
