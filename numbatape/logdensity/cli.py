"""The console script ``numbatape``: arguments, signals, exit codes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numbatape
from numbatape.logdensity.exits import InputError, ModelError, Terminated

EPILOG = "exit codes: 0 done, 1 the model failed, 2 usage or a file that cannot be read or written"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the batch program; return its exit code."""
    try:
        parser = _parser()
        options = parser.parse_args(argv)
        _find_model(parser, options)
    except SystemExit as stop:  # argparse has printed the reason
        return int(stop.code or 0)
    try:
        # What a model prints must not end up inside the JSON.
        redirected = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
        with _raising_signals(), redirected:
            # Commands are imported when asked for, so that --help need not wait for all of them.
            command = importlib.import_module(f"numbatape.logdensity.{options.module}")
            summary, text, code = getattr(command, options.command)(options)
    except (InputError, ModelError) as error:
        return _fail(options, error.exit_code, str(error))
    except Terminated as error:
        return _fail(options, error.exit_code, "terminated")
    except KeyboardInterrupt:
        return _fail(options, 130, "interrupted")
    try:
        _say(json.dumps(summary, allow_nan=False) if options.json else text, sys.stdout)
    except InputError as error:
        return _fail(options, error.exit_code, f"standard output: {error}")
    return int(code)


def _fail(options: argparse.Namespace, code: int, message: str) -> int:
    if code != InputError.exit_code and getattr(options, "resume", False):
        message += "\nfinished blocks are kept: the same command goes on from there"
    with contextlib.suppress(InputError):  # stderr may be closed: the exit code tells of the failure
        _say(f"numbatape {options.command}: {message}", sys.stderr)
    if options.json:
        with contextlib.suppress(InputError):
            _say(json.dumps({"command": options.command, "error": message, "exit_code": code}), sys.stdout)
    return code


def _say(text: str, stream: Any) -> None:
    """Write a line and flush it; raise an `InputError` if the model or the reader has closed the stream."""
    try:
        print(text, file=stream, flush=True)
    except (OSError, ValueError) as error:
        # At its end Python would try to write what is buffered, and exit with another code.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise InputError(f"cannot be written to: {getattr(error, 'strerror', None) or error}") from error


@contextlib.contextmanager
def _raising_signals() -> Iterator[None]:
    """Let a request to terminate unwind the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return

    def handler(signum: int, frame: Any) -> None:
        raise Terminated(signum)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), handler) for name in names}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(getattr(signal, name), old)


def _find_model(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Find the model among the files of draws, where the user has named it after them."""
    if getattr(options, "model", "") is not None:
        return
    files = options.draws or []
    found = [file for file in files if file.endswith(".py") or ".py:" in file]
    if not found:
        parser.error(f"{options.command} needs a MODEL.py")
    options.model = found[0]
    files.remove(found[0])
    if not files:
        parser.error("--draws needs a file")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="numbatape", description="Log-densities in plain NumPy, with their gradients.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"numbatape {numbatape.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, module: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, epilog=EPILOG)
        sub.set_defaults(module=module)
        sub.add_argument("--json", action="store_true", help="print a machine-readable summary")
        return sub

    def model(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "model", nargs="?", metavar="MODEL.py[:name]", help="defines logp(theta, data), or `name`"
        )
        sub.add_argument(
            "--data", metavar="FILE", help=".json, .json.gz or .json.zip (default: `data` in MODEL.py)"
        )

    logp = command("logp", "logp", "Evaluate a log-density and its gradient for every draw of a file.")
    model(logp)
    kinds = ".csv, .npy, .npz, .json, or one of them as .gz, or .json.zip; several files count as one"
    several = {"metavar": "FILE", "nargs": "+", "action": "extend"}
    logp.add_argument("--draws", required=True, help=kinds, **several)
    logp.add_argument("--out", required=True, metavar="FILE", help=".npz or .csv")
    logp.add_argument("--no-grad", action="store_true", help="log-densities only")
    logp.add_argument("--threads", type=_positive, metavar="N", help="default: as many as pay off")
    logp.add_argument("--chunk", type=_positive, metavar="N", help="draws in a block, the unit of work")
    logp.add_argument(
        "--resume",
        action="store_true",
        help="keep finished blocks in OUT.parts, and evaluate only what is missing there",
    )

    check = command("check", "model_check", "Compare value and gradient with NumPy and finite differences.")
    model(check)
    check.add_argument("--draws", help="check at the first draws of these files", **several)
    check.add_argument("--points", type=_positive, default=3, metavar="N", help="how many points (3)")
    check.add_argument("--size", type=_positive, metavar="N", help="length of theta, without names or draws")
    check.add_argument("--seed", type=int, default=0, help="of the random points, without draws (0)")
    check.add_argument("--rtol", type=float, default=1e-6, help="tolerance of the gradient (1e-6)")

    command("info", "about", "Print versions, CPU, cache directory and compiled kernels.")
    warmup = command("warmup", "about", "Compile all kernels now, so that later runs start fast.")
    warmup.add_argument(
        "--all", action="store_true", help='those of float32 and of Config(values="numpy") as well'
    )
    return parser
