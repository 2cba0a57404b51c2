"""Loops, branches and sub-tapes as sweeps run them: bodies with a plan and memory of their own."""
