"""One-shot verbs: prepare on first use, cached per function, structure, dtypes and sizes.

Inside of a function that is being traced they record derivatives on its tape (``inner.py``).
"""
