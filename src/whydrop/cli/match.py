"""``whydrop match``: which packet of one capture is which of another, as a table for notebooks and other tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from whydrop.cli import ending, usage
from whydrop.cli.interruptible import match_pair

EXAMPLES = """
\b
Examples:
  whydrop match sender.pcap receiver.pcap -o packets.parquet
  whydrop match sender.pcap.zst receiver.pcapng -o packets.csv --json
"""


@click.command(
    "match",
    epilog=EXAMPLES,
)
@click.argument("first", metavar="CAPTURE", type=click.Path(path_type=Path))
@click.argument("second", metavar="CAPTURE", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the packets into FILE, which is replaced where it exists; .parquet, .csv or .arrow choose the format.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print what was found as JSON on standard output, and nothing else."
)
def command(first: Path, second: Path, output: Path | None, as_json: bool) -> None:
    """Match the packets of two captures of one path.

    Each CAPTURE is a pcap or pcapng file of the same packets at another point of the path; which of the two comes
    first is of no importance, and their clocks may differ. The table has a row for each packet: when it passed either
    point, how long it took, whether it was lost or only missed by a capture.

    Exits with 0 when the captures were matched, 1 when they could not be, and 2 when the command line is wrong.
    """
    _check_usage(first, second, output)
    from whydrop._core import CaptureError
    from whydrop.explaining.matching import Matching

    try:
        # the table takes a third of the memory: only who wants it pays for it
        found = Matching(match_pair([first, second], tables=output is not None))
        rows = None if output is None else found.write(output)
        if as_json:
            indent = 2 if sys.stdout.isatty() else None
            ending.write_document(json.dumps(found.document, indent=indent, ensure_ascii=False))
        else:
            from whydrop.show import text

            text.print_matching(found)
        if output is not None:
            stream = sys.stderr if as_json else sys.stdout
            print(f"Packets: {ending.printable(str(output))} ({rows} rows)", file=stream)
    except (CaptureError, OSError) as reason:
        sys.exit(ending.not_analysed(reason, (first, second)))


def _check_usage(first: Path, second: Path, output: Path | None) -> None:
    usage.different_files((first, second))
    if output is None:
        return
    from whydrop.explaining.matching import check_suffix

    try:
        check_suffix(output)
    except ValueError as reason:
        raise click.UsageError(f"-o: {ending.printable(str(reason))}") from None
    usage.folder_exists("-o", output)
    for capture in (first, second):
        if usage.same_file(output, capture):
            raise click.UsageError(f"-o: {ending.printable(str(output))!r} is one of the captures; name another file.")
