"""Derivatives from tape to tape: the adjoint of a stretch of instructions, made of further instructions."""
