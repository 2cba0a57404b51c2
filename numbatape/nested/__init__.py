"""Derivatives taken while tracing: what the verbs inside of a traced function record.

The function runs on marked copies of its arguments, and `numbatape.derive` appends the adjoint of what it
recorded. Results are traced arrays, whose numbers are computed only when they are needed.
"""
