"""Strips: instructions over long vectors run on a few hundred cells at a time, which stay in the cache."""
