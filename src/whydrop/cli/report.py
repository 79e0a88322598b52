"""``whydrop report``: a recording as one page for a browser."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from whydrop.cli import ending, usage
from whydrop.cli.explain import explained, problems
from whydrop.cli.recordings import ARGUMENT

EXAMPLES = """
\b
Examples:
  whydrop report rrul.recording
  whydrop report rrul.flent.gz -o rrul.html
"""


@click.command("report", epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=ARGUMENT)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The page.  [default: NAME.html in the current folder]")  # fmt: skip
def command(recordings: tuple[Path, ...], output: Path | None) -> None:
    """Write one self-contained HTML page of each recording; it requests nothing from any network.

    RECORDING is a folder that `whydrop run` wrote, or a file of Flent, netperf-wrapper or iperf3. The page has the
    verdicts of `whydrop explain RECORDING`, the plots of the test, in which one can zoom, statistics, and what is
    known of the test and its hosts. Captures in the folder of a recording are explained with it.
    """
    if output is not None:
        if len(recordings) > 1:
            raise click.UsageError("--output names one page: give one recording, or leave it out.")
        usage.folder_exists("--output", output)
    for path in recordings:
        try:
            page = explained([path], tables=True).write_report(output or _page(path))
        except problems() as reason:
            sys.exit(ending.status(reason))
        print(f"Report: {ending.printable(str(page))}")


def _page(recording: Path) -> Path:
    name = re.sub(r"\.(recording|flent|flnt|json)$", "", re.sub(r"\.(gz|bz2)$", "", recording.name))
    return Path(f"{name or 'recording'}.html")
