"""``whydrop export``: a recording as a file of another tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, usage
from whydrop.cli.recordings import ARGUMENT, opened, reading

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

FORMATS = ("flent", "csv", "json", "recording")

EXAMPLES = """
\b
Examples:
  whydrop export rrul.recording --to flent
  whydrop export rrul.recording --to csv --output rrul.csv
  whydrop export rrul.recording --to csv --raw --output - | head
  whydrop export rrul.recording --to flent --redact -o to-pass-on.flent.gz
  whydrop export rrul.recording --to recording --redact -o redacted.recording
"""


@click.command(
    "export",
    epilog=EXAMPLES,
)
@click.argument("recording", type=ARGUMENT)
@click.option("--to", type=click.Choice(FORMATS), required=True, help="The format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file; - for standard output.  [default: beside the recording, under its name]",
)
@click.option("--raw", is_flag=True, help="With --to csv: one line a sample, instead of a grid of equal steps.")
@click.option("--redact", is_flag=True, help="Replace names and addresses of hosts by pseudonyms, and hide secrets.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(recording: Path, to: str, output: Path | None, raw: bool, redact: bool, force: bool) -> None:
    """Write a recording as a file of Flent (version 4, for Flent 1.9 and newer), as CSV or as JSON.

    Flent opens only tests that it knows: a recording of another goes under the name of one of its tests that measures
    alike. CSV has a line for each step and a column for each series; --raw a line for each sample. The JSON document
    is described in docs/recordings.md. --to recording makes a copy, which makes sense with --redact.
    """
    if raw and to != "csv":
        raise click.UsageError("--raw goes with --to csv.")
    if output is not None and str(output) != "-":
        usage.folder_exists("--output", output)
    if to == "recording" and str(output) == "-":
        raise click.UsageError("--to recording makes a folder: name it with --output.")
    with reading():
        found = opened(recording)
        place = output or _beside(recording, found, to)
        if str(place) != "-" and place.exists() and not force:
            raise click.UsageError(f"{ending.printable(str(place))!r} is there already: --force writes over it.")
        if redact:
            found = _redacted(found)
        _write(found, to, place, raw)


def _beside(path: Path, found: Recording, to: str) -> Path:
    from whydrop.formats.exporting import suffix
    from whydrop.recording.naming import folder_for

    parent = path.absolute().parent
    if to == "recording":
        return folder_for(parent, str(found.metadata["name"]), found.started_ns, str(found.metadata["title"] or ""))
    name = path.name
    for ending_ in (".recording", ".gz", ".bz2", ".flent", ".flnt", ".json"):
        name = name.removesuffix(ending_)
    return parent / f"{name}{suffix(to)}"


def _redacted(found: Recording) -> Recording:
    from whydrop.recording import tables
    from whydrop.recording.metadata.redaction import redacted
    from whydrop.recording.recording import Recording

    frames = [(name, found.table(name)) for name in tables.TABLES]
    metadata, changed = redacted(found.metadata, frames)
    return Recording(found.path, metadata, {name: frame for name, frame in changed.items() if frame.height})


def _write(found: Recording, to: str, place: Path, raw: bool) -> None:
    from whydrop.formats import csv, exporting
    from whydrop.runtime import durable

    if to == "recording":
        print(ending.printable(str(found.save(place))))
        return
    content = csv.raw(found) if raw else exporting.exporter(to)(found)
    if str(place) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    durable.write_bytes(place, content)
    print(ending.printable(str(place)))
