"""``whydrop export``: a recording as a file of another tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options, usage
from whydrop.cli.command import Command
from whydrop.cli.recordings import ARGUMENT, opened, reading

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

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
@click.argument("recording", type=ARGUMENT)
@click.option("--format", "kind", type=click.Choice(FORMATS), required=True, metavar="FORMAT",
              help=f"{', '.join(FORMATS)} (a copy, for --redact).  [required]")  # fmt: skip
@click.option("-o", "--output", type=options.ANY_PATH, metavar="FILE",
              help="File to write; - is standard output.  [default: beside the recording]")  # fmt: skip
@click.option("--raw", is_flag=True, help="CSV with one line for each sample.  [default: a grid of equal steps]")
@click.option("--redact", is_flag=True, help="Replace names and addresses of hosts by pseudonyms, hide secrets.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(recording: Path, kind: str, output: Path | None, raw: bool, redact: bool, force: bool) -> None:
    """Write a recording as a file of Flent, as CSV or as JSON (docs/recordings.md)."""
    if raw and kind != "csv":
        raise click.UsageError("--raw goes with --format csv.")
    if output is not None and str(output) != "-":
        usage.folder_exists("--output", output)
    if kind == "recording" and str(output) == "-":
        raise click.UsageError("--format recording makes a folder: name it with --output.")
    with reading():
        found = opened(recording)
        place = output or _beside(recording, found, kind)
        if str(place) != "-" and place.exists() and not force:
            raise click.UsageError(f"{ending.printable(str(place))!r} exists: --force overwrites it.")
        if redact:
            found = _redacted(found)
        _write(found, kind, place, raw)


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
    from whydrop.recording.recording import Recording
    from whydrop.recording.redaction import redacted

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
