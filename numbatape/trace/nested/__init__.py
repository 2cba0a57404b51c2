"""Derivatives taken while tracing: the adjoint of a stretch of a tape, written as more tape.

``adjoint.py`` walks recorded instructions backwards and emits what their reverse rules compute, as
instructions of the same ops: a tape's derivative is a tape, to any order. ``formulas.py`` and
``pullbacks.py`` hold the rules, of elementwise rows (their own partials) and of array ops.
"""
