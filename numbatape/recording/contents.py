"""Which file of the tracer defines which names: a file is imported when one of its names is first needed.

``import numbatape`` and the gradient of ``np.sum(np.exp(x))`` import no linear algebra, no distributions
and nothing complex. When you add a function to a file, add its name here; `tests/test_contents.py` checks
that both agree.
"""

from __future__ import annotations

from importlib import import_module

from ..numpy_api import function_tables
from ..trace import operations

# What the methods of traced values call (`numbatape.trace.operations`).
OPERATIONS = {
    "trace.boxes": "array_of box_of put_entry seen",
    "trace.patches": "entry_of_patches settle",
    "trace.complex_parts": "adopted complete complex_entries constant in_box part",
    "control.loop_values": "loop_values",
    "numpy_api.complex_functions": "call_complex_function",
    "trace.complex_pairs": "join",
    "numpy_api.complex_ufuncs": "call_complex_ufunc",
    "trace.flat": "Flat",
    "numpy_api.dispatch": "call_function",
    "numpy_api.exact_math": "power_of_scalars",
    "numpy_api.reductions": "logsumexp",
    "scipy_api.special": "composed_special",
    "trace.data_frames": "arrays_of",
    "trace.labelled_calls": "has_labels product ufunc_of_labelled",
    "trace.indexing": "getitem item",
    "trace.extents": "arange extent",
    "trace.size_fractions": "noted_ufunc rounded_to_size",
    "trace.integers": "TracedInteger arguments lifted operands settled",
    "recording.leaks": "leak",
    "matrix.matrix_rule": "call_rule",
    "nested.transforms": "Linearised is_float or_zeros",
    "trace.operands": "adopt",
    "trace.primitives": "transpose",
    "trace.scatters": "add_at added_up one_by_one write_at",
    "capture.library_copies": "library_copy",
    "capture.rebinding": "module_in_traces rebind table",
    "scipy_api.sparse_matrices": "answer_to_sparse_product operate_on_sparse",
    "scipy_api.products_of_sparse": "multiplied_by_entries product_of_sparse",
    "scipy_api.sparse_structure": "part_of_sparse",
    "numpy_api.ufuncs": "call_plain_ufunc call_ufunc",
    "numpy_api.vectorize": "Vectorized with_function",
    "trace.writes": "assign store store_all ufunc_at",
}

