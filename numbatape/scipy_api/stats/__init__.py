"""``scipy.stats``: distributions, random variables, statistics of samples."""
