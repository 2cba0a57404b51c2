"""Tables in HTML, as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = "text-align: left; padding: 2px 8px"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence]) -> str:
    """Return a table as HTML; all texts are escaped, but for those of class `Markup`."""
    title = f"<caption style='text-align: left; font-weight: bold'>{escape(caption)}</caption>"
    top = "".join(f"<th style='{_CELL}'>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='{_CELL}'>{_shown(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class Markup(str):
    """Text that is HTML already."""


def bar(share: float) -> Markup:
    """Return a bar whose length is a share of its cell."""
    width = round(100 * min(max(share, 0.0), 1.0))
    style = f"background: #4c78a8; height: 10px; width: {width}px"
    return Markup(f"<div style='width: 100px; background: #eee'><div style='{style}'></div></div>")


def _shown(cell) -> str:
    if isinstance(cell, Markup):
        return cell
    return f"<code>{escape(str(cell))}</code>"
