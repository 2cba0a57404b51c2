"""SciPy's classes that are written in Python: they are copied like the user's, made inside or outside."""

import numpy as np
import pytest
import scipy.spatial
from scipy import interpolate, signal
from scipy.spatial import transform

from tests.agreement import agrees

X = np.random.default_rng(0).normal(size=16)
NODES = np.array([0.0, 0.7, 1.5, 2.2, 3.0])
Y = np.sin(2.0 * NODES) + NODES
INSIDE = np.array([0.3, 1.05, 2.9])
TABLE = np.stack([Y, Y**2], 1)
TIMES = np.linspace(0.0, 2.0, 4)
MATRIX = np.array([[-1.0, 0.3], [0.2, -2.0]])
GAIN = 2.0

CZT, ZOOM = signal.CZT(16, m=5), signal.ZoomFFT(16, [0.1, 0.4], m=6)
SHORT = signal.ShortTimeFFT(np.hanning(6) + 0.1, hop=2, fs=1.0)
SYSTEM = signal.lti([1.0], [1.0, 2.0, 3.0])
KROGH, NODAL = interpolate.KroghInterpolator(NODES, Y), interpolate.BarycentricInterpolator(NODES, Y)


def space(a):
    return signal.StateSpace(a, [[1.0], [0.0]], [[0.0, 1.0]], [[0.0]])


def extended(y):
    made = interpolate.BarycentricInterpolator([0.0, 0.4], y[:2])
    made.add_xi(np.array([1.1]), y[2:3])
    return made(INSIDE)


