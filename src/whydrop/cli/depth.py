"""``whydrop depth``: how much the queue of a path holds, and how fast it drains."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, quantities
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.depth.measuring import Measured, Wanted

EXAMPLES = """
\b
Examples:
  whydrop depth server.example --secret-file secret
  whydrop depth server.example --down --json
  whydrop depth server.example --max-bytes 50MB --max-rate 100mbit
  whydrop depth server.example --far-end iperf3
"""


@click.command("depth", epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--down", is_flag=True, help="Measure the way from the host to here.  [default: from here to it]")
@click.option("--far-end", type=click.Choice(["responder", "irtt", "iperf3", "nuttcp"]), default="responder",
              show_default=True, help="The server that runs there; others' tell less exactly.")  # fmt: skip
@click.option("--secret-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The secret that the responder asks for.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), help="Of the server.  [default: its program's usual one; 17370]")
@click.option("--max-bytes", type=quantities.SIZE, default="200MB", metavar="SIZE", show_default=True,
              help="The most to send, as an interface counts it, with all headers.")  # fmt: skip
@click.option("--max-time", type=quantities.DURATION, default="60s", metavar="TIME", show_default=True,
              help="Nothing is sent after this time.")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE", help="Of each burst.  [default: as fast as the line]")
@click.option("--ecn", is_flag=True, help="Send packets that a queue may mark instead of dropping them.")
@click.option("-4", "ip_version", flag_value=4, type=int, help="Use IPv4.")
@click.option("-6", "ip_version", flag_value=6, type=int, help="Use IPv6.")
@click.option("--title", default="", help="Distinguishes this recording from others.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="DIR",
              help="Where the recording's folder is made.  [default: here]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output, and nothing else.")
def command(host: str, as_json: bool, **options: Any) -> None:
    """Measure the queue of the path to HOST, where `whydrop responder` runs (or a server of irtt, iperf3 or nuttcp).

    Sends bursts of UDP packets of two sizes, longer ones until some are lost, and says what they met: a queue or a
    policer, how much it holds, whether that is counted in packets or in bytes, and how fast it drains. Says what it
    sends before it sends it.

    Exits with 0 when it measured, 1 when it could not, 2 when the command line is wrong, and 130 after Ctrl-C.
    """
    wanted = _wanted(host, options)
    from whydrop.measure.depth.measuring import measure
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
    from whydrop.cli.responder import secret_or_leave
    from whydrop.measure.depth.caps import Caps
    from whydrop.measure.depth.measuring import Wanted
    from whydrop.measure.engine import FarHost
    from whydrop.measure.places import places

    try:
        far = places([host])[0]
    except ValueError as reason:
        raise click.UsageError(ending.printable(str(reason))) from None
    secret = secret_or_leave(options["secret_file"])
    return Wanted(
        host=FarHost(far.name, far.host, far.port or options["port"], secret),
        far_end=options["far_end"],
        direction="down" if options["down"] else "up",
        caps=Caps(options["max_bytes"], options["max_time"], options["max_rate"]),
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
