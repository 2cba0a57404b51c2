"""Complex numbers while tracing: pairs of real traced arrays.

The engine only knows real numbers. A `TracedComplex` has a real and an imaginary part, both
`TracedArray`s, and each operation on it is a composition of real ones, so that derivatives of any order,
lanes and guards are those of the parts. The NumPy values of an array's parts are views of its complex
value, so that NumPy tells what shares memory, and a write goes to both parts (`numbatape.trace.writes`).
``array.py`` has the class, ``ufuncs.py`` and ``functions.py`` what NumPy's protocols reach, ``pairs.py``
how complex leaves stand in pytrees.
"""
