"""`TracedArray`: what a user's function computes with while it is traced.

It behaves as the NumPy array (or scalar) that it stands for: methods and properties here, operators in
`numbatape.trace.operators`, functions through NumPy's protocols. It is no subclass of ndarray, because
``np.asarray`` would silently drop the derivative.
"""

from __future__ import annotations

import sys
from weakref import ref

import numpy as np

from ..tape.tape import FAMILY_DTYPE
from ..usercode.ownership import sees_sizes
from . import operations, operators, pytrees
from . import symbolic_sizes as sizes
from .aliasing import refuse_swaps, root_of
from .complex_array import meets, names_complex
from .kinds import check_attribute, check_subscriptable, like_arrays_in_patterns, missing
from .methods import Methods
from .number_calls import call_of_numbers, number_rows
from .reads import Reads
from .trace import failing

float64, ndarray = np.float64, np.ndarray
# Unlike ``x._value``, this does not compute a value that is missing (`deferred`).
_value_of = object.__getattribute__


def note(trace, array, value) -> None:
    """Note which memory an array refers to, because a later write to that memory changes the array."""
    memory = trace.memory
    memory.arrays.append(ref(array))
    if len(memory.arrays) > memory.most:
        memory.forget_dead()
    if memory.boxes and (box := memory.boxes.get(id(root_of(value)))) is not None:
        box.settled.append(array)


def new_traced(trace, value, number, level, family) -> TracedArray:
    """Return a traced array; cheaper than a constructor call (0.3 µs)."""
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._value = value
    self._id = number
    self._level = level
    self._family = family
    if value.__class__ is ndarray:  # this is `note` written out
        memory = trace.memory
        memory.arrays.append(ref(self))
        if len(memory.arrays) > memory.most:
            memory.forget_dead()
        if memory.boxes and (box := memory.boxes.get(id(root_of(value)))) is not None:
            box.settled.append(self)
    return self


def deferred(trace, number) -> TracedArray:
    """Return a traced array whose value is computed when it is first needed, see ``__getattr__``."""
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._id = number
    self._level = trace.tape.level_of(number)
    self._family = trace.tape.family_of(number)
    trace.derivatives.deferred.append(ref(self))
    return self


def is_deferred(x) -> bool:
    """Whether nobody has asked for a traced array's value yet."""
    if type(x) is TracedArray:
        try:
            _value_of(x, "_value")
        except AttributeError:
            return True
    return False


def compute_deferred(trace, leaves) -> None:
    """Compute deferred values that somebody keeps beyond the trace, as long as its instructions are there.

    The values of ``leaves``, the function's result, are left to the sweep.
    """
    returned = set(map(id, leaves))
    for reference in trace.derivatives.deferred:
        array = reference()
        if array is not None and id(array) not in returned and is_deferred(array):
            _ = array._value


def revalue(x, value) -> None:
    """Replace the carried value by NumPy's, where the recorded operations computed it differently."""
    x._value = value
    if value.__class__ is ndarray:
        note(x._trace, x, value)


