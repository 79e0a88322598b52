"""``whydrop stats``: tables of statistics of recordings and their series."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.show.document import Document, Table

EXAMPLES = """
\b
Examples:
  whydrop stats rrul.recording
  whydrop stats a.recording b.flent.gz --series 'Ping*'
  whydrop stats *.recording --format csv > statistics.csv
"""

# Columns of the table of series; the CSV has all of what is known.
SHOWN = ("count", "mean", "median", "p5", "p95", "p99", "minimum", "maximum", "std")
# In this order columns stay where the width is short.
RANKS = ("mean", "median", "p95", "p99", "maximum", "minimum", "p5", "std", "count")
HEADS = {"count": "samples", "minimum": "min", "maximum": "max", "std": "std. dev."}


@click.command("stats", cls=Command, epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--series", "patterns", multiple=True, metavar="PATTERN",
              help="Series by name, such as 'Ping*'; '*::*' for all quantities. Repeatable.")  # fmt: skip
@click.option("--whole", is_flag=True, help="Of the whole recording.  [default: of the time under load]")
@options.text_or_csv
@options.as_json
def command(recordings: tuple[Path, ...], patterns: tuple[str, ...], whole: bool, kind: str, as_json: bool) -> None:
    """Print statistics of recordings and of each series under load (docs/statistics.md)."""
    from whydrop.recording.errors import RecordingError

    try:
        found = whydrop.stats(*recordings, series=patterns, whole=whole)
        metrics, series = found.metrics.rows(named=True), found.series.rows(named=True)
        if not series and not metrics:
            what = f" that match {' '.join(patterns)}" if patterns else ""
            raise ValueError(f"{recordings[0]}: no series with samples{what}")
        _print(metrics, series, list(found.recordings), "json" if as_json else kind, whole)
    except (RecordingError, OSError, ValueError) as reason:
        sys.exit(ending.status(reason))


Rows = list[dict[str, Any]]


def _print(metrics: Rows, series: Rows, labels: list[str], kind: str, whole: bool) -> None:
    if kind == "json":
        import json

        from whydrop.recording import document

        shown = document.plain({"schema": 1, "metrics": metrics, "series": series})
        ending.write_document(json.dumps(shown, ensure_ascii=False, allow_nan=False))
    elif kind == "csv":
        _print_csv(metrics, series)
    else:
        from whydrop.show import terminal

        terminal.print_document(_text(metrics, series, labels, whole), widest=terminal.WIDE)


def _print_csv(metrics: Rows, series: Rows) -> None:
    """Print one row for each metric and series; a metric has its name as series, and only a mean."""
    import csv

    columns = ["recording", "series", "units", "count", "mean", "median", "minimum", "maximum", "std", "variance"]
    columns += ["p5", "p25", "p75", "p95", "p99", "mean_span", "note"]
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in metrics:
        named = {"recording": row["recording"], "series": row["metric"], "units": row["units"]}
        writer.writerow({**named, "mean": row["value"], "note": row["note"]})
    writer.writerows(series)


def _text(metrics: Rows, series: Rows, labels: list[str], whole: bool) -> Document:
    from whydrop.show.document import Document, parts

    when = "whole recording" if whole else "under load"
    shown = [_metrics_table(metrics, labels)] if metrics else []
    for label in labels:
        own = [row for row in series if row["recording"] == label]
        shown += [_series_table(f"{label}, {when}" if len(labels) > 1 else when.capitalize(), own)] if own else []
    return Document("Statistics", parts(*shown))


def _metrics_table(metrics: Rows, labels: list[str]) -> Table:
    from whydrop.cli.comparing import number
    from whydrop.show.document import Column, Table

    values = {(row["recording"], row["metric"]): row["value"] for row in metrics}
    first = {row["metric"]: row for row in reversed(metrics)}
    rows = []
    for key in dict.fromkeys(row["metric"] for row in metrics):
        name, units = first[key]["name"], first[key]["units"]
        found = [values.get((label, key)) for label in labels]
        cells = (number(math.nan if value is None else value) for value in found)
        rows.append((f"{name} ({units})" if units else name, *cells))
    columns = (Column("Metric"), *(Column(label, number=True) for label in labels))
    return Table("Under load", columns, tuple(rows), notes=tuple(_notes(metrics, labels)))


def _series_table(title: str, series: Rows) -> Table:
    from whydrop.cli.comparing import number
    from whydrop.show.document import Column, Table

    ranks = {
        column: rank for rank, column in enumerate(("median", "p95", "p99", "maximum", "minimum", "p5", "std", "count"))
    }
    columns = (
        Column("Series"),
        *(Column(HEADS.get(one, one), True, ranks.get(one, 0)) for one in SHOWN),
        Column("Unit"),
    )
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
