"""Which file of the tracer defines what stands in for functions and objects without NumPy's protocols.

`numbatape.recording.contents` announces these names, beside those of functions that use the protocols.
"""

from __future__ import annotations

# Functions, by module (`numbatape.stand_ins.rebinding`).
STAND_INS = {
    "scipy.linalg": {
        "scipy_api.linalg.linear_systems": """
            cho_factor cho_solve cholesky det inv norm solve solve_triangular
        """,
        "scipy_api.linalg.matrix_functions": """
            coshm cosm expm expm_frechet fractional_matrix_power logm signm sinhm sinm sqrtm tanhm tanm
        """,
        "scipy_api.linalg.factors_and_equations": """
            eig eigh eigh_tridiagonal eigvals eigvalsh eigvalsh_tridiagonal hessenberg ldl lstsq lu lu_factor
            lu_solve pinvh schur solve_continuous_are solve_continuous_lyapunov solve_discrete_are
            solve_discrete_lyapunov solve_lyapunov solve_sylvester
        """,
        "scipy_api.linalg.orthogonal_factors": """
            null_space orth orthogonal_procrustes pinv polar qr qr_multiply rq subspace_angles svd svdvals
        """,
        "scipy_api.linalg.structured_matrices": """
            block_diag cho_solve_banded cholesky_banded circulant convolution_matrix diagsvd eig_banded
            eigvals_banded hankel ishermitian issymmetric khatri_rao matmul_toeplitz solve_banded
            solve_circulant solve_toeplitz solveh_banded toeplitz
        """,
        "scipy_api.linalg.linalg_refusals": """
            cossin qz
        """,
        "scipy_api.linalg.similar_matrices": "funm matrix_balance",
    },
    "scipy.sparse": {
        "scipy_api.sparse.sparse_structure": """
            block_array block_diag bmat bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix
            csr_array csr_matrix dia_array dia_matrix diags diags_array hstack issparse isspmatrix
            isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr isspmatrix_dia isspmatrix_dok
            isspmatrix_lil kron tril triu vstack
        """,
        "scipy_api.sparse.sparse_functions": "find permute_dims swapaxes",
    },
    "scipy.sparse.linalg": {"scipy_api.sparse.sparse_functions": "expm inv norm"},
    "cmath": {
        "scipy_api.cmath_functions": """
            acos acosh asin asinh atan atanh cos cosh exp isfinite isinf isnan log log10 phase polar rect sin
            sinh sqrt tan tanh
        """,
    },
    "scipy._lib._array_api": {"scipy_api.array_api": "_length_nonmasked xp_promote"},
    "scipy.stats._stats_py": {"scipy_api.array_api": "_put_val_to_limits"},
    "scipy.stats._axis_nan_policy": {
        "scipy_api.array_api": "_broadcast_shapes _broadcast_shapes_remove_axis",
    },
    "scipy._lib.array_api_extra": {"scipy_api.array_api": "at"},
    "scipy._external.array_api_extra": {"scipy_api.array_api": "at"},
    "scipy.interpolate": {
        "scipy_api.interpolate.barycentric": """
            BarycentricInterpolator.__init__ BarycentricInterpolator._evaluate barycentric_interpolate
        """,
        "scipy_api.interpolate.fitpack": """
            InterpolatedUnivariateSpline LSQUnivariateSpline UnivariateSpline make_splrep spalde splev splint
            splrep sproot
        """,
        "scipy_api.interpolate.grids": "RectBivariateSpline bisplev interpn",
        "scipy_api.interpolate.interpolation": """
            Akima1DInterpolator BSpline CubicHermiteSpline CubicSpline PPoly PchipInterpolator
            RegularGridInterpolator interp1d make_interp_spline make_lsq_spline make_smoothing_spline
        """,
        "scipy_api.interpolate.scattered": "LinearNDInterpolator NearestNDInterpolator griddata",
    },
    "scipy.fft": {
        "scipy_api.signal.fourier_transforms": """
            dct dctn dst dstn fft fft2 fftn fftshift fht hfft hfft2 hfftn idct idctn idst idstn ifft ifft2
            ifftn ifftshift ifht ihfft ihfft2 ihfftn irfft irfft2 irfftn next_fast_len rfft rfft2 rfftn
        """,
    },
    "numpy.fft": {"numpy_api.fft": "fftfreq rfftfreq"},
    "numpy.polynomial.polynomial": {"numpy_api.power_series": "polyder polyint polyval"},
    "numpy.polynomial.polyutils": {"numpy_api.power_series": "mapdomain"},
    "numpy": {
        "stand_ins.type_tests": "isscalar",
        "numpy_api.callbacks": "apply_along_axis piecewise",
        "numpy_api.joiners": "c_ r_",
        "numpy_api.polynomials": "poly1d",
        "numpy_api.sized": """
            arange array asanyarray asarray bartlett blackman broadcast_shapes broadcast_to diag_indices
            empty eye fromfunction full geomspace hamming hanning identity indices kaiser linspace logspace
            mgrid ogrid ones prod repeat reshape tile tri tril_indices triu_indices zeros
        """,
        "numpy_api.arrays_of_lists": """
            all amax amin any append arange argmax argmin argsort array asanyarray asarray asarray_chkfinite
            ascontiguousarray asfortranarray atleast_1d atleast_2d average bartlett blackman broadcast_to clip
            column_stack concatenate convolve cross cumprod cumsum diag diagflat diff dot dstack flip
            from_dlpack fromiter full hamming hanning hstack inner kaiser kron max mean median min nanmax
            nanmean nanmin nansum ndenumerate ndim outer pad percentile polyval prod ptp quantile ravel repeat
            require reshape roll shape size sort squeeze stack std sum take tile trace transpose tril triu
            vander var vdot vstack
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
            acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp
            exp2 expm1 fabs floor fmod frexp fsum gamma hypot isclose isfinite isinf isnan isqrt ldexp lgamma
            log log10 log1p log2 modf nextafter pow prod radians remainder sin sinh sqrt sumprod tan tanh
            trunc
        """,
    },
    "statistics": {
        "numpy_api.python_statistics": """
            correlation covariance fmean geometric_mean harmonic_mean linear_regression mean pstdev pvariance
            stdev variance
        """,
    },
    "scipy.optimize": {"scipy_api.spatial.neighbours": "linear_sum_assignment"},
    "scipy.sparse.csgraph": {
        "scipy_api.sparse.graphs": """
            bellman_ford breadth_first_order breadth_first_tree connected_components depth_first_order
            depth_first_tree dijkstra floyd_warshall johnson laplacian maximum_bipartite_matching maximum_flow
            min_weight_full_bipartite_matching minimum_spanning_tree reverse_cuthill_mckee shortest_path
            structural_rank yen
        """,
    },
    "scipy.cluster.hierarchy": {"scipy_api.spatial.clusters": "fcluster fclusterdata linkage"},
    "scipy.cluster.vq": {"scipy_api.spatial.clusters": "kmeans kmeans2 vq whiten"},
    "scipy.spatial": {
        "scipy_api.spatial.neighbours": "ConvexHull Delaunay KDTree cKDTree",
        "scipy_api.spatial.distances": "minkowski_distance",
    },
    "scipy.spatial.transform._rotation_xp": {"scipy_api.spatial.rotations": "as_rotvec from_rotvec reduce"},
    "scipy.spatial.distance": {
        "scipy_api.spatial.distances": """
            braycurtis canberra cdist chebyshev cityblock correlation cosine euclidean jensenshannon
            mahalanobis minkowski pdist sqeuclidean squareform
        """,
    },
    "scipy.special": {
        "scipy_api.special.legendre_functions": """
            assoc_legendre_p assoc_legendre_p_all legendre_p legendre_p_all sph_harm_y sph_harm_y_all
            sph_legendre_p sph_legendre_p_all
        """,
        "scipy_api.special.composed_ufuncs": "diric lambertw",
        "scipy_api.special.zeta_functions": "zeta",
        "scipy_api.special.gauss_jacobi": "roots_gegenbauer roots_jacobi",
        "scipy_api.special.sequences": """
            lmbda lqmn lqn obl_cv_seq pbdv_seq pbvv_seq pro_cv_seq riccati_jn riccati_yn
        """,
        "scipy_api.special.spherical_bessel": "spherical_in spherical_jn spherical_kn spherical_yn",
        "scipy_api.special.special_functions": """
            comb factorial h1vp h2vp ivp jvp kvp log_softmax logsumexp multigammaln perm polygamma softmax
            softplus yvp
        """,
    },
    "scipy.stats": {
        "scipy_api.stats.continuous_laws": """
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
        "scipy_api.stats.discrete_laws": """
            bernoulli betabinom betanbinom binom boltzmann dlaplace geom hypergeom logser
            nbinom nhypergeom planck poisson randint skellam yulesimon
        """,
        "scipy_api.stats.distribution_families": "Binomial Logistic Normal Uniform make_distribution",
        "scipy_api.stats.empirical": "ecdf",
        "scipy_api.stats.histograms": "rv_histogram _methods.histogram",
        "scipy_api.stats.sampled_laws": "rv_discrete _methods.sample",
        "scipy_api.stats.kernel_density": "gaussian_kde",
        "scipy_api.stats.normality": "shapiro",
        "scipy_api.stats.poisson_binomial": "poisson_binom",
        "scipy_api.stats.special_laws": """
            argus crystalball dpareto_lognorm gausshyper genexpon genhalflogistic
            genhyperbolic geninvgauss jf_skew_t kappa3 kappa4 kstwobign
            nchypergeom_fisher nchypergeom_wallenius pearson3 rel_breitwigner truncweibull_min tukeylambda
            zipf zipfian
        """,
        "scipy_api.stats.noncentral_laws": "irwinhall ncf nct ncx2 skewnorm",
        "scipy_api.stats.distribution_functions": """
            alpha anglit arcsine bernoulli beta betaprime binom boltzmann bradford burr burr12 cauchy chi
            chi2 cosine dgamma dlaplace dweibull erlang expon exponnorm exponpow exponweib f fatiguelife
            fisk gamma genextreme gengamma genlogistic gennorm genpareto geom gibrat gompertz gumbel_l
            gumbel_r halfcauchy halfgennorm halflogistic halfnorm hypsecant invgamma invgauss invweibull
            johnsonsb johnsonsu laplace laplace_asymmetric levy levy_l loggamma logistic loglaplace lognorm
            logser loguniform lomax maxwell mielke moyal nakagami nbinom norm pareto planck poisson powerlaw
            powerlognorm powernorm randint rayleigh rdist recipinvgauss reciprocal rice skellam skewcauchy t
            trapezoid triang truncexpon truncnorm truncpareto uniform vonmises weibull_max weibull_min
            wrapcauchy yulesimon
        """,
        "scipy_api.stats.multivariate_laws": """
            dirichlet dirichlet_multinomial invwishart matrix_normal matrix_t multinomial multivariate_normal
            multivariate_t normal_inverse_gamma vonmises_fisher wishart
        """,
        "scipy_api.stats.multivariate_moments": """
            dirichlet dirichlet_multinomial invwishart matrix_normal multinomial multivariate_t
            normal_inverse_gamma vonmises_fisher wishart
        """,
        "scipy_api.stats.covariances": "Covariance",
        "scipy_api.stats.variable_functions": "Mixture abs exp log order_statistic truncate",
        "scipy_api.stats.sample_distances": """
            ansari cramervonmises_2samp energy_distance kendalltau logrank mannwhitneyu obrientransform
            siegelslopes wasserstein_distance weightedtau wilcoxon
        """,
        "scipy_api.stats.sample_statistics": """
            boxcox_llf entropy gmean gstd gzscore hmean iqr kurtosis median_abs_deviation moment pmean
            power_divergence rankdata sem skew trim_mean variation yeojohnson yeojohnson_llf zmap zscore
        """,
        "scipy_api.stats.studentized_range": "studentized_range",
        "scipy_api.stats.values_only": "ksone kstwo landau levy_stable",
    },
    "scipy.stats.mstats": {
        "scipy_api.stats.masked_statistics": """
            gmean hdquantiles hmean kurtosis moment mquantiles sem skew trimmed_mean trimmed_std trimmed_stde
            trimmed_var variation winsorize zmap zscore
        """,
    },
    "scipy.stats.qmc": {"scipy_api.stats.sample_distances": "discrepancy"},
    "scipy.integrate": {
        "scipy_api.integrate": "cumulative_trapezoid fixed_quad romb simpson trapezoid",
    },
    "scipy.signal": {
        "scipy_api.signal.resampling": """
            chirp freqz gausspulse medfilt medfilt2d order_filter resample resample_poly sawtooth square
            sweep_poly upfirdn wiener
        """,
        "scipy_api.signal.convolutions": """
            convolve convolve2d correlate correlate2d detrend fftconvolve hilbert oaconvolve savgol_filter
        """,
        "scipy_api.signal.signal_windows": "get_window",
        "scipy_api.signal.spline_filters": "sepfir2d",
        "scipy_api.signal.spectra": "coherence csd istft lombscargle periodogram spectrogram stft welch",
    },
    "scipy.signal._signaltools": {"scipy_api.signal.spline_filters": "_cmplx_sort"},
    "scipy.signal._spline": {
        "scipy_api.signal.spline_filters": "symiirorder1_ic symiirorder2_ic_bwd symiirorder2_ic_fwd",
    },
    "scipy.signal.windows": {
        "scipy_api.signal.signal_windows": """
            bartlett blackman blackmanharris boxcar cosine exponential flattop gaussian general_gaussian
            hamming hann kaiser nuttall tukey
        """,
    },
    "scipy.signal._spline_filters": {"scipy_api.signal.convolutions": "_quadratic"},
    "scipy.signal._bsplines": {"scipy_api.signal.convolutions": "_quadratic"},
    "scipy.signal._peak_finding_utils": {
        "scipy_api.signal.peaks": "_local_maxima_1d _peak_prominences _peak_widths _select_by_peak_distance",
    },
    "scipy.ndimage": {
        "scipy_api.images.image_filters": """
            convolve convolve1d correlate correlate1d fourier_ellipsoid fourier_gaussian fourier_shift
            fourier_uniform gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace
            laplace prewitt sobel uniform_filter uniform_filter1d
        """,
        "scipy_api.images.image_splines": """
            affine_transform map_coordinates rotate shift spline_filter spline_filter1d zoom
        """,
        "scipy_api.images.image_statistics": """
            center_of_mass maximum mean median minimum standard_deviation sum sum_labels variance
        """,
        "scipy_api.images.image_windows": """
            black_tophat grey_closing grey_dilation grey_erosion grey_opening maximum_filter maximum_filter1d
            median_filter minimum_filter minimum_filter1d morphological_gradient morphological_laplace
            percentile_filter rank_filter white_tophat
        """,
    },
}

# Objects that libraries' classes have made outside of the function, by the beginning of the class's module.
OBJECTS = {
    "scipy.stats._covariance": "scipy_api.stats.covariances",
    "scipy.stats._distribution_infrastructure": "scipy_api.stats.distribution_families",
    "scipy.stats._new_distributions": "scipy_api.stats.distribution_families",
    "scipy.stats._kde": "scipy_api.stats.kernel_density",
    "scipy.stats._survival": "scipy_api.stats.empirical",
    "scipy.stats.": "scipy_api.stats.distributions",
    "scipy.interpolate.": "scipy_api.interpolate.interpolation",
    "scipy.spatial._ckdtree": "scipy_api.spatial.neighbours",
    "scipy.spatial._kdtree": "scipy_api.spatial.neighbours",
    "scipy.spatial._qhull": "scipy_api.spatial.neighbours",
}
