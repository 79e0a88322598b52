"""``whydrop predict``: what a change would bring to the connections of captures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.explain import explained
from whydrop.errors import Error
from whydrop.show import pictures

if TYPE_CHECKING:
    from whydrop.explaining.predicting.prediction import Prediction
    from whydrop.show.figure import Figure

EXAMPLES = """
\b
Examples:
  whydrop predict near.pcap far.pcap
  whydrop predict near.pcap far.pcap --charts pictures
  whydrop predict a.pcap b.pcap --change policer.burst=2MB
  whydrop predict a.pcap b.pcap --change queue.limit=300kB
  whydrop predict a.pcap --change pace=9M
  whydrop predict a.pcap --change aqm=cake --change cc=bbr
  whydrop predict rrul.recording --change aqm=fq_codel
  whydrop predict path.toml --change cc=bbr
"""


@click.command("predict", cls=Command, epilog=EXAMPLES)
@click.argument("captures", metavar="CAPTURE...|RECORDING|PATH.toml", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--change", "changes", multiple=True, metavar="NAME=VALUE",
              help="Change ELEMENT.FIELD, path, aqm, rtt or mtu; or of senders cc or pace.")  # fmt: skip
@click.option("--cc", "control", type=click.Choice(("cubic", "reno", "bbr")), metavar="NAME",
              help="Congestion control: cubic, reno, bbr.  [default: the one that fits best]")  # fmt: skip
@click.option("--charts", "folder", type=options.FOLDER, metavar="DIR",
              help="Write a picture into DIR: recorded, simulated, and with the change.")  # fmt: skip
@click.option("-f", "--format", "picture", type=click.Choice(pictures.FORMATS), metavar="FORMAT",
              help=f"Format of the picture: {', '.join(pictures.FORMATS)}.  [default: png]")  # fmt: skip
@options.as_json
def command(
    captures: tuple[Path, ...],
    changes: tuple[str, ...],
    control: str | None,
    folder: Path | None,
    picture: str | None,
    as_json: bool,
) -> int:
    """Predict what a change would bring to captured connections, or to one over a path (docs/prediction.md).

    Without --change, usual changes are tried, the best first.
    """
    if picture is not None and folder is None:
        raise click.UsageError("--format chooses the format of the picture of --charts: give --charts DIR too.")
    is_described = any(file.suffix.lower() == ".toml" for file in captures)
    if is_described and len(captures) > 1:
        raise click.UsageError("a path (.toml) stands alone: give it, or captures.")
    if folder is not None:
        if is_described:
            raise click.UsageError("--charts is for captures: a described path has no recording to draw.")
        pictures.need_for(picture or "png")
    try:
        found, drawn = (
            _described(captures[0], changes, control)
            if is_described
            else _of_captures(captures, changes, control, is_drawn=folder is not None)
        )
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, [path for path in captures if not path.is_dir()])
    _print(found, as_json=as_json)
    if folder is not None:
        from whydrop.show.vega import drawing

        (written,) = drawing.write_all(drawn, folder, picture or "png")
        print(f"Picture: {ending.printable(str(written))}", file=sys.stderr if as_json else sys.stdout)
    return ending.NOT_ANALYSED if found.refusal is not None else 0


def _described(file: Path, changes: Sequence[str], control: str | None) -> tuple[Prediction, list[Figure]]:
    from whydrop.cli import progress
    from whydrop.explaining.predicting.described import of_file
    from whydrop.explaining.predicting.prediction import predict_described
    from whydrop.explaining.predicting.running import Runs

    with progress.stepping("Simulating") as advance:
        return predict_described(of_file(file), changes, control, runs=Runs(advance)), []


def _of_captures(
    captures: Sequence[Path], changes: Sequence[str], control: str | None, *, is_drawn: bool
) -> tuple[Prediction, list[Figure]]:
    from whydrop.cli import progress
    from whydrop.explaining.predicting.advising import predicted
    from whydrop.explaining.predicting.prediction import courses
    from whydrop.explaining.predicting.reproducing import RUNS, reproduce
    from whydrop.explaining.predicting.running import PredictionError, Runs
    from whydrop.show.charts.predicted import figure

    explanation = explained(captures, tables=True)
    with progress.stepping("Simulating") as advance:
        runs = Runs(advance)
        was = reproduce(explanation, control, RUNS, runs, changes)
        found = predicted(was, changes, runs)
        shown = changes or (found.tried[0].changes if found.tried else ())
        if not is_drawn:
            return found, []
        if not explanation.flows:
            raise PredictionError("--charts: a recording has no packets to draw; captures were expected")
        return found, [figure(courses(was, shown), shown)]


def _print(found: Prediction, *, as_json: bool) -> None:
    if as_json:
        ending.write_json(found.as_json(), indent=2 if sys.stdout.isatty() else None)
        return
    from whydrop.show import prediction

    ending.show(prediction.document(found))
