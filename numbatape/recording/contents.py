"""Which file of the tracer defines which names: a file is imported when one of its names is first needed.

``import numbatape`` and the gradient of ``np.sum(np.exp(x))`` import no linear algebra, no distributions
and nothing complex. When you add a function to a file, add its name here, or in `stand_in_contents` if it is
a stand-in; `tests/test_contents.py` checks that both agree.
"""

from __future__ import annotations

from importlib import import_module

from ..numpy_api import function_tables
from ..trace import operations
from .stand_in_contents import OBJECTS, STAND_INS

# What the methods of traced values call (`numbatape.trace.operations`).
OPERATIONS = {
    "trace.boxes": "array_of box_of put_entry seen",
    "trace.patches": "entry_of_patches settle",
    "trace.complex_parts": "adopted complete complex_entries constant in_box part reinterpreted",
    "control.loop_values": "loop_values",
    "numpy_api.complex_numbers.complex_functions": "call_complex_function",
    "trace.complex_pairs": "join",
    "numpy_api.complex_numbers.complex_ufuncs": "call_complex_ufunc",
    "trace.flat": "Flat",
    "numpy_api.dispatch": "call_function",
    "numpy_api.exact_math": "power_of_scalars",
    "numpy_api.join": "array_of_numbers",
    "numpy_api.reductions": "logsumexp",
    "numpy_api.sized": "tril_indices triu_indices",
    "numpy_api.registration": "recurring",
    "scipy_api.special.composed_ufuncs": "composed_special",
    "scipy_api.special.complex_special": "complex_special",
    "trace.frames.data_frames": "arrays_of",
    "trace.frames.labels": "original_of",
    "trace.frames.labelled_calls": "has_labels product ufunc_of_labelled",
    "trace.frames.pandas_of_arguments": "attribute_of_series",
    "trace.frames.row_labels": """
        Iloc Loc entry_of_rows function_of_rows method_of_rows names_of_columns needs_rows with_rows
        turned_frame without_rows
    """,
    "trace.indexing": "getitem item",
    "trace.extents": "arange as_size counted extent",
    "trace.size_fractions": "noted_ufunc rounded_to_size",
    "trace.integer_ranges": "checked_integers limit_pieces range_of",
    "trace.python_integers": "absolute_integer as_integer combine_bits combine_integers python_power",
    "trace.plain_keys": "with_plain_keys",
    "trace.integer_entries": "among arguments as_entries positions positions_in sized_arguments",
    "trace.integers": "TracedInteger lifted operands settled",
    "recording.leaks": "leak",
    "matrix.matrix_rule": "call_rule",
    "nested.transforms": "Linearised is_float or_zeros",
    "trace.operands": "adopt",
    "trace.matrix_masks": "selected_pairs",
    "trace.position_sets": "selected",
    "trace.plain_arrays": "becomes_plain",
    "trace.primitives": "transpose",
    "trace.scatters": "add_at added_up note_positions one_by_one write_at write_at_known",
    "stand_ins.lent_methods": "lend_methods",
    "stand_ins.library_copies": "library_copy",
    "stand_ins.opened": "as_now globals_of",
    "capture.rule_states": "RuleStates",
    "stand_ins.rebinding": "module_in_traces rebind table",
    "scipy_api.sparse.dense_products": "answer_to_sparse_product",
    "scipy_api.sparse.sparse_matrices": "operate_on_sparse",
    "scipy_api.sparse.sparse_methods": """
        attribute_of_sparse compared_sparse larger_or_smaller multiplied_entrywise
    """,
    "scipy_api.sparse.products_of_sparse": "multiplied_by_entries product_of_sparse",
    "scipy_api.sparse.sparse_structure": "part_of_sparse",
    "scipy_api.stats.users_laws": "users_distribution",
    "numpy_api.ufuncs": "call_plain_ufunc call_ufunc",
    "numpy_api.calculus": "sums_of_segments",
    "numpy_api.vectorize": "Vectorized with_function",
    "trace.shared_inputs": "is_shared",
    "trace.stored_results": "join_into overlaps store store_all ufunc_at",
    "trace.writes": "assign",
}

