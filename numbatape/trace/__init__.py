"""The tracer: runs a function on values that record what is done to them. Knows no kernels."""
