"""``whydrop export``: a recording as a file of another tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.api.recordings import Format

FORMATS = ("flent", "csv", "json", "recording")

EXAMPLES = """
\b
Examples:
  whydrop export rrul.recording --format flent
  whydrop export rrul.recording --format csv -o rrul.csv
  whydrop export rrul.recording --format csv --raw -o -
  whydrop export rrul.recording --format flent --redact
"""


@click.command("export", cls=Command, epilog=EXAMPLES)
@options.recording
@click.option("-f", "--format", "kind", type=click.Choice(FORMATS), required=True, metavar="FORMAT",
              help=f"{', '.join(FORMATS)} (a copy, for --redact).")  # fmt: skip
@click.option("-o", "--output", type=options.ANY_PATH, metavar="FILE",
              help="File to write; - is standard output.  [default: beside the recording]")  # fmt: skip
@click.option("--raw", is_flag=True, help="CSV with one line for each sample.  [default: a grid of equal steps]")
@click.option("--redact", is_flag=True, help="Replace names and addresses of hosts by pseudonyms, hide secrets.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(recording: Path, kind: Format, output: Path | None, raw: bool, redact: bool, force: bool) -> None:
    """Write a recording as a file of Flent, as CSV or as JSON (docs/recordings.md)."""
    to_stdout = str(output) == "-"
    if raw and kind != "csv":
        raise click.UsageError("--raw goes with --format csv.")
    if kind == "recording" and to_stdout:
        raise click.UsageError("--format recording makes a folder: name it with --output.")
    if to_stdout:
        _print(recording, kind, raw, redact)
        return
    if output is not None:
        options.folder_exists("--output", output)
    try:
        written = whydrop.export(recording, kind, output, raw=raw, redact=redact, overwrite=force)
    except FileExistsError as reason:
        said = str(reason).replace("overwrite=True", "--force")
        raise click.UsageError(f"{ending.printable(said)}.") from None
    print(ending.printable(str(written)))


def _print(recording: Path, kind: Format, raw: bool, redact: bool) -> None:
    from whydrop.api.recordings import opened
    from whydrop.formats import exporting

    (found,) = opened([recording])
    sys.stdout.buffer.write(exporting.content(exporting.redacted(found) if redact else found, kind, raw=raw))
    sys.stdout.buffer.flush()
