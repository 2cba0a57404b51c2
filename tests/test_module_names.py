"""Each ``module.name`` in numbatape's files is there, for modules of numbatape.

What a late import does not find shows only when its line runs. So the code of each file is read, as Python
compiles it: the compiler has decided which names are parameters, variables and globals. None of the files is
imported for this, so it does not matter which packages are installed.
"""

import dis
import functools
import importlib.util
import inspect
import types
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

from numbatape.recording import contents
from numbatape.trace import operations
from numbatape.usercode.bytecode import inner

PACKAGE = Path(__file__).parents[1] / "numbatape"
SILENT = ("CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP")
ALWAYS = {"__name__", "__file__", "__path__", "__package__", "__doc__", "__dict__"}  # names of each module
VARIABLE = ""  # what stands for anything but one module


@functools.cache
def numbatape_files() -> "Program":
    """Return the files of numbatape, from Python's cache of code."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        found[name] = SourceFileLoader(name, str(path)).get_code(name)
    return Program(found)


class Program:
    """Modules that import each other, by their code.

    Parameters
    ----------
    codes
        By the full names of the modules; those of packages end in ``.__init__``.
    """

    def __init__(self, codes: dict[str, types.CodeType]):
        self.codes = {name.removesuffix(".__init__"): code for name, code in codes.items()}
        packages = [name.rpartition(".")[0] for name in codes]
        self._home = dict(zip(self.codes, packages, strict=True))  # the packages that they are in
        self.bound = {name: _bound(code) for name, code in self.codes.items()}
        self.modules = {name: dict(self._imported(name, code)) for name, code in self.codes.items()}

    def full_name(self, module: str, name: str) -> str:
        """Return the full name of a module that a file may tell by dots; "" if there is no such file."""
        found = importlib.util.resolve_name(name, self._home[module])
        return found if found in self.codes else VARIABLE

    def member(self, module: str, name: str) -> str:
        """Return the module that a name of a module stands for."""
        found = f"{module}.{name}"
        return found if found in self.codes and self.bound[module].get(name, 1) <= 1 else VARIABLE

    def _imported(self, module: str, code: types.CodeType) -> Iterator[tuple[str, str]]:
        """Yield the globals of a module that are modules, and which."""
        constants: list = []
        base = found = VARIABLE
        for step in dis.get_instructions(code):
            if step.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                constants.append(step.argval)
            elif step.opname == "IMPORT_NAME":  # the level and the names have just been loaded
                base = self.full_name(module, "." * constants[-2] + step.argval)
                found = base if step.argval == base and not constants[-1] else VARIABLE
            elif step.opname == "IMPORT_FROM":
                found = self.member(base, step.argval) if base else VARIABLE
            elif step.opname == "STORE_NAME":
                if found and self.bound[module][step.argval] == 1:
                    yield step.argval, found
                found = VARIABLE

    @functools.cached_property
    def uses(self) -> dict[str, list[tuple[int, str, str]]]:
        """(line, module, name) of what each file asks modules for."""
        return {module: [*self._asked(module)] for module in self.codes}

    def _asked(self, module: str) -> Iterator[tuple[int, str, str]]:
        waiting = [self.codes[module]]
        known = self.modules[module].keys() | {"imported"}
        while waiting:
            code = waiting.pop()
            waiting += inner(code)
            if not known.isdisjoint(code.co_names):
                yield from self._asked_in(module, code)

    def _asked_in(self, module: str, code: types.CodeType) -> Iterator[tuple[int, str, str]]:
        """Yield what a file asks for in one function or class, or of what a file runs itself."""
        steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
        names = self.modules[module]
        if code is not self.codes[module]:  # the body of a class may bind such a name itself
            own = {step.argval for step in steps if step.opname == "STORE_NAME"}
            names = {name: found for name, found in names.items() if name not in own}
        stored: dict[str, set[str]] = {}
        if "imported" in code.co_names:
            owner = VARIABLE
            for k, step in enumerate(steps):
                if step.opname.startswith("STORE_") and step.opname not in ("STORE_ATTR", "STORE_SUBSCR"):
                    for name in step.argval if isinstance(step.argval, tuple) else (step.argval,):
                        stored.setdefault(name, set()).add(owner)
                owner = self._late(module, steps, k)
            for name in _parameters(code):
                stored.pop(name, None)
        owner = VARIABLE
        line = code.co_firstlineno
        for k, step in enumerate(steps):
            line = step.positions.lineno or line if step.positions else line
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                owner = names.get(step.argval, VARIABLE)
            elif step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
                name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
                owners = stored.get(name, ())
                owner = next(iter(owners)) if len(owners) == 1 else VARIABLE
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and owner:
                yield line, owner, step.argval
                owner = self.member(owner, step.argval)
            else:
                owner = self._late(module, steps, k)

    def _late(self, module: str, steps: list[dis.Instruction], k: int) -> str:
        """Return the module that a call of `numbatape.late.imported` returns, if step ``k`` is one."""
        if steps[k].opname != "CALL":
            return VARIABLE
        for count in (2, 3):  # without and with the package
            called, name = steps[k - count], steps[k - count + 1]
            if called.opname == "LOAD_GLOBAL" and called.argval == "imported" and name.opname == "LOAD_CONST":
                return self.full_name(module, name.argval)
        return VARIABLE

    def missing(self, module: str) -> Iterator[tuple[int, str, str]]:
        """Yield (line, module, name) of what a file asks modules for, and they do not have."""
        for line, owner, name in self.uses[module]:
            has = self.bound[owner].get(name) or f"{owner}.{name}" in self.codes or name in ALWAYS
            if not has and "__getattr__" not in self.bound[owner]:
                yield line, owner, name


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    further = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + further]


def _bound(code: types.CodeType) -> dict[str, int]:
    """Return how often the statements of a module bind its globals."""
    found: dict[str, int] = {}
    waiting = [code]
    while waiting:
        part = waiting.pop()
        waiting += inner(part)
        stores = ("STORE_NAME", "STORE_GLOBAL") if part is code else ("STORE_GLOBAL",)
        numbers = [dis.opmap[name] for name in stores]
        if not any(number in part.co_code[::2] for number in numbers):
            continue
        for step in dis.get_instructions(part):
            if step.opname in stores:
                found[step.argval] = found.get(step.argval, 0) + 1
    return found


def test_names_of_modules_exist():
    program = numbatape_files()
    assert sum(map(len, program.uses.values())) > 1000
    assert not [(module, *each) for module in program.codes for each in program.missing(module)]


def test_operations_are_in_the_files_that_are_announced():
    """A module with ``__getattr__`` has more names than its statements bind."""
    program, asked = numbatape_files(), {}
    for module in program.codes:
        for line, owner, name in program.uses[module]:
            if "__getattr__" in program.bound[owner] and name not in program.bound[owner]:
                asked.setdefault(owner, {}).setdefault(name, f"{module}:{line}")
    assert contents  # it has announced them
    files = operations.announced()
    for name, place in asked.pop(operations.__name__).items():
        assert name in files, place
    for name, file in files.items():
        assert name in program.bound[file], f"{file} is announced to have {name}"
    for owner, names in asked.items():
        found = importlib.import_module(owner)
        assert not {name: place for name, place in names.items() if not hasattr(found, name)}


def test_scopes():
    """Parameters and variables hide modules of the same name; what is missing is found wherever it is."""
    texts = {
        "p.__init__": "",
        "p.late": "def imported(name, package=None): ...",
        "p.q.__init__": "",
        "p.q.a": "there = 1\ndef f():\n    global given\n    given = 2\n",
        "p.q.b": """
from .. import late
from ..late import imported
from . import a
from . import a as named
from .a import there

def right(x):
    m = imported(".a", __package__)
    return a.there, named.given, m.f, late.imported, imported("..late", __package__).imported, there.real

def hidden(a, late=1, *named):
    return a.no, late.no, named.no, [a.no for a in x]

def assigned():
    m = imported(".a", __package__)
    for m in m.there:
        m.no

class Hides:
    a = 1
    b = a.no

    def method(self):
        return a.missing_in_method

def wrong():
    m = imported(".a", __package__)
    return [late.missing for x in y], named.missing, m.missing, imported("..late", __package__).missing
""",
    }
    program = Program({name: compile(text, name, "exec") for name, text in texts.items()})
    assert sorted((owner, name) for _, owner, name in program.missing("p.q.b")) == [
        ("p.late", "missing"),
        ("p.late", "missing"),
        ("p.q.a", "missing"),
        ("p.q.a", "missing"),
        ("p.q.a", "missing_in_method"),
    ]
