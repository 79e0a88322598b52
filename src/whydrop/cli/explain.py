"""``whydrop explain``: why the packets of captures of a path, or of a test of it, were dropped or had to wait."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, usage
from whydrop.cli.interruptible import analysed
from whydrop.cli.quantities import DURATION, SIZE

if TYPE_CHECKING:
    from whydrop import Explanation

FORMATS = ("png", "svg", "pdf")

EXAMPLES = """
\b
Examples:
  whydrop explain capture.pcap.zst
  whydrop explain capture.pcapng --report report.html --charts charts
  whydrop explain sender.pcap receiver.pcap --report report.html
  whydrop explain --sequence trace.pcap0 trace.pcap1 trace.pcap2 --json
  whydrop explain --store paths.store captures/ @more-captures.txt
  whydrop explain rrul.recording
  whydrop explain rrul.flent.gz --report report.html
  whydrop explain watch.recording
  whydrop explain 20170430T115426Z_client.s2c_snaplog
  whydrop explain telemetry
  whydrop explain watch.recording --switch-port telemetry s1.dfw07/uplink
  tcpdump -r capture.pcap -w - host 192.0.2.7 | whydrop explain -
"""


@click.command(
    "explain",
    epilog=EXAMPLES,
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
@click.option(
    "--switch-port",
    "switch",
    nargs=2,
    metavar="STORE SWITCH/PORT",
    help="Of a recording: the path goes through this port (towards the receivers); its counters in STORE are evidence.",
)
@click.option(
    "--store",
    metavar="STORE",
    help="Explain each capture by itself, and all those of folders, into the tables of a store.",
)
@click.option("--backend", metavar="ENGINE", help="With --store: spark://HOST:PORT, or local.  [default: local]")
@click.option("--workers", type=click.IntRange(min=1), help="With --store: processes.  [default: one a processor]")
@click.option("--time-limit", type=DURATION, help="With --store: for one capture.  [default: 10 min]")
@click.option("--memory-limit", type=SIZE, help="With --store: for one process.  [default: its share of 90 %]")
@click.option("--retry-failed", is_flag=True, help="With --store: try again what could not be analysed before.")
def command(
    captures: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    folder: Path | None,
    picture: str | None,
    flow_filter: str | None,
    sequence: bool,
    switch: tuple[str, str] | None,
    store: str | None,
    **many: Any,
) -> None:
    """Say why the packets of a capture were dropped or had to wait.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip, zstd, xz, lz4 or bzip2; - reads standard input.
    Two or more are taken as captures of the same packets at several points of one path, in any order: their packets
    are matched and their clocks aligned, and it is said where packets were lost.

    A recording of a test (a folder NAME.recording, or a file of Flent, netperf-wrapper or iperf3 --json) is explained
    from its probes, its flows and what the senders' kernels said of them; with captures of the same test, given beside
    it or kept in its folder, from both. A recording of connections (of whydrop watch; a web100 snaplog, tcp-info, NDT7
    or an archive of them; a log of ss), and those in a store, are explained one by one: what limited each.

    With --store captures are explained each by itself, side by side: files, folders and @FILE lists of them.

    Prints the verdict, its evidence, the causes that it was weighed against, and advice. Exits with 0 when the
    capture was analysed, 1 when it could not be, and 2 when the command line is wrong.
    """
    if store is not None:
        only_single: dict[str, Any] = {
            "--report": report,
            "--charts": folder,
            "--format": picture,
            "--flow": flow_filter,
        }
        only_single |= {"--switch-port": switch}
        sys.exit(_into_store(store, captures, as_json, {**only_single, "--sequence": sequence or None}, many))
    for name, value in many.items():
        if value not in (None, False):
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --store STORE.")
    _check_usage(report, folder, picture)
    _check_only_captures(captures, {"--charts": folder, "--flow": flow_filter})
    try:
        tables = report is not None or folder is not None
        found = explained(captures, tables=tables, sequence=sequence, switch_port=switch)
        if flow_filter is not None:
            found = _only(found, flow_filter)
        if as_json:
            ending.write_found(found.document)
        else:
            from whydrop.show import text

            text.print_explanation(found)
        _write_files(found, report, folder, picture or "png", quiet=as_json)
    except problems() as reason:
        sys.exit(ending.not_analysed(reason, [path for path in captures if not path.is_dir()]))


def explained(
    sources: Sequence[Path],
    *,
    tables: bool,
    sequence: bool = False,
    switch_port: tuple[str, str] | None = None,
) -> Explanation:
    """Explain captures, a recording or both; sources that do not go together end the program with status 2."""
    from whydrop import Explanation
    from whydrop.explaining.sources import SourceError

    try:
        return Explanation(analysed(sources, sequence=sequence, switch_port=switch_port, tables=tables))
    except SourceError as reason:
        said = ending.printable(str(reason)).replace("sequence=True", "--sequence")
        raise click.UsageError(f"{said[0].upper()}{said[1:]}.") from None


def problems() -> tuple[type[BaseException], ...]:
    """The exceptions that end the program with one line."""
    from whydrop import CaptureError, Error

    return CaptureError, Error, OSError


def _into_store(
    store: str, captures: tuple[Path, ...], as_json: bool, only_single: dict[str, Any], many: dict[str, Any]
) -> int:
    for option, value in only_single.items():
        if value is not None:
            raise click.UsageError(f"{option} is for one capture or one path, not for --store.")
    from whydrop.cli.explain_many import explain_into_store
    from whydrop.store.engines import BackendError
    from whydrop.store.errors import StoreError

    limits = {"time_s": many["time_limit"], "memory_bytes": many["memory_limit"] and int(many["memory_limit"])}
    try:
        return explain_into_store(
            store,
            captures,
            backend=many["backend"],
            workers=many["workers"],
            limits=limits,
            retry=many["retry_failed"],
            as_json=as_json,
        )
    except (StoreError, BackendError, OSError) as reason:
        return ending.status(reason)


def _check_only_captures(paths: Sequence[Path], options: dict[str, Any]) -> None:
    from whydrop.explaining.sources import is_measured

    for option, value in options.items():
        if value is not None and any(map(is_measured, paths)):
            plots = "; `whydrop plot` draws recordings" if option == "--charts" else ""
            raise click.UsageError(f"{option} is for captures, not for a recording{plots}.")


def _check_usage(report: Path | None, folder: Path | None, picture: str | None) -> None:
    if picture is not None and folder is None:
        raise click.UsageError("--format chooses the format of the pictures of --charts: give --charts DIR too.")
    if report is not None:
        usage.folder_exists("--report", report)


def _only(found: Explanation, flow_filter: str) -> Explanation:
    from whydrop.explaining.selection import only_flows

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
