"""docs/coverage.md: every function of NumPy's and SciPy's namespaces, and what happens to it.

``python tests/test_coverage_page.py`` writes the page, from the op table and the tracer's registry.
Where another version of NumPy or SciPy has other functions, the test looks at those on the page.
"""

# ruff: noqa: E501, SIM905  (lists of names)

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.spatial.transform
import scipy.special
import scipy.stats

import numbatape.solvers  # noqa: F401  (it announces rules for SciPy)
from numbatape.numpy_api.function_tables import MAKERS, REAL, WRITERS
from numbatape.numpy_api.ufunc_compositions import COMPOSED
from numbatape.ops import Elementwise, find
from numbatape.recording.contents import load_all
from numbatape.scipy_api.linalg import linalg_refusals
from numbatape.scipy_api.sparse import graphs
from numbatape.scipy_api.special.composed_ufuncs import UFUNCS
from numbatape.scipy_api.stats import values_only
from numbatape.scipy_api.stats.distributions import LAWS
from numbatape.solvers import sparse_eigenvalues
from numbatape.usercode.ownership import is_library_function, runs_as_users

load_all()

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
MODULES = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "numpy.fft": np.fft,
    "scipy.special": scipy.special,
    "scipy.linalg": scipy.linalg,
    "scipy.stats": scipy.stats,
    "scipy.fft": scipy.fft,
    "scipy.integrate": scipy.integrate,
    "scipy.signal": scipy.signal,
    "scipy.ndimage": scipy.ndimage,
    "scipy.spatial.distance": scipy.spatial.distance,
    "scipy.sparse.linalg": scipy.sparse.linalg,
    "scipy.sparse.csgraph": scipy.sparse.csgraph,
}

RULE = "A rule of its own"
PARTLY = "A rule, but none for a parameter"
COMPOSED_OF = "By composition"
FLAT = "Without a derivative"
AS_COPY = "As a copy"
NOTHING = "Nothing to differentiate"
MISSING = "Not supported"
MEANING = {
    RULE: "a row of the op table, with first and second derivatives",
    PARTLY: "the derivative for an order or the like has no closed form: pass it as `nt.Constant` or an integer",
    COMPOSED_OF: "written in terms of other functions",
    FLAT: "works on traced arrays; its result is piecewise constant, so it passes no derivative on",
    AS_COPY: "written in Python: a copy of it runs on traced arrays; raises where that reaches compiled code without a rule",
    NOTHING: "makes arrays of plain data, reads and writes files, answers questions about types: unchanged by numbatape",
    MISSING: "raises for arrays that carry a derivative, and works on constants",
}

FLAT_NAMES = """all allclose any argmax argmin argsort argwhere array_equal array_equiv can_cast common_type
count_nonzero diag_indices_from digitize empty_like flatnonzero imag iscomplex iscomplexobj isclose isneginf isposinf
isreal isrealobj min_scalar_type ndim nonzero ones_like result_type searchsorted isin argpartition lexsort shape size tril_indices_from
triu_indices_from zeros_like ravel_multi_index unravel_index nanargmax nanargmin angle matrix_rank issymmetric ishermitian isfinite isinf isnan""".split()

NOTHING_NAMES = """arange array2string array_repr array_str asmatrix bartlett base_repr binary_repr blackman
broadcast_shapes busday_count busday_offset datetime_as_string datetime_data diag_indices einsum_path empty eye
format_float_positional format_float_scientific from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc
fromregex fromstring genfromtxt get_include get_printoptions getbufsize geterr geterrcall hamming hanning identity
indices info is_busday isdtype isfortran isscalar issubdtype iterable kaiser load loadtxt mask_indices
may_share_memory mintypecode nested_iters ones printoptions promote_types save savetxt savez
savez_compressed set_printoptions setbufsize seterr seterrcall shares_memory show_config show_runtime test tri
tril_indices triu_indices typename zeros isnat fftfreq rfftfreq packbits unpackbits bmat
bitwise_count gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift require
asfortranarray errstate hadamard hilbert invhilbert pascal invpascal helmert dft get_blas_funcs get_lapack_funcs find_best_blas_type bernoulli euler erf_zeros
rvs_ratio_uniforms""".split()

INSTEAD = {
    "row_stack": "np.vstack",
    "airye": "scipy.special.airy and np.exp(2 / 3 * x**1.5)",
    "factorial2": "scipy.special.gamma",
    "factorialk": "scipy.special.gamma",
    "kron": "np.kron",
    **linalg_refusals.INSTEAD,
    **sparse_eigenvalues.INSTEAD,
}
REFUSED = {
    "scipy.linalg": linalg_refusals.INSTEAD,
    "scipy.sparse.linalg": sparse_eigenvalues.INSTEAD,
    "scipy.sparse.csgraph": graphs.OF_DATA,
    "scipy.stats": [name for name in values_only.NAMES if name not in values_only.BY_INTEGRALS],
}


def functions(module):
    """Yield the public functions of a namespace, and the distributions of scipy.stats."""
    names = getattr(module, "__all__", None) or dir(module)
    for name in sorted(set(names)):
        value = getattr(module, name, None)
        if name.startswith("_") or value is None or inspect.ismodule(value) or inspect.isclass(value):
            continue
        if module is scipy.stats:
            statistic = name in MAKERS["scipy.stats"]
            if (
                statistic
                or is_library_function(value)
                or hasattr(value, "logpdf")
                or hasattr(value, "logpmf")
            ):
                yield name, value
        elif callable(value):
            yield name, value


