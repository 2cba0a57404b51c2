"""The emitter: instructions and views appended to a tape, without any numbers."""
