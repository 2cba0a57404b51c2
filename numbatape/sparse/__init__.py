"""Sparse derivatives: patterns read off a tape, colourings, compression into lanes and recovery."""
