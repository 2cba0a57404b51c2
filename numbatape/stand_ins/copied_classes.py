"""Stand-ins for the user's classes and objects while a function is traced.

The stand-in for a class is a subclass whose members are copies, so that constructors, properties, static
and class methods are traced, too; objects of it become objects of the class again when the trace ends
(`restore`). The stand-in for a captured object is an object of that subclass, with the same attributes (not
copies of them).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from operator import is_, is_not

from ..capture.captured import uses_in
from ..capture.holders import HOLDERS, Holder, container_of, names_in
from ..capture.moving_names import key_of
from ..capture.reach import needs_stand_in
from ..capture.references import OWN_OBJECTS, Redirected, behind, fields_of, members_of, slots_of
from ..late import imported
from ..trace import pytrees
from ..trace.trace import current
from ..usercode.ownership import lent_classes, users_classes, users_metaclasses
from .standing_classes import OF_IDENTITY, destructor, finish, shield, standing_metaclass


class CopiedClasses:
    """The part of `numbatape.stand_ins.copies.Copies` that is about classes and objects."""

    def __init__(self):
        self._objects: dict[int, object] = {}
        self._classes: dict[type, type] = {}
        self._metaclasses: dict[type, type] = {}
        # The keys are ids of wrappers (static methods, say) that are being copied; the values, the classes
        # that get the copy, and its name. The function behind it may refer to these classes.
        self._unfinished: dict[int, list[tuple[type, str]]] = {}
        self._own: dict[int, object] = {}  # the original, by the id of its stand-in
        self.exposed: set[int] = (
            set()
        )  # ids of values that parts of theirs have in the place of their stand-in
        trace = current()
        # The id of the trace that makes the copies; traces inside of it use them, too. A reference would be a
        # cycle.
        self._trace = id(trace)
        # What that trace restores when it ends; stand-ins made while an inner one is under way outlive that.
        self._made = [] if trace is None else trace.capture.stand_ins
        self.filled = [] if trace is None else trace.capture.containers
        self._attributes: set[tuple] = set()
        self._lent: set[type] = set()
        self._uses = uses_in(trace)
        self._observed: frozenset[str] = frozenset() if self._uses is None else self._uses.names
        # By `moving_names.key_of`: traced values of variables that are inputs, and which have been asked for.
        self._moving = {} if trace is None else trace.capture.moving
        self._holders = {key[0] for key in self._moving}
        self.moved: set[tuple[int, str]] = set()
        self._reassigned: set[tuple[int, str]] = set()  # those to which the function has assigned since
        # Whether all objects of the user's classes need stand-ins, because uses of their attributes are
        # observed, or attributes are inputs.
        self._of_all_objects = bool(self._observed or self._moving)

    @property
    def has_inputs(self) -> bool:
        """Whether variables are inputs of the trace that has made these copies."""
        return bool(self._moving)

    def moving_value(self, name: str, holder, now):
        """Return the traced value of a variable or attribute that is an input; of others, what it has."""
        if not self._moving or (key := key_of(name, holder)) not in self._moving or key in self._reassigned:
            return now
        self.moved.add(key)
        return self._moving[key]

    def _reassign(self, name: str, holder) -> None:
        """Note that the function has given an attribute another value, if it is an input."""
        if self._moving and (key := key_of(name, holder)) in self._moving:
            self.moved.add(key)
            self._reassigned.add(key)

    def belong_to(self, trace) -> bool:
        """Whether a trace that is under way has made these copies, and no trace outside of it."""
        return id(trace) == self._trace

    def original(self, value):
        """Return what a value stands in for, or is a method of a stand-in for; other values as they are."""
        if type(value) is types.MethodType:
            parts = value.__func__, value.__self__
            own = self.original(parts[0]), self.original(parts[1])
            return value if all(map(is_, own, parts)) else types.MethodType(*own)
        return self._own.get(id(value), value)

    def _needed(self, value) -> bool:
        cls = value if isinstance(value, type) else type(value)
        if type(cls) in self._metaclasses.values():
            return False  # such a class is a stand-in already, or derived from one
        return bool(users_classes(cls)) and needs_stand_in(value, self.known, self._of_all_objects)

    # ---- objects

    def _object(self, original):
        """Return an object with the same attributes whose members are copies."""
        cls = type(original)
        if cls not in users_classes(cls) or not self._needed(original):
            return original
        # Objects of compiled classes cannot be made like this.
        with contextlib.suppress(TypeError):
            made, empty = self._subclass(cls)
            try:
                holder, result = self._like(original, made)
                if hasattr(original, "__dict__"):
                    object.__setattr__(result, "__dict__", original.__dict__)
                # Noted before members of the class and attributes are copied, because these may refer to it.
                self._objects[id(original)] = result
                self._own[id(result)] = original
                self._objects[id(result)] = result
            finally:
                self._fill_classes(empty)
            if not hasattr(cls, "__del__"):  # the original has a destructor, and the stand-in none
                self._made.append((result, cls))
            if holder is not None and holder.changed is not None:
                self._fill(original, result, holder)
            slots = slots_of(cls)
            for name, part in fields_of(original).items():
                if name not in slots and self.value(part) is not part:
                    self._redirect(made, name, _Entry(name))
            for name in getattr(original, "__dict__", ()) if self._moving else ():
                if (key := key_of(name, original.__dict__)) in self._moving:
                    self.moved.add(key)
                    self._redirect(made, name, _Entry(name))
            for name, slot in slots.items():
                self._redirect(made, name, slot)
            if holder is None and hasattr(original, "__dict__"):
                self._observe(made, cls)
            return result
        return original

    def _like(self, original, made: type):
        """Return an empty object of a class, and how to fill it; tuples are made with their contents."""
        kind = container_of(original)
        if kind is None:
            return None, object.__new__(made)
        if kind in (tuple, frozenset):
            return None, kind.__new__(made, map(self.value, original))
        return HOLDERS[kind], kind.__new__(made)

    def _redirect(self, made: type, name: str, place) -> None:
        """Make an attribute return its stand-in, whatever is assigned to it."""
        if (made, name) in self._attributes:
            return
        self._attributes.add((made, name))

        def get(owner):
            own = behind(owner)
            now = place.__get__(own)
            moving = self.moving_value(name, getattr(own, "__dict__", None), now)
            return self.value(now) if moving is now else moving

        def put(owner, value):
            own = behind(owner)
            self._reassign(name, getattr(own, "__dict__", None))
            place.__set__(own, value)

        def delete(owner):
            own = behind(owner)
            self._reassign(name, getattr(own, "__dict__", None))
            place.__delete__(own)

        self._put_property(made, name, Redirected(get, put, delete))

    def _put_property(self, made: type, name: str, member: property) -> None:
        if self._uses is not None and name in self._observed:
            member = self._uses.observed(name, member)
        type.__setattr__(made, name, member)

    def _observe(self, made: type, cls: type) -> None:
        """Note the first uses of attributes of the objects of a class, whose stand-in is ``made``."""
        for name in self._observed:
            computed = hasattr(type(inspect.getattr_static(cls, name, None)), "__get__")
            if not computed and not self._attributes.intersection([(made, name), (made, name, "observed")]):
                self._attributes.add((made, name, "observed"))
                entry = _Entry(name)
                member = Redirected(entry.__get__, entry.__set__, entry.__delete__)
                self._put_property(made, name, member)

    def adopt(self, objects) -> None:
        """Give objects that the trace has made the stand-ins for their classes, until the trace ends."""
        for each in objects:
            cls = type(each)
            if self._needed(cls):
                object.__setattr__(each, "__class__", self.value(cls))
                if (trace := current()) is not None:
                    trace.capture.stand_ins.append((each, cls))

    def _fill(self, original, made, holder: Holder) -> None:
        """Fill a container with stand-ins for the contents of another, and note it for `restore`."""
        before = holder.parts(original)
        now = [self.value(part) for part in before]
        holder.changed(made, holder.made(original, now))  # type: ignore[misc]
        self.filled.append((original, made, before, now, holder))

    def _lend(self, value) -> None:
        """Lend copied members to a class that can have no stand-in, for code of this trace."""
        trace = current()
        for base in lent_classes(value if isinstance(value, type) else type(value)) if trace else ():
            if base not in self._lent:
                self._lent.add(base)
                imported(".lending", __package__).lend_members(trace, base, self.value)

    # ---- classes

    def subclass(self, cls: type) -> type:
        """Return a subclass with copied members; ``super()`` finds copies, too."""
        found, empty = self._subclass(cls)
        self._fill_classes(empty)
        return found

    def _subclass(self, cls: type) -> tuple[type, dict[type, type]]:
        """Return a subclass, and new stand-ins for it and for bases, which have no members yet."""
        found, made = self._classes.get(cls), {}
        if found is None:
            meta = self._metaclass(cls)
            own = users_classes(cls)
            quiet = any("__init_subclass__" in vars(base) for base in own)
            for base in reversed(own):
                parents = (base, *reversed(made.values())) if base is cls else (base,)
                parents = (shield(), *parents) if quiet else parents
                body = {"__slots__": (), "__module__": base.__module__, "__qualname__": base.__qualname__}
                body["__numbatape_own__"] = base
                body[OWN_OBJECTS] = self._own
                if users_metaclasses(cls):  # the metaclass's constructor might register the new class
                    made[base] = type.__new__(meta, base.__name__, parents, body)
                else:
                    made[base] = meta(base.__name__, parents, body)
                finish(made[base])
            for name, member in OF_IDENTITY.items():
                if getattr(cls, name, None) is getattr(object, name, None):
                    type.__setattr__(made[cls], name, member)
            # Members may refer to the class by its name.
            found = self._classes[cls] = self._objects[id(cls)] = made[cls]
        return found, made

    def _fill_classes(self, empty: dict[type, type]) -> None:
        """Give stand-ins for classes their members; the last one is that of the class itself."""
        for base, made in empty.items():
            self._put_members(made, base)
        if empty and hasattr(made, "__del__"):
            type.__setattr__(made, "__del__", destructor(made.__del__))

    def _put_members(self, made: type, base: type) -> None:
        for name, member in members_of(base).items():
            if id(member) in self._unfinished and self._objects[id(member)] is member:
                self._unfinished[id(member)].append((made, name))
            elif (copy := self.value(member)) is not member:
                self._put_member(made, name, copy)

    @staticmethod
    def _put_member(made: type, name: str, copy) -> None:
        type.__setattr__(made, name, copy)
        if isinstance(copy, functools.cached_property):
            copy.__set_name__(made, name)

    def _metaclass(self, cls: type) -> type:
        """Return the stand-in for the metaclass of a class, with copies of the user's members."""
        meta = type(cls)
        found = self._metaclasses.get(meta)
        if found is None:
            found = self._metaclasses[meta] = standing_metaclass(meta)
            for base in reversed(users_metaclasses(cls)):
                self._put_members(found, base)
        return found

    def metaclass_behind(self, meta: type) -> type:
        """Return the metaclass that a stand-in is for."""
        return next((own for own, made in self._metaclasses.items() if made is meta), meta)


