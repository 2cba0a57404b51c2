"""Kernels that come with the package: archives, levels of processors, damage, and the build of a release."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import library
from numbatape.engine.codegen import kernel_source
from numbatape.engine.kernels import kernel_name
from numbatape.jit import (
    builtin,
    compiler,
    linalg,
    loader,
    machine,
    processor_levels,
    release,
    shared,
    shipped,
    store,
    symbols,
)
from numbatape.ops import OPCODE, OPS
from tests import object_files
from tests.kernel_bits import assert_same_bits, cases, swept

ROOT = Path(__file__).parents[2]

# (op, family, direction): formulas of each kind, loops of SciPy's and NumPy's, a cast, functions that LLVM
# calls by itself, LAPACK, jump tables
SAMPLE = [
    *[("power", 0, "reverse"), ("hypot", 0, "forward"), ("cast", 1, "forward")],
    *[("psi", 0, "forward"), ("remainder", 0, "forward"), ("trigamma", 0, "reverse")],
    *[("sum", 0, "forward"), ("fft", 0, "forward"), ("cholesky", 1, "reverse")],
]
TEXTS = {f"{op}-{family}-{way}": kernel_source(OPCODE[op], family, way) for op, family, way in SAMPLE}
HERE = processor_levels.here()
LOADS_OWN_KERNELS = (sys.platform, platform.machine()) == ("linux", "x86_64")  # elsewhere LLVM's loader does


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """A directory with the sample compiled for every level."""
    directory = tmp_path_factory.mktemp("kernels")
    for level in processor_levels.LEVELS:
        release.write(
            directory, level, ((name, *release.compiled(level, text)) for name, text in TEXTS.items())
        )
    return directory


@pytest.fixture
def package(archives, tmp_path, monkeypatch):
    """A copy of the archives in the place of the package's own, and an empty cache directory."""
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(shipped, "DIRECTORY", tmp_path / "kernels")
    (tmp_path / "kernels").mkdir()
    for path in archives.iterdir():
        (tmp_path / "kernels" / path.name).write_bytes(path.read_bytes())
    shipped.manifest.cache_clear()
    yield tmp_path / "kernels"
    shipped.manifest.cache_clear()


def load_again(name):
    """Load a kernel of the sample as another process would; return it, and where it came from."""
    kernels = loader._load(name, TEXTS[name])
    return kernels, loader._origins[name]


@functools.cache
def of_this_processor(name):
    """Return a kernel of the sample, compiled for this very processor."""
    key = "host_" + name.replace("-", "_")
    return loader.link(compiler.compile_source(linalg.with_wrappers(TEXTS[name]), key), key)


needs_a_level = pytest.mark.skipif(not HERE, reason="nothing is compiled ahead of time for this machine")


# ---- levels


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64", "riscv64"])
def test_a_machine_has_all_levels_below_its_best(architecture, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: architecture)
    monkeypatch.setattr("sys.platform", "linux")
    ladder = [level for level in processor_levels.LEVELS if level.architecture == architecture]
    everything = frozenset(feature for level in ladder for feature in level.needs)
    for k, level in enumerate(ladder):
        for missing in level.needs or [None]:
            monkeypatch.setattr(processor_levels, "features", lambda missing=missing: everything - {missing})
            assert list(processor_levels.here.__wrapped__()) == ladder[: k if missing else k + 1][::-1]
    monkeypatch.setattr("sys.platform", "darwin")
    assert processor_levels.here.__wrapped__() == ()


def test_a_system_that_does_not_tell_features(monkeypatch, tmp_path):
    monkeypatch.setattr(processor_levels, "FEATURES", tmp_path / "nothing")
    assert processor_levels.features.__wrapped__() == frozenset()
    (tmp_path / "nothing").write_text("processor\t: 0\nflags\t\t: fpu sse4_1\n\nflags\t\t: other\n")
    assert processor_levels.features.__wrapped__() == {"fpu", "sse4_1"}


# ---- object files of all levels


def test_every_level_has_every_kernel(package):
    for level in processor_levels.LEVELS:
        lines = shipped.manifest(level)
        assert list(lines) == [store.key_of(linalg.parts(text)[0], level) for text in TEXTS.values()]
        assert [line.split(" ")[-1] for line in lines.values()] == list(TEXTS)


