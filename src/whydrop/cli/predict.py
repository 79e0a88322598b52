"""``whydrop predict``: what a change would bring to the connections of captures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.explain import explained
from whydrop.errors import Error

EXAMPLES = """
\b
Examples:
  whydrop predict near.pcap far.pcap
  whydrop predict a.pcap b.pcap --change policer.burst=2MB
  whydrop predict a.pcap b.pcap --change queue.limit=300kB
  whydrop predict a.pcap --change pace=9M
  whydrop predict a.pcap --change aqm=cake --change cc=bbr
  whydrop predict path.toml --change cc=bbr
"""


@click.command("predict", cls=Command, epilog=EXAMPLES)
@click.argument("captures", metavar="CAPTURE...|PATH.toml", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--change", "changes", multiple=True, metavar="NAME=VALUE",
              help="Change the path (ELEMENT.FIELD, aqm, rtt, mtu) or the senders (cc, pace).")  # fmt: skip
@click.option("--cc", "control", type=click.Choice(("cubic", "reno", "bbr")), metavar="NAME",
              help="Congestion control: cubic, reno, bbr.  [default: the one that fits best]")  # fmt: skip
@options.as_json
def command(captures: tuple[Path, ...], changes: tuple[str, ...], control: str | None, as_json: bool) -> int:
    """Predict what a change would bring to captured connections, or to one over a path (docs/prediction.md)."""
    from whydrop.cli import progress
    from whydrop.explaining.predicting.advising import ranked
    from whydrop.explaining.predicting.described import of_file
    from whydrop.explaining.predicting.prediction import predict, predict_described
    from whydrop.explaining.predicting.running import Runs
    from whydrop.show import prediction

    try:
        if len(captures) == 1 and captures[0].suffix == ".toml":
            with progress.stepping("Simulating") as advance:
                found = predict_described(of_file(captures[0]), changes, control, runs=Runs(advance))
        else:
            explanation = explained(captures, tables=True)
            with progress.stepping("Simulating") as advance:
                runs = Runs(advance)
                found = (
                    predict(explanation, changes, control, runs=runs)
                    if changes
                    else ranked(explanation, control, runs=runs)
                )
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, captures)
    if as_json:
        ending.write_json(found.as_json(), indent=2 if sys.stdout.isatty() else None)
    else:
        ending.show(prediction.document(found))
    return ending.NOT_ANALYSED if found.refusal is not None else 0
