"""Tapes: typed opcode arrays, their builder, their sizes and their listing."""

from .builder import TapeBuilder
from .tape import Guard, Line, Tape

__all__ = ["Guard", "Line", "Tape", "TapeBuilder"]
