"""Forms of expressions, writes and failures for `tests.whole_programs`, and the state of a program.

{S} is a scalar, {V} any vector, {U} a vector as long as the result, {M} a square matrix of that size, {N} one
of any size, {B} a mask for the result, {W} one for {V}, {C} a condition; {s}, {u} and {v} are names of
variables, {c} and {d} numbers.
"""

import re

SCALARS = """
np.sum({V}); np.sum({V} * {c}); {v}[0]; {v}[-1]; np.max({V}); np.min({V}); np.mean({V})
{v}[np.argmax({v})]; {v}.sum(); np.dot({v}, {v}) * 0.1; np.linalg.norm({V} + 0.3); math.sin({S})
np.sqrt({S} ** 2 + 1.0); np.tanh({S}); abs({S}); {S} + {S}; {S} - {S}; {S} * {c}; {S} / (1.5 + {S} ** 2)
special.erf({S}); special.gammaln({S} ** 2 + 1.0); special.expit({S}); np.where({S} > {c}, {S}, {S})
{S} if {C} else {S}; np.logaddexp({S}, {S}); max({S}, {S}); min({S}, {c}); np.maximum({S}, {c})
np.prod(np.tanh({V})); np.std(np.append({V}, [0.3, 1.7])); np.median({V})
np.interp({S}, [-1.0, 0.0, 1.0], [0.2, 0.9, -0.4])
np.exp(-({S} ** 2)); np.linalg.det({N}); np.linalg.slogdet({N})[1]; np.trace({N})
np.sum({V}, where={W}, initial=0.1); np.ptp({V}); TABLE[2] * {S}; RATE * {S}; CONFIG["weight"] + {S}
model.rate * {S}; model.apply({S}); TABLE[np.floor({S}).astype(int) % 5]; {S} * k; np.float64(k) + {S}
{S} * scale; helper({V}).sum(); sum({v}); math.hypot({S}, 1.0); {v}[k]; {S} ** k if k > 0 else {S}
float(len({v})) * {S}; {v}[{v} > {c}].sum(); np.sort({v})[0]; np.cumsum({v})[-1]
np.average({v}, weights=np.exp(-({v} ** 2))); np.array([{S}, {S}]).max(); np.add.reduce({v})
np.einsum("i,i->", {v}, {v}) * 0.1; math.fsum({v}); np.clip({S}, -0.5, 0.8); sum(e * {c} for e in {v})
np.asarray({S}) * {c}; math.exp(-abs({S})); np.nan_to_num({S}); np.square({S}) * 0.2; -{S}; np.sign({S})
np.linalg.norm({v}[:2] - 0.2); np.select([{S} > {c}, {S} < {c}], [{S}, {S}], 0.3)
special.logsumexp({V}); stats.norm.logpdf({S}); np.sum(np.triu({N})); np.linalg.cond(np.eye(2)) * {S}
np.polyval([0.1, {c}, 0.3], {S}); np.count_nonzero({v} > {c}) * {S}
"""

VECTORS = """
np.sin({U}); {U} + {U}; {U} - {U}; {U} * {U}; {U} * {S}; {U} + {c}; {U} / (1.5 + {U} ** 2); np.tanh({U})
np.exp(-({U} ** 2)); np.where({B}, {U}, {U}); np.where({B}, {U}, {c}); {u}[::-1]; np.sort({U})
{u}[np.argsort({u}, kind="stable")]; np.cumsum({U}) * 0.3; np.roll({U}, 1); np.clip({U}, -0.6, 0.7)
np.maximum({U}, {c}); np.minimum({U}, {U}); np.abs({U}); special.erf({U})
special.gammaln({U} ** 2 + 1.0); np.linalg.solve({M}, {U}); {M} @ {U}; {M}[0]; {M}.sum(axis=0)
{M}[:, -1]; np.diag({M}); np.linalg.cholesky({M}) @ {U}; np.linalg.inv({M}) @ {U}
np.zeros(len({u})) + {S}; np.zeros_like({u}); np.full_like({u}, {c}); np.array([e * {c} for e in {u}])
np.stack([{U}, {U}]).sum(axis=0); np.flip({U}); {U} - np.mean({u}); helper({U})
np.concatenate([{u}[1:], {u}[:1]]); np.hypot({U}, 1.0); {u}.copy(); +{u}; np.append({u}[:-1], {S})
np.max({M}, axis=1); np.asarray({u}); np.outer({U}, {U}).mean(axis=1)
np.convolve({U}, [0.3, 0.5, 0.2], mode="same")[: len({u})]; np.linspace({S}, {S}, len({u}))
np.einsum("ij,j->i", {M}, {U}); np.ravel({u}); {u}.reshape(-1, 1)[:, 0]
np.piecewise({U}, [{B}], [np.sin, {c}]); np.hstack([{u}]); np.vectorize(lambda e: e * {c})({u})
np.log1p({U} ** 2); np.power(np.abs({U}) + 0.5, {S}); special.expit({U}); np.arctan2({U}, 1.3)
np.linalg.qr({M})[1][0]; np.linalg.eigvalsh({M}); np.take({u}, np.argsort({u}, kind="stable"))
np.select([{B}, {B}], [{U}, {U}], {c}); model.apply({U}); np.array({u})
np.multiply.accumulate(np.tanh({U})); np.minimum.accumulate({U}); {u}[np.arange(len({u})) - 1]
np.atleast_1d({U})
"""

