"""The console script ``numbatape``: signals, exit codes, and what is printed."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from numbatape.logdensity.command_line import parse
from numbatape.logdensity.exits import InputError, ModelError, Terminated
from numbatape.logdensity.progress import counted

# The exit code of a command that is ended by SIGPIPE. Whoever closes a pipe wants no more, so no message
# follows.
READER_IS_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the batch program; return its exit code."""
    try:
        options = parse(argv)
    except SystemExit as stop:  # argparse has printed the reason
        return READER_IS_GONE if _reader_is_gone() else int(stop.code or 0)
    try:
        # What a model prints must not end up inside the JSON.
        redirected = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
        with _raising_signals(), redirected:
            # Commands are imported when asked for, so that --help need not wait for all of them.
            command = importlib.import_module(f"numbatape.logdensity.{options.module}")
            summary, text, code = getattr(command, options.command)(options)
    except (InputError, ModelError) as error:
        if isinstance(error.__cause__, BrokenPipeError) and _reader_is_gone():
            return READER_IS_GONE  # the model has printed more than was read
        return _fail(options, error.exit_code, str(error))
    except Terminated as error:
        return _fail(options, error.exit_code, "terminated")
    except KeyboardInterrupt:
        return _fail(options, 130, "interrupted")
    try:
        _say(json.dumps(summary, allow_nan=False) if options.json else text, sys.stdout)
    except InputError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return READER_IS_GONE
        return _fail(options, error.exit_code, f"standard output: {error}")
    return int(code)


def _fail(options: argparse.Namespace, code: int, message: str) -> int:
    kept = len(getattr(options, "kept", ()))
    if kept and code != InputError.exit_code:
        what = counted(kept, f"finished {options.unit}")
        message += f"\n{what} {'is' if kept == 1 else 'are'} kept: the same command goes on from there"
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
        _give_up(stream)
        raise InputError(f"cannot be written to: {getattr(error, 'strerror', None) or error}") from error


def _give_up(stream: Any) -> None:
    """Send what is buffered nowhere: at its end Python would write it, and exit with another code."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _reader_is_gone() -> bool:
    """Whether whoever reads standard output has closed it, as ``head`` does after some lines."""
    with contextlib.suppress(OSError, ValueError):  # closed by the model, or the disk is full
        try:
            sys.stdout.flush()
            if not hasattr(select, "poll"):  # Windows
                return False
            pipe = select.poll()
            pipe.register(sys.stdout.fileno(), 0)  # errors are reported without being asked for
            gone = any(event & select.POLLERR for _, event in pipe.poll(0))
        except BrokenPipeError:
            gone = True
        if gone:
            _give_up(sys.stdout)
        return gone
    return False


@contextlib.contextmanager
def _raising_signals() -> Iterator[None]:
    """Let a request to terminate unwind the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may set signal handlers.
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
