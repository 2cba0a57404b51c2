"""NumPy's functions and ufuncs of complex traced arrays, by their real and imaginary parts."""
