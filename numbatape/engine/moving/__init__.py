"""Workspaces that move to the sizes of each call, with all that their tapes call."""
