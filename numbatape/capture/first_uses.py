"""Whether a traced function assigns attributes of captured objects before it reads them.

``self.state = x0`` at the start of a call makes what the last call has left there irrelevant, even if the
code reads it afterwards. Names in the code do not show this, so the run itself is observed: while it lasts,
the stand-ins of objects have descriptors for the attributes in question, which note the first use of each.
"""

from __future__ import annotations

from .references import Redirected


class FirstUses:
    """The first use that one run makes of each attribute that is observed.

    Parameters
    ----------
    names
        Of the attributes.

    Attributes
    ----------
    hidden
        Whether something may read attributes that the run does not show: code that runs again in each sweep.
    """

    def __init__(self, names=()):
        self.names = frozenset(names)
        self.hidden = False
        # The keys are an id of an object's dictionary, and a name.
        self._assigned: dict[tuple[int, str], bool] = {}

    def note(self, owner, name: str, assigned: bool) -> None:
        """Note a use of an attribute; only the first one counts."""
        self._assigned.setdefault((id(owner.__dict__), name), assigned)

    def assigned_first(self, mapping: dict, name) -> bool:
        """Whether an attribute of the object with this dictionary was assigned before it was read."""
        return not self.hidden and self._assigned.get((id(mapping), name), False)

    def may_have_read(self, places) -> bool:
        """Whether attributes were read, or may have been, before they were assigned (`Effects.places`)."""
        return any(
            name in self.names and (self.hidden or not self._assigned.get((id(mapping), name), True))
            for mapping, names in places
            if names is not None
            for name in names
        )

    def observed(self, name: str, member: property) -> property:
        """Return a property that gives and takes what another one does, and notes the first use."""

        def get(owner):
            self.note(owner, name, False)
            return member.fget(owner)  # type: ignore[misc]

        def put(owner, value):
            self.note(owner, name, True)
            member.fset(owner, value)  # type: ignore[misc]

        def delete(owner):
            self.note(owner, name, False)
            member.fdel(owner)  # type: ignore[misc]

        return Redirected(get, put, delete)
