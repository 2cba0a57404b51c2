"""The user's code: whose code a function is, what its bytecode says, and which line runs now."""
