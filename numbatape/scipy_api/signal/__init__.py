"""``scipy.signal`` and ``scipy.fft`` of traced signals."""
