"""``whydrop compare``: differences between recordings, in metadata and in metrics."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.cli.progress import working
from whydrop.errors import Error
from whydrop.text import csv

EXAMPLES = """
\b
Examples:
  whydrop compare pfifo.recording fq_codel.recording
  whydrop compare *.recording --group-by title
  whydrop compare before.flent.gz after.flent.gz --json
"""


@click.command("compare", cls=Command, epilog=EXAMPLES)
@options.recordings
@click.option("--group-by", "keys", multiple=True, metavar="KEY",
              help="Group by a key of the metadata, by title, name or batch. Repeatable.")  # fmt: skip
@click.option("--metadata/--no-metadata", "with_metadata", default=True, help="Also compare the metadata.")
@click.option("--seed", type=quantities.Whole(0), metavar="N", help="Seed of the resampling.  [default: a fixed one]")
@options.text_or_csv
@options.as_json
def command(
    recordings: tuple[Path, ...], keys: tuple[str, ...], kind: str, seed: int | None, with_metadata: bool, as_json: bool
) -> None:
    """Compare the metadata and metrics of recordings, or of groups of them, with those of the first."""
    from whydrop.api.recordings import compare, opened
    from whydrop.recording.comparing.grouping import CannotGroup
    from whydrop.show import comparison as comparing
    from whydrop.show import terminal

    found = opened(recordings)
    if len(found) < 2:
        raise click.UsageError("Give two recordings or more; each is compared with the first.")
    try:
        with working(f"Comparing {len(found)} recordings"):
            compared = compare(*found, group_by=keys, seed=seed)
    except CannotGroup as reason:
        raise click.UsageError(f"--group-by: {ending.printable(str(reason))}.") from None
    if as_json:
        ending.write_json(comparing.as_json(compared))
    elif kind == "csv":
        sys.stdout.write(_csv(comparing.rows_of(compared)))
    else:
        ending.show(comparing.text(compared, with_metadata=with_metadata), widest=terminal.WIDE)
    if not compared.rows:
        raise Error(f"{', '.join(side.label for side in compared.sides)}: no common metric, so nothing was compared")


def _csv(rows: list[dict[str, Any]]) -> str:
    import polars as pl

    return csv.text(pl.DataFrame(rows, infer_schema_length=None))
