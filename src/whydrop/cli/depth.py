"""``whydrop depth``: how much the queue of a path holds, and how fast it drains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.text.quantities import duration, size

if TYPE_CHECKING:
    from whydrop.measure.depth.measurement import Measured

EXAMPLES = """
\b
Examples:
  whydrop depth server.example --secret-file secret
  whydrop depth server.example --reverse --json
  whydrop depth server.example --max-bytes 50M
  whydrop depth server.example --far-end iperf3
  whydrop depth server.example --trace
"""


@click.command("depth", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("-R", "--reverse", "direction", flag_value="down", default="up",
              help="Measure from HOST to here.  [default: from here to HOST]")  # fmt: skip
@click.option("--far-end", type=click.Choice(["responder", "irtt", "iperf3", "nuttcp"]), default="responder",
              metavar="PROGRAM", show_default=True,
              help="Server at HOST: responder, irtt, iperf3 or nuttcp.")  # fmt: skip
@click.option("--max-bytes", type=quantities.SIZE, default="200MB", metavar="SIZE", show_default=True,
              help="Send at most SIZE, link-layer headers included.")  # fmt: skip
@click.option("--max-duration", "max_time_s", type=quantities.DURATION, default="60s", metavar="TIME",
              show_default=True, help="Stop sending after TIME.")  # fmt: skip
@click.option("--max-rate", "max_rate_bps", type=quantities.RATE, metavar="RATE",
              help="Send bursts at most at this rate.  [default: line rate]")  # fmt: skip
@click.option("--ecn", is_flag=True, help="Send ECN-capable packets, which a queue may mark instead of drop.")
@click.option("--trace", is_flag=True, help="Find the hop of the queue, by answers of the routers.")
@options.far_end
@options.title
@options.output_folder()
@options.as_json
def command(host: str, as_json: bool, **given: Any) -> int:
    """Measure how much the bottleneck queue of the path to HOST holds, and how fast it drains."""
    most = f"{size(given['max_bytes'])} in {duration(given['max_time_s'])}"
    ending.note(f"bursts of UDP packets, at most {most}")
    measured = whydrop.depth(host, **given, say=ending.note)
    if as_json:
        ending.write_json(_document(measured))
    else:
        _print(measured)
    return ending.of_run(measured.status)


def _document(measured: Measured) -> dict[str, Any]:
    return {
        "whydrop": whydrop.__version__,
        "recording": str(measured.folder),
        "status": measured.status,
        "problem": measured.problem,
        "rounds": len(measured.rounds),
        "whole_rounds": measured.whole_rounds,
        **({} if measured.found is None else measured.found.document()),
    }


def _print(measured: Measured) -> None:
    from whydrop.measure.depth.result import sentences, standing
    from whydrop.show.document import Document, Section, Text, parts

    found = [] if measured.found is None else sentences(measured.found)
    first, *rest = filter(None, [standing(measured.status, measured.whole_rounds), *found]) or [""]
    ending.show(Document(first, (Section(first, parts(*map(Text, rest))),)))
    print(f"Recording: {ending.printable(str(measured.folder))}", flush=True)
    if measured.problem is not None:
        ending.note(measured.problem)
