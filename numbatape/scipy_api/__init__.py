"""SciPy's functions and distributions of traced arrays, as compositions of NumPy's."""