# NumPy's functions of real arrays.
NUMPY = {
    "numpy_api.fft": """
        fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft
        fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    """,
    "numpy_api.complex_numbers.complex_reductions": """
        scimath.arccos scimath.arcsin scimath.arctanh scimath.log scimath.log10 scimath.log2 scimath.sqrt
    """,
    "numpy_api.creation": """
        angle astype diag diagflat empty_like full_like geomspace imag iscomplex isreal ix_
        linspace logspace ones_like real real_if_close tril triu vander zeros_like
    """,
    "numpy_api.einsum": "einsum",
    "numpy_api.sized": "diag_indices_from tril_indices_from triu_indices_from",
    "numpy_api.join": """
        append block column_stack concatenate dstack hstack pad repeat resize roll stack tile vstack
    """,
    "numpy_api.linalg": """
        linalg.cholesky linalg.det linalg.inv linalg.matrix_norm linalg.matrix_power linalg.multi_dot
        linalg.norm linalg.slogdet linalg.solve linalg.vector_norm
    """,
    "numpy_api.nan_statistics": "apply_over_axes nanargmax nanargmin nanmedian nanpercentile nanquantile",
    "numpy_api.calculus": "bincount convolve correlate diff ediff1d gradient interp trapezoid unwrap",
    "numpy_api.ordering": """
        argsort argwhere digitize flatnonzero nonzero searchsorted sort sort_complex trim_zeros unique
    """,
    "numpy_api.polynomials": "polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
    "numpy_api.predicates": """
        allclose around array_equal array_equiv can_cast common_type fix i0 isclose iscomplexobj isneginf
        isposinf isrealobj may_share_memory min_scalar_type ndim result_type round shape shares_memory sinc
        size
    """,
    "numpy_api.products": """
        cross dot inner kron linalg.cross linalg.matmul linalg.outer linalg.tensordot linalg.trace
        linalg.vecdot matmul outer tensordot trace vdot vecdot
    """,
    "numpy_api.reductions": """
        all amax amin any argmax argmin count_nonzero cumprod cumsum cumulative_prod cumulative_sum max min
        prod ptp sum
    """,
    "numpy_api.callbacks": "apply_along_axis piecewise",
    "numpy_api.select": """
        choose clip compress delete extract insert nan_to_num ravel_multi_index select take take_along_axis
        unravel_index where
    """,
    "numpy_api.sets": """
        argpartition histogram histogram2d histogramdd intersect1d isin lexsort partition poly setdiff1d
        setxor1d union1d unique_values
    """,
    "numpy_api.shape": """
        array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to copy diagonal dsplit
        expand_dims flip fliplr flipud hsplit linalg.diagonal linalg.matrix_transpose matrix_transpose
        meshgrid moveaxis ravel reshape rollaxis rot90 sliding_window_view split squeeze swapaxes transpose
        unstack vsplit
    """,
    "numpy_api.decompositions": """
        linalg.cond linalg.eigh linalg.eigvalsh linalg.lstsq linalg.matrix_rank linalg.pinv linalg.qr
        linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve
    """,
    "numpy_api.statistics": """
        average corrcoef cov mean nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar std
        var
    """,
    "numpy_api.quantiles": "median percentile quantile",
    "numpy_api.complex_numbers.complex_matrices": "linalg.eig linalg.eigvals",
}

# NumPy's functions that write into their first argument.
WRITERS = {
    "numpy_api.writers": "copyto fill_diagonal place put put_along_axis putmask",
}

# What makes implementations for complex arrays from those for real ones; other registrations name a function.
FORMS = {
    "numpy_api.complex_numbers.complex_functions": """
        by_condition by_parts by_parts_of_two of_all of_shapes of_truth of_values
    """,
    "numpy_api.complex_numbers.complex_products": "bilinear conjugating_first conjugating_second",
}

# NumPy's ufuncs of complex numbers.
COMPLEX_UFUNCS = {
    "numpy_api.complex_numbers.complex_arithmetic": """
        absolute add conjugate divide equal greater greater_equal isfinite isinf isnan less less_equal
        logical_and logical_not logical_or logical_xor multiply negative not_equal positive reciprocal sign
        square subtract
    """,
    "numpy_api.complex_numbers.complex_elementary": """
        cos cosh exp exp2 expm1 log log10 log1p log2 sin sinh sqrt tan tanh
    """,
    "numpy_api.complex_numbers.complex_inverse": "arccos arccosh arcsin arcsinh arctan arctanh",
    "numpy_api.complex_numbers.complex_orders": "fmax fmin maximum minimum",
    "numpy_api.complex_numbers.complex_powers": "float_power power",
    "numpy_api.complex_numbers.complex_products": "matmul matvec vecdot vecmat",
}

_PACKAGE = __name__.partition(".")[0]


def _file(name: str) -> str:
    return f"{_PACKAGE}.{name}"


def _announce() -> None:
    for name, names in OPERATIONS.items():
        operations.announce(_file(name), *names.split())
    for table, contents in (
        (function_tables.REAL, NUMPY),
        (function_tables.WRITERS, WRITERS),
        (function_tables.COMPLEX_UFUNCS, COMPLEX_UFUNCS),
    ):
        for name, names in contents.items():
            table.announce(_file(name), names.split())
    for name, names in FORMS.items():
        function_tables.FORM_FILES.update(dict.fromkeys(names.split(), _file(name)))
    for module, contents in STAND_INS.items():
        for name, names in contents.items():
            function_tables.announce(module, _file(name), names.split())
    function_tables.OBJECTS.update({start: _file(name) for start, name in OBJECTS.items()})


def load_all() -> None:
    """Import every file that is announced, so that the tables are complete."""
    tables = function_tables.REAL, function_tables.WRITERS, function_tables.COMPLEX_UFUNCS
    files = {file for table in tables for file in table.files.values()}
    files |= {*operations.announced().values(), *function_tables.FORM_FILES.values()}
    files |= {
        file for names in function_tables.STAND_INS.values() for each in names.values() for file in each
    }
    for file in sorted(files):
        import_module(file)


_announce()
