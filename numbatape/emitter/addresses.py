"""Views on a tape that is being built: other addresses into the storage of a value, no instructions.

Values are named by number. Each function returns the number of a new value; relations between sizes that a
view relies on become guards.
"""

from __future__ import annotations

from ..tape import TapeBuilder
from ..tape.tape import Layout


def view(tape: TapeBuilder, number: int, dims, strides, offset: int | None = None) -> int:
    """Return a value with another layout, and perhaps another offset, in the same storage."""
    storage, start, _ = tape.values[number]
    return tape.view(storage, start if offset is None else offset, dims, strides)


def transposed(tape: TapeBuilder, number: int, order) -> int:
    """Return a view whose axis k is the value's axis ``order[k]``."""
    return _rearranged(tape, number, _transposed, tuple(order))


def expanded(tape: TapeBuilder, number: int, axes) -> int:
    """Return a view with new axes of size one at the given positions of the result."""
    return _rearranged(tape, number, _expanded, tuple(axes))


def dropped(tape: TapeBuilder, number: int, axes) -> int:
    """Return a view without the given axes, whose size is one."""
    return _rearranged(tape, number, _dropped, tuple(axes))


def _rearranged(tape: TapeBuilder, number: int, axes_of, argument: tuple[int, ...]) -> int:
    """Return a view with the axes that ``axes_of(tape, layout, argument)`` lists; None stands for a new one.

    Which axes these are, and the guards that they need, follow from the layout alone: they are worked out
    once for all values of a layout.
    """
    storage, offset, layout = tape.values[number]
    key = (axes_of, layout, argument)
    found = tape.rearranged.get(key)
    if found is None:
        of = tape.layouts[layout]
        pairs = [(1, 0) if k is None else (of.dims[k], of.strides[k]) for k in axes_of(tape, of, argument)]
        found = tape.layout_number(tuple(d for d, _ in pairs), tuple(s for _, s in pairs))
        tape.rearranged[key] = found
    return number if found == layout else tape.seen_as(storage, offset, found)


def _transposed(tape: TapeBuilder, layout: Layout, order):
    return order


def _expanded(tape: TapeBuilder, layout: Layout, axes):
    ndim = len(layout.dims) + len(axes)
    places, own = {axis % ndim for axis in axes}, iter(range(ndim))
    return [None if k in places else next(own) for k in range(ndim)]


def _dropped(tape: TapeBuilder, layout: Layout, axes):
    ndim = len(layout.dims)
    places = {axis % ndim for axis in axes}
    for k in places:
        tape.sizes.pin(layout.dims[k])
    return [k for k in range(ndim) if k not in places]


def broadcast(tape: TapeBuilder, number: int, dims) -> int:
    """Return a view that repeats a value to the given dimensions."""
    layout, sizes = tape.layout_of(number), tape.sizes
    lead = len(dims) - len(layout.dims)
    strides = [0] * lead
    for k, own in enumerate(layout.dims):
        if sizes.value(own) == 1 and sizes.value(dims[lead + k]) != 1:
            sizes.pin(own)
            strides.append(0)
        else:
            sizes.same(own, dims[lead + k])
            strides.append(layout.strides[k])
    return view(tape, number, dims, strides)


def is_dense(tape: TapeBuilder, number: int) -> bool:
    """Whether a value's cells follow one another in row-major order."""
    layout = tape.layout_of(number)
    expected = tape.contiguous_strides(layout.dims)[0]
    if layout.strides == expected:
        return True
    wide = [k for k, dim in enumerate(layout.dims) if dim != 1]  # the stride of one entry does not matter
    return all(tape.sizes.agree(layout.strides[k], expected[k]) for k in wide)