# NumPy's functions of real arrays.
NUMPY = {
    "numpy_api.fft": """
        fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft
        fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    """,
    "numpy_api.complex_reductions": """
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
    "numpy_api.select": """
        apply_along_axis choose clip compress delete extract insert nan_to_num piecewise ravel_multi_index
        select take take_along_axis unravel_index where
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
        average corrcoef cov mean median nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum
        nanvar percentile quantile std var
    """,
    "numpy_api.complex_matrices": "linalg.eig linalg.eigvals",
}

# NumPy's functions that write into their first argument.
WRITERS = {
    "numpy_api.writers": "copyto fill_diagonal place put put_along_axis putmask",
}

# What makes implementations for complex arrays from those for real ones; other registrations name a function.
FORMS = {
    "numpy_api.complex_functions": """
        by_condition by_parts by_parts_of_two of_all of_shapes of_truth of_values
    """,
    "numpy_api.complex_products": "bilinear conjugating_first conjugating_second",
}

# NumPy's ufuncs of complex numbers.
COMPLEX_UFUNCS = {
    "numpy_api.complex_arithmetic": """
        absolute add conjugate divide equal greater greater_equal isfinite isinf isnan less less_equal
        logical_and logical_not logical_or logical_xor multiply negative not_equal positive reciprocal sign
        square subtract
    """,
    "numpy_api.complex_elementary": "cos cosh exp exp2 expm1 log log10 log1p log2 sin sinh sqrt tan tanh",
    "numpy_api.complex_inverse": "arccos arccosh arcsin arcsinh arctan arctanh",
    "numpy_api.complex_powers": "float_power power",
    "numpy_api.complex_products": "matmul matvec vecdot vecmat",
}

# Functions and objects that do not use NumPy's protocols, by module (`numbatape.capture.rebinding`).
STAND_INS = {
    "scipy.linalg": {
        "numpy_api.decompositions": "block_diag circulant pinv qr svd svdvals toeplitz",
        "scipy_api.special_and_linalg": "cho_factor cho_solve cholesky det inv norm solve solve_triangular",
        "scipy_api.matrix_functions": """
            coshm cosm expm expm_frechet fractional_matrix_power logm sinhm sinm sqrtm tanhm tanm
        """,
        "scipy_api.linalg": """
            eig eigh eigh_tridiagonal eigvals eigvalsh eigvalsh_tridiagonal hessenberg ldl lstsq lu lu_factor
            lu_solve null_space orth orthogonal_procrustes pinvh polar rq schur solve_continuous_are
            solve_continuous_lyapunov solve_discrete_are solve_discrete_lyapunov solve_lyapunov
            solve_sylvester subspace_angles
        """,
        "scipy_api.structured_matrices": """
            cho_solve_banded cholesky_banded convolution_matrix diagsvd eigvals_banded hankel ishermitian
            issymmetric khatri_rao matmul_toeplitz solve_banded solve_circulant solve_toeplitz solveh_banded
        """,
        "scipy_api.linalg_refusals": """
            cossin eig_banded funm qr_multiply qz signm
        """,
    },
    "scipy.sparse": {
        "scipy_api.sparse_structure": """
            block_array block_diag bmat bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix
            csr_array csr_matrix dia_array dia_matrix diags diags_array hstack issparse isspmatrix kron tril
            triu vstack
        """,
    },
    "cmath": {
        "scipy_api.cmath_and_fft": """
            acos acosh asin asinh atan atanh cos cosh exp isfinite isinf isnan log log10 phase polar rect sin
            sinh sqrt tan tanh
        """,
    },
    "scipy._lib.array_api_extra": {"scipy_api.array_api": "at"},
    "scipy.interpolate": {
        "scipy_api.barycentric": """
            BarycentricInterpolator.__init__ BarycentricInterpolator._evaluate barycentric_interpolate
        """,
        "scipy_api.fitpack": """
            InterpolatedUnivariateSpline LSQUnivariateSpline UnivariateSpline splev splint splrep
        """,
        "scipy_api.grids": "RectBivariateSpline bisplev interpn",
        "scipy_api.interpolation": """
            Akima1DInterpolator BSpline CubicHermiteSpline CubicSpline PPoly PchipInterpolator
            RegularGridInterpolator interp1d make_interp_spline make_lsq_spline make_smoothing_spline
        """,
        "scipy_api.scattered": "LinearNDInterpolator NearestNDInterpolator griddata",
    },
    "scipy.fft": {
        "scipy_api.cmath_and_fft": """
            fft fft2 fftn fftshift fht hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ifht ihfft ihfft2 ihfftn
            irfft irfft2 irfftn rfft rfft2 rfftn
        """,
        "scipy_api.spatial": "dct dctn dst dstn idct idctn idst idstn",
    },
    "numpy.fft": {"numpy_api.fft": "fftfreq rfftfreq"},
    "numpy": {
        "capture.type_tests": "isscalar",
        "numpy_api.sized": """
            arange array asanyarray asarray bartlett blackman broadcast_to diag_indices empty eye
            fromfunction full geomspace hamming hanning identity indices linspace logspace mgrid ogrid ones
            prod repeat reshape tile tri tril_indices triu_indices zeros
        """,
        "numpy_api.arrays_of_lists": """
            all amax amin any append arange argmax argmin argsort array asanyarray asarray asarray_chkfinite
            ascontiguousarray asfortranarray atleast_1d atleast_2d average broadcast_to clip column_stack
            concatenate convolve cross cumprod cumsum diag diagflat diff dot dstack flip from_dlpack
            fromiter full hstack inner kron max mean median min nanmax nanmean nanmin nansum
            ndenumerate outer pad percentile polyval prod ptp quantile ravel repeat require reshape roll sort
            squeeze stack std sum tile trace transpose tril triu vander var vdot vstack
        """,
    },
    "numpy.testing": {
        "numpy_api.assertions": """
            assert_allclose assert_almost_equal assert_array_almost_equal assert_array_equal assert_array_less
            assert_equal
        """,
    },
    "numpy.ctypeslib": {
        "numpy_api.arrays_of_lists": "as_array",
    },
    "numpy.ma": {
        "numpy_api.arrays_of_lists": "filled getdata",
    },
    "numpy.lib.stride_tricks": {
        "numpy_api.arrays_of_lists": "as_strided",
    },
    "numpy.linalg": {
        "numpy_api.arrays_of_lists": """
            cholesky cond det eigh eigvalsh inv matrix_power norm pinv
            qr slogdet solve svd trace
        """,
    },
    "math": {
        "numpy_api.math_functions": """
            acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh degrees dist erf erfc exp exp2
            expm1 fabs floor fmod frexp fsum gamma hypot isclose isfinite isinf isnan isqrt ldexp lgamma log
            log10 log1p log2 modf nextafter pow prod radians remainder sin sinh sqrt sumprod tan tanh trunc
        """,
    },
    "statistics": {
        "numpy_api.python_statistics": """
            correlation covariance fmean geometric_mean harmonic_mean linear_regression mean pstdev pvariance
            stdev variance
        """,
    },
    "scipy.optimize": {"scipy_api.neighbours": "linear_sum_assignment"},
    "scipy.sparse.csgraph": {
        "scipy_api.graphs": """
            bellman_ford connected_components dijkstra floyd_warshall johnson laplacian minimum_spanning_tree
            shortest_path
        """,
    },
    "scipy.spatial": {"scipy_api.neighbours": "ConvexHull Delaunay KDTree cKDTree"},
    "scipy.spatial.transform._rotation_xp": {"scipy_api.rotations": "as_rotvec from_rotvec"},
    "scipy.spatial.distance": {
        "scipy_api.spatial": """
            braycurtis canberra cdist chebyshev cityblock correlation cosine euclidean minkowski pdist
            sqeuclidean squareform
        """,
    },
    "scipy.special": {
        "scipy_api.legendre_functions": """
            assoc_legendre_p assoc_legendre_p_all legendre_p legendre_p_all sph_harm_y sph_harm_y_all
            sph_legendre_p sph_legendre_p_all
        """,
        "scipy_api.special": "diric lambertw spherical_in spherical_jn spherical_kn spherical_yn zeta",
        "scipy_api.special_and_linalg": """
            comb factorial h1vp h2vp ivp jvp kvp log_softmax logsumexp multigammaln perm polygamma softmax
            softplus yvp
        """,
    },
    "scipy.stats": {
        "scipy_api.continuous_laws": """
            alpha anglit arcsine beta betaprime bradford burr burr12 cauchy chi chi2 cosine
            dgamma dweibull erlang expon exponnorm exponpow exponweib f fatiguelife fisk
            foldcauchy foldnorm gamma genextreme gengamma genlogistic gennorm genpareto
            gibrat gompertz gumbel_l gumbel_r halfcauchy halfgennorm halflogistic halfnorm
            hypsecant invgamma invgauss invweibull johnsonsb johnsonsu laplace
            laplace_asymmetric levy levy_l loggamma logistic loglaplace lognorm loguniform
            lomax maxwell mielke moyal nakagami norm norminvgauss pareto powerlaw
            powerlognorm powernorm rayleigh rdist recipinvgauss reciprocal rice semicircular
            skewcauchy skewnorm t trapezoid triang truncexpon truncnorm truncpareto uniform
            vonmises vonmises_line wald weibull_max weibull_min wrapcauchy
        """,
        "scipy_api.discrete_laws": """
            bernoulli betabinom betanbinom binom boltzmann dlaplace geom hypergeom logser
            nbinom nhypergeom planck poisson randint skellam yulesimon
        """,
        "scipy_api.distribution_families": "Binomial Logistic Normal Uniform make_distribution",
        "scipy_api.kernel_density": "gaussian_kde",
        "scipy_api.normality": "shapiro",
        "scipy_api.special_laws": """
            argus crystalball dpareto_lognorm gausshyper genexpon genhalflogistic
            genhyperbolic geninvgauss jf_skew_t kappa3 kappa4 kstwobign ncf
            nchypergeom_fisher ncx2 pearson3 rel_breitwigner truncweibull_min zipf zipfian
        """,
        "scipy_api.distribution_functions": """
            alpha anglit arcsine bernoulli beta betaprime binom boltzmann bradford burr burr12 cauchy chi chi2
            dgamma dlaplace dweibull erlang expon exponnorm exponpow exponweib f fatiguelife fisk gamma
            genextreme gengamma genlogistic gennorm genpareto geom gibrat gompertz gumbel_l gumbel_r
            halfcauchy halfgennorm halflogistic halfnorm hypsecant invgamma invgauss invweibull johnsonsb
            johnsonsu laplace laplace_asymmetric levy levy_l loggamma logistic loglaplace lognorm loguniform
            lomax maxwell mielke moyal nakagami nbinom norm pareto planck poisson powerlaw powerlognorm
            powernorm randint rayleigh rdist reciprocal rice skewcauchy t triang truncexpon truncnorm
            truncpareto uniform weibull_max weibull_min
        """,
        "scipy_api.multivariate_laws": """
            dirichlet dirichlet_multinomial invwishart matrix_normal matrix_t multinomial multivariate_normal
            multivariate_t normal_inverse_gamma vonmises_fisher wishart
        """,
        "scipy_api.covariances": "Covariance",
        "scipy_api.variable_functions": "Mixture abs exp log order_statistic truncate",
        "scipy_api.sample_distances": """
            energy_distance kendalltau mannwhitneyu siegelslopes wasserstein_distance weightedtau wilcoxon
        """,
        "scipy_api.sample_statistics": """
            boxcox_llf entropy gmean gstd gzscore hmean iqr kurtosis median_abs_deviation moment pmean sem
            skew trim_mean variation zmap zscore
        """,
        "scipy_api.values_only": "ksone kstwo studentized_range",
    },
    "scipy.integrate": {
        "scipy_api.integrate": "cumulative_trapezoid fixed_quad romb simpson trapezoid",
    },
    "scipy.signal": {
        "scipy_api.resampling": """
            chirp freqz gausspulse medfilt medfilt2d order_filter resample resample_poly sawtooth sweep_poly
            upfirdn wiener
        """,
        "scipy_api.signal": """
            convolve convolve2d correlate correlate2d detrend fftconvolve hilbert oaconvolve savgol_filter
        """,
        "scipy_api.signal_windows": "get_window",
        "scipy_api.spectra": "coherence csd istft lombscargle periodogram spectrogram stft welch",
    },
    "scipy.signal.windows": {
        "scipy_api.signal_windows": """
            bartlett blackman blackmanharris cosine exponential flattop gaussian general_gaussian hamming
            hann kaiser nuttall tukey
        """,
    },
    "scipy.signal._peak_finding_utils": {
        "scipy_api.peaks": "_local_maxima_1d _peak_prominences _peak_widths _select_by_peak_distance",
    },
    "scipy.ndimage": {
        "scipy_api.image_filters": """
            convolve convolve1d correlate correlate1d fourier_ellipsoid fourier_gaussian fourier_shift
            fourier_uniform gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace
            laplace prewitt sobel uniform_filter uniform_filter1d
        """,
        "scipy_api.image_splines": """
            affine_transform map_coordinates rotate shift spline_filter spline_filter1d zoom
        """,
        "scipy_api.image_statistics": """
            center_of_mass maximum mean median minimum standard_deviation sum sum_labels variance
        """,
        "scipy_api.image_windows": """
            black_tophat grey_closing grey_dilation grey_erosion grey_opening maximum_filter maximum_filter1d
            median_filter minimum_filter minimum_filter1d morphological_gradient morphological_laplace
            percentile_filter rank_filter white_tophat
        """,
    },
}

# Objects that libraries' classes have made outside of the function, by the beginning of the class's module.
OBJECTS = {
    "scipy.stats._distribution_infrastructure": "scipy_api.distribution_families",
    "scipy.stats._new_distributions": "scipy_api.distribution_families",
    "scipy.stats._kde": "scipy_api.kernel_density",
    "scipy.stats.": "scipy_api.distributions",
    "scipy.interpolate.": "scipy_api.interpolation",
    "scipy.spatial._ckdtree": "scipy_api.neighbours",
    "scipy.spatial._kdtree": "scipy_api.neighbours",
    "scipy.spatial._qhull": "scipy_api.neighbours",
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
        (function_tables.RULES, COMPLEX_UFUNCS),
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
    tables = function_tables.REAL, function_tables.WRITERS, function_tables.RULES
    files = {file for table in tables for file in table.files.values()}
    files |= {*operations.announced().values(), *function_tables.FORM_FILES.values()}
    files |= {
        file for names in function_tables.STAND_INS.values() for each in names.values() for file in each
    }
    for file in sorted(files):
        import_module(file)


_announce()
