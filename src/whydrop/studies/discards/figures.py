"""The study's figures: their one frame, and their pictures; what they look like is data, in ``figures.toml``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import polars as pl

from whydrop.show import labels
from whydrop.show.facets import building, tables
from whydrop.show.facets.schema import FacetSpec, read
from whydrop.show.figure import Counts, Layer
from whydrop.show.theme import INK, PAPER, Style
from whydrop.studies.discards import results as contract
from whydrop.studies.discards.bins import ALL, DIRECTIONS
from whydrop.studies.discards.sentences import p_equals
from whydrop.text import quantities
from whydrop.text.printable import printable

if TYPE_CHECKING:
    import altair as alt

    from whydrop.show.figure import Figure
    from whydrop.studies.discards.changes_file import Noted
    from whydrop.studies.discards.study import Results

_CHANGE = Style(INK, PAPER, width=1.0, dash=(5, 3))
# Figure 6, and the statistic that each part of it compares.
_STATISTICS = {"client_speeds_max": "max", "client_speeds_mean": "mean"}
# The parts of it that are shown without a test of significance, and how their medians are said.
_DESCRIBED: dict[str, tuple[str, Callable[[float], str]]] = {
    "client_speeds_min": ("min_bps", quantities.rate),
    "client_speeds_cv": ("cv", quantities.significant),
}


@cache
def _catalogue() -> dict[str, FacetSpec]:
    file = resources.files("whydrop.studies.discards") / "figures.toml"
    return read(file.read_text(encoding="utf-8"))


def specs(definitions: str) -> dict[str, FacetSpec]:
    """The figures by name, in order, ``corrected`` or ``published``."""
    known = _catalogue()
    return {
        name: known[f"{name}-published"] if definitions == "published" else spec
        for name, spec in known.items()
        if not name.endswith("-published")
    }


def plot_frame(results: Results) -> pl.DataFrame:
    """Everything that all figures draw: a frame of `results.PLOT` (the report's ``plot_df``).

    ``x`` is seconds since the Unix epoch (a day's midnight, UTC) or, in figure 6, Mbit/s (6d: without a unit); ``y`` is
    in the unit of the figure's axis. Figure 6 has a row for each bin: its left edge as published, its centre (of the
    logarithm) as corrected. Rows that cannot be drawn are there with null.
    """
    definitions = results.parameters.definitions
    months = results.tables["discard_bins"].filter(pl.col("month") != ALL)
    given = {
        **results.tables,
        "contact_days": _with_zeros(results.tables["contact_days"], definitions),
        "discard_months": months.with_columns(day=pl.col("month") + "-01"),
    }
    found = tables.frame(specs(definitions), given)
    return found.select(pl.col(name).cast(kind) for name, kind in contract.PLOT.items())


def facets(results: Results) -> dict[str, Figure]:
    """Every figure laid out, those without any row too."""
    frame = plot_frame(results)
    made = {}
    for name, spec in specs(results.parameters.definitions).items():
        own = frame.filter(pl.col("figure") == name)
        made[name] = _with_changes(building.build(name, spec, own, _words(name, spec, results)), results.noted)
    return made


def _with_changes(figure: Figure, noted: Sequence[Noted]) -> Figure:
    """A figure over time with a vertical line for each change of its panels' sites, and a note of what it was."""
    shown: dict[Noted, None] = {}
    panels = []
    for panel in figure.panels:
        low, high = panel.x.ends or (-math.inf, math.inf)
        own = {
            one: _midnight(one)
            for one in noted
            if panel.x.scale == "time" and low <= _midnight(one) <= high and _is_of(one, panel.name)
        }
        lines = (Layer("", _CHANGE, "rule", pl.DataFrame({"x": [x]}), helper=True) for x in dict.fromkeys(own.values()))
        panels.append(replace(panel, layers=(*lines, *panel.layers)))
        shown |= dict.fromkeys(own)
    if not shown:
        return figure
    words = "; ".join(_said(one) for one in sorted(shown))
    return replace(figure, panels=tuple(panels), notes=(*figure.notes, f"Vertical lines: {printable(words)}."))


def _midnight(one: Noted) -> float:
    return datetime(one.day.year, one.day.month, one.day.day, tzinfo=UTC).timestamp()


def _is_of(one: Noted, panel: str) -> bool:
    """True if a change is of a site of a panel: of one site, or of a metro, the letters of a site's name."""
    return not one.site or panel in (one.site, one.site.rstrip("0123456789"))


def _said(one: Noted) -> str:
    return " ".join(part for part in (str(one.day), one.text, f"({one.site})" if one.site else "") if part)


def charts(results: Results, width: int = 900) -> dict[str, alt.VConcatChart]:
    """Every figure as an Altair chart of so many pixels."""
    from whydrop.show.vega.charts import chart

    return {name: chart(one, width) for name, one in facets(results).items()}


def rows(figure: Figure) -> int:
    """How many rows a figure is made of, those that cannot be drawn included."""
    assert isinstance(figure.left_out, Counts)
    return figure.left_out.rows


def _with_zeros(contact_days: pl.DataFrame, definitions: str) -> pl.DataFrame:
    """Each day's tests in every class: a class without any is 0, which is seen, and not a row that is missing."""
    classes = pl.DataFrame({"class": ["zero", "non-zero", "unknown"][: 3 if definitions == "corrected" else 2]})
    days = contact_days.select("metro", "site", "day").unique(maintain_order=True)
    every = days.join(classes, how="cross", maintain_order="left_right")
    on = ["metro", "site", "day", "class"]
    return every.join(contact_days, on=on, how="left", nulls_equal=True, maintain_order="left").with_columns(
        pl.col("tests").fill_null(0)
    )


def _words(name: str, spec: FacetSpec, results: Results) -> building.Words:
    """The words at a figure beside its numbers: which store, which tests' p-values, which sites."""
    sites = _sites(results.tables)
    parameters = results.parameters
    if name in _STATISTICS:
        return building.Words(_periods(results), labels=_p_values(results, _STATISTICS[name]))
    if name in _DESCRIBED:
        return building.Words(_periods(results), labels=_medians(results, *_DESCRIBED[name]))
    if name == "contact_days":
        return building.Words(f"{parameters.days.first} to {parameters.days.last}")
    if spec.look in ("parts", "overlay"):
        # Discards and retransmissions of a site stand beside each other in the legend.
        whats = DIRECTIONS if name == "discard_bins" else ("discards", "retransmissions")
        sites = {metro: [f"{site} {what}" for site in own for what in whats] for metro, own in sites.items()}
    # Every metro that was asked for has a panel: an empty one says that nothing was there.
    return building.Words(f"{parameters.days.first} to {parameters.days.last}", panels=parameters.metros, groups=sites)


def _sites(given: Mapping[str, pl.DataFrame]) -> dict[str, list[str]]:
    """The sites of each metro in any table, so that a site looks the same in figures 1 to 5."""
    names = ("utilisation", "download_speed", "discard_ratio", "retransmission_ratio", "discard_bins")
    parts = [given[name].select("metro", "site").drop_nulls() for name in names]
    found: dict[str, list[str]] = {}
    for metro, site in pl.concat(parts).unique().iter_rows():
        found.setdefault(metro, []).append(site)
    return {metro: sorted(own, key=labels.natural) for metro, own in found.items()}


def _periods(results: Results) -> str:
    change = results.parameters.change
    if change is None:
        return "The parameters name no change of configuration."
    before, after = change.before, change.after
    return f"before: {before.first} to {before.last}; after: {after.first} to {after.last}; both ends included"


def _p_values(results: Results, statistic: str) -> dict[tuple[str, str], str]:
    """The legend of each site's panel: how many clients, and the p-value of the Kolmogorov–Smirnov test."""
    rows = results.tables["comparisons"].filter(pl.col("statistic") == statistic)
    labels = {}
    for row in rows.iter_rows(named=True):
        p = p_equals(row["ks_p"])
        if not results.parameters.is_published:
            p += f", adjusted {quantities.p_value(row['adjusted_p'])}"
        labels[row["site"], "before"] = f"before (n = {quantities.count(row['before'])})"
        labels[row["site"], "after"] = f"after (n = {quantities.count(row['after'])}, {p})"
    return labels


def _medians(results: Results, column: str, said: Callable[[float], str]) -> dict[tuple[str, str], str]:
    """The legend of each site's panel: how many clients, and their median."""
    return {
        (
            row["site"],
            row["period"],
        ): f"{row['period']} (n = {quantities.count(row['clients'])}, median {said(row[column])})"
        for row in results.tables["client_spread"].drop_nulls(column).iter_rows(named=True)
    }
