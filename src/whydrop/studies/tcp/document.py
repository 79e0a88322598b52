"""The study of TCP connections as a document: the answer, sites, figures, and for a page all tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from whydrop.show.document import Document, Items, Section, Table, parts
from whydrop.studies.frame_tables import FrameColumn, pictures, table_of
from whydrop.studies.tcp import sentences
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.studies.tcp.study import Results


_LIMITS = (
    FrameColumn("Group", ("group",), str),
    FrameColumn("Limited by", ("limiter",), str),
    FrameColumn("Connections", ("connections",), quantities.count),
    FrameColumn("Share", ("share",), quantities.percent),
    FrameColumn("95 % interval", ("low", "high"), quantities.percent),
)
_CHANGES = (
    FrameColumn("Site", ("site",), str),
    FrameColumn("Median", ("quantity",), lambda name: sentences.QUANTITIES[name]),
    FrameColumn("Conclusion", ("conclusion",), str),
    FrameColumn("Later / earlier", ("ratio",), quantities.significant),
    FrameColumn("95 % interval", ("low", "high"), quantities.significant),
    FrameColumn("adjusted p", ("adjusted_p",), quantities.p_value),
    FrameColumn("Days before", ("days_before",), quantities.count),
    FrameColumn("after", ("days_after",), quantities.count),
)
_BY = ("site", "day", "network")


def document(results: Results, figures: Mapping[str, Figure] | None = None) -> Document:
    """The study for people; with ``figures`` a page, which has all tables."""
    from whydrop import _core

    first, *rest = sentences.summary(results)
    facts = results.facts
    is_page = figures is not None
    shown = (
        Section(first, parts(Items.of(rest) if is_page else None, _sites(results)), key="summary"),
        *parts(
            Section("", () if is_page else (Items.of([*rest, *results.notes]),)),
            pictures(figures, {}) if figures else None,
            Section("Tables", parts(*_tables(results)), key="tables") if is_page else None,
        ),
    )
    source = f"{sentences.TITLE}: {quantities.count(facts['samples'])} samples; {facts['first']} to {facts['last']}"
    footer = f"Made by whydrop {_core.__version__}. Days are UTC."
    return Document(sentences.TITLE, shown, source, tuple(results.notes) if is_page else (), footer)


def _sites(results: Results) -> Table | None:
    """One row for each site: its connections, the medians, and the shares of what limits them."""
    limits, spread = (results.tables[name].filter(by="site") for name in ("limits", "distributions"))
    shares = limits.pivot("limiter", index="group", values="share").fill_null(0.0)
    medians = spread.pivot("quantity", index="group", values="p50")
    counts = limits.group_by("group").agg(pl.col("connections").sum())
    found = counts.join(medians, on="group", how="left").join(shares, on="group").sort("group")
    columns = [
        FrameColumn("Site", ("group",), str),
        FrameColumn("Connections", ("connections",), quantities.count, 2),
    ]
    for name, title in sentences.QUANTITIES.items():
        columns.append(FrameColumn(title.capitalize(), (name,), partial(sentences.value, name), 1))
    for limiter in sentences.order(shares.columns):
        columns.append(FrameColumn(limiter.capitalize(), (limiter,), quantities.percent))
    return table_of("Sites", found, columns)


def _tables(results: Results) -> list[Table | None]:
    limits, spread = results.tables["limits"], results.tables["distributions"]
    return [
        *(table_of(f"Limits of connections, by {by}", _largest(limits, by), _LIMITS) for by in _BY),
        *(_distribution(spread, quantity) for quantity in sentences.QUANTITIES),
        table_of("Differences between the earlier and the later half of the days", results.tables["changes"], _CHANGES),
    ]


def _largest(limits: pl.DataFrame, by: str) -> pl.DataFrame:
    """Networks with most connections first: there are more than a page shows."""
    own = limits.filter(pl.col("by") == by)
    if by != "network":
        return own
    return own.sort(pl.col("connections").sum().over("group"), "group", descending=[True, False], maintain_order=True)


def _distribution(frame: pl.DataFrame, quantity: str) -> Table | None:
    write = partial(sentences.value, quantity)
    columns = (
        FrameColumn("Site", ("group",), str),
        FrameColumn("Connections", ("connections",), quantities.count),
        FrameColumn("5 %", ("p5",), write),
        FrameColumn("Median", ("p50",), write),
        FrameColumn("95 % interval", ("median_low", "median_high"), write),
        FrameColumn("95 %", ("p95",), write),
    )
    own = frame.filter((pl.col("quantity") == quantity) & pl.col("by").is_in(["all", "site"]))
    return table_of(f"Distribution of the {sentences.QUANTITIES[quantity]}", own, columns)
