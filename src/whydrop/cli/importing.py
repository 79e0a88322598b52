"""``whydrop import``: files of other tools as recordings."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from whydrop.cli import ending
from whydrop.cli.recordings import ARGUMENT, opened, reading

EXAMPLES = """
\b
Examples:
  whydrop import rrul-2017-05-30T174230.flent.gz
  whydrop import results/*.flent.gz --output recordings
  whydrop import iperf3.json --title "with fq"
  whydrop import 20160512T17:00:00-to-20160512T18:00:00-switch.json.gz
"""


@click.command(
    "import",
    epilog=EXAMPLES,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=ARGUMENT)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="Where the recordings' folders are made.  [default: here]",
)
@click.option("--title", help="For the recordings, instead of the files' own.")
def command(files: tuple[Path, ...], output: Path, title: str | None) -> None:
    """Make recordings of files of Flent (every version), netperf-wrapper, iperf3 (--json) and DISCO (switches).

    Series keep their names, and metadata are kept whole. Files need not be imported to be shown, plotted or
    compared: every command that reads a recording also reads these files.

    Exits with 0 when all files were imported, and 1 when one could not be; the others are imported all the same.
    """
    from whydrop.recording.errors import RecordingError

    failed = False
    with reading():
        for path in files:
            try:
                folder, notes = _import(path, output, title)
            except (RecordingError, OSError) as reason:
                failed = bool(ending.status(reason))
                continue
            print(ending.printable(str(folder)), flush=True)
            for note in notes:
                print(f"whydrop: {ending.printable(f'{path}: {note}')}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def _import(path: Path, output: Path, title: str | None) -> tuple[Path, list[str]]:
    from whydrop.recording.naming import folder_for

    found = opened(path)
    if title is not None:
        found.metadata["title"] = title
    metadata = found.metadata
    folder = folder_for(output, str(metadata["name"]), found.started_ns, str(metadata["title"] or ""))
    return found.save(folder), found.notes
