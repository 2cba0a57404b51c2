"""Every public name explains itself: what it does, parameters, returns, raises, and an example.

The examples run as doctests; here it is asserted that they are there. There is no list of exceptions: a name
that is added to ``__all__``, or a method that is added to a public class, needs its docstring.
"""

import dataclasses
import inspect
import re

import numbatape as nt
import numbatape.distributed
import numbatape.integrations
import numbatape.testing
from tests.every_case import every

SECTION = re.compile(r"^([A-Z][A-Za-z ]*)\n-{3,}$", re.M)


def public_names():
    """Yield (readable name, object) of the public functions and classes, and of the classes' own members."""
    for module in (nt, nt.testing, nt.transforms, nt.integrations, nt.distributed):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.ismodule(found):
                continue
            yield f"{module.__name__}.{name}", found
            if inspect.isclass(found):
                for base in found.__mro__:
                    if base.__module__.startswith("numbatape"):
                        yield from members_of(base)


def members_of(cls):
    for name, member in vars(cls).items():
        member = getattr(member, "__func__", member)  # of a class method
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"{cls.__name__}.{name}", member


NAMES = dict(public_names())
FUNCTIONS = {name: each for name, each in NAMES.items() if inspect.isfunction(each)}
CLASSES = {name: each for name, each in NAMES.items() if inspect.isclass(each)}
PROPERTIES = {name: each for name, each in NAMES.items() if isinstance(each, property)}
ERRORS = {name: each for name, each in CLASSES.items() if issubclass(each, BaseException)}
FIELDS = {name: each for name, each in CLASSES.items() if dataclasses.is_dataclass(each)}


def sections_of(documented) -> dict[str, str]:
    """Return the sections of a docstring by their titles; what stands before the first is called ""."""
    first, *rest = SECTION.split(inspect.getdoc(documented) or "")
    bodies = (body.strip("\n") for body in rest[1::2])
    return {"": first.strip(), **dict(zip(rest[::2], bodies, strict=True))}


def described(section: str) -> set[str]:
    """Return the names that a Parameters section describes: those of ``x, *args : type`` with text below."""
    entries = re.findall(r"^(\S.*?) : \S.*\n +\S", section + "\n", re.M)
    return {name.strip().lstrip("*") for entry in entries for name in entry.split(",")}


def parameters_of(function) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


@every("name", NAMES)
def test_each_begins_with_a_sentence(name):
    summary = sections_of(NAMES[name])[""]
    assert re.match(r"[A-Z`(].*[.:]$", summary.split("\n\n")[0], re.S), f"{name}: {summary!r}"


@every("name", FUNCTIONS)
def test_functions_describe_each_parameter_with_its_type(name):
    section = sections_of(FUNCTIONS[name]).get("Parameters", "")
    assert described(section) == parameters_of(FUNCTIONS[name])


@every("name", FUNCTIONS)
def test_functions_say_what_they_return_and_raise(name):
    function, sections = FUNCTIONS[name], sections_of(FUNCTIONS[name])
    returns_nothing = inspect.signature(function).return_annotation in (None, "None")
    # Each type that is returned has its description below it.
    assert returns_nothing or re.search(r"^\S.*\n +\S", sections.get("Returns", ""), re.M)
    assert not parameters_of(function) or sections.get("Raises") or "raises nothing" in sections[""]


@every("name", [*FUNCTIONS, *CLASSES, *PROPERTIES])
def test_each_has_an_example_that_uses_it(name):
    example = sections_of(NAMES[name]).get("Examples", "")
    assert ">>> " in example
    assert re.search(rf"\b{name.split('.')[-1]}\b", example)


@every("name", FIELDS)
def test_dataclasses_describe_each_field_with_its_type(name):
    fields = {field.name for field in dataclasses.fields(FIELDS[name])}
    assert described(sections_of(FIELDS[name]).get("Parameters", "")) == fields


@every("name", ERRORS)
def test_errors_show_what_raises_them(name):
    example = sections_of(ERRORS[name]).get("Examples", "")
    assert "Traceback (most recent call last):" in example or "except" in example or "warn" in example


@every("name", FUNCTIONS)
def test_functions_have_types_for_a_type_checker(name):
    """It says that it is typed (`py.typed`): strict checkers refuse calls of functions without types."""
    assert parameters_of(FUNCTIONS[name]) | {"return"} <= FUNCTIONS[name].__annotations__.keys()
