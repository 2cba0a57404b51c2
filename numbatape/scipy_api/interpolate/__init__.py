"""``scipy.interpolate`` of traced values and at traced points."""
