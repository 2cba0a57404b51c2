"""Whose code something is, what it says, and where in it the program stands now."""
