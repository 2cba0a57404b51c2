"""Ways to get an array from an array: functions of NumPy's namespace, methods, indices, ufunc methods.

What NumPy runs without an error on ordinary arrays is a form. Found by trying, so that a function of a
later NumPy is a form too.
"""

import warnings

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

SHAPES = {
    "parts": ((2, 3),),
    "indices": ((2, 3), (3, 1), (4,), (), (0, 2)),
    "functions": ((2, 3),),
    "methods": ((2, 3), (1,)),
    "ufuncs": ((1, 3), (1,), ()),
}

# They write files, print, read what is no array, or make objects that hold no numbers.
PASSED_OVER = frozenset(
    (
        *("save", "savetxt", "savez", "savez_compressed", "load", "loadtxt", "genfromtxt", "fromfile"),
        *("fromregex", "info", "show_config", "show_runtime", "test", "getbufsize", "setbufsize", "bmat"),
        *("set_printoptions", "get_printoptions", "printoptions", "seterr", "geterr", "seterrcall"),
        *("geterrcall", "errstate", "get_include", "shares_memory", "may_share_memory", "frompyfunc"),
        *("empty", "empty_like", "asmatrix"),
    )
)

# After the array: what other arguments a function is tried with.
ARGUMENTS = {
    "()": lambda y: (y,),
    "(0)": lambda y: (y, 0),
    "(1)": lambda y: (y, 1),
    "(0, 1)": lambda y: (y, 0, -1),
    "(y)": lambda y: (y, y),
    "(shape)": lambda y: (y, y.shape),
    "(-1)": lambda y: (y, -1),
    "(dtype)": lambda y: (y, np.float64),
    "(None)": lambda y: (y, None),
    "mask": lambda y: (np.ones(np.shape(y), bool), y),
    "masks": lambda y: (np.ones(np.shape(y), bool), y, y),
    "(none, none)": lambda y: (y, None, None),
}

