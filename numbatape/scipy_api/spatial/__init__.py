"""``scipy.spatial`` and ``scipy.cluster`` of traced points."""
