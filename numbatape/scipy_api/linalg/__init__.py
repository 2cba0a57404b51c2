"""``scipy.linalg`` of traced matrices."""
