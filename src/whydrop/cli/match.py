"""``whydrop match``: which packet of one capture is which of another, as a table for notebooks and other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from whydrop.cli import ending, hints, options
from whydrop.cli.command import Command
from whydrop.cli.interruptible import match_pair
from whydrop.errors import Error

EXAMPLES = """
\b
Examples:
  whydrop match sender.pcap receiver.pcap -o packets.csv
  whydrop match sender.pcap receiver.pcap --json
"""


@click.command("match", cls=Command, epilog=EXAMPLES)
@click.argument("first", metavar="CAPTURE", type=options.ANY_PATH)
@click.argument("second", metavar="CAPTURE", type=options.ANY_PATH)
@options.output_file("Table of packets to write: .parquet, .csv or .arrow.")
@hints.hints
@options.as_json
def command(first: Path, second: Path, output: Path | None, as_json: bool, **chosen: Any) -> int:
    """Match the packets of two captures of one path: delay and loss between them (docs/two-captures.md)."""
    _check_usage(first, second, output)
    from whydrop.explaining.hints import HintError
    from whydrop.explaining.matching import Matching

    try:
        # The table takes a third of the memory: it is made only where it is written.
        known = hints.given(chosen)
        fitting = None if known is None else known.of_captures([str(first), str(second)])
        found = Matching(match_pair([first, second], tables=output is not None, hints=fitting))
        rows = None if output is None else found.write(output)
        if as_json:
            ending.write_json(found.document, indent=2 if sys.stdout.isatty() else None)
        else:
            from whydrop.show import explanation

            ending.show(explanation.of_matching(found))
        if output is not None:
            stream = sys.stderr if as_json else sys.stdout
            print(f"Packets: {ending.printable(str(output))} ({rows} rows)", file=stream)
    except HintError as reason:
        said = ending.printable(str(reason))
        raise click.UsageError(f"{said[0].upper()}{said[1:]}.") from None
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, (first, second))
    return 0


def _check_usage(first: Path, second: Path, output: Path | None) -> None:
    options.different_files((first, second))
    if output is None:
        return
    from whydrop.explaining.matching import check_suffix

    try:
        check_suffix(output)
    except ValueError as reason:
        raise click.UsageError(f"-o: {ending.printable(str(reason))}") from None
    options.folder_exists("-o", output)
    for capture in (first, second):
        if options.same_file(output, capture):
            raise click.UsageError(f"-o: {ending.printable(str(output))!r} is one of the captures; name another file.")