_MISSING = object()


class _Entry:
    """A descriptor: the attribute in the object's dictionary, or the class's if it has none."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, owner, cls=None):
        try:
            return owner.__dict__[self._name]
        except KeyError:
            return self._of_class(owner)

    def _of_class(self, owner):
        for base in type(owner).__mro__:
            found = vars(base).get(self._name, _MISSING)
            if found is not _MISSING and "__numbatape_own__" not in vars(base):
                return found.__get__(owner, type(owner)) if hasattr(type(found), "__get__") else found
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {self._name!r}")

    def __set__(self, owner, value):
        owner.__dict__[self._name] = value

    def __delete__(self, owner):
        try:
            del owner.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None


def restore(trace) -> None:
    """Give objects that a trace made their own classes, and write changes back to the originals."""
    for original, made, before, now, holder in reversed(trace.capture.containers):
        parts = holder.parts(made)
        if len(parts) != len(now) or any(map(is_not, parts, now)) or names_in(original) != names_in(made):
            own = {id(copy): part for part, copy in zip(before, now, strict=True)}
            original_of = trace.capture.copies.original
            kept = [own[id(part)] if id(part) in own else original_of(part) for part in parts]
            holder.changed(original, holder.made(made, kept))
    trace.capture.containers.clear()
    for made, cls in trace.capture.stand_ins:
        standing = type(made)
        with contextlib.suppress(TypeError):  # raised if the class has another memory layout
            object.__setattr__(made, "__class__", cls)
        if standing is not cls:
            pytrees.forget(standing)
    trace.capture.stand_ins.clear()
    if trace.capture.lent:
        imported(".lending", __package__).give_back(trace)
    if trace.capture.arrays is not None:
        trace.capture.arrays.give_back()
