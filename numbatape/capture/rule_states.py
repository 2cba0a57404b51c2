"""What the rules of a trace refer to: sweeps run them when the function has run to its end.

A rule that reads an attribute, an entry of a list or an array finds there what the function has left last. If
that is not what it found when it was called, values and derivatives would be others, so this is an error.
What rules keep themselves, such as a factor that the pullback reads, is not watched. Neither is what their
code does not read, such as a count of calls that the same object keeps.
"""

from __future__ import annotations

from ..errors import UnsupportedOperationError
from .changed_state import arrays_written, differences, reads
from .environment import Environment

# Each run of a rule looks at all of them, because rules of one object may share what they keep. With 300
# rules, a trace took five times as long.
MOST_WATCHED = 16


class RuleStates:
    """The states in which the rules of one trace have been called."""

    def __init__(self):
        # The key is the rule; the value is None for a rule that is not watched.
        self._known: dict[object, Environment | None] = {}
        self._new: object = None  # the rule that runs for the first time

    def enter(self, rule) -> None:
        """Note that a rule is about to run; raise if what it refers to has changed since an earlier call."""
        state, self._new = self._known.get(rule), None
        if rule not in self._known:
            if len(self._known) >= MOST_WATCHED:
                return
            self._new = rule
        elif state is None or not state.rebound():
            return
        else:
            _check(rule, state)
        state = Environment(rule.value)
        for function in (rule.pullback, rule.pushforward):
            if function is not None:
                state.add(function)
        self._known[rule] = None if state.moves_on else state

    def leave(self) -> None:
        """Note that a rule has run: what has changed is what rules keep, and memory that they write to."""
        for rule, state in self._known.items():
            if state is not None and (state.changed() if rule is self._new else state.rebound()):
                self._known[rule] = None

    def check(self) -> None:
        """Raise if the function has changed what a rule refers to after it has called it."""
        for rule, state in self._known.items():
            if state is not None and state.changed():
                _check(rule, state)


def _check(rule, state: Environment) -> None:
    """Raise if the rule's code reads something that has changed, or it is not known what has changed."""
    changes = [*differences(state), *arrays_written(state)]
    read = [change.name for change in changes if reads(state, change)]
    if read or not changes:
        name = read[0] if read else "something"
        raise UnsupportedOperationError(
            f"the rule {rule.name} reads {name}, which the function changes after the call, but runs later, "
            "in each sweep; pass it to the rule as an argument"
        )
