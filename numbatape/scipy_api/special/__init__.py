"""``scipy.special`` of traced values."""