PROGRAMS = {
    "CZT": (lambda x: signal.CZT(16, m=5)(x), X),
    "CZT, outside": (lambda x: CZT(x), X),
    "ZoomFFT, outside": (lambda x: ZOOM(x), X),
    "czt": (lambda x: signal.czt(x, m=5, w=np.exp(-0.3j)), X),
    "zoom_fft": (lambda x: signal.zoom_fft(x, [0.1, 0.4], m=6), X),
    "ShortTimeFFT, outside": (lambda x: SHORT.stft(x), X),
    "spectrogram": (lambda x: SHORT.spectrogram(x), X),
    "istft": (lambda x: SHORT.istft(2.0 * SHORT.stft(x), k1=8), X[:8]),
    "from_window": (lambda x: signal.ShortTimeFFT.from_window("hann", 1.0, 6, 3).stft(x), X),
    "lti, step": (lambda k: signal.lti([k], [1.0, 2.0, k]).step(T=TIMES)[1], GAIN),
    "lti, bode": (lambda k: signal.lti([k], [1.0, 2.0, k]).bode(w=TIMES[1:])[1:], GAIN),
    "lti, outside": (lambda u: SYSTEM.output(u, TIMES)[1], X[:4]),
    "lsim": (lambda u: signal.lsim(([1.0], [1.0, 2.0, 3.0]), u, TIMES)[1], X[:4]),
    "StateSpace": (lambda a: space(a).output(X[:4], TIMES)[1], MATRIX),
    "TransferFunction": (lambda k: signal.TransferFunction([k], [1.0, 3.0, k]).poles, GAIN),
    "ZerosPolesGain": (lambda k: signal.ZerosPolesGain([], [-1.0, -2.0], k).freqresp(w=TIMES)[1], GAIN),
    "dlti": (lambda u: signal.dlti([0.5], [1.0, 0.2, 0.1], dt=0.1).output(u, None)[1], X[:4]),
    "dlsim": (lambda u: signal.dlsim(([0.5], [1.0, 0.2, 0.1], 0.1), u)[1], X[:4]),
    "dimpulse": (lambda k: signal.dimpulse(([k], [1.0, 0.2, 0.1], 0.1), n=4)[1][0], GAIN),
    "cont2discrete": (lambda a: signal.cont2discrete((a, *np.zeros((3, 2, 2))), 0.1)[0], MATRIX),
    "Krogh, points": (lambda x: KROGH(x), INSIDE),
    "Krogh, at nodes": (lambda x: KROGH(x), NODES[:2]),
    "Krogh, values": (lambda y: interpolate.KroghInterpolator(NODES, y)(INSIDE), Y),
    "Krogh, nodes": (lambda x: interpolate.KroghInterpolator(x, TABLE.T, axis=1)(INSIDE), NODES),
    "Krogh, derivatives": (lambda x: KROGH.derivatives(x, 3), INSIDE),
    "krogh_interpolate": (lambda y: interpolate.krogh_interpolate(NODES, y, INSIDE, der=[0, 1]), Y),
    "barycentric, points": (lambda x: NODAL(x), INSIDE),
    "barycentric, at nodes": (lambda x: NODAL(x), NODES[:2]),
    "barycentric, values": (lambda y: interpolate.BarycentricInterpolator(NODES, y)(INSIDE), TABLE),
    "barycentric, nodes": (lambda x: interpolate.BarycentricInterpolator(x, Y)(INSIDE), NODES),
    "barycentric, slopes": (lambda y: interpolate.BarycentricInterpolator(NODES, y).derivative(INSIDE), Y),
    "barycentric, further nodes": (extended, Y),
    "barycentric_interpolate": (lambda y: interpolate.barycentric_interpolate(NODES, y, INSIDE), Y),
    "barycentric_interpolate, der": (
        lambda y: interpolate.barycentric_interpolate(NODES, y, INSIDE, der=[0, 1]),
        Y,
    ),
}
# Programs whose second derivatives are tested, too.
CURVED = {"spectrogram", "lti, bode", "Krogh, nodes", "barycentric, at nodes", "by zero", "of zero"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_classes(name):
    agrees(*PROGRAMS[name], order=2 if name in CURVED else 1)


def test_one_trace_after_another():
    """What one trace has copied is not left to the next."""
    for name in ("dlti", "dlsim", "dlti"):
        agrees(*PROGRAMS[name], order=1)


R = transform.Rotation
VECTOR, VECTORS = np.array([0.3, -0.5, 0.8]), np.random.default_rng(1).normal(size=(4, 3))
if compiled := not hasattr(R.from_rotvec, "__globals__"):
    TURN, TURNS = None, None
else:
    TURN, TURNS = R.from_rotvec(VECTOR), R.from_rotvec(VECTORS)

ROTATIONS = {
    "from_quat": (lambda q: R.from_quat(q).apply(VECTORS), np.array([0.3, -0.2, 0.5, 0.9])),
    "from_rotvec": (lambda w: R.from_rotvec(w).as_matrix(), VECTOR),
    "from_rotvec, degrees": (lambda w: R.from_rotvec(w, degrees=True).as_matrix(), 40.0 * VECTOR),
    "by zero": (lambda w: R.from_rotvec(w).as_matrix(), np.zeros(3)),
    "by little": (lambda w: R.from_rotvec(w).as_rotvec(), np.array([1e-5, 0.0, -1e-5])),
    "of zero": (lambda w: (R.from_rotvec(w) * R.from_rotvec(np.sin(w))).as_rotvec(), np.zeros(3)),
    "from_euler": (lambda e: R.from_euler("xyz", e).as_matrix(), VECTOR),
    "from_matrix": (lambda w: R.from_matrix(R.from_rotvec(w).as_matrix()).as_rotvec(), VECTOR),
    "as_euler": (lambda w: R.from_rotvec(w).as_euler("zxy", degrees=True), VECTOR),
    "as_quat": (lambda w: R.from_rotvec(w).as_quat(), -4.0 * VECTOR),
    "magnitude": (lambda w: (R.from_rotvec(w) * TURN.inv()).magnitude(), VECTOR + 0.1),
    "power": (lambda w: (R.from_rotvec(w) ** 2.5).as_rotvec(), VECTOR),
    "mean": (lambda w: R.from_rotvec(w).mean().as_rotvec(), 0.3 * VECTORS),
    "reduce": (lambda w: R.from_rotvec(w).reduce(TURNS).as_matrix(), 3.0 * VECTORS),
    "reduce, from the right": (lambda w: R.from_rotvec(w).reduce(None, TURNS).as_quat(), 3.0 * VECTORS),
    "by way of its package": (lambda w: scipy.spatial.transform.Rotation.from_rotvec(w).as_matrix(), VECTOR),
    "outside": (lambda v: TURN.apply(v), VECTORS),
    "outside, several": (lambda v: TURNS[1:].inv().apply(v), VECTORS[1:]),
    "align_vectors": (lambda v: R.align_vectors(v, VECTORS)[0].as_matrix(), VECTORS + 0.1),
    "Slerp": (lambda t: transform.Slerp([0, 1, 2, 3], TURNS)(t).as_rotvec(), np.array([0.3, 1.7])),
    "RotationSpline": (
        lambda t: transform.RotationSpline([0, 1, 2, 3], TURNS)(t).as_rotvec(),
        np.array([0.3, 1.7]),
    ),
}


@pytest.mark.skipif(compiled, reason="this version of SciPy has a compiled Rotation")
@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations(name):
    agrees(*ROTATIONS[name], order=2 if name in CURVED else 1)