def status(module: str, name: str, function) -> str:
    try:
        handled = REAL.find(function) or WRITERS.find(function)
    except TypeError:
        handled = None
    op = find(function) if isinstance(function, np.ufunc) else None
    if isinstance(op, Elementwise):
        if not op.differentiable:
            return FLAT
        return PARTLY if op.opaque and name not in UFUNCS else RULE
    refused = name in REFUSED.get(module, ())
    if refused or (handled is not None and handled.__name__ == "refuse"):
        return MISSING
    if WRITERS.find(function) is not None:
        return COMPOSED_OF
    if module == "scipy.special" and (name in UFUNCS or f"eval_{name}" in UFUNCS or name == "assoc_laguerre"):
        return COMPOSED_OF
    if handled is not None or op is not None or function in COMPOSED or name in MAKERS.get(module, {}):
        return FLAT if name in FLAT_NAMES else COMPOSED_OF
    if name in NOTHING_NAMES or re.search("^roots_|_roots$|_zeros$", name):
        return NOTHING
    return (
        AS_COPY
        if runs_as_users(getattr(function, "__module__", None))
        or any(map(is_library_function, (function, getattr(function, "_implementation", None))))
        else MISSING
    )


def table() -> dict[str, dict[str, str]]:
    return {m: {n: status(m, n, f) for n, f in functions(source)} for m, source in MODULES.items()}


def page() -> str:
    lines = [
        "# Coverage",
        "",
        "This page lists every function of these namespaces and what happens to it. It is generated from the op table and the "
        "tracer's registry by `python tests/test_coverage_page.py`.",
        "",
        "| list | means |",
        "|---|---|",
        *(f"| {kind} | {text} |" for kind, text in MEANING.items()),
        "",
        "A distribution of `scipy.stats` is supported with its `logpdf` and `pdf`, or `logpmf` and `pmf`, frozen or not. The "
        "same holds for `cdf`, `sf`, `logcdf`, `logsf`, `ppf`, `isf`, `median`, `interval`, `mean`, `var`, `std`, `stats`, "
        "`moment`, `entropy` and `expect`. The lines below that list name those with formulas for `cdf`, `ppf`, `mean` and "
        "`entropy`; elsewhere the slopes are found by integration of the density, by sums, or by inversion.",
        "",
        "The functions and classes of `numpy.polynomial` are traced like the user's own code.",
    ]
    for module, names in table().items():
        lines += ["", f"## {module}"]
        for kind in MEANING:
            group = [name for name, its in names.items() if its == kind]
            if group:
                lines += ["", f"**{kind}** ({len(group)}): " + ", ".join(f"`{name}`" for name in group) + "."]
        if module == "scipy.stats":
            for what, sources in METHODS.items():
                known = [name for name in names if _has(name, sources)]
                lines += [
                    "",
                    f"With a formula for `{what}`: " + ", ".join(f"`{name}`" for name in known) + ".",
                ]
        hints = [name for name, its in names.items() if its == MISSING and name in INSTEAD]
        if hints:
            lines += [
                "",
                "| instead of | use |",
                "|---|---|",
                *(f"| `{n}` | `{INSTEAD[n]}` |" for n in hints),
            ]
    lines += [
        "",
        "## Classes",
        "",
        "Objects of these classes may be made inside or outside of the traced function:",
        "",
    ]
    for name, source in CLASSES.items():
        known = [
            key
            for key, value in vars(source).items()
            if inspect.isclass(value) and _is_known(name, key, value)
        ]
        lines.append(f"- `{name}`: " + ", ".join(f"`{key}`" for key in sorted(known)))
    return "\n".join(lines) + "\n"


CLASSES = {
    "scipy.interpolate": scipy.interpolate,
    "scipy.signal": scipy.signal,
    "scipy.spatial": scipy.spatial,
    "scipy.spatial.transform": scipy.spatial.transform,
    "scipy.stats": scipy.stats,
}


def _is_known(module: str, name: str, value) -> bool:
    return name in MAKERS.get(module, {}) or runs_as_users(value.__module__)


METHODS = {
    "cdf": ("cdf", "sf", "logcdf", "logsf"),
    "ppf": ("ppf", "isf"),
    "mean": ("mean",),
    "entropy": ("entropy",),
}


def _has(name: str, sources) -> bool:
    law = LAWS.get(name)
    return law is not None and any(getattr(law, source) for source in sources)


def listed() -> dict[str, dict[str, str]]:
    """Return what the page says."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        module = section.split("\n", 1)[0]
        found[module] = {
            name: kind
            for kind, group in re.findall(r"^\*\*(.*?)\*\* \(\d+\): (.*)\.$", section, re.M)
            for name in re.findall("`(.*?)`", group)
        }
    return found


@pytest.mark.parametrize("module", MODULES)
def test_page_is_up_to_date(module):
    said = listed()[module]
    now = table()[module]
    wrong = {name: (said[name], now[name]) for name in said.keys() & now.keys() if said[name] != now[name]}
    assert not wrong, "run python tests/test_coverage_page.py"
    assert len(now.keys() - said.keys()) < 0.1 * len(now) + 1  # another version's


@pytest.mark.parametrize("name", ["spacing", "bitwise_count"])
def test_what_is_not_supported_raises(name):
    import numbatape as nt

    function = getattr(np, name)
    x = np.arange(1.0, 4.0)
    with pytest.raises(nt.UnsupportedOperationError):
        nt.grad(lambda x: np.sum(function(x)[0]))(x)


if __name__ == "__main__":
    PAGE.write_text(page())