INDICES = {
    "[...]": lambda y: y[...],
    "[()]": lambda y: y[()],
    "[:]": lambda y: y[:],
    "[None]": lambda y: y[None],
    "[0]": lambda y: y[0],
    "[-1:]": lambda y: y[-1:],
    "[::-1]": lambda y: y[::-1],
    "[..., 0]": lambda y: y[..., 0],
    "[0, ...]": lambda y: y[0, ...],
    "[int8]": lambda y: y[np.int8(0)],
    "[array(0)]": lambda y: y[np.array(0)],
    "[array(0), ...]": lambda y: y[np.array(0), ...],
    "[..., array(0)]": lambda y: y[..., np.array(0)],
    "[:, array(0)]": lambda y: y[:, np.array(0)],
    "[None, array(0)]": lambda y: y[None, np.array(0)],
    "[[0]]": lambda y: y[[0]],
    "[[]]": lambda y: y[[]],
    "[:, [0]]": lambda y: y[:, [0]],
    "[True]": lambda y: y[True],
    "[False]": lambda y: y[False],
    "[np.True_]": lambda y: y[np.True_],
    "[array(True)]": lambda y: y[np.array(True)],
    "[True, ...]": lambda y: y[True, ...],
    "[True, 0]": lambda y: y[True, 0],
    "[0, True]": lambda y: y[0, True],
    "[:1, None, False]": lambda y: y[:1, None, False],
    "[mask]": lambda y: y[np.ones(np.shape(y), bool)],
    "[no mask]": lambda y: y[np.zeros(np.shape(y), bool)],
    "[ix_]": lambda y: y[np.ix_(*(np.arange(n) for n in np.shape(y)))],
    "[grid of ints]": lambda y: y[np.array([[0]])],
    "flat[:]": lambda y: y.flat[:],
    "flat[1:]": lambda y: y.flat[1:],
    "flat[...]": lambda y: y.flat[...],
    "flat[[0]]": lambda y: y.flat[[0]],
    "flat[0]": lambda y: y.flat[0],
    "flat.copy": lambda y: y.flat.copy(),
    "flat.base": lambda y: y.flat.base,
    "array(flat)": lambda y: np.array(y.flat),
    "ravel(flat)": lambda y: np.ravel(y.flat),
    "list(flat)": lambda y: np.array(list(y.flat)),
    "rows": lambda y: list(y),
    "[:].base": lambda y: y[:].base,
    "[...].base": lambda y: y[...].base,
    "T.base": lambda y: y.T.base,
    "reshape.base": lambda y: y.reshape(-1).base,
    "T": lambda y: y.T,
    "mT": lambda y: y.mT,
    "real": lambda y: y.real,
    "np.real": lambda y: np.real(y),
    "flags": lambda y: y[: y.flags.writeable],
    "view": lambda y: y.view(),
    "view(dtype)": lambda y: y.view(float),
    "view(ndarray)": lambda y: y.view(np.ndarray),
    "+y": lambda y: +y,
    "conj": lambda y: y.conj(),
    "T flat[:]": lambda y: y.T.flat[:],
    "as_strided": lambda y: as_strided(_long(y), (2,), (y.itemsize,)),
    "as_strided alone": lambda y: as_strided(y),
    "as_strided overlapping": lambda y: as_strided(_long(y), (2, 3), (y.itemsize, y.itemsize)),
    "as_strided read-only": lambda y: as_strided(_long(y), (2,), (y.itemsize,), writeable=False),
    "windows": lambda y: sliding_window_view(y, 2),
    "windows over axis": lambda y: sliding_window_view(y, 1, axis=0, writeable=True),
    "windows in two axes": lambda y: sliding_window_view(y, (1, 1), (0, 1), writeable=True),
    "require": lambda y: np.require(y, float, ["C"]),
    "require Fortran": lambda y: np.require(y, None, "F"),
    "require own": lambda y: np.require(y[:], None, "O"),
    "asarray_chkfinite": lambda y: np.asarray_chkfinite(y),
    "asarray(copy)": lambda y: np.asarray(y, copy=True),
    "asarray(dtype=)": lambda y: np.asarray(y, dtype=np.float32),
    "asarray(a=)": lambda y: np.asarray(a=y),
    "asarray(no copy)": lambda y: np.asarray(y, copy=False),
    "array(copy=None)": lambda y: np.array(y, copy=None),
    "array(ndmin)": lambda y: np.array(y, copy=None, ndmin=3),
    "array(object=)": lambda y: np.array(object=y),
    "from_dlpack": lambda y: np.from_dlpack(y),
    "from_dlpack(copy)": lambda y: np.from_dlpack(y, copy=True),
    "ctypeslib.as_array": lambda y: np.ctypeslib.as_array(y),
    "nditer.operands": lambda y: np.nditer(y).operands[0],
    "nditer.operands of two": lambda y: np.nditer([y, y], op_flags=[["readwrite"], ["readonly"]]).operands[0],
    "nditer of entries": lambda y: [e for e in np.nditer(y, op_flags=["readwrite"])],
    "ma.filled": lambda y: np.ma.filled(y),
    "ma.getdata": lambda y: np.ma.getdata(y),
    "broadcast_arrays": lambda y: np.broadcast_arrays(y, 1.0)[0],
    "broadcast_arrays wide": lambda y: np.broadcast_arrays(y, np.ones((2, *np.shape(y))))[0],
    "broadcast_to": lambda y: np.broadcast_to(y, (2, *np.shape(y))),
    "meshgrid(copy=False)": lambda y: np.meshgrid(y, np.arange(2.0), copy=False),
    "meshgrid": lambda y: np.meshgrid(y, np.arange(2.0)),
    "meshgrid sparse": lambda y: np.meshgrid(y, np.arange(2.0), copy=False, sparse=True),
    "astype": lambda y: y.astype(float),
    "astype(copy=False)": lambda y: y.astype(float, copy=False),
    "astype(float32, copy=False)": lambda y: y.astype(np.float32, copy=False),
    "np.astype(copy=False)": lambda y: np.astype(y, np.float64, copy=False),
    "nan_to_num(copy=False)": lambda y: np.nan_to_num(y, copy=False),
    "reshape(F)": lambda y: y.reshape(-1, order="F"),
    "reshape(A)": lambda y: y.T.reshape(-1, order="A"),
    "reshape(copy)": lambda y: np.reshape(y, -1, copy=True),
    "ravel(K)": lambda y: y.T.ravel("K"),
    "flatten(F)": lambda y: y.flatten("F"),
    "copy(F)": lambda y: y.copy("F"),
    "einsum view": lambda y: np.einsum("...->...", y),
    "einsum T": lambda y: np.einsum("ij->ji", y),
    "einsum sum": lambda y: np.einsum("ij->i", y),
    "where alone": lambda y: np.where(True, y, y),
    "clip": lambda y: np.clip(y, None, None),
    "clip far": lambda y: np.clip(y, -9, 9),
    "round": lambda y: np.round(y),
    "take": lambda y: y.take([0]),
    "take of all": lambda y: np.take(y, np.arange(y.shape[0]), axis=0),
    "compress": lambda y: y.compress([True]),
    "repeat": lambda y: y.repeat(1),
    "tile": lambda y: np.tile(y, 1),
    "tile no times": lambda y: np.tile(y, ()),
    "roll by none": lambda y: np.roll(y, 0),
    "diff of order 0": lambda y: np.diff(y[:], 0),
    "rot90 by none": lambda y: np.rot90(y, 0),
    "rot90 twice": lambda y: np.rot90(y, 2),
    "flip of no axis": lambda y: np.flip(y, ()),
    "transpose()": lambda y: y.transpose(0),
    "transpose(1, 0)": lambda y: y.transpose(1, 0),
    "squeeze(0)": lambda y: np.squeeze(y, 0),
    "pad by none": lambda y: np.pad(y, 0),
    "trim_zeros": lambda y: np.trim_zeros(y),
    "insert none": lambda y: np.insert(y, [], []),
    "delete none": lambda y: np.delete(y, []),
    "append none": lambda y: np.append(y, []),
    "resize": lambda y: np.resize(y, np.shape(y)),
    "concatenate one": lambda y: np.concatenate([y]),
    "concatenate with none": lambda y: np.concatenate([y, y[:0]]),
    "linalg.matrix_power 1": lambda y: np.linalg.matrix_power(y @ y.T, 1),
    "linalg.diagonal": lambda y: np.linalg.diagonal(y),
    "diagonal(1)": lambda y: np.diagonal(y, 1),
    "diag": lambda y: np.diag(y),
    "apply_along_axis": lambda y: np.apply_along_axis(lambda r: r, 0, y),
    "vectorize": lambda y: np.vectorize(lambda e: e)(y),
    "piecewise": lambda y: np.piecewise(y, [np.ones(np.shape(y), bool)], [lambda e: e]),
    "select": lambda y: np.select([np.ones(np.shape(y), bool)], [y]),
    "choose": lambda y: np.choose(np.zeros(np.shape(y), int), [y]),
    "split": lambda y: np.split(y, 1),
    "array_split": lambda y: np.array_split(y, 2),
    "sum of axis 1": lambda y: np.sum(y, axis=0),
    "sum over no axis": lambda y: np.sum(y, axis=()),
    "max over no axis": lambda y: np.max(y, axis=()),
    "mean over no axis": lambda y: np.mean(y, axis=()),
    "cumsum": lambda y: np.cumsum(y),
    "average": lambda y: np.average(y, axis=0),
    "median": lambda y: np.median(y, axis=0),
    "quantile": lambda y: np.quantile(y, 0.0, axis=0),
    "r_": lambda y: np.r_[y],
    "c_": lambda y: np.c_[y],
    "interp": lambda y: np.interp(y, y, y),
    "shape assigned": lambda y: _in_shape(y[:], (-1,)),
}

