"""Atomic files, results, and the blocks of a resumed run."""

import json
import os
import stat

import numpy as np
import pytest

from numbatape.logdensity import output
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.output import atomic_write, check_output, read_result, write_result
from numbatape.logdensity.parts import Parts

IDENTITY = {"version": "1", "model_sha256": "abc", "with_grad": True}


@pytest.fixture(params=["unnamed", "named"])
def way(request, monkeypatch):
    """Both ways of writing: through a file without a name, and through one with a name."""
    if request.param == "named":
        monkeypatch.setattr(output, "_open_unnamed", lambda folder: None)


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.bin"
    for content in (b"first", b"second"):
        atomic_write(path, lambda file, content=content: file.write(content))
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["a.bin"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        file.flush()
        raise error

    with pytest.raises(error):
        atomic_write(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.usefixtures("way")
def test_a_full_disk_is_reported(tmp_path):
    def fail(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"a.bin: No space left on device"):
        atomic_write(tmp_path / "a.bin", fail)
    assert os.listdir(tmp_path) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.bin").write_bytes(b"old")
    (tmp_path / "link.bin").symlink_to("real.bin")
    atomic_write(tmp_path / "link.bin", lambda file: file.write(b"new"))
    assert (tmp_path / "link.bin").is_symlink()
    assert (tmp_path / "real.bin").read_bytes() == b"new"


def test_outputs_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "draws.csv").write_text("mu\n1\n")
    os.mkfifo(tmp_path / "pipe.csv")
    for name, message in [
        ("folder.npz", "is a directory"),
        ("a.txt", "the output is a .npz or .csv file"),
        ("pipe.csv", "not a regular file"),
        ("nowhere/a.npz", "nowhere does not exist"),
        ("draws.csv", "is an input of this run"),
    ]:
        with pytest.raises(InputError, match=message):
            check_output(tmp_path / name, ["", str(tmp_path / "draws.csv")])
    check_output(tmp_path / "new.npz", [])

    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(output.tempfile, "TemporaryFile", refuse)
    with pytest.raises(InputError, match=r"cannot write to .*: Permission denied"):
        check_output(tmp_path / "new.npz", [])
    assert not (tmp_path / "new.npz").exists()


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
@pytest.mark.parametrize("with_grad", [True, False])
def test_results_are_read_back_bit_for_bit(tmp_path, suffix, with_grad):
    path = tmp_path / ("out" + suffix)
    identity = {**IDENTITY, "with_grad": with_grad}
    logp = np.array([1 / 3, np.nan, -np.inf])
    grad = np.array([[0.1, 1e300], [np.nan, 5e-324], [-0.0, 7]]) if with_grad else None
    write_result(path, identity, ["a", "L[1,2]"], logp, grad)
    table = read_result(path, identity)
    np.testing.assert_array_equal(table, np.column_stack([logp] + ([grad] if with_grad else [])))
    assert read_result(path, {**identity, "version": "2"}) is None
    assert read_result(tmp_path / ("missing" + suffix), identity) is None
    if suffix == ".csv":
        header = path.read_text().splitlines()[1]
        assert header == ('logp,grad_a,"grad_L[1,2]"' if with_grad else "logp")
    else:
        with np.load(path, allow_pickle=False) as file:
            assert ("grad" in file) is with_grad
            assert file["model_sha256"].item() == "abc"
            assert file["names"].tolist() == ["a", "L[1,2]"]


def test_files_that_are_not_results(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"nonsense")
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\n1\n")
    assert read_result(tmp_path / "a.npz", IDENTITY) is None
    assert read_result(tmp_path / "a.csv", IDENTITY) is None


@pytest.fixture
def table():
    return np.arange(20.0).reshape(10, 2)


def started(tmp_path, table):
    """Leave a run behind with rows 0-2 and 6-8 done."""
    parts = Parts(tmp_path / "out.npz", IDENTITY)
    assert parts.restore(np.empty_like(table)) == [(0, 10)]
    parts.save(0, table[0:3])
    parts.save(6, table[6:9])
    parts.close()
    return tmp_path / "out.npz.parts"


def missing_after(tmp_path, table):
    parts = Parts(tmp_path / "out.npz", IDENTITY)
    restored = np.full_like(table, np.nan)
    missing = parts.restore(restored)
    parts.close()
    done = ~np.isnan(restored[:, 0])
    np.testing.assert_array_equal(restored[done], table[done])
    return missing


def test_finished_blocks_are_taken_up(tmp_path, table):
    folder = started(tmp_path, table)
    assert missing_after(tmp_path, table) == [(3, 6), (9, 10)]
    parts = Parts(tmp_path / "out.npz", IDENTITY)
    parts.remove()
    assert not folder.exists()


def test_a_block_that_changed_is_done_again(tmp_path, table):
    folder = started(tmp_path, table)
    blocks = sorted(folder.glob("rows-*.npy"))
    raw = bytearray(blocks[0].read_bytes())
    raw[-1] ^= 1
    blocks[0].write_bytes(raw)
    assert missing_after(tmp_path, table) == [(0, 6), (9, 10)]
    blocks[1].unlink()
    assert missing_after(tmp_path, table) == [(0, 10)]


def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path, table):
    manifest = started(tmp_path, table) / "manifest.jsonl"
    text = manifest.read_text()
    manifest.write_text(text[:-20])
    assert missing_after(tmp_path, table) == [(3, 10)]
    assert manifest.read_text().endswith("\n")
    parts = Parts(tmp_path / "out.npz", IDENTITY)
    parts.save(6, table[6:9])
    parts.close()
    assert missing_after(tmp_path, table) == [(3, 6), (9, 10)]
    for line in manifest.read_text().splitlines():
        json.loads(line)


def test_blocks_of_another_run_are_refused(tmp_path, table):
    folder = started(tmp_path, table)
    with pytest.raises(InputError, match=r"belongs to another run \(different: model_sha256\)"):
        Parts(tmp_path / "out.npz", {**IDENTITY, "model_sha256": "other"})
    (folder / "manifest.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="damaged manifest"):
        Parts(tmp_path / "out.npz", IDENTITY)


def test_a_run_without_blocks_can_be_started_again_with_another_model(tmp_path):
    Parts(tmp_path / "out.npz", IDENTITY).close()
    Parts(tmp_path / "out.npz", {**IDENTITY, "model_sha256": "other"}).close()


def test_two_processes_do_not_share_blocks(tmp_path):
    parts = Parts(tmp_path / "out.npz", IDENTITY)
    with pytest.raises(InputError, match="another run is working on it"):
        Parts(tmp_path / "out.npz", IDENTITY)
    parts.close()