def test_kernels_of_one_text_are_packed_once(tmp_path):
    """Those of some ops differ in their names alone."""
    rows = [("one", "key", b"packed"), ("other", "key", b"packed"), ("third", "third", b"more")]
    manifest, archive = release.write(tmp_path, processor_levels.LEVELS[0], rows)
    assert [line.split()[0] for line in manifest.read_text().splitlines()] == ["key", "third"]
    assert archive.read_bytes() == b"packedmore"


@pytest.mark.parametrize("level", processor_levels.LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("name", TEXTS)
def test_object_files_have_what_can_be_loaded(package, level, name, monkeypatch):
    monkeypatch.setattr(processor_levels, "here", lambda: (level,))
    object_files.check(level, *shipped.read(linalg.parts(TEXTS[name])[0]))


@needs_a_level
def test_object_files_are_loaded_behind_the_functions_that_they_share(monkeypatch):
    text = TEXTS["cholesky-1-reverse"]
    texts = [*(module.text for module in linalg.parts(text)[1]), text]
    compiled = dict(release.compiled(HERE[0], each) for each in texts[::-1])
    files = {key: store.unpacked(key, zlib.decompress(packed)) for key, packed in compiled.items()}
    monkeypatch.setattr(symbols, "SHARED", {})
    object_files.load(HERE[0], files, texts)
    assert [*symbols.SHARED] == [*map(shared.symbol_of, texts[:-1])] != []


# ---- what a process loads


@needs_a_level
@pytest.mark.parametrize("level", HERE, ids=lambda level: level.name)
@pytest.mark.parametrize("op, family, direction", SAMPLE[:4])
def test_every_level_gives_the_bits_of_this_processor(package, level, op, family, direction, monkeypatch):
    monkeypatch.setattr(processor_levels, "here", lambda: (level,))
    ours, origin = load_again(f"{op}-{family}-{direction}")
    assert origin == "wheel"
    host = of_this_processor(f"{op}-{family}-{direction}")
    for case in cases(OPS[OPCODE[op]], direction):
        assert_same_bits(swept(ours, direction, *case), swept(host, direction, *case))


@needs_a_level
def test_the_sweeps_of_the_lowest_level_give_the_same_gradient(tmp_path, monkeypatch):
    """Chains of scalars, strips and sums of vectors: their lanes stand in the text."""
    from numbatape.engine import kernels

    def f(x):
        y = x * x[0] + np.sin(x) / (x + 3.0)
        return np.sum(y * x) - y[1] * y[2] * y[0] / (1.0 + x[3] * x[4])

    x = np.linspace(-1.0, 2.0, 37)
    want = nt.value_and_grad(f)(x)
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    for level in HERE[-1:]:
        swept = {}
        for direction in ("forward", "reverse"):
            key, packed = release.compiled(level, kernels.sweep_source(direction))
            found = loader.link(store.unpacked(key, zlib.decompress(packed)), key)
            swept |= {name: found.function(name) for name in found.address}
        monkeypatch.setattr(kernels, "sweep", swept.__getitem__)
        value, gradient = nt.value_and_grad(lambda x: f(x))(x)
        assert value == want[0]
        np.testing.assert_array_equal(gradient, want[1])


@needs_a_level
def test_shipped_kernels_come_before_the_cache(package, tmp_path):
    kernels, origin = load_again("hypot-0-forward")
    assert origin == "wheel"
    assert list(kernels.address) == ["forward"]
    assert not (tmp_path / "cache").exists()
    info = nt.kernel_info()
    assert (info["level"], info["shipped"]) == (HERE[0].name, len(TEXTS))


@needs_a_level
def test_the_best_level_that_was_shipped(package):
    for level in HERE:
        assert shipped.level() == level
        for path in shipped.files(level):
            path.unlink()
        shipped.manifest.cache_clear()
    assert shipped.level() is None
    assert load_again("hypot-0-forward")[1] == "compiled"
    assert load_again("hypot-0-forward")[1] == "cache"
    assert (nt.kernel_info()["level"], nt.kernel_info()["shipped"]) == ("", 0)


PROGRAM = """
import json, sys
import numpy as np, numbatape as nt
from numbatape.jit import audit, loader, shipped
from pathlib import Path

shipped.DIRECTORY = Path(sys.argv[1])  # has the files of one level
texts, load = [], loader._load
loader._load = lambda name, text, optimised: texts.append((name, text)) or load(name, text)

def f(x):
    return np.sum(np.exp(-x * x) * np.sin(x)) * x[0] + np.max(x) / (1.0 + x[1] * x[2])

def flat(result):
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]

x = np.linspace(0.2, 1.7, 6)
results = [
    *nt.value_and_grad(f)(x),
    nt.hessian(f)(x),
    nt.batch(f)(np.stack([x, x + 0.1])),
    nt.grad(f)(x.astype(np.float32)),
    nt.value_and_gradient(cache := nt.prepare_gradient_cache(f, x), x),
    cache.bind(x)(),
]
audit.observe(lambda event, arguments: None)
bits = [leaf.tobytes().hex() for leaf in map(np.asarray, flat(results))]
print(json.dumps([sorted(set(texts)), loader._origins, bits, "llvmlite.binding" in sys.modules]))
"""


def in_process(directory, cache):
    """Run the program in a new process, whose kernels are in a directory; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        env={**os.environ, "NUMBATAPE_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@needs_a_level
def test_a_process_from_a_wheel_compiles_nothing(tmp_path):
    """It loads kernels and builtins for a gradient, a Hessian, a batch and float32, with the same results."""
    texts, _, bits, _ = in_process(tmp_path / "nothing", store.cache_directory())
    directory, level = tmp_path / "wheel", HERE[-1]
    directory.mkdir()
    kernels = [(name, *release.compiled(level, text)) for name, text in texts]
    release.write(directory, level, [*kernels, *release.builtins(level)])
    _, origins, same, imports_llvm = in_process(directory, tmp_path / "empty")
    assert set(origins.values()) == {"wheel"}
    assert {"sweeps", "sweeps-reverse", "plan", "builtin", "steady", "audit", "mul-f32-reverse"} <= set(
        origins
    )
    assert not (tmp_path / "empty").exists()
    assert not imports_llvm or not LOADS_OWN_KERNELS
    assert same == bits


# ---- damage


def cut(manifest, archive):
    archive.write_bytes(archive.read_bytes()[:100])


def flipped(manifest, archive):
    archive.write_bytes(bytes(255 - byte for byte in archive.read_bytes()))


def gone(manifest, archive):
    archive.unlink()


def foreign(manifest, archive):
    manifest.write_bytes(np.random.default_rng(0).bytes(1000))


def empty(manifest, archive):
    manifest.write_text("")


def words(manifest, archive):
    manifest.write_text(
        "".join(f"{line[:24]} some other words\n" for line in manifest.read_text().splitlines())
    )


def far(manifest, archive):
    """Places that no file has."""
    text = manifest.read_text().splitlines()
    manifest.write_text(
        "".join(f"{line[:89]} {-5 if k % 2 else 10**30} {10**30} x\n" for k, line in enumerate(text))
    )


def exchanged(manifest, archive):
    """Each line says where another kernel is: in good order, but not the one that was asked for."""
    lines = manifest.read_text().splitlines()
    keys, rests = [line[:24] for line in lines], [line[24:] for line in lines]
    manifest.write_text(
        "".join(f"{key}{rest}\n" for key, rest in zip(keys, rests[1:] + rests[:1], strict=True))
    )


@needs_a_level
@pytest.mark.parametrize("damage", [cut, flipped, gone, foreign, empty, words, far, exchanged])
def test_what_is_damaged_is_compiled(package, damage, monkeypatch):
    monkeypatch.setattr(processor_levels, "here", lambda: HERE[:1])
    want = [
        swept(load_again("hypot-0-forward")[0], "forward", *case)
        for case in cases(OPS[OPCODE["hypot"]], "forward")
    ]
    damage(*shipped.files(HERE[0]))
    shipped.manifest.cache_clear()
    kernels, origin = load_again("hypot-0-forward")
    assert origin == "compiled"
    for cells, case in zip(want, cases(OPS[OPCODE["hypot"]], "forward"), strict=True):
        assert_same_bits(swept(kernels, "forward", *case), cells)


@needs_a_level
def test_archives_of_another_compiler_are_stale(package, monkeypatch):
    """An archive holds for the text, the level and the lowering that it was made by."""
    source = linalg.parts(TEXTS["hypot-0-forward"])[0]
    assert shipped.read(source) is not None
    assert shipped.read(source + "\n# another text\n") is None
    monkeypatch.setattr(store.versions, "COMPILER", "another lowering")
    store._hash_of.cache_clear()
    try:
        assert shipped.read(source) is None
    finally:
        monkeypatch.undo()
        store._hash_of.cache_clear()


@needs_a_level
def test_a_symbol_that_this_process_lacks(package, monkeypatch):
    """SciPy of another version: what is compiled here says which symbol, if it needs it too."""
    _, found = shipped.read(linalg.parts(TEXTS["cholesky-1-reverse"])[0])
    lacked = next(name for name in found.externals if name.startswith("nt_blas"))
    real = loader.symbols.address_of
    monkeypatch.setattr(loader.symbols, "address_of", lambda name: None if name == lacked else real(name))
    with pytest.raises(ImportError, match=re.escape(lacked)):
        load_again("cholesky-1-reverse")


# ---- the library, and the build of a release


def test_the_library_has_what_plans_ask_for():
    texts = list(library.texts())
    names = [name for name, _ in texts]
    assert names[:3] == ["sweeps", "sweeps-reverse", "plan"]
    for k, op in enumerate(OPS):
        ways = ("forward", "reverse") if op.differentiable else ("forward",)
        assert {kernel_name(2 * k + family, way) for family in (0, 1) for way in ways} <= set(names)
    assert len(set(texts)) == len(names)


@pytest.mark.parametrize("given", [{"dtypes": ("f16",)}, {"values": ("slow",)}])
def test_unknown_kinds_of_kernels(given):
    with pytest.raises(ValueError, match="must be a sequence of names out of"):
        nt.warmup(**given)


def test_warmup_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr(
        library, "texts", lambda dtypes, values: iter([("sweeps", library.sweep_source("forward"))] * 3)
    )
    monkeypatch.setattr(library, "FUNCTIONS", release.FUNCTIONS[:2])
    seen = []
    told = nt.warmup(progress=lambda done, total: seen.append((done, total)))
    assert told == ["builtin", "steady", "sweeps"]
    assert seen == [(done, 5) for done in range(1, 6)]


def test_warmup_has_the_builtins_ready_and_counts_kernels_of_one_name(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    texts = [("same", f"# cells: f64\ndef same(w, pc):\n    return {k}\n") for k in (71, 72)]
    monkeypatch.setattr(library, "texts", lambda dtypes, values: iter(texts))
    monkeypatch.setattr(loader, "_counts", Counter())
    builtin._address.cache_clear()
    nt.warmup()
    assert nt.kernel_info()["counts"] == {"compiled": 2 + len(release.FUNCTIONS)}
    names = {path.name.rpartition("-")[0] for path in tmp_path.glob("*.nto")}
    assert names == {"same", *(function.name for function in release.FUNCTIONS)}


@pytest.mark.parametrize("enabled", [True, False])
def test_release_builds_have_kernels_and_others_none(enabled, tmp_path, monkeypatch):
    """The wheel that hatchling builds, of a library of two kernels; what LLVM does not know is left out."""
    builders = pytest.importorskip("hatchling.builders.wheel")
    if enabled:
        monkeypatch.setenv("HATCH_BUILD_HOOK_ENABLE_CUSTOM", "true")
    texts = list(TEXTS.items())[:2]
    monkeypatch.setattr(library, "texts", lambda: iter(texts))
    emitter = machine.emitter

    def without_arm(level):
        if level.architecture == "aarch64":
            raise machine.CannotEmit("no such target")
        return emitter(level)

    monkeypatch.setattr(machine, "emitter", without_arm)
    (wheel,) = builders.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if name.startswith("numbatape/kernels/")}
        content.extractall(tmp_path)
    x86 = [level for level in processor_levels.LEVELS if level.architecture == "x86_64"] if enabled else []
    assert names == {f"numbatape/kernels/{path.name}" for level in x86 for path in shipped.files(level)}
    monkeypatch.setattr(shipped, "DIRECTORY", tmp_path / "numbatape" / "kernels")
    shipped.manifest.cache_clear()
    for level in x86:
        monkeypatch.setattr(processor_levels, "here", lambda level=level: (level,))
        assert all(shipped.read(linalg.parts(text)[0]) for _, text in texts)
    shipped.manifest.cache_clear()


def test_the_library_has_every_kernel_that_is_loaded_by_name():
    """What `warmup` and a wheel leave out would be compiled at a user's first call."""
    package = Path(nt.__file__).parent
    loaded = {
        name
        for file in package.rglob("*.py")
        for name in re.findall(r'jit\.load\("([\w-]+)"', file.read_text())
    }
    assert loaded >= {"sweeps", "sweeps-reverse", "loops"}
    assert loaded <= {name for name, _ in library.texts(("f64", "f32"), ("fast",))}
