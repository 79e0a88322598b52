"""``whydrop depth``: how much the queue of a path holds, and how fast it drains."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.depth.measurement import Measured, Wanted

EXAMPLES = """
\b
Examples:
  whydrop depth server.example --secret-file secret
  whydrop depth server.example --reverse --json
  whydrop depth server.example --max-bytes 50M
  whydrop depth server.example --far-end iperf3
"""


@click.command("depth", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("-R", "--reverse", is_flag=True, help="Measure from HOST to here.  [default: from here to HOST]")
@click.option("--far-end", type=click.Choice(["responder", "irtt", "iperf3", "nuttcp"]), default="responder",
              metavar="PROGRAM", show_default=True,
              help="Server at HOST: responder, irtt, iperf3 or nuttcp.")  # fmt: skip
@click.option("--max-bytes", type=quantities.SIZE, default="200MB", metavar="SIZE", show_default=True,
              help="Send at most SIZE, link-layer headers included.")  # fmt: skip
@click.option("--max-duration", type=quantities.DURATION, default="60s", metavar="TIME", show_default=True,
              help="Stop sending after TIME.")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE", help="Rate of each burst.  [default: line rate]")
@click.option("--ecn", is_flag=True, help="Send ECN-capable packets, which a queue may mark instead of drop.")
@options.far_end
@options.title
@options.output_folder()
@options.as_json
def command(host: str, as_json: bool, **given: Any) -> None:
    """Measure how much the bottleneck queue of the path to HOST holds, and how fast it drains."""
    wanted = _wanted(host, given)
    from whydrop.measure.depth.measurement import measure
    from whydrop.measure.engine import EngineError
    from whydrop.recording.errors import RecordingError

    caps = wanted.caps
    click.echo(
        f"whydrop: bursts of UDP packets, at most {caps.max_bytes / 1e6:.0f} MB in {caps.max_time_s:.0f} s", err=True
    )
    try:
        measured = measure(wanted, lambda what: click.echo(f"whydrop: {ending.printable(what)}", err=True))
    except (EngineError, RecordingError, OSError) as reason:
        sys.exit(ending.status(reason))
    _report(measured, as_json=as_json)
    statuses = {"complete": 0, "failed": ending.NOT_ANALYSED, "interrupted": cancelling.exit_status()}
    sys.exit(statuses[measured.status])


def _wanted(host: str, options: dict[str, Any]) -> Wanted:
    from whydrop.cli.far_end import far_host
    from whydrop.measure.depth.caps import Caps
    from whydrop.measure.depth.measurement import Wanted

    return Wanted(
        host=far_host(host, options["port"], options["secret_file"]),
        far_end=options["far_end"],
        direction="down" if options["reverse"] else "up",
        caps=Caps(options["max_bytes"], options["max_duration"], options["max_rate"]),
        ip_version=options["ip_version"],
        ecn=options["ecn"],
        output=options["output"],
        title=options["title"],
    )


def _report(measured: Measured, *, as_json: bool) -> None:
    if as_json:
        from whydrop import _core

        document = {
            "whydrop": _core.__version__,
            "recording": str(measured.folder),
            "status": measured.status,
            "problem": measured.problem,
            "rounds": len(measured.rounds),
            "whole_rounds": measured.whole_rounds,
            **({} if measured.found is None else measured.found.document()),
        }
        ending.write_document(json.dumps(document, ensure_ascii=False))
        return
    from whydrop.measure.depth.result import sentences, standing

    said = standing(measured.status, measured.whole_rounds)
    found = [] if measured.found is None else sentences(measured.found)
    for sentence in ([said] if said else []) + found:
        print(ending.printable(sentence))
    print(f"Recording: {ending.printable(str(measured.folder))}")
    if measured.problem is not None:
        print(f"whydrop: {ending.printable(measured.problem)}", file=sys.stderr)
