"""Derivatives from tape to tape: the adjoint and the pushforward of instructions, as further instructions."""
