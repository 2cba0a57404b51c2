"""Traced values and what is done to them: each operation computes with NumPy and is written to a tape."""
