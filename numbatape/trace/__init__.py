"""Traced values and their operations: NumPy computes each value, and an instruction is appended to a tape."""
