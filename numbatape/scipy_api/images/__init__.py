"""``scipy.ndimage`` of traced images."""
