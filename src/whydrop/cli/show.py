"""``whydrop show``: a recording in figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.recordings import ARGUMENT, all_opened, reading

EXAMPLES = """
\b
Examples:
  whydrop show rrul.recording
  whydrop show before.recording after.recording
  whydrop show rrul.flent.gz --all
  whydrop show rrul.recording --json | jq .induced_latency
"""


@click.command("show", cls=Command, epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=ARGUMENT)
@click.option("--all", "every", is_flag=True, help="Also TCP statistics, one-way delays and counters: every series.")
@click.option("-f", "--format", "layout", type=click.Choice(["text", "flent"]), default="text", metavar="FORMAT",
              show_default=True, help="text, or flent: the table of `flent -f summary`.")  # fmt: skip
@options.as_json
def command(recordings: tuple[Path, ...], every: bool, layout: str, as_json: bool) -> None:
    """Show what recordings measured: rates, latency, loss (of whydrop, Flent, netperf-wrapper, iperf3)."""
    with reading():
        if as_json:
            documents = [one for path in recordings for one in summary_documents(path)]
            shown = documents[0] if len(documents) == 1 else documents
            ending.write_document(json.dumps(shown, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))
            return
        for number, path in enumerate(recordings):
            if number:
                print()
            print_summary(path, every=every, layout=layout)


def print_summary(path: Path, *, every: bool = False, layout: str = "text") -> None:
    """Print a recording; where a log has several tests, each.

    Raises:
        RecordingError: it cannot be read.
    """
    from whydrop.recording.metrics.summary import Summary
    from whydrop.show import flent_summary, recordings, terminal

    for number, recording in enumerate(all_opened([path])):
        if number:
            print()
        summary = Summary(recording)
        if layout == "flent":
            print(flent_summary.flent_layout(summary))
        else:
            terminal.print_document(recordings.document(summary, every=every))


def summary_document(path: Path) -> dict[str, Any]:
    """A recording's figures as JSON has them; the first of several."""
    return summary_documents(path)[0]


def summary_documents(path: Path) -> list[dict[str, Any]]:
    """A recording's figures as JSON has them (see docs/recordings.md), or those of each test in a log.

    Raises:
        RecordingError: it cannot be read.
    """
    from whydrop.recording import document
    from whydrop.recording.metrics.summary import Summary

    return [json.loads(document.text(Summary(one).document())) for one in all_opened([path])]
