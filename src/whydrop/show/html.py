"""Documents as pages for a browser: one self-contained file that requests nothing; uPlot draws the figures in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources

from whydrop.show import embedding
from whydrop.show.document import (
    Cell,
    Choice,
    Command,
    Document,
    Facts,
    Figures,
    Folded,
    Items,
    Part,
    Section,
    Table,
    Text,
    plain,
)
from whydrop.show.figure import Figure
from whydrop.text import quantities
from whydrop.text.printable import one_line

SCRIPTS = ("report.js",)
_SHEETS = ("report.css",)
NOSCRIPT = "The figures need JavaScript; all words and tables do not."
# Rows of a table in a page; a capture may hold millions of flows.
_LONGEST_TABLE = 500
# A page with as many sections that have a key begins with a list of them.
_LINKED_SECTIONS = 3

# How the figures of a section move.
_BUTTONS = (
    ("in", "Zoom in", ""), ("out", "Zoom out", ""), ("left", "←", "Move to earlier times, or lower numbers"),
    ("right", "→", "Move to later times, or higher numbers"), ("all", "Show all", ""),
)  # fmt: skip


def page(document: Document, *, exact: bool = True) -> str:
    """The whole page of a document.

    Args:
        document: what it shows; its first section is the headline.
        exact: keep every digit of the figures' numbers.
    """
    scripts = [asset(name) for name in SCRIPTS]
    drawn = dict(figures_of(document))
    legend = all(figures.legend for figures in drawn.values())
    parts = {key: figures.choices for key, figures in drawn.items()}
    values = [embedding.script(embedding.data(parts, exact=exact, legend=legend))] if parts else []
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            f"<!-- This page includes uPlot:\n{asset('LICENSE.uplot')}-->",
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<link rel="icon" href="data:,">',
            f"<title>{_text(document.title)} – whydrop</title>",
            *(f"<style>{asset(name)}</style>" for name in _SHEETS),
            "</head>",
            "<body>",
            *_body(document),
            *values,
            *(f"<script>{one}</script>" for one in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def inside(document: Document) -> str:
    """A document as the inside of another page, which draws the figures."""
    return "\n".join(_body(document, "div"))


def figures_of(document: Document) -> Iterator[tuple[str, Figures]]:
    """The figures of a document by the key of the section that holds them, which is its identifier in a page."""
    return ((key, figures) for key, figures in _figures_of(document.parts, "figures") if figures.choices)


def page_of_figures(figures: Sequence[Figure], *, legend: bool = True) -> str:
    """A page of nothing but figures."""
    first = figures[0].printable()
    heading = first.title or first.key
    shown = Figures((Choice(figures),), legend=legend)
    return page(Document(heading, (Section(heading, (shown,), key="figures"),), source=first.subtitle))


def fragment(part: Part, level: int = 2) -> str:
    """One part for a notebook or a page, without the sheets and scripts of a page; its headings begin at a level."""
    return _element(part, level)


def _policy(scripts: Sequence[str]) -> str:
    """The page may run its own scripts and styles and nothing else: text from outside can load nothing."""
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data:"


@cache
def asset(name: str) -> str:
    """A script, a sheet or a licence of the pages."""
    return resources.files("whydrop.show").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _text(value: Cell) -> str:
    """Text from anywhere, made harmless in HTML: paths and the names of flows and sites come from outside."""
    return escape(one_line(plain(value)), quote=True)


def _figures_of(parts: Iterable[Part], key: str) -> Iterator[tuple[str, Figures]]:
    for part in parts:
        if isinstance(part, Figures):
            yield key, part
        elif isinstance(part, Section):
            yield from _figures_of(part.parts, part.key or key)


# --- the elements of a page ---


def _body(document: Document, frame: str = "main") -> Iterator[str]:
    """The body of a page; ``frame`` is the element around the parts: a page has one ``main`` only."""
    notes = "".join(f'<p class="note">{_text(note)}</p>' for note in document.notes)
    yield f'<header><p class="brand">whydrop</p><p class="source">{_text(document.source)}</p>{notes}</header>'
    yield f"<{frame}>"
    first, *others = document.parts or (Section(document.title, ()),)
    yield _element(first, 1)
    linked = [part for part in others if isinstance(part, Section) and part.key and part.title]
    if len(linked) >= _LINKED_SECTIONS:
        links = "".join(f'<li><a href="#{part.key}">{_text(part.title)}</a></li>' for part in linked)
        yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
    yield from (_element(part, 2) for part in others)
    yield f"</{frame}>"
    if document.footer:
        yield f"<footer><p>{_text(document.footer)}</p></footer>"


def _element(part: Part, level: int) -> str:
    """A part, below headings of the levels before ``level``."""
    match part:
        case Text():
            return f"<p{_class(part.look)}>{_text(part)}</p>"
        case Command():
            return _command(part)
        case Items():
            return _items(part)
        case Facts():
            return _facts(part)
        case Table():
            return f"<section>{_titled_table(part, level)}</section>" if level <= 2 else _titled_table(part, level)
        case Figures():
            return _figures(part)
        case Folded():
            inner = "".join(_element(one, level + 1) for one in part.parts)
            key = f' id="{part.key}"' if part.key else ""
            return f"<details{key}{_verdict(part.cause)}><summary>{_text(part.summary)}</summary>{inner}</details>"
        case Section():
            return _section(part, level)


def _verdict(cause: str) -> str:
    return f' class="verdict" data-cause="{_text(cause)}"' if cause else ""


def _section(part: Section, level: int) -> str:
    level = min(level, 4)
    heading = f"<h{level}>{_text(part.title)}</h{level}>" if part.title else ""
    inner = "".join(_element(one, level + bool(part.title)) for one in part.parts)
    if part.beside:
        inner = f'<div class="columns">{inner}</div>'
    if not part.key and (level > 2 or not part.title):
        return f"<div>{heading}{inner}</div>"
    key = f' id="{part.key}" aria-label="{_text(part.title)}"' if part.key else ""
    return f"<section{key}{_verdict(part.cause)}>{heading}{inner}</section>"


def _class(*names: str) -> str:
    given = " ".join(name for name in names if name)
    return f' class="{given}"' if given else ""


def _look(cell: Cell) -> str:
    return cell.look if isinstance(cell, Text) else ""


def _items(part: Items) -> str:
    """A list; commands stand below the sentences that they belong to."""
    parts: list[str] = []
    for item in part.items:
        if isinstance(item, Command) and parts:
            parts[-1] += _command(item)
        else:
            parts.append(
                _command(item) if isinstance(item, Command) else f"<span{_class(item.look)}>{_text(item)}</span>"
            )
    return f"<ul>{''.join(f'<li>{one}</li>' for one in parts)}</ul>"


def _command(command: Command) -> str:
    shown = _text(command.text)
    return (
        f'<div class="command"><pre tabindex="0"><code>{shown}</code></pre>'
        f'<button type="button" class="copy" aria-label="Copy the command: {shown}">Copy</button></div>'
    )


def _facts(part: Facts) -> str:
    rows = "".join(
        f"<div><dt>{_text(label)}</dt><dd{_class(_look(cell))}>{_text(cell)}</dd></div>" for label, cell in part.rows
    )
    return f'<dl class="{"facts" if part.tiles else "lines"}">{rows}</dl>'


def _titled_table(part: Table, level: int) -> str:
    if not part.rows:
        return ""
    level = min(level, 4)
    shown = part.most_important(min(_LONGEST_TABLE, len(part.rows))) if len(part.rows) > _LONGEST_TABLE else part.rows
    left = len(part.rows) - len(shown)
    more = [f"and {quantities.count(left)} more" + (f"; {part.order}" if part.order else "")] if left else []
    notes = "".join(f'<p class="small">{_text(note)}</p>' for note in (*more, *part.notes))
    heading = f"<h{level}>{_text(part.title)}</h{level}>" if part.title else ""
    return f"{heading}{_table(part, shown)}{notes}"


def _table(part: Table, rows: Sequence[Sequence[Cell]]) -> str:
    """A table; its first column names the rows."""
    kinds = ["number" if column.number else "" for column in part.columns]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{_text(column.title)}</th>'
        for kind, column in zip(kinds, part.columns, strict=True)
    )
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f"<td{_class(kind, _look(cell))}>{_text(cell)}</td>" for kind, cell in zip(kinds[1:], rest, strict=True)
        )
        body += f'<tr><th scope="row">{_text(first)}</th>{cells}</tr>'
    names = f' data-of="{part.names}"' if part.names else ""
    wide = " wide" if len(part.columns) > 3 else ""
    return (
        f'<div class="scroll{wide}" tabindex="0" role="region" aria-label="{_text(part.title)}">'
        f"<table{names}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _figures(part: Figures) -> str:
    """The place of figures, and the buttons that move them; without a choice, the words of each figure too."""
    places = "".join(map(_figure, part.choices[0].figures)) if len(part.choices) == 1 else ""
    buttons = "\n".join(
        f'<button type="button" data-zoom="{how}" aria-label="{label or words}">{words}</button>'
        for how, words, label in (*_BUTTONS[:-1], *([("focus", part.focus, "")] if part.focus else []), _BUTTONS[-1])
    )
    choice = f"<label>{_text(part.choice)} <select></select></label>" if part.choice else ""
    return f"""<div class="controls">
{choice}
<span class="buttons" role="group" aria-label="Zoom of all {_text(part.what)}">
{buttons}
</span>
</div>
<p class="small screen">Drag over a chart to zoom; a double click shows all again.</p>
<div class="figures">{places}</div>
<noscript><p class="note">{NOSCRIPT}</p></noscript>"""


def _figure(figure: Figure) -> str:
    """The words of a figure, and the place in which the page's script draws it."""
    shown = figure.printable()
    words = "".join(f'<p class="see">{_text(line)}</p>' for line in (shown.see, *shown.footnotes()) if line)
    subtitle = f'<p class="when">{_text(shown.subtitle)}</p>' if shown.subtitle else ""
    return (
        f'<section class="figure" id="figure-{shown.key}"><h3>{_text(shown.title)}</h3>{subtitle}'
        f'<div class="panels"></div>{words}</section>'
    )
