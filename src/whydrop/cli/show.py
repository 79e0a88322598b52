"""``whydrop show``: a recording in figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop show rrul.recording
  whydrop show before.recording after.recording
  whydrop show rrul.flent.gz --all
  whydrop show rrul.recording --json | jq .induced_latency
"""


@click.command("show", cls=Command, epilog=EXAMPLES)
@options.recordings
@click.option("--all", "every", is_flag=True, help="Show every series: also TCP statistics, one-way delays, counters.")
@click.option("-f", "--format", "layout", type=click.Choice(["text", "flent"]), default="text", metavar="FORMAT",
              show_default=True, help="text, or flent: the table of `flent -f summary`.")  # fmt: skip
@options.as_json
def command(recordings: tuple[Path, ...], every: bool, layout: str, as_json: bool) -> None:
    """Show the rates, latency and loss in recordings of whydrop, Flent, netperf-wrapper or iperf3."""
    from whydrop.api.recordings import opened, summary

    # One after another: what was read is shown, although a later one cannot be read.
    found = (one for path in recordings for one in opened([path]))
    if as_json:
        documents = list(map(summary, found))
        shown = documents[0] if len(documents) == 1 else documents
        ending.write_json(shown, indent=2 if sys.stdout.isatty() else None)
        return
    for number, recording in enumerate(found):
        if number:
            print()
        print_summary(recording, every=every, layout=layout)


def print_summary(recording: Recording, *, every: bool = False, layout: str = "text") -> None:
    """Print what a recording measured."""
    from whydrop.recording.metrics.summary import Summary
    from whydrop.show import flent_summary, recordings

    summary = Summary(recording)
    if layout == "flent":
        print(flent_summary.flent_layout(summary))
    else:
        ending.show(recordings.document(summary, every=every))
