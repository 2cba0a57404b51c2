"""Tapes: arrays of instructions and values, what builds and rewrites them, their sizes and their listing."""

from .builder import TapeBuilder
from .tape import Guard, Line, Tape

__all__ = ["Guard", "Line", "Tape", "TapeBuilder"]