MATRICES = """
np.eye(len({u})) * 2.0 + 0.1 * np.outer(np.sin({u}), np.sin({u})); np.diag(1.5 + {U} ** 2)
{M} + 0.1 * np.eye(len({u})); np.diag(np.exp(-({U} ** 2)) + 1.0) + 0.05
np.eye(len({u})) + 0.2 * np.diag(np.tanh({U})); {M}.T; 0.5 * ({M} + {M}.T); {M}.copy()
"""

MASKS = """
{U} > {c}; {U} < {U}; np.abs({U}) > {d}; ({U} > {c}) & ({U} < 1.5); ~({U} > {c})
({U} > {c}) | ({U} < -0.7); {U} > np.mean({u}); np.arange(len({u})) % 2 == 0; np.isfinite({U})
np.arange(len({u})) != np.argmax({u}); {U} >= np.median({u}); np.isin(np.arange(len({u})), [0, k])
"""

CONDITIONS = """
{S} > {c}; {S} < {S}; -0.5 < {S} < 0.9; np.any({v} > {d}); np.all({v} < {d}); len({v}) > 3; k % 2 == 0
k > 0 and {S} > {c}; CONFIG["mode"] == "smooth"; np.argmax({v}) == 0; np.count_nonzero({v} > {c}) > 1
not {S} > {c}; isinstance({s}, float); {v}.size and {v}[0] > {c}; type({v}) is np.ndarray
isinstance({v}, np.ndarray) and {S} > {c}; ({v} > {c}).any(); {v}.ndim == 1; model.rate > 0.5
np.isnan({S}); {S} > {c} or {S} < -0.8; RATE > 0.4; bool({S} > {c}); np.sum({v} > {c}) == 2
np.array_equal({v}, np.sort({v})); scale < {S}; any(e > {d} for e in {v}); np.allclose({v}, {v}[::-1])
{v}[0] == {v}[-1]; TABLE[0] > {S}; hasattr({v}, "shape"); np.argsort({v}, kind="stable")[0] > 0
np.sign({S}) > 0
f"{{len({v})}}" == "3"
"""

# What makes a vector of another length.
RESIZES = """
{v}[{v} > {c}]; {v}[1:]; {v}[::2]; np.diff({V}); np.concatenate([{V}, {V}]); np.array([{S}, {S}, {S}])
np.delete({v}, np.argmax({v})); np.append({v}, {S}); {v}[np.flatnonzero({v} < {c})]; np.unique({v})
np.outer({v}, {v}).ravel(); np.compress({v} > {c}, {v}); {v}[[0, -1]]
np.array([e for e in {v} if e > {c}]); np.repeat({v}, 2); {v}[:k]; np.extract({v} > {c}, {V})
np.insert({v}, 1, {S}); np.hstack([{S}, {V}]); {v}[np.argmin({v}) :]; np.pad({v}, 1); np.tile({v}, 2)
np.trim_zeros(np.where({v} > {c}, {v}, 0.0))
np.lib.stride_tricks.sliding_window_view({v}, 2, writeable=True)[:, 0]
"""