@like_arrays_in_patterns
class TracedArray(Methods, Reads):
    """An array or scalar of a traced function. Not made by users."""

    # After a write, _id and _level are missing until they are needed; in a derivative, _value is. See
    # __getattr__.
    __slots__ = ("__weakref__", "_family", "_id", "_level", "_trace", "_value")

    # Operators of pandas leave the work to an operand whose priority is higher than their own: at most 4000.
    __pandas_priority__ = 5_000
    # The ufuncs of pandas compare this one with that of a Series, 1000: a traced array passes for an ndarray.
    __array_priority__ = 5_000.0

    # ---- containers

    def __getitem__(self, key):
        """Return entries, rows or views, as NumPy does; single entries take the short way first."""
        try:  # this is `failing` written out, which saves 0.2 µs in loops over x[k]
            if type(key) is int:
                trace = self._trace
                memory = trace.memory
                # If nothing has been written to, entries keep their cells.
                if not (memory.boxes or memory.patchworks):
                    number = trace.reused.entries.get((self._id, key))
                    if number is not None:
                        found = TracedArray.__new__(TracedArray)
                        found._trace = trace
                        found._value = self._value[key]
                        found._id = number
                        found._level = self._level
                        found._family = self._family
                        return found
                if trace.arguments.labels and sees_sizes(sys._getframe(1)):
                    return operations.entry_of_rows(self, key)
                if self._value.ndim == 1:
                    return operations.item(self, key)
            elif self._trace.arguments.labels and sees_sizes(sys._getframe(1)):
                return operations.entry_of_rows(self, key)
            return operations.getitem(self, key)
        except Exception as error:
            self._trace.note_failure(error)
            check_subscriptable(self)
            raise

    def __setitem__(self, key, value):
        with failing(self._trace):
            if type(key) is int and operations.put_entry(self, key, value):
                return
            if type(value) is type(self):
                refuse_swaps(self, key, value, sys._getframe(1))
            operations.assign(self, key, value)

    # ---- NumPy's protocols

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """Record a ufunc of traced values: by a short way if they are numbers, else by NumPy's function."""
        row, trace = number_rows.get(ufunc), self._trace
        integers = trace.integers
        if row is not None and method == "__call__" and not kwargs and not trace.closed:
            found = call_of_numbers(trace, row, ufunc, inputs)
            if found is not None:
                return operations.noted_ufunc(ufunc, inputs[0], found) if integers.fractions else found
        try:
            if trace.arguments.labels:
                if operations.has_labels(inputs):
                    return operations.ufunc_of_labelled(ufunc, inputs, kwargs)
                inputs = operations.arrays_of(inputs, keep_rows=True)
            if integers.met:
                inputs, kwargs = operations.operands(ufunc, inputs, method), operations.settled(kwargs)
            if meets(inputs) or (kwargs and meets(kwargs.values())):
                return operations.call_complex_ufunc(ufunc, method, inputs, kwargs)
            if ufunc is np.matmul and not (kwargs or trace.arguments.labels):
                trace.capture.note_product(*inputs, sys._getframe(1))
            result = operations.call_ufunc(ufunc, method, inputs, kwargs)
            return operations.noted_ufunc(ufunc, inputs[0], result) if integers.fractions else result
        except Exception as error:
            trace.note_failure(error)
            raise

    def __array_function__(self, function, types, args, kwargs):
        try:
            if self._trace.arguments.labels:
                if operations.needs_rows(function, args):
                    return operations.function_of_rows(function, args, kwargs)
                args, kwargs = operations.arrays_of(args), operations.arrays_of(kwargs)
            if self._trace.integers.met:
                args, kwargs = operations.arguments(function, args, kwargs)
            if meets(args) or (kwargs and (meets(kwargs.values()) or names_complex(kwargs))):
                return operations.call_complex_function(function, args, kwargs)
            return operations.call_function(function, args, kwargs)
        except Exception as error:
            self._trace.note_failure(error)
            raise

    # ---- properties

    def _sample(self):
        """Return the value; where nobody has computed it yet, zeros of its shape and dtype."""
        try:
            return _value_of(self, "_value")
        except AttributeError:
            tape = self._trace.tape
            shape = tuple(map(tape.sizes.value, tape.layout_of(self._id).dims))
            zero = FAMILY_DTYPE[self._family].type(0.0)
            return np.broadcast_to(zero, shape) if shape else zero

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes: for the user's code traced ints, else plain ones, which the tape relies on (a guard)."""
        if not isinstance(self._sample(), ndarray):
            check_attribute(self, "shape")
            return ()
        if self._trace.integers.symbolic and sees_sizes(sys._getframe(1)):
            return self._sizes()
        if operations.box_of(self) is not None:
            return self._value.shape
        trace = self._trace
        dims, table = trace.tape.layout_of(self._id).dims, trace.tape.sizes
        return tuple([dim if dim >= 0 else table.pin(dim, trace.line()) for dim in dims])

    def _sizes(self) -> tuple:
        """Return the sizes as the user's code sees them: traced ints, which need no guard."""
        trace = self._trace
        if not trace.integers.symbolic or not self.ndim or operations.box_of(self) is not None:
            return self.shape
        dims = trace.tape.layout_of(self._id).dims
        if any([dim < 0 for dim in dims]):
            trace.integers.sizes_met = True
        return tuple([sizes.seen(trace, dim) if dim < 0 else dim for dim in dims])

    @shape.setter
    def shape(self, shape):
        other = self._in_shape(shape)
        self._id, self._level = other._id, other._level
        revalue(self, other._value)

    @property
    def base(self):
        """The array that owns the memory, or None."""
        if self._value.base is None:
            return None
        known = operations.array_of(self, self._value.base)
        return operations.seen(self, lambda value: value.base) if known is None else known

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps in the memory of NumPy's array, as plain integers."""
        return self._value.strides if self.shape is not None else ()

    @property
    def flags(self):
        return self._value.flags

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def T(self):
        check_attribute(self, "T")
        turned = operations.transpose(self)
        return operations.turned_frame(self, turned) if self._trace.arguments.labels else turned

    @property
    def real(self):
        return self

    @real.setter
    def real(self, value):
        self[...] = value

    @property
    def imag(self):
        if not isinstance(self._value, ndarray):
            return self._value.imag
        zeros = np.zeros_like(self)  # traced, so that its size may change
        zeros.setflags(write=False)  # NumPy's imaginary part of a real array is read-only
        return zeros

    @imag.setter
    def imag(self, value):
        self._value.imag = value  # raises NumPy's error

    def __getattr__(self, name):
        if name in ("_id", "_level"):
            operations.settle(self)
            return object.__getattribute__(self, name)
        if name == "_value":
            value = self._trace.evaluation.value(self._id)
            revalue(self, value)
            return value
        labels = self._trace.arguments.labels.get(self._id)
        if labels is not None and name in labels.attributes:
            return labels.read(self, name)
        if labels is not None and labels.has_member(self, name):
            return operations.attribute_of_series(self, name)
        if labels is not None and labels.has_row(name):
            return labels.read(self, "loc")[name]
        # NumPy's numbers have this method, arrays do not.
        if name == "is_integer" and not isinstance(self._value, np.ndarray):
            return lambda: bool(np.equal(np.remainder(self, 1), 0))
        raise missing(self, name, f"ndarray.{name} of a traced array")


pytrees.leaf(TracedArray)
operators.equip(TracedArray)