def axis_order(tape: TapeBuilder, layout: Layout) -> tuple[int, ...] | None:
    """Return the axes from the outermost one in memory on.

    None where not every cell is there once, and where the innermost one is none of the last two, as in images
    whose channels are innermost: what follows, windows of such images, is faster row by row.
    """
    dims, strides = layout
    axes = tuple(range(len(dims)))
    if strides == tape.contiguous_strides(dims)[0]:
        return axes
    sizes = tape.sizes
    left, step, order = [*axes], 1, []
    while left:
        axis = next((k for k in reversed(left) if sizes.agree(strides[k], step)), None)
        if axis is None or (not order and axis < len(dims) - 2):
            return None
        left.remove(axis)
        order.append(axis)
        step = sizes.mul(dims[axis], step)
    return tuple(reversed(order))


def ordered(tape: TapeBuilder, dims, order) -> int:
    """Return the layout of new arrays whose axes lie in memory in the given order."""
    strides = [0] * len(dims)
    for axis, stride in zip(order, tape.contiguous_strides([dims[k] for k in order])[0], strict=True):
        strides[axis] = stride
    return tape.layout_number(tuple(dims), tuple(strides))


def reshaped(tape: TapeBuilder, number: int, dims) -> int:
    """Return a dense value's cells in other dimensions, whose product is the same."""
    return view(tape, number, dims, tape.contiguous_strides(dims)[0])


def merged(tape: TapeBuilder, number: int, counts) -> int | None:
    """Return a view with neighbouring axes merged, ``counts[k]`` of them into axis k.

    A count of zero makes an axis of size one. None if the strides do not allow it.
    """
    storage, offset, layout = tape.values[number]
    key = merged, layout, tuple(counts)
    found = tape.rearranged.get(key)
    if found is None:  # nor is that kept: later guards may make sizes equal, so that the strides allow it
        found = tape.rearranged[key] = _merged(tape, tape.layouts[layout], counts)
    if found is None:
        return None
    return number if found == layout else tape.seen_as(storage, offset, found)


def _merged(tape: TapeBuilder, layout: Layout, counts) -> int | None:
    """Return the layout with neighbouring axes merged, or None."""
    sizes = tape.sizes
    dims, strides, first = [], [], 0
    for count in counts:
        group = range(first, first + count)
        first += count
        dims.append(sizes.product(layout.dims[k] for k in group))
        wide = [k for k in group if layout.dims[k] != 1]
        for outer, inner in zip(wide, wide[1:], strict=False):
            if not sizes.agree(layout.strides[outer], sizes.mul(layout.strides[inner], layout.dims[inner])):
                return None
        strides.append(layout.strides[wide[-1]] if wide else 0)
    return tape.layout_number(tuple(dims), tuple(strides))


def cut(tape: TapeBuilder, number: int, axis: int, first: int, size: int) -> int:
    """Return the entries from ``first`` on, ``size`` of them, along an axis (size codes)."""
    layout, sizes = tape.layout_of(number), tape.sizes
    offset = sizes.add(tape.offset_of(number), sizes.mul(first, layout.strides[axis]))
    dims = [*layout.dims]
    dims[axis] = size
    return view(tape, number, dims, layout.strides, offset)


def split(tape: TapeBuilder, number: int, shape) -> int:
    """Return a view whose first axis has become several, of the given sizes."""
    layout, sizes = tape.layout_of(number), tape.sizes
    strides, step = [], layout.strides[0]
    for size in reversed(shape):
        strides.append(step)
        step = sizes.mul(step, size)
    return view(tape, number, (*shape, *layout.dims[1:]), (*reversed(strides), *layout.strides[1:]))


def flipped(tape: TapeBuilder, number: int, axis: int) -> int:
    """Return the entries in the other order along an axis."""
    layout, sizes = tape.layout_of(number), tape.sizes
    dim, stride = layout.dims[axis], layout.strides[axis]
    if not sizes.value(dim):
        sizes.pin(dim)
        return number
    sizes.guard(dim, ">=", 1)
    offset = sizes.add(tape.offset_of(number), sizes.mul(sizes.sub(dim, 1), stride))
    strides = [*layout.strides]
    strides[axis] = sizes.mul(sizes.negative(-1), stride)
    return view(tape, number, layout.dims, strides, offset)
