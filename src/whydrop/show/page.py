"""Pages for a browser: one self-contained HTML document that requests nothing; uPlot draws the figures in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

from whydrop.show import embedding
from whydrop.show.embedding import Choice
from whydrop.show.figure import Figure
from whydrop.show.printable import printable

SCRIPTS = (
    "uplot/uPlot.iife.min.js",
    "report/data.js",
    "report/marks.js",
    "report/chart.js",
    "report/page.js",
)
_SHEETS = ("uplot/uPlot.min.css", "report/report.css")
NOSCRIPT = "The figures need JavaScript; all words and tables do not."

# How the figures of a section move.
_BUTTONS = (
    ("in", "Zoom in", ""), ("out", "Zoom out", ""), ("left", "←", "Move to earlier times, or lower numbers"),
    ("right", "→", "Move to later times, or higher numbers"), ("all", "Show all", ""),
)  # fmt: skip


def document(title: str, body: Sequence[str], parts: Mapping[str, Sequence[Choice]], *, sheet: str = "",
             exact: bool = True, legend: bool = True) -> str:  # fmt: skip
    """A whole page.

    Args:
        title: of its window.
        body: its elements.
        parts: figures by the identifier of the section of the body that shows them, and which has an element of the
            class ``figures``.
        sheet: styles of its own.
        exact: keep every digit of the figures' numbers.
        legend: whether the figures have legends.
    """
    scripts = [asset(name) for name in SCRIPTS]
    values = [embedding.script(embedding.data(parts, exact=exact, legend=legend))] if parts else []
    sheets = [*(f"<style>{asset(name)}</style>" for name in _SHEETS), *([f"<style>{sheet}</style>"] if sheet else [])]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            f"<!-- This page includes uPlot:\n{asset('uplot/LICENSE')}-->",
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<link rel="icon" href="data:,">',
            f"<title>{text(title)} – whydrop</title>",
            *sheets,
            "</head>",
            "<body>",
            *body,
            *values,
            *(f"<script>{one}</script>" for one in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _policy(scripts: Sequence[str]) -> str:
    """The page may run its own scripts and styles and nothing else: whatever a file smuggles in can load nothing."""
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data:"


@cache
def asset(name: str) -> str:
    """A script, a sheet or a licence of the pages."""
    return resources.files("whydrop.show").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def text(value: object) -> str:
    """Text from anywhere, made harmless in HTML: paths and the names of flows and sites come from outside."""
    return escape(printable(str(value)), quote=True)


def table(title: str, heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]], looks: str = "scroll") -> str:
    """A table whose first column names its rows.

    Args:
        title: what it shows, for who does not see it.
        heads: of its columns, and whether they hold numbers.
        rows: of text, which is made harmless here.
        looks: classes of the element around it.
    """
    kinds = [' class="number"' if number else "" for _, number in heads]
    head = "".join(f'<th scope="col"{kind}>{text(name)}</th>' for kind, (name, _) in zip(kinds, heads, strict=True))
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds[1:], rest, strict=True))
        body += f'<tr><th scope="row">{text(first)}</th>{cells}</tr>'
    return (
        f'<div class="{looks}" tabindex="0" role="region" aria-label="{text(title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def section(
    identifier: str, title: str, what: str = "charts", *, choice: str = "", focus: str = "", within: str = ""
) -> str:
    """A section with figures, and the buttons that move them.

    Args:
        identifier: of the section.
        title: its heading.
        what: it shows, for the words at its buttons.
        choice: a label for the list from which one chooses what is shown; empty: there is no choice.
        focus: the words of the button that shows what is worth a look; empty: there is none.
        within: elements in place of figures that stand below each other.
    """
    chosen = (
        f'<label for="{identifier}-choice">{choice}</label> <select id="{identifier}-choice"></select>'
        if choice
        else ""
    )
    return f"""<section id="{identifier}" aria-label="{text(title)}">
<h2>{text(title)}</h2>
{controls(what, chosen, focus)}
<div class="figures">{within}</div>
<noscript><p class="note">{NOSCRIPT}</p></noscript>
</section>"""


def controls(what: str, choice: str = "", focus: str = "") -> str:
    """The buttons that move the figures of a section."""
    buttons = "\n".join(
        f'<button type="button" data-zoom="{how}" aria-label="{label or words}">{words}</button>'
        for how, words, label in (*_BUTTONS[:-1], *([("focus", focus, "")] if focus else []), _BUTTONS[-1])
    )
    return f"""<div class="controls">
{choice}
<span class="buttons" role="group" aria-label="Zoom of all {what}">
{buttons}
</span>
</div>
<p class="small screen">Drag over a chart to zoom; a double click shows all again.</p>"""


def of_figures(figures: Sequence[Figure], *, legend: bool = True) -> str:
    """A page of nothing but figures."""
    first = figures[0].printable()
    heading = first.title or first.key
    body = [
        f'<header><p class="brand">whydrop</p><p class="source">{text(first.subtitle)}</p></header>',
        "<main>",
        section("figures", heading, "figures"),
        "</main>",
    ]
    return document(heading, body, {"figures": [Choice(figures)]}, legend=legend)
