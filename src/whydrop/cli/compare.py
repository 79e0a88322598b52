"""``whydrop compare``: what differs between recordings, in their metadata and in what they measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending
from whydrop.cli.json_option import json_as
from whydrop.cli.recordings import all_opened
from whydrop.cli.working import working

if TYPE_CHECKING:
    from whydrop.recording.comparing.comparison import Comparison
    from whydrop.recording.comparing.grouping import Side
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop compare pfifo.recording fq_codel.recording
  whydrop compare *.recording --group-by batch.variables.qdisc
  whydrop compare before.flent.gz after.flent.gz --json
"""


@click.command("compare", epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--group-by", "keys", multiple=True, metavar="KEY", help="A key of the metadata, title, name, or batch.")
@click.option("--format", "kind", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True)
@json_as("kind")
@click.option("--seed", type=click.IntRange(0), help="Of the resampling; a fixed one by default.")
@click.option("--metadata/--no-metadata", "with_metadata", default=True, help="Also say what differs in the metadata.")
def command(
    recordings: tuple[Path, ...], keys: tuple[str, ...], kind: str, seed: int | None, with_metadata: bool
) -> None:
    """Compare recordings: what differs in their metadata, and each metric with the size of its difference.

    Every recording, or every group of --group-by, is compared with the first one. A difference is *established* where
    chance hardly explains it (family-wise level 5 %, Holm), *too small to matter* where its 95 % interval lies within
    what nobody would notice, *apart* where its error cannot be told but the samples do not overlap, else *not
    resolved*. With at least three recordings in each group whole runs are the
    units; with fewer, blocks of samples within the runs are, and what is said holds for these runs only.
    """
    from whydrop.cli import comparing
    from whydrop.recording.comparing.comparison import compare
    from whydrop.recording.errors import RecordingError
    from whydrop.recording.statistics.resampling import SEED
    from whydrop.show import labels

    try:
        opened = all_opened(recordings)
        if len(opened) < 2:
            raise click.UsageError("Give two recordings or more; each is compared with the first.")
        sides = _sides(opened, labels.of_recordings(opened), keys)
        with working(f"Comparing {len(opened)} recordings"):
            found = compare(sides, SEED if seed is None else seed)
        _print(found, kind, with_metadata)
        if not found.rows:
            raise ValueError(f"{comparing.names(found)}: no metric that both have: nothing could be compared")
    except (RecordingError, OSError, ValueError) as reason:
        sys.exit(ending.status(reason))


def _sides(opened: list[Recording], labels: list[str], keys: tuple[str, ...]) -> list[Side]:
    from whydrop.recording.comparing.grouping import CannotGroup, sides

    try:
        return sides(opened, labels, keys)
    except CannotGroup as reason:
        raise click.UsageError(f"--group-by: {ending.printable(str(reason))}.") from None


def _print(found: Comparison, kind: str, with_metadata: bool) -> None:
    from whydrop.cli import comparing

    if kind == "json":
        ending.write_document(comparing.document(found))
    elif kind == "csv":
        sys.stdout.write(comparing.csv_text(found))
    else:
        comparing.print_text(found, with_metadata=with_metadata)
    sys.stdout.flush()
