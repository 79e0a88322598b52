"""``whydrop explain``: why packets of captures, or of the recording of a test, were dropped or delayed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, hints, options
from whydrop.cli.command import Command
from whydrop.cli.interruptible import analysed
from whydrop.cli.quantities import MOMENT, PATH_MODEL
from whydrop.errors import Error
from whydrop.show import pictures

if TYPE_CHECKING:
    from whydrop import Explanation, Prediction
    from whydrop.show.document import Section

EXAMPLES = """
\b
Examples:
  whydrop explain capture.pcap.zst
  whydrop explain capture.pcapng --report report.html
  whydrop explain sender.pcap receiver.pcap
  whydrop explain a.pcap --filter 'tcp.port == 443'
  whydrop explain a.pcap --from 10 --to 25
  whydrop explain a.pcap --model policer:rate=9M,burst=9kB
  whydrop explain --sequence trace.pcap0 trace.pcap1
  whydrop explain rrul.recording
  whydrop explain rrul.flent.gz --report report.html
  whydrop explain a.recording --switch-port b.store s1/p1
  tcpdump -i eth0 -w - | whydrop explain -
"""


@click.command("explain", cls=Command, epilog=EXAMPLES)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--flow", "flow_filter", metavar="TEXT", help="Show only flows with TEXT in their name, such as :443.")
@click.option("--filter", metavar="FILTER",
              help="Analyse conversations with a match, such as 'tcp.port == 443'.")  # fmt: skip
@click.option(
    "--from", "begin", type=MOMENT, metavar="TIME", help="Analyse from TIME: 2.5 (seconds), or 2026-11-27T12:00Z."
)
@click.option("--to", "end", type=MOMENT, metavar="TIME", help="Analyse up to TIME.")
@click.option("--sequence", is_flag=True, help="The files are one capture in pieces (tcpdump -C), in any order.")
@click.option("--switch-port", nargs=2, metavar="STORE SWITCH/PORT",
              help="For a recording: use the counters of this port of its path.")  # fmt: skip
@click.option("--model", "models", multiple=True, type=PATH_MODEL, metavar="PATH",
              help="Compare your own model (docs/models.md).")  # fmt: skip
@click.option("--predict", "is_predicted", is_flag=True,
              help="Add predictions of usual changes, the best first.")  # fmt: skip
@click.option("--report", type=options.FILE, metavar="FILE", help="Write one interactive HTML page.")
@click.option("--charts", "folder", type=options.FOLDER, metavar="DIR", help="Write the charts as pictures into DIR.")
@click.option("-f", "--format", "picture", type=click.Choice(pictures.FORMATS), metavar="FORMAT",
              help=f"Format of the pictures: {', '.join(pictures.FORMATS)}.  [default: png]")  # fmt: skip
@hints.hints
@options.as_json
def command(
    captures: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    folder: Path | None,
    picture: str | None,
    flow_filter: str | None,
    models: tuple[str, ...],
    is_predicted: bool,
    **selection: Any,
) -> int:
    """Explain why packets in captures, or in the recording of a test, were dropped or delayed."""
    if picture is not None and folder is None:
        raise click.UsageError("--format chooses the format of the pictures of --charts: give --charts DIR too.")
    if report is not None:
        options.folder_exists("--report", report)
    picture = picture or "png"
    if folder is not None:
        pictures.need_for(picture)
    _check_only_captures(
        captures,
        {"--charts": folder, "--flow": flow_filter, "--model": models or None, "--predict": is_predicted or None},
    )
    selection["hints"] = hints.given(selection)
    try:
        is_drawn = report is not None or folder is not None
        found = explained(captures, tables=is_drawn or bool(models) or is_predicted, **selection)
        is_unused = False
        if models:
            from whydrop.explaining import replaying

            found = replaying.with_models(found, models)
            is_unused = not replaying.is_replayed(found)
        if flow_filter is not None:
            found = _only(found, flow_filter)
        predicted = _predicted(found) if is_predicted else None
        try:
            if as_json:
                ending.write_found(
                    found.document if predicted is None else found.document | {"predicted": predicted.as_json()}
                )
            else:
                from whydrop.show import explanation

                ending.show(explanation.document(found, after=_ranking(predicted)))
        finally:
            # Also where the text goes to `head`, which closes the pipe.
            _write_files(found, report, folder, picture, predicted, quiet=as_json)
        if is_unused:
            ending.note("--model: nothing to replay over: no verdict has packets that were lost or queued")
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, [path for path in captures if not path.is_dir()])
    return 0


def explained(sources: Sequence[Path], **options: Any) -> Explanation:
    """Explain captures, a recording or both; sources that do not go together end the program with status 2."""
    from whydrop import Explanation
    from whydrop.explaining.sources import SourceError

    try:
        return Explanation(analysed(sources, **options))
    except SourceError as reason:
        said = ending.printable(str(reason)).replace("sequence=True", "--sequence")
        raise click.UsageError(f"{said[0].upper()}{said[1:]}.") from None


def _predicted(found: Explanation) -> Prediction | None:
    """Predictions of usual changes; a note says why, where there are none."""
    from whydrop.cli import progress
    from whydrop.explaining.predicting.advising import ranked
    from whydrop.explaining.predicting.running import Runs

    try:
        with progress.stepping("Simulating") as advance:
            return ranked(found, runs=Runs(advance))
    except Error as reason:
        ending.note(f"--predict: {reason}")
        return None


def _ranking(predicted: Prediction | None) -> Sequence[Section]:
    if predicted is None:
        return ()
    # It imports polars, which takes a tenth of a second.
    from whydrop.show import prediction

    return (prediction.ranking(predicted),)


def _check_only_captures(paths: Sequence[Path], options: dict[str, Any]) -> None:
    from whydrop.explaining.sources import is_measured

    for option, value in options.items():
        if value is not None and any(map(is_measured, paths)):
            plots = "; `whydrop plot` draws recordings" if option == "--charts" else ""
            raise click.UsageError(f"{option} is for captures, not for a recording{plots}.")


def _only(found: Explanation, flow_filter: str) -> Explanation:
    from whydrop.explaining.selection import only_flows

    try:
        return only_flows(found, flow_filter)
    except ValueError as reason:
        raise click.UsageError(f"--flow: {ending.printable(str(reason))}") from None


def _write_files(
    found: Explanation,
    report: Path | None,
    folder: Path | None,
    picture: str,
    predicted: Prediction | None,
    *,
    quiet: bool,
) -> None:
    # With --json standard output belongs to the document.
    stream = sys.stderr if quiet else sys.stdout
    if report is not None:
        found.write_report(report, predicted=predicted)
        print(f"Report: {ending.printable(str(report))}", file=stream)
    if folder is not None:
        written = found.write_charts(folder, picture)
        what = f"{len(written)} {picture} files" if written else "none: there is no TCP data to draw"
        print(f"Charts: {ending.printable(str(folder))} ({what})", file=stream)
