"""Prepared caches: an input contract, the program of a function, and workspaces of one thread."""
