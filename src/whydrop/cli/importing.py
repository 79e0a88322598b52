"""``whydrop import``: files of other tools as recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop import rrul.flent.gz
  whydrop import results/*.flent.gz -o recordings
  whydrop import iperf3.json --title "with fq"
"""


@click.command("import", cls=Command, epilog=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--title", help="Title of the recordings.  [default: the files' own]")
@options.output_folder("Folder for the recordings.  [default: here]")
@options.as_json
def command(files: tuple[Path, ...], output: Path, title: str | None, as_json: bool) -> int:
    """Convert files of Flent, iperf3, pScheduler, DISCO, web100, tcp-info, NDT7 and ss to recordings."""
    from whydrop.recording.errors import RecordingError

    failed = 0
    found: list[dict[str, Any]] = []
    for path in files:
        try:
            imported = _import(path, output, title)
        except (RecordingError, OSError) as reason:
            failed = ending.status(reason)
            found.append({"path": str(path), "recording": None, "error": ending.one_line(reason)})
            continue
        for one in imported:
            found.append({"path": str(path), "recording": str(one.path), "notes": one.notes})
            if not as_json:
                print(ending.printable(str(one.path)), flush=True)
            for note in one.notes:
                ending.note(f"{path}: {note}")
    if as_json:
        ending.write_json({"schema": 1, "recordings": found}, indent=1)
    return failed


def _import(path: Path, output: Path, title: str | None) -> list[Recording]:
    """The recordings made of a file, one for each test in it."""
    from whydrop.recording.errors import RecordingError

    try:
        return whydrop.import_file(path, output=output, title=title)
    except RecordingError as reason:
        if _is_for_a_store(path):
            raise RecordingError(
                f"{path}: files of a measurement platform go into a store: whydrop store import STORE {path}"
            ) from None
        raise reason


def _is_for_a_store(path: Path) -> bool:
    """True if a file, or a folder by its first files, is a measurement platform's; captures are for `explain`."""
    from whydrop.formats.archives.chunks import kind_of

    files = [path] if path.is_file() else [one for one in sorted(path.rglob("*"))[:20] if one.is_file()]
    return any(kind_of(one) not in (None, "unknown", "capture", "empty") for one in files)
