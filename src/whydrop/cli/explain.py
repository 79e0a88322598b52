"""``whydrop explain``: why the packets of one capture, or of several of one path, were dropped or had to wait."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, usage
from whydrop.cli.interruptible import analyse, analyse_pair

if TYPE_CHECKING:
    from whydrop.api import Explanation

FORMATS = ("png", "svg", "pdf")

EXAMPLES = """
\b
Examples:
  whydrop explain capture.pcap.zst
  whydrop explain capture.pcapng --report report.html --charts charts --format svg
  whydrop explain sender.pcap receiver.pcap --report report.html
  whydrop explain --sequence trace.pcap0 trace.pcap1 trace.pcap2 --json
  tcpdump -r capture.pcap -w - host 192.0.2.7 | whydrop explain -
"""


@click.command(
    "explain",
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document on standard output, and nothing else.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write one self-contained interactive page.",
)
@click.option(
    "--charts",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the charts as pictures into DIR.",
)
@click.option("--format", "picture", type=click.Choice(FORMATS), help="Format of the pictures.  [default: png]")
@click.option(
    "--flow",
    "flow_filter",
    metavar="FILTER",
    help="Show only flows whose name contains FILTER, such as 192.0.2.7 or :443.",
)
@click.option(
    "--sequence", is_flag=True, help="The captures are one capture in several files (tcpdump -C), in any order."
)
def command(
    captures: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    folder: Path | None,
    picture: str | None,
    flow_filter: str | None,
    sequence: bool,
) -> None:
    """Say why the packets of a capture were dropped or had to wait.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip, zstd, xz, lz4 or bzip2; - reads standard input.
    Two or more are taken as captures of the same packets at several points of one path, in any order: their packets
    are matched and their clocks aligned, and it is said where packets were lost.

    Prints the verdict, its evidence, the causes that it was weighed against, and advice. Exits with 0 when the
    capture was analysed, 1 when it could not be, and 2 when the command line is wrong.
    """
    _check_usage(captures, sequence, report, folder, picture)
    from whydrop._core import CaptureError
    from whydrop.api import Explanation

    try:
        explain = analyse if sequence or len(captures) == 1 else analyse_pair
        found = Explanation(explain(captures, tables=report is not None or folder is not None))
        if flow_filter is not None:
            found = _only(found, flow_filter)
        if as_json:
            ending.write_document(found.json(pretty=sys.stdout.isatty()))
        else:
            from whydrop.show import text

            text.print_explanation(found)
        _write_files(found, report, folder, picture or "png", quiet=as_json)
    except (CaptureError, OSError, KeyboardInterrupt) as reason:
        sys.exit(ending.status(reason))


def _check_usage(
    captures: tuple[Path, ...], sequence: bool, report: Path | None, folder: Path | None, picture: str | None
) -> None:
    if not sequence:
        usage.different_files(captures)
    if picture is not None and folder is None:
        raise click.UsageError("--format chooses the format of the pictures of --charts: give --charts DIR too.")
    if report is not None:
        usage.folder_exists("--report", report)


def _only(found: Explanation, flow_filter: str) -> Explanation:
    from whydrop.selection import only_flows

    try:
        return only_flows(found, flow_filter)
    except ValueError as reason:
        raise click.UsageError(f"--flow: {ending.printable(str(reason))}") from None


def _write_files(found: Explanation, report: Path | None, folder: Path | None, picture: str, *, quiet: bool) -> None:
    # With --json standard output belongs to the document.
    stream = sys.stderr if quiet else sys.stdout
    if report is not None:
        found.write_report(report)
        print(f"Report: {ending.printable(str(report))}", file=stream)
    if folder is not None:
        written = found.write_charts(folder, picture)
        what = f"{len(written)} {picture} files" if written else "none: there is no TCP data to draw"
        print(f"Charts: {ending.printable(str(folder))} ({what})", file=stream)
