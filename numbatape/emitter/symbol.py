"""`Symbol`: a value of a tape that is being built: dimensions, cells and level, and no numbers."""

from __future__ import annotations

from ..tape.tape import FAMILY_DTYPE, Layout


def _operator(name: str):
    def operate(self, other):
        return self.emitter.row(name, self, other)

    def reflected(self, other):
        return self.emitter.row(name, other, self)

    return operate, reflected


class Symbol:
    """A value number, and the emitter that appends computations with it.

    Operators broadcast as NumPy's do; numbers and arrays beside a symbol become literals in its cells.
    """

    __slots__ = ("emitter", "number")

    def __init__(self, emitter, number: int):
        self.emitter = emitter
        self.number = number

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __truediv__, __rtruediv__ = _operator("div")
    __lt__, __le__ = _operator("less")[0], _operator("less_equal")[0]
    __gt__, __ge__ = _operator("greater")[0], _operator("greater_equal")[0]
    __eq__, __ne__ = _operator("equal")[0], _operator("not_equal")[0]  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    # None makes an ndarray on the left leave the operation to the symbol.
    __array_ufunc__ = None

    def __mul__(self, other):
        if other.__class__ is Symbol and other.number == self.number:
            return self.emitter.row("square", self)  # the adjoint of a square takes one pass instead of two
        return self.emitter.row("mul", self, other)

    def __rmul__(self, other):
        return self.emitter.row("mul", other, self)

    def __pow__(self, other):
        return self.emitter.power(self, other)

    def __neg__(self):
        return self.emitter.row("neg", self)

    def __bool__(self):
        raise TypeError("a symbol has no value: `Emitter.ask` records a guard")

    def __repr__(self):
        sizes = self.emitter.tape.sizes
        return f"<Symbol {self.number}: dims {[sizes.value(d) for d in self.dims]}, level {self.level}>"

    @property
    def layout(self) -> Layout:
        """Dimensions and strides as size codes."""
        tape = self.emitter.tape
        return tape.layout_of(self.number)

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions as size codes."""
        return self.layout.dims

    @property
    def ndim(self) -> int:
        return len(self.layout.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, as plain integers: the tape holds for these sizes (a guard)."""
        return tuple(map(self.emitter.tape.sizes.pin, self.layout.dims))

    @property
    def level(self) -> int:
        return self.emitter.tape.level_of(self.number)

    @property
    def family(self) -> int:
        return self.emitter.tape.family_of(self.number)

    @property
    def dtype(self):
        """The dtype of the cells."""
        return FAMILY_DTYPE[self.family]
