"""Pieces of HTML, for notebooks; texts come from files and hosts, and are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """An HTML table.

    >>> table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    shown = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{shown}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
