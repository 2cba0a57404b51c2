"""LAPACK's spectral and orthogonal factorisations in their raw form: text in the kernel language.

Matrices are column-major, as LAPACK has them: a row-major n*n block here holds the transpose. The
checked twins stand in `numbatape.jit.language`.
"""

from __future__ import annotations

# Routine -> its parameters, in the letters of `numbatape.jit.raw.fortran`.
ROUTINES = {
    "syevd": "ccipippipio",
    "gesdd": "ciipippipipipo",
    "geqrf": "iipippio",
    "orgqr": "iiipippio",
}

SOURCE = """
def syevd(v, a, n, w, s):
    size = 1 + 6 * n + 2 * n * n  # V, L
    return _syevd(86, 76, n, at(v, a), n, at(v, w), at(v, s), size, at(v, s + size), 3 + 5 * n)

def gesdd(v, a, m, n, w, u, t, s):
    k = min(m, n)
    size = 4 * m * n + 7 * m + 7 * n  # S
    return _gesdd(83, m, n, at(v, a), m, at(v, w), at(v, u), m, at(v, t), k, at(v, s), size, at(v, s + size))

def geqrf(v, a, m, n, t, s):
    return _geqrf(m, n, at(v, a), m, at(v, t), at(v, s), 32 * n)

def orgqr(v, a, m, n, t, s):
    return _orgqr(m, n, n, at(v, a), m, at(v, t), at(v, s), 32 * n)
"""
