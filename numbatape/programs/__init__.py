"""A function's traces: sorting its arguments, variants for its paths, workspaces for its sizes."""