WRITES = """
{u}[0] = {S}; {u}[-1] += {S}; {u}[1:] += {u}[:-1]; {u}[{B}] = {S}; {u}[{B}] *= {c}; {u} *= {c}
{u} += {U}; {u}[:] = {U}; {u} -= {S}; {u}[::-1] = {U}; np.add.at({u}, [0, 0, -1], {S})
{u}[np.argmax({u})] = {S}; {u}.sort(); np.copyto({u}, {U}, where={B}); np.put({u}, [0], {S})
np.multiply({u}, {U}, out={u}); {u}[0], {u}[-1] = {u}[-1], {u}[0]; {u}.fill({S})
np.putmask({u}, {B}, {S}); {u}[k] = {S}; bump({u}, {S}); {u}[:2] = {S}, {S}; np.sin({u}, out={u})
{u}.flat = {U}; np.place({u}, {B}, [{S}, {c}]); {u}[{u} > {c}] -= 0.3; np.clip({u}, -0.7, 0.8, out={u})
np.cumsum({u}, out={u}); {u}[...] = np.roll({u}, 1); {u}[[0, -1]] = {u}[[-1, 0]]
np.maximum({u}, {c}, out={u}); {u}[:-1] -= {u}[1:] * 0.5
np.subtract.at({u}, np.argsort({u}, kind="stable")[:2], {S})
np.negative({u}, out={u}, where={B}); {u}[np.argsort({u}, kind="stable")] = {U}; {u}[1:2] = {U}[:1]
{u}.put(0, {S})
"""

VIEWS = """
{u}[::-1]; {u}[:]; {u}.reshape(-1); {u}.ravel(); np.flip({u}); {u}.view(); {u}[None][0]; np.asarray({u})
{u}.T; np.atleast_2d({u})[0]; np.broadcast_to({S}, {u}.shape).copy(); {u}.reshape(1, -1)[0]
np.squeeze({u}[:, None], 1); list([{u}])[0]; np.real({u})
"""

# What may fail, and the errors that are caught.
ATTEMPTS = """
{s} = {s} + np.sum(np.linalg.cholesky({M} - {S} * np.eye(len({u}))))|np.linalg.LinAlgError
np.linalg.cholesky({M} * {S})|np.linalg.LinAlgError
{s} = {s} + np.sum(np.linalg.inv({M} * ({S} > {c})))|np.linalg.LinAlgError
{s} = {s} + {v}[k]|IndexError
{v}[k + 1]|IndexError
{s} = {s} + {v}[{v} > {c}][1]|IndexError
{s} = {s} + np.max({v}[{v} > {d}])|ValueError
{s} = {s} + np.sum({v}.reshape(2, -1)[0])|ValueError
{s} = {s} + np.sum({v}[{v} > {c}] + {v}[:2])|ValueError
check({S})|ValueError
{s} = {s} + check({S})|ArithmeticError
{s} = {s} + math.log({S})|ValueError
{s} = {s} + math.sqrt({S} + 0.01)|(ValueError, IndexError)
{s} = {s} + CONFIG["weight" if {S} > {c} else "none"]|KeyError
{u}[len({u}) // 2 + k] = {S}|IndexError
{s} = {s} / (0.0 if {C} else 2.0)|ZeroDivisionError
"""

# What changes between calls.
BETWEEN = """
TABLE[1] += 0.5; TABLE = TABLE * 0.9; RATE = RATE + 0.2; CONFIG["weight"] = 0.4
CONFIG["mode"] = "rough"; model.rate = 0.9; CONFIG = {"mode": "rough", "weight": 1.5}
TABLE[:] = TABLE[::-1].copy(); model = Model(0.2); TABLE[2] = -0.3; TABLE.sort(); model.rate += 0.1
RATE = -RATE; model.log.clear()
"""

STATE = """\
TABLE = np.array([0.4, -0.3, 0.8, 0.1, 1.1])
RATE = 0.5
CONFIG = {"mode": "smooth", "weight": 1.2}


class Model:
    def __init__(self, rate):
        self.rate = rate
        self.calls = 0
        self.log = []

    def apply(self, z):
        return np.sin(z * self.rate) + 0.1


model = Model(0.6)


def bump(a, s):
    a[0] += s
    a *= 0.9


def check(s):
    if s > 0.7:
        raise ValueError("too large")
    if s < -1.5:
        raise ZeroDivisionError("too small")
    return s * 0.5
"""


def _forms(text, by="[;\n]"):
    return [form.strip() for form in re.split(by, text) if form.strip()]


FORMS = {"S": _forms(SCALARS), "U": _forms(VECTORS), "M": _forms(MATRICES), "B": _forms(MASKS)}
FORMS |= {"C": _forms(CONDITIONS), "resize": _forms(RESIZES), "write": _forms(WRITES)}
FORMS |= {"view": _forms(VIEWS), "attempt": _forms(ATTEMPTS, "\n"), "between": _forms(BETWEEN)}