# Of complex arrays only.
PARTS = {
    "real part": lambda y: y.real,
    "imag": lambda y: y.imag,
    "np.imag": lambda y: np.imag(y),
    "imag of a row": lambda y: y[0].imag,
    "row of imag": lambda y: y.imag[0],
    "imag.T": lambda y: y.imag.T,
    "T.imag": lambda y: y.T.imag,
    "imag[...]": lambda y: y.imag[...],
    "imag of imag": lambda y: y.real.real,
    "imag flat[:]": lambda y: y.imag.flat[:],
    "imag backwards": lambda y: y[..., ::-1].imag,
    "copy of imag": lambda y: y.imag.copy(),
    "both": lambda y: [y.real, y.imag],
    "real.base": lambda y: y.real.base,
    "conj": lambda y: y.conj(),
    "np.conj": lambda y: np.conj(y),
    "ravel of real": lambda y: y.real.ravel(),
    "reshape of imag": lambda y: y.imag.reshape(-1),
    "diagonal of imag": lambda y: np.diagonal(y.imag),
    "windows of imag": lambda y: sliding_window_view(y.imag, 1, axis=0, writeable=True),
    "real_if_close": lambda y: np.real_if_close(y),
    "angle": lambda y: np.angle(y),
    "abs": lambda y: np.abs(y),
}


