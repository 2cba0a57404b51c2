"""Prepared caches: an input contract, a program and workspaces."""
