"""Series and DataFrames of pandas and polars, and arrays of xarray, in traced functions."""
