"""Complex numbers while tracing: pairs of real traced arrays.

The engine knows real numbers alone. A `TracedComplex` holds a real and an imaginary part, both
`TracedArray`s, and each operation on it is a composition of real ones, so that derivatives of any order,
lanes and guards are those of the parts. Of an array the parts' NumPy values are views of the complex
value, so that NumPy says what shares memory, and a write goes to both parts (`numbatape.trace.writes`).
``array.py`` has the class, ``ufuncs.py`` and ``functions.py`` what NumPy's protocols reach, ``pairs.py``
how complex leaves stand in pytrees.
"""
