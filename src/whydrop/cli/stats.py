"""``whydrop stats``: tables of statistics of recordings and their series."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.errors import Error
from whydrop.text import csv

if TYPE_CHECKING:
    from whydrop.api.recordings import Statistics
    from whydrop.show.document import Document, Table

EXAMPLES = """
\b
Examples:
  whydrop stats rrul.recording
  whydrop stats a.recording b.flent.gz --series 'Ping*'
  whydrop stats *.recording --format csv > statistics.csv
"""

# Columns of the table of series, and the order in which they are left out where the width is short, the last first.
SHOWN = ("count", "mean", "median", "p5", "p95", "p99", "minimum", "maximum", "std")
RANKS = ("mean", "median", "p95", "p99", "maximum", "minimum", "p5", "std", "count")
HEADS = {"count": "samples", "minimum": "min", "maximum": "max", "std": "std. dev."}
# The CSV has all of what is known.
COLUMNS = ("recording", "series", "units", "count", "mean", "median", "minimum", "maximum", "std", "variance",
           "p5", "p25", "p75", "p95", "p99", "mean_span", "note")  # fmt: skip

Rows = list[dict[str, Any]]


@click.command("stats", cls=Command, epilog=EXAMPLES)
@options.recordings
@click.option("--series", "patterns", multiple=True, metavar="PATTERN",
              help="Show series that match, such as 'Ping*'; '*::*' shows all. Repeatable.")  # fmt: skip
@click.option("--whole", is_flag=True, help="Use the whole recording.  [default: the time under load]")
@options.text_or_csv
@options.as_json
def command(recordings: tuple[Path, ...], patterns: tuple[str, ...], whole: bool, kind: str, as_json: bool) -> None:
    """Print statistics of recordings and of each series under load (docs/statistics.md)."""
    found = whydrop.stats(*recordings, series=patterns, whole=whole)
    if found.series.is_empty() and found.metrics.is_empty():
        what = f" that match {' '.join(patterns)}" if patterns else ""
        raise Error(f"{recordings[0]}: no series with samples{what}")
    if as_json:
        from whydrop.recording.document import plain

        ending.write_json(plain({"schema": 1, "metrics": found.metrics.to_dicts(), "series": found.series.to_dicts()}))
    elif kind == "csv":
        sys.stdout.write(_csv(found))
    else:
        from whydrop.show import terminal

        ending.show(document(found, whole=whole), widest=terminal.WIDE)


def _csv(found: Statistics) -> str:
    """One row for each metric and series; a metric has its name as series, and only a mean."""
    import polars as pl

    metrics = found.metrics.select("recording", "units", "note", series="metric", mean="value")
    empty = pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.Null))
    return csv.text(pl.concat([empty, metrics, found.series], how="diagonal_relaxed").select(COLUMNS))


def document(found: Statistics, *, whole: bool) -> Document:
    """Statistics for people: the metrics of all recordings, then the series of each."""
    from whydrop.show.document import Document, parts

    when = "whole recording" if whole else "under load"
    labels, metrics, series = list(found.recordings), found.metrics.to_dicts(), found.series.to_dicts()
    shown = [_metrics_table(metrics, labels)] if metrics else []
    for label in labels:
        own = [row for row in series if row["recording"] == label]
        shown += [_series_table(f"{label}, {when}" if len(labels) > 1 else when.capitalize(), own)] if own else []
    return Document("Statistics", parts(*shown))


def _metrics_table(metrics: Rows, labels: list[str]) -> Table:
    from whydrop.show.comparison import number
    from whydrop.show.document import Column, Table, known

    values = {(row["recording"], row["metric"]): row["value"] for row in metrics}
    first = {row["metric"]: row for row in reversed(metrics)}
    rows = []
    for key in dict.fromkeys(row["metric"] for row in metrics):
        name, units = first[key]["name"], first[key]["units"]
        cells = (known(values.get((label, key)), number) for label in labels)
        rows.append((f"{name} ({units})" if units else name, *cells))
    columns = (Column("Metric"), *(Column(label, number=True) for label in labels))
    return Table("Under load", columns, tuple(rows), notes=tuple(_notes(metrics, labels)))


def _series_table(title: str, series: Rows) -> Table:
    from whydrop.show.comparison import number
    from whydrop.show.document import Column, Table

    statistics = (Column(HEADS.get(one, one), True, RANKS.index(one)) for one in SHOWN)
    columns = (Column("Series"), *statistics, Column("Unit"))
    rows = tuple(
        (row["series"], str(row["count"]), *(number(row[one]) for one in SHOWN[1:]), row["units"]) for row in series
    )
    return Table(title, columns, rows)


def _notes(metrics: Rows, labels: list[str]) -> list[str]:
    """The notes of metrics, each once, with the metrics and the recordings that it applies to."""
    said: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in metrics:
        # What is said of shares is said of their sum already.
        if row["note"] and not row["metric"].startswith("share-"):
            names, recordings = said.setdefault(row["note"], ({}, {}))
            names[row["name"]] = recordings[row["recording"]] = None
    lines = []
    for note, (names, recordings) in said.items():
        of = f" ({', '.join(recordings)})" if len(recordings) < len(labels) else ""
        lines.append(f"{', '.join(names)}{of}: {note}.")
    return lines
