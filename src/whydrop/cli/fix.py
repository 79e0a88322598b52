"""``whydrop fix``: measure, explain, try the mildest fix, and keep it only if it helps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, pace, quantities
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.act.fixing import Evidence, NoRemedy, Remedy

EXAMPLES = """
\b
Examples:
  whydrop fix server.example
  whydrop fix server.example --apply --report fix.html
  whydrop fix server.example --from capture.pcap --apply
  whydrop fix server.example --flow-control --apply
"""


@click.command("fix", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--apply", "apply", is_flag=True, help="Try the fix.  [default: change nothing]")
@click.option("--from", "source", type=pace.SOURCE, metavar="CAPTURE", help="Explain CAPTURE instead of measuring.")
@pace.for_option
@click.option("--keep", is_flag=True, help="Keep a fix that helps until `whydrop pace revert` or the next boot.")
@options.duration("Duration of the load in each measurement.", default="6s", show_default=True)
@click.option("-P", "--flows", type=quantities.Whole(1, 1000), default=1, show_default=True, metavar="N",
              help="Number of TCP flows in the load.")  # fmt: skip
@pace.replace_root
@click.option("--flow-control", is_flag=True, help="Try flow control (pause frames) of this host's interface.")
@pace.far_end
@pace.connections
@options.far_end
@options.output_folder("Keep the recordings and the capture in DIR.", default=None)
@click.option("--report", type=options.FILE, metavar="FILE", help="Write one HTML page: verdict, fix and proof.")
@options.as_json
def command(host: str, keep: bool, for_s: float, report: Path | None, as_json: bool, **given: Any) -> int:
    """Find out why packets to HOST are dropped or delayed, and try the mildest fix on this host."""
    from whydrop.act import documents
    from whydrop.api.changing import recover
    from whydrop.runtime import durable
    from whydrop.show import html

    def chosen(evidence: Evidence, remedy: Remedy | NoRemedy) -> None:
        if not as_json:
            ending.show(documents.of_choice(evidence, remedy))

    recover(ending.note)
    found = whydrop.fix(host, keep=keep, for_s=for_s, chosen=chosen, say=pace.say, **given)
    outcome = documents.outcome_of(found, keep=keep, for_s=for_s)
    if as_json:
        ending.write_json(documents.fix_as_json(host, found, outcome))
    else:
        print()
        ending.show(documents.of_outcome(found, outcome))
    if report is not None:
        durable.write_bytes(report, html.page(documents.of_fix(host, found, outcome)).encode())
        print(f"Report: {ending.printable(str(report))}", file=sys.stderr)
    return 0 if found.helps else ending.NOT_ANALYSED
