"""``whydrop report``: a recording as one page for a browser."""

from __future__ import annotations

import re
from pathlib import Path

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.explain import explained

EXAMPLES = """
\b
Examples:
  whydrop report rrul.recording
  whydrop report rrul.flent.gz -o rrul.html
"""


@click.command("report", cls=Command, epilog=EXAMPLES)
@options.recordings
@options.output_file("Page to write.  [default: NAME.html]")
def command(recordings: tuple[Path, ...], output: Path | None) -> None:
    """Write one self-contained HTML page of each recording: verdicts, plots, statistics, metadata."""
    if output is not None:
        if len(recordings) > 1:
            raise click.UsageError("--output names one page: give one recording, or leave it out.")
        options.folder_exists("--output", output)
    for path in recordings:
        page = explained([path], tables=True).write_report(output or _page(path))
        print(f"Report: {ending.printable(str(page))}")


def _page(recording: Path) -> Path:
    name = re.sub(r"\.(recording|flent|flnt|json)$", "", re.sub(r"\.(gz|bz2)$", "", recording.name))
    return Path(f"{name or 'recording'}.html")
