"""``scipy.sparse``: matrices with traced entries, and graphs."""
