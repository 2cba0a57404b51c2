"""How stand-ins for the user's classes behave as these (`numbatape.stand_ins.copied_classes`).

Objects of a class count as objects of its stand-in, what is assigned to the stand-in is assigned to the
class, and stand-ins for objects are equal to their originals where these are compared by identity.
"""

from __future__ import annotations

import threading

from ..capture.references import behind
from ..trace.trace import current


def shield() -> type:
    """Return a base that hides the stand-in for a class from the class's ``__init_subclass__``."""

    class Shield:
        __slots__ = ()

        def __init_subclass__(cls, **options):
            if "__numbatape_own__" not in vars(cls):
                super().__init_subclass__(**options)

    return Shield


def standing_metaclass(meta: type) -> type:
    """Return a metaclass for the stand-in of a class: objects of the class count as objects of the stand-in.

    A class that the function derives from a stand-in is an ordinary class.
    """

    calls_init = not any("__call__" in vars(base) for base in meta.__mro__ if base not in (type, object))

    class Standing(meta):  # type: ignore[misc, valid-type]
        def __call__(self, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            trace, own = current(), own_class(self)
            bases = type(made).__mro__
            if calls_init and own in bases and all(base is not self for base in bases):
                # __new__ has made an object of a subclass. Its stand-in is not derived from this one, so that
                # Python has not called the constructor.
                made.__init__(*args, **kwargs)
            if trace is not None and own is not None and type(made) is self:
                trace.capture.stand_ins.append((made, own))
            return made

        def __setattr__(self, name, value):
            own = own_class(self) if _FINISHED in vars(self) else None
            if own is None or name in vars(self):
                super().__setattr__(name, value)
            if own is not None:
                setattr(own, name, value)  # code outside of the trace reads it from the class itself

        def __delattr__(self, name):
            own = own_class(self)
            if own is None or name in vars(self):
                super().__delattr__(name)
            if own is not None:
                delattr(own, name)

        def __instancecheck__(self, instance):
            own = own_class(self)
            return super().__instancecheck__(instance) if own is None else isinstance(instance, own)

        def __subclasscheck__(self, other):
            own = own_class(self)
            if own is None:
                return super().__subclasscheck__(other)
            # An abstract class asks its subclasses in turn, and this stand-in is one of them: without this
            # test the two would ask each other without end.
            if own in _asked.classes:
                return False
            _asked.classes.append(own)
            try:
                return issubclass(other, own)
            finally:
                _asked.classes.pop()

        def __eq__(self, other):  # the user's code may look a class up in a dictionary
            own = own_class(self)
            return self is other or (own is not None and getattr(other, "__numbatape_own__", other) is own)

        def __hash__(self):
            return type.__hash__(own_class(self) or self)

    return Standing


class _Asked(threading.local):
    """The classes whose ``__subclasscheck__`` a stand-in is calling now, in this thread."""

    def __init__(self):
        self.classes: list[type] = []


_asked = _Asked()


# Names that the constructors of abstract, generic and protocol classes write to each new class. A stand-in
# inherits these: it has the type parameters of its class, and classes that are registered with the stand-in
# are registered with the class.
_OF_CONSTRUCTORS = ("_abc_impl", "_is_protocol", "__parameters__")
_FINISHED = "__numbatape_finished__"


def finish(standing: type) -> None:
    """Let a stand-in hand on what is assigned to it from now on, after the constructors of classes."""
    for name in _OF_CONSTRUCTORS:
        if name in vars(standing):
            type.__delattr__(standing, name)
    type.__setattr__(standing, _FINISHED, True)


def own_class(standing: type) -> type | None:
    """Return the class that a stand-in is for."""
    return vars(standing).get("__numbatape_own__")


def _is_same(value, other):
    return True if behind(value) is behind(other) else NotImplemented


def _hash_of(value):
    return object.__hash__(behind(value))


def destructor(own):
    """Return the destructor of the stand-in for a class, for objects that the traced function has made."""

    def deleted(value):
        if behind(value) is value:
            own(value)

    return deleted


# Objects that are compared by identity are equal to their stand-ins, which the trace may not have met.
OF_IDENTITY = {"__eq__": _is_same, "__hash__": _hash_of}
