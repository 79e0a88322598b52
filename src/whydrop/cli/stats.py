"""``whydrop stats``: tables of statistics of recordings and their series."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.recordings import all_opened

if TYPE_CHECKING:
    from rich.console import Console

    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop stats rrul.recording
  whydrop stats a.recording b.flent.gz --series 'Ping*'
  whydrop stats *.recording --format csv > statistics.csv
"""

# Columns of the table of series; the CSV has all of what is known.
SHOWN = ("count", "mean", "median", "p5", "p95", "p99", "minimum", "maximum", "std")
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
    from whydrop.show import labels

    try:
        opened = all_opened(recordings)
        named = list(zip(labels.of_recordings(opened), opened, strict=True))
        metrics = [_metrics(label, one) for label, one in named] if not patterns else []
        series = [row for label, one in named for row in _series(label, one, patterns or ("*",), whole=whole)]
        if not series and not any(metrics):
            what = f" that match {' '.join(patterns)}" if patterns else ""
            raise ValueError(f"{recordings[0]}: no series with samples{what}")
        _print([row for rows in metrics for row in rows], series, [label for label, _ in named],
               "json" if as_json else kind, whole)  # fmt: skip
    except (RecordingError, OSError, ValueError) as reason:
        sys.exit(ending.status(reason))


Rows = list[dict[str, Any]]


def _metrics(label: str, recording: Recording) -> Rows:
    from whydrop.recording.metrics.definitions import measure, responsiveness

    rpm = responsiveness(recording)
    responsive: dict[str, Any] = {
        "recording": label,
        "metric": "responsiveness",
        "name": "Responsiveness under load, round trips a minute",
        "units": "RPM",
        "value": rpm,
        "note": "of probes beside the load (tcp_f of draft-ietf-ippm-responsiveness); no requests inside of it",
    }
    return (
        [
            {
                "recording": label,
                "metric": key,
                "name": found.metric.name,
                "units": found.metric.units,
                "value": found.value if math.isfinite(found.value) else None,
                "note": found.basis,
            }
            for key, found in measure(recording).items()
        ]
        + ([responsive] if rpm is not None else [])
        + _shares(label, recording)
    )


def _shares(label: str, recording: Recording) -> Rows:
    """Each flow's share of its direction's goodput; not known where a flow yielded nothing."""
    from whydrop.recording.metrics import together
    from whydrop.recording.statistics.describing import finite

    rows: Rows = []
    for direction in together.DIRECTIONS:
        flows = together.members(recording, direction)
        means = {}
        for name in flows.present:
            values = finite(recording.samples(name)["value"].to_numpy())
            means[name] = float(sum(values) / len(values))
        total = sum(means.values())
        if len(means) + len(flows.absent) > 1 and total > 0:
            rows += [
                {
                    "recording": label,
                    "metric": f"share-{direction}:{name}",
                    "name": f"Share of the goodput {direction}: {name}",
                    "units": "%",
                    "value": None if flows.absent else 100 * mean / total,
                    "note": f"not known; {flows.words_of_absent()}" if flows.absent else flows.words(),
                }
                for name, mean in means.items()
            ]
    return rows


def _series(label: str, recording: Recording, patterns: tuple[str, ...], *, whole: bool) -> Rows:
    from dataclasses import asdict

    import polars as pl

    from whydrop.recording.metrics.load import window
    from whydrop.recording.statistics.describing import describe

    load = None if whole else window(recording)
    rows: Rows = []
    for series in recording.series(*patterns):
        samples = recording.samples(series.name)
        if load is not None:
            samples = samples.filter((pl.col("time_ns") >= load.start_ns) & (pl.col("time_ns") <= load.end_ns))
        found = describe(samples["value"].to_numpy())
        if found is not None:
            rows.append({"recording": label, "series": series.name, "units": series.units, **asdict(found)})
    return rows


def _print(metrics: Rows, series: Rows, labels: list[str], kind: str, whole: bool) -> None:
    if kind == "json":
        import json

        from whydrop.recording import document

        shown = document.plain({"schema": 1, "metrics": metrics, "series": series})
        ending.write_document(json.dumps(shown, ensure_ascii=False, allow_nan=False))
    elif kind == "csv":
        _print_csv(metrics, series)
    else:
        _print_text(metrics, series, labels, whole)


def _print_csv(metrics: Rows, series: Rows) -> None:
    """Long form: what is told of recordings first, with its name for a series and only a mean."""
    import csv

    columns = ["recording", "series", "units", "count", "mean", "median", "minimum", "maximum", "std", "variance"]
    columns += ["p5", "p25", "p75", "p95", "p99", "mean_span", "note"]
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in metrics:
        named = {"recording": row["recording"], "series": row["metric"], "units": row["units"]}
        writer.writerow({**named, "mean": row["value"], "note": row["note"]})
    writer.writerows(series)


def _print_text(metrics: Rows, series: Rows, labels: list[str], whole: bool) -> None:
    from whydrop.show import terminal

    terminal.print_by(
        lambda console: _print_tables(metrics, series, labels, whole, console),
        terminal.console_for_stdout(terminal.WIDE),
    )


def _print_tables(metrics: Rows, series: Rows, labels: list[str], whole: bool, console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from whydrop.cli.comparing import number
    from whydrop.show.terminal import print_table

    if metrics:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("Under load")
        for label in labels:
            table.add_column(ending.printable(label), justify="right")
        values = {(row["recording"], row["metric"]): row for row in metrics}
        for metric in dict.fromkeys(row["metric"] for row in metrics):
            first = next(row for row in metrics if row["metric"] == metric)
            head = f"{first['name']} ({first['units']})" if first["units"] else first["name"]
            found = [values.get((label, metric), {"value": None})["value"] for label in labels]
            table.add_row(ending.printable(head), *(number(math.nan if value is None else value) for value in found))
        print_table(console, table)
        for note in _notes(metrics, labels):
            console.print(Text(ending.printable(note), style="dim"))
    for label in labels:
        own = [row for row in series if row["recording"] == label]
        if not own:
            continue
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        when = "whole recording" if whole else "under load"
        table.add_column(ending.printable(f"{label}, {when}" if len(labels) > 1 else when.capitalize()))
        table.add_column("units", no_wrap=True)
        for column in SHOWN:
            table.add_column(HEADS.get(column, column), justify="right", no_wrap=True)
        for row in own:
            cells = [str(row["count"]), *(number(row[column]) for column in SHOWN[1:])]
            table.add_row(ending.printable(row["series"]), row["units"], *cells)
        print_table(console, table)


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
