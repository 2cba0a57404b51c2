"""Calls like an earlier one: tables that say how to copy arguments, sweep, and make the results."""
