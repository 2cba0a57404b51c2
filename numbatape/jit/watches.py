"""How a builtin of steady calls compares what a function has captured with what it was, as IR."""

from __future__ import annotations

from .object_layout import (
    ARRAY_FIELDS,
    DATA,
    LIST_ITEMS,
    LIST_SIZE,
    LISTED,
    MAPPED,
    SHAPE,
    SHAPED,
    STORED,
    VALUE,
    WATCH,
    WORD,
    WORDED,
)


def ask_if_changed(text, w) -> None:
    """Go on if what is captured is as it was: if the table says so, or else ``rebound``."""
    builder, i64 = text.builder, text.i64
    ask, same = text.block(), text.block()
    text.go_on_if(builder.icmp_signed(">=", w["watch_count"], i64(0)), ask)
    number, end = text.each(w["watch_count"])
    compare_watched(text, text.fields(text.address(w["watches"]), number, WATCH), ask)
    end()
    builder.branch(same)
    text.at(ask)
    changed = text.or_null(text.call("PyObject_CallNoArgs", text.address(w["rebound"])))
    truth = text.call("PyObject_IsTrue", changed)
    text.call("Py_DecRef", changed)
    text.go_on_if(text.equal(truth, text.i32(0)))
    builder.branch(same)
    text.at(same)


def compare_watched(text, row, ask) -> None:
    """Go on if one thing that is captured is what its row says; else go to ``ask``."""
    builder, i64 = text.builder, text.i64
    place, expected = text.address(row["place"]), text.address(row["expected"])
    with builder.if_then(text.equal(row["kind"], i64(STORED))):
        text.go_on_if(text.equal(text.load(place, i64), row["expected"]), ask)
    with builder.if_then(text.equal(row["kind"], i64(VALUE))):
        found = text.call("PyDict_GetItem", place, text.address(row["key"]))
        text.go_on_if(text.equal(builder.ptrtoint(found, i64), row["expected"]), ask)
    with builder.if_then(text.equal(row["kind"], i64(LISTED))):
        text.go_on_if(text.equal(text.load(place, i64, LIST_SIZE), row["count"]), ask)
        items = text.load(place, text.pointer, LIST_ITEMS)
        text.compare_memory(items, expected, builder.mul(row["count"], i64(WORD)), ask)
    with builder.if_then(text.equal(row["kind"], i64(MAPPED))):
        # PyDict_Next goes on from `position`, and returns 0 at the dictionary's end.
        builder.store(i64(0), text.position)
        number, end = text.each(row["count"])
        text.go_on_if(text.equal(next_of(text, place), text.i32(1)), ask)
        pair = builder.gep(expected, [builder.mul(number, i64(2 * WORD))])
        for k, found in enumerate((text.key, text.value)):
            text.go_on_if(text.equal(builder.load(found), text.load(pair, i64, WORD * k)), ask)
        end()
        text.go_on_if(text.equal(next_of(text, place), text.i32(0)), ask)

    with builder.if_then(text.equal(row["kind"], i64(SHAPED))):
        text.compare_memory(place, expected, i64(WORD * ARRAY_FIELDS), ask)
        sizes = text.load(place, text.pointer, SHAPE - DATA)
        known = builder.gep(expected, [i64(WORD * ARRAY_FIELDS)])
        text.compare_memory(sizes, known, builder.mul(row["count"], i64(WORD)), ask)
    with builder.if_then(text.equal(row["kind"], i64(WORDED))):
        text.compare_memory(place, expected, builder.mul(row["count"], i64(WORD)), ask)


def next_of(text, mapping):
    """Call PyDict_Next, which fills `position`, `key` and `value`."""
    places = [text.builder.bitcast(p, text.pointer) for p in (text.position, text.key, text.value)]
    return text.call("PyDict_Next", mapping, *places)
