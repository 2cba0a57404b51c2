"""Blocks of draws on a cluster of Dask: the bits of one machine, also when workers are killed."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

import numbatape as nt
from numbatape.distributed import map_batches
from numbatape.logdensity import cluster
from numbatape.logdensity.cli import main as main_of_cli

cloudpickle.register_pickle_by_value(sys.modules["__main__"])
y = np.linspace(-1.0, 1.0, 20)


def logp(p):
    r = (y - p["mu"]) / np.exp(p["log_s"])
    return -0.5 * np.sum(r**2) - r.size * p["log_s"]


class Deadly:
    """Evaluates blocks; the first call anywhere kills its worker."""

    def __init__(self, marker):
        self.marker, self.batched = marker, nt.batch(logp)

    def __call__(self, block):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return self.batched(block)
        os.kill(os.getpid(), signal.SIGKILL)


def raising(block):
    if block["mu"][0] > 2.0:
        raise ValueError("no such place")
    return block["mu"]


class Meeting:
    """Evaluates blocks once two workers have got some of them."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, block):
        (self.folder / str(os.getpid())).touch()
        latest = time.monotonic() + 60
        while len(list(self.folder.iterdir())) < 2 and time.monotonic() < latest:
            time.sleep(0.002)
        return np.full(len(block), os.getpid())


def main():
    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=1000), "log_s": rng.normal(size=1000)}
    alone = map_batches(nt.batch(logp), draws, block=64, threads=2)
    values, gradients = alone
    whole, slopes = nt.batch(logp)(draws)
    assert np.array_equal(values, whole) and np.array_equal(gradients["mu"], slopes["mu"])

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=folder
        ) as local,
        Client(local) as client,
    ):
        found, slopes = map_batches(nt.batch(logp), draws, client, block=64)
        assert np.array_equal(found, values) and np.array_equal(slopes["log_s"], gradients["log_s"])

        for name in ("first", "second"):  # the function is on one of the workers, and all of them get work
            (Path(folder) / name).mkdir()
            workers = map_batches(Meeting(Path(folder) / name), np.zeros(40), client, block=1)
            assert len(np.unique(workers)) == 2

        marker = Path(folder) / "killed"
        found, slopes = map_batches(Deadly(marker), draws, local.scheduler_address, block=64)
        assert marker.exists()
        assert np.array_equal(found, values) and np.array_equal(slopes["mu"], gradients["mu"])

        a_worker_dies_as_it_gets_the_function(client, draws, values)
        the_greeting_does_not_come_alone(local.scheduler, draws, values)

        far = {"mu": np.where(np.arange(1000) == 640, 3.0, draws["mu"]), "log_s": draws["log_s"]}
        with pytest.raises(ValueError, match="no such place"):
            map_batches(raising, far, client, block=64, retries=1)

        commands(Path(folder), local.scheduler_address)


def a_worker_dies_as_it_gets_the_function(client, draws, values):
    """The scheduler then fails to copy the function to all workers, with an AssertionError."""
    copied, replicate = [], client.replicate

    def failing_at_first(futures):
        copied.append(futures)
        if len(copied) == 1:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            raise AssertionError
        replicate(futures)

    client.replicate = failing_at_first
    found, _ = map_batches(nt.batch(logp), draws, client, block=64)
    del client.replicate
    assert len(copied) >= 2 and np.array_equal(found, values)


class Talkative(SchedulerPlugin):
    """Sends the next client another message together with the scheduler's greeting."""

    name = "talkative"

    def __init__(self):
        self.tasks = []

    def add_client(self, scheduler, client):
        if not self.tasks:
            self.tasks.append(asyncio.ensure_future(self.add_message(scheduler, client)))

    async def add_message(self, scheduler, client):
        while client not in scheduler.client_comms:
            await asyncio.sleep(0)
        scheduler.client_comms[client].send({"op": "no-news"})


def the_greeting_does_not_come_alone(scheduler, draws, values):
    """`Client` fails then, with an AssertionError."""
    talkative = Talkative()
    scheduler.add_plugin(talkative)
    found, _ = map_batches(nt.batch(logp), draws, scheduler.address, block=64)
    scheduler.remove_plugin(talkative.name)
    assert talkative.tasks[0].done() and np.array_equal(found, values)


MODEL = """
import os, signal
import numpy as np
from helpers import square

names = ["a", "b"]
start = [0.1, 0.2]

class Bomb:
    # The first worker that unpickles it dies.
    def __reduce__(self):
        return go_off, (MARKER,)

    def __repr__(self):
        return "Bomb()"

def go_off(marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return Bomb()

data = {"y": [1.0, 2.0], "bomb": Bomb()}

def logp(theta, data):
    return -0.5 * np.sum(square(data["y"] - theta))
"""


def commands(folder, address):
    """The batch program on the cluster: the bytes of one machine, also when a worker dies."""
    (folder / "helpers.py").write_text("def square(x):\n    return x * x\n")
    (folder / "model.py").write_text(MODEL.replace("MARKER", repr(str(folder / "died"))))
    np.save(folder / "draws.npy", np.random.default_rng(0).normal(size=(500, 2)))
    outputs = []
    for name, options in (("here", []), ("there", ["--dask", address])):
        out = folder / f"{name}.npz"
        arguments = ["--draws", folder / "draws.npy", "--out", out, "--chunk", 50, "--resume", *options]
        assert main_of_cli(["logp", str(folder / "model.py"), *map(str, arguments)]) == 0
        with np.load(out) as file:
            outputs.append((file["logp"], file["grad"]))
    assert (folder / "died").exists()
    (values, gradients), (found, slopes) = outputs
    assert np.array_equal(values, found) and np.array_equal(gradients, slopes)
    kill_the_client(folder, address, values, gradients)
    cluster.WAIT = 0.5  # seconds
    arguments = ["logp", folder / "model.py", *arguments[:4], "--dask", "tcp://127.0.0.1:9"]
    assert main_of_cli(list(map(str, arguments))) == 2


KILLED = """
import os, signal, sys
from numbatape.logdensity import parts
from numbatape.logdensity.cli import main

saved = []
save = parts.Parts.save

def save_and_die(self, *args):
    save(self, *args)
    saved.append(args)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

parts.Parts.save = save_and_die
main(sys.argv[1:])
"""


def kill_the_client(folder, address, values, gradients):
    """The program that has asked the cluster is killed: what it has got stays, and the bytes are the same."""
    out = folder / "killed.npz"
    arguments = ["logp", folder / "model.py", "--draws", folder / "draws.npy", "--out", out, "--chunk", 50]
    arguments = [*map(str, arguments), "--resume", "--dask", address]
    ended = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL and not out.exists(), ended.stderr
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert main_of_cli([*arguments, "--json"]) == 0
    assert json.loads(text.getvalue())["resumed"] >= 150
    with np.load(out) as file:
        assert np.array_equal(file["logp"], values) and np.array_equal(file["grad"], gradients)


if __name__ == "__main__":  # Dask's workers import this file
    main()
