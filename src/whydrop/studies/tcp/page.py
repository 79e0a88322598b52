"""The study as one HTML page that requests nothing; its pictures can be zoomed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

import polars as pl

from whydrop.show import page as pages
from whydrop.show.embedding import Choice
from whydrop.show.page import text
from whydrop.studies.page import Column, grid, listed
from whydrop.studies.tcp import sentences
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.studies.tcp.study import Results

_LIMITS = (
    Column("Group", ("group",), str),
    Column("Limited by", ("limiter",), str),
    Column("Connections", ("connections",), quantities.count),
    Column("Share", ("share",), lambda share: f"{quantities.significant(100 * share)} %"),
    Column("95 % interval", ("low", "high"), lambda share: f"{quantities.significant(100 * share)} %"),
)
_CHANGES = (
    Column("Site", ("site",), str),
    Column("Median", ("quantity",), lambda name: sentences.QUANTITIES[name]),
    Column("Conclusion", ("conclusion",), str),
    Column("Later / earlier", ("ratio",), quantities.significant),
    Column("95 % interval", ("low", "high"), quantities.significant),
    Column("adjusted p", ("adjusted_p",), lambda p: f"{p:.2g}"),
    Column("Days before", ("days_before",), quantities.count),
    Column("after", ("days_after",), quantities.count),
)


def page(results: Results, figures: Mapping[str, Figure]) -> str:
    """The whole page: the answer first, then pictures, then tables."""
    from whydrop import _core

    first, *rest = sentences.summary(results)
    facts = results.facts
    limits, spread = results.tables["limits"], results.tables["distributions"]
    figure = "".join(_figure(name, one) for name, one in figures.items())
    tables = [
        *(grid(f"What limits connections, by {by}", _largest(limits, by), _LIMITS) for by in _BY),
        *(_spread(spread, quantity) for quantity in sentences.QUANTITIES),
        grid("Did the later half of the days differ?", results.tables["changes"], _CHANGES),
    ]
    body = [
        f'<header><p class="brand">whydrop</p><p class="source"><strong>{text(sentences.TITLE)}</strong> '
        f"{quantities.count(facts['samples'])} samples; {text(facts['first'])} to {text(facts['last'])}</p></header>",
        "<main>",
        f'<section class="answer" id="summary" aria-label="Summary"><h1>{text(first)}</h1>{listed(rest)}',
        f"{'<h2>To be known about it</h2>' if results.notes else ''}{listed(results.notes)}</section>",
        pages.section("figures", "Figures", "figures", within=figure) if figures else "",
        f'<section id="tables"><h2>Tables</h2>{"".join(tables)}</section>',
        "</main>",
        f"<footer><p>Made by whydrop {text(_core.__version__)}. Days are UTC.</p></footer>",
    ]
    sheet = resources.files("whydrop.studies").joinpath("report.css").read_text(encoding="utf-8")
    parts = {"figures": [Choice(list(figures.values()))]} if figures else {}
    return pages.document(sentences.TITLE, body, parts, sheet=sheet)


_BY = ("site", "day", "network")


def _largest(limits: pl.DataFrame, by: str) -> pl.DataFrame:
    """Networks with most connections first: there are more than a page shows."""
    own = limits.filter(pl.col("by") == by)
    if by != "network":
        return own
    return own.sort(pl.col("connections").sum().over("group"), "group", descending=[True, False], maintain_order=True)


def _figure(name: str, figure: Figure) -> str:
    notes = "".join(f"<p>{text(line)}</p>" for line in figure.footnotes())
    return (
        f'<figure class="figure" id="figure-{name}"><h3>{text(figure.title)}</h3>'
        f'<p class="when">{text(figure.subtitle)}</p><div class="panels"></div>'
        f"<figcaption>{notes}</figcaption></figure>"
    )


def _spread(frame: pl.DataFrame, quantity: str) -> str:
    def write(number: float) -> str:
        return sentences.value(quantity, number)

    columns = (
        Column("Site", ("group",), str),
        Column("Connections", ("connections",), quantities.count),
        Column("5 %", ("p5",), write),
        Column("Median", ("p50",), write),
        Column("95 % interval", ("median_low", "median_high"), write),
        Column("95 %", ("p95",), write),
    )
    own = frame.filter((pl.col("quantity") == quantity) & pl.col("by").is_in(["all", "site"]))
    return grid(f"Distribution of the {sentences.QUANTITIES[quantity]}", own, columns)
