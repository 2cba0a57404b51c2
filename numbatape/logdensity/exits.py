"""What ends the batch program early, with its exit code; and how a model's traceback is shortened."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from numbatape.errors import NumbatapeError

PACKAGE = str(Path(__file__).parent.parent) + os.sep
FRAMES_SHOWN = 6


class InputError(NumbatapeError):
    """Usage, or a file that cannot be read or written."""

    exit_code = 2


class ModelError(NumbatapeError):
    """The user's model failed; the message holds its traceback, shortened."""

    exit_code = 1


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived: unwind, clean up, leave with 128 + signal number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 128 + signum


@contextlib.contextmanager
def running_model(doing: str | Callable[[], str]) -> Iterator[None]:
    """Turn whatever the user's code raises inside the block into a `ModelError`.

    `doing` says what was being done; a function is called for the text only when it is needed (in loops).
    """
    try:
        yield
    except (InputError, ModelError):
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        what = doing if isinstance(doing, str) else doing()
        raise ModelError(f"{what} failed\n{short_traceback(error)}") from error


def short_traceback(error: BaseException) -> str:
    """Return the user's own frames, innermost last, and the exception's text."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    frames = [frame for frame in report.stack if not _is_machinery(frame.filename)]
    if report.stack and not frames and not isinstance(error, NumbatapeError):
        frames.append(report.stack[-1])  # There is no frame of the user's, so the innermost one is named.
    if isinstance(error, SyntaxError):
        frames = []  # the text of a SyntaxError has the file and line already
    skipped = len(frames) - FRAMES_SHOWN
    lines = []
    if skipped > 0:
        lines.append(f"  ... {skipped} outer frames\n")
    lines += traceback.format_list(frames[-FRAMES_SHOWN:])
    lines += report.format_exception_only()
    return "".join(lines).rstrip()


def _is_machinery(filename: str) -> bool:
    """Whether a frame is numbatape's, or Python's import system's or contextlib's, rather than the user's."""
    return filename.startswith((PACKAGE, "<frozen", "<__array_function__", contextlib.__file__))
