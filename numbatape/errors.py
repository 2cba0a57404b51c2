"""Every exception that numbatape raises on its own account."""

from __future__ import annotations

MOST_LINES, MOST_CHARACTERS = 20, 2000


class NumbatapeError(Exception):
    """Base of all of numbatape's exceptions."""

    def __str__(self) -> str:
        """Return the message, of which a large argument's text does not bury the rest."""
        text = super().__str__()
        if len(text) > MOST_CHARACTERS:
            text = f"{text[: MOST_CHARACTERS // 2]} ... {text[-MOST_CHARACTERS // 2 :]}"
        lines = text.splitlines()
        if len(lines) > MOST_LINES:
            half = MOST_LINES // 2
            lines[half : 1 - half] = [f"... ({len(lines) - 2 * half + 1} lines more)"]
        return "\n".join(lines) if len(lines) > 1 else text


class ConfigError(NumbatapeError, ValueError, TypeError):
    """A value that a field of `Config` does not take."""


class SpecError(NumbatapeError, ValueError):
    """Arguments do not fit what a cache was prepared for, or cannot be differentiated."""


class ArityError(SpecError):
    """Another number of arguments than the cache was prepared for."""


class StructureError(SpecError):
    """A container of another structure than the cache was prepared for."""


class DtypeError(SpecError, TypeError):
    """A dtype other than the prepared one, or one that has no derivative."""


class ShapeError(SpecError):
    """Another number of dimensions (or, under ``fixed_sizes``, other sizes)."""


class PatternError(SpecError):
    """A sparsity pattern that has another shape, or misses an entry."""


class OutputError(SpecError, TypeError):
    """The function's result does not fit the verb: a gradient needs one real scalar."""


class BusyError(NumbatapeError, RuntimeError):
    """A second call of a cache, bound callable or pullback while the first is under way."""


class UnsupportedOperationError(NumbatapeError, TypeError):
    """A NumPy function, or a use of one, that numbatape cannot differentiate."""


class LeakError(UnsupportedOperationError):
    """A traced value would lose its derivative: ``float(x)``, ``np.asarray(x)``, ``a[0] = x``."""


class ForeignTraceError(LeakError):
    """Values of two traces meet: one was kept from an earlier call, or belongs to a function around."""


class VerificationError(NumbatapeError):
    """A tape or a plan that is not safe to run; the message names the instruction."""


class DebugError(NumbatapeError):
    """What ``Config(debug_mode=True)`` found: instruction, source line and reason."""


class UnwatchedWarning(UserWarning):
    """A function reads something that cannot be watched for changes, so it is traced in every call."""