def _long(v):
    assert np.size(v) >= 4, "NumPy does not check it"
    return v


def _in_shape(v, shape):
    v.shape = shape
    return v


def numpys(namespace=np):
    """Return the functions of a namespace of NumPy's by name."""
    found = {n: getattr(namespace, n) for n in namespace.__all__ if n not in PASSED_OVER}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


def _called(function, arguments):
    return lambda y: function(*arguments(y))


def _method(name, arguments):
    return lambda y: getattr(y, name)(*arguments(y)[1:])


def _of_ufunc(ufunc, method, options):
    return lambda y: getattr(ufunc, method)(y, **options)


def _functions():
    for prefix, namespace in (("", np), ("linalg.", np.linalg)):
        for name, function in numpys(namespace).items():
            for label, arguments in ARGUMENTS.items():
                yield f"{prefix}{name}{label}", _called(function, arguments)


def _methods():
    for name in dir(np.ndarray):
        if not name.startswith("_") and callable(getattr(np.ndarray, name)) and name not in OTHER_METHODS:
            for label in ("()", "(0)", "(0, 1)", "(shape)", "(dtype)", "(y)"):
                yield f".{name}{label}", _method(name, ARGUMENTS[label])


def _of_ufuncs():
    for name, ufunc in vars(np).items():
        if isinstance(ufunc, np.ufunc) and (ufunc.nin, ufunc.nout) == (2, 1):
            for axis in (0, -1, None, ()):
                yield f"{name}.reduce(axis={axis})", _of_ufunc(ufunc, "reduce", {"axis": axis})
            yield f"{name}.reduce(keepdims)", _of_ufunc(ufunc, "reduce", {"axis": 0, "keepdims": True})
            yield f"{name}.accumulate", _of_ufunc(ufunc, "accumulate", {})
            yield f"{name}.reduceat", lambda y, ufunc=ufunc: ufunc.reduceat(y, [0])


KINDS = {
    "parts": PARTS.items,
    "indices": INDICES.items,
    "functions": _functions,
    "methods": _methods,
    "ufuncs": _of_ufuncs,
}


# They write files, or give what is no array of numbers.
OTHER_METHODS = frozenset(
    (
        *("dump", "dumps", "tofile", "tobytes", "tolist", "item", "setflags", "setfield", "getfield"),
        *("byteswap", "resize"),
    )
)


def arrays_of(result) -> list:
    """Return the arrays of float64, float32 or complex numbers in a result."""
    if isinstance(result, (list, tuple)):
        return [a for part in result for a in arrays_of(part)]
    return (
        [result]
        if isinstance(result, np.ndarray) and np.asarray(result).dtype in (float, np.float32, complex)
        else []
    )


def forms(kind, shape, unit=1.0):
    """Return the forms of a kind that NumPy runs on an array of a shape, and that give arrays of numbers.

    By name, each with whether one of the arrays shares memory with the array.

    Parameters
    ----------
    unit
        A complex number if they are to be forms of complex arrays.
    """
    found = {}
    tried = set()
    for name, form in KINDS[kind]():
        y = np.linspace(0.31, 0.87, int(np.prod(shape))).reshape(shape) * unit
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                result = form(y)
            except Exception:
                continue
            if kind == "ufuncs" and not np.allclose(form(y.astype(np.longdouble)), result, equal_nan=True):
                continue  # a loop of NumPy's that passes over entries: power and arctan2 of three and more
        function = name.partition("(")[0]
        shares = any(np.shares_memory(array, y) for array in arrays_of(result))
        if arrays_of(result) and (kind in ("indices", "parts") or shares or function not in tried):
            found[name] = form, shares  # of copies one a function
            tried.add(function)
    return found
