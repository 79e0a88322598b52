"""``whydrop compare``: differences between recordings, in metadata and in metrics."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.cli.progress import working
from whydrop.cli.recordings import all_opened

if TYPE_CHECKING:
    from whydrop.recording.comparing.comparison import Comparison
    from whydrop.recording.comparing.grouping import Side
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop compare pfifo.recording fq_codel.recording
  whydrop compare *.recording --group-by title
  whydrop compare before.flent.gz after.flent.gz --json
"""


@click.command("compare", cls=Command, epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--group-by", "keys", multiple=True, metavar="KEY",
              help="Group by a key of the metadata, title, name or batch. Repeatable.")  # fmt: skip
@click.option("--metadata/--no-metadata", "with_metadata", default=True, help="Also compare the metadata.")
@click.option("--seed", type=quantities.Whole(0), metavar="N", help="Seed of the resampling.  [default: a fixed one]")
@options.text_or_csv
@options.as_json
def command(
    recordings: tuple[Path, ...], keys: tuple[str, ...], kind: str, seed: int | None, with_metadata: bool, as_json: bool
) -> None:
    """Compare recordings, or groups of them, with the first: metadata, and each metric with its difference."""
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
        _print(found, "json" if as_json else kind, with_metadata)
        if not found.rows:
            raise ValueError(f"{comparing.names(found)}: no common metric, so nothing was compared")
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
        from whydrop.show import terminal

        terminal.print_document(comparing.text(found, with_metadata=with_metadata), widest=terminal.WIDE)
    sys.stdout.flush()
