"""``whydrop run``: measure a path with a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.errors import Error
from whydrop.runtime import cancelling
from whydrop.show import pictures

if TYPE_CHECKING:
    from whydrop.measure.plan import Plan, Settings
    from whydrop.measure.run import Finished
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop run rrul --to server.example
  whydrop run tcp --to server.example -t 30 -P 4 -R
  whydrop run udp --to server.example -b 50M
  whydrop run tcp_download --with iperf3 --to a.example
  whydrop run rtt_fair --to a.example --to b.example
  whydrop run rrul --to server.example --access-point auto
  whydrop run ./mine.toml --to [2001:db8::7]:4000
"""


@click.command("run", cls=Command, epilog=EXAMPLES)
@click.argument("test")
@click.option("--to", "-c", "-H", "to", multiple=True, metavar="HOST[:PORT]",
              help="Far end, where `whydrop responder` runs. Repeatable.")  # fmt: skip
@options.duration("Duration of the load.  [default: the test's]")
@click.option(
    "-P", "--flows", type=quantities.Whole(1), metavar="N", help="Number of parallel flows, as `--set flows=N`."
)
@click.option("-R", "--reverse", is_flag=True, help="Reverse the directions: HOST sends.")
@click.option("-b", "--rate", type=quantities.RATE, metavar="RATE",
              help="Rate of each flow, such as 50M.  [default: as fast as possible]")  # fmt: skip
@options.interval("Print a line every TIME.  [default: 1s if piped]")
@options.settings("parameters", "Parameter of the test (see `whydrop tests TEST`). Repeatable.")
@click.option("--with", "runner", metavar="PROGRAM",
              help="Measure with the server of another program, such as iperf3.")  # fmt: skip
@options.far_end
@click.option("-B", "--bind", "local_address", metavar="ADDRESS", help="Send from this address of this host.")
@click.option("--interface", metavar="NAME", help="Send through this interface of this host.")
@click.option("--access-point", metavar="HOST|auto",
              help="Probe the access point too, to distinguish Wi-Fi from the line.")  # fmt: skip
@options.title
@options.note
@options.output_folder()
@click.option("--fallback", type=options.FOLDER, metavar="DIR",
              help="Folder to use if the disk is full.  [default: the temporary folder]")  # fmt: skip
@click.option("--plot", "picture", type=options.FILE, metavar="FILE",
              help="Draw the test's plot into FILE (.html, .png, .svg, .pdf).")  # fmt: skip
@click.option("--no-plot", is_flag=True, help="Draw no plot.  [default: an .html with the recording]")
@click.option("--redact", is_flag=True, help="Hide host names and addresses in the recording.")
@click.option("--no-counters", "counters", is_flag=True, flag_value=False, default=True,
              help="Do not sample this host's queues, interfaces and processors.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the flows of the test, and run nothing.")
@options.quiet
@options.as_json
def command(
    test: str,
    flows: int | None,
    reverse: bool,
    rate: float | None,
    interval_s: float | None,
    parameters: dict[str, Any],
    picture: Path | None,
    no_plot: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Measure a path: run TEST (a name from `whydrop tests`, or a file), and write a recording."""
    from whydrop.api.measuring import planned

    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf", ".html"):
        raise click.UsageError(f"--plot {ending.printable(str(picture))!r}: expected .png, .svg, .pdf or .html.")
    if picture is not None:
        pictures.need_for(picture.suffix.removeprefix("."))
    short = {"flows": flows, "rate": rate, "swap_directions": reverse or None}
    chosen = {name: value for name, value in short.items() if value is not None}
    plan, settings = planned(test, parameters={**chosen, **parameters}, **given)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return 0
    finished = _run(plan, settings, interval_s, quiet=as_json or quiet)
    try:
        with cancelling.noted(f"the recording is complete: {finished.folder}"):
            drawn = None if no_plot and picture is None else _draw(finished, picture or finished.folder / "plot.html")
            _report(finished, drawn, as_json=as_json)
    except BrokenPipeError as reason:
        # The reader closed the pipe; the exit status still says how the test went.
        ending.status(reason)
    return ending.of_run(finished.status)


def _run(plan: Plan, settings: Settings, interval_s: float | None, *, quiet: bool) -> Finished:
    from whydrop.cli.run_progress import IntervalLines, watching
    from whydrop.measure.run import run

    # Lines as asked for, every second where the output is piped, none on a terminal.
    every_s = None if quiet else interval_s if interval_s is not None or sys.stdout.isatty() else 1.0
    with watching(plan, quiet=quiet or interval_s is not None) as watcher:
        tick = watcher.tick if every_s is None else IntervalLines(watcher.state, every_s).tick
        return run(plan, settings, say=watcher.say, tick=tick)


def _draw(finished: Finished, path: Path) -> Path | None:
    """Draw the test's own plot; a plot that fails is a warning, as the measurement is complete."""
    try:
        whydrop.plot(finished.folder)[0].write(path)
    except (Error, OSError) as reason:
        finished.warnings.append(f"no picture: {ending.one_line(reason)}")
        return None
    return path


def _report(finished: Finished, picture: Path | None, *, as_json: bool) -> None:
    from whydrop.api.recordings import summary
    from whydrop.cli.show import print_summary
    from whydrop.measure.tally import summed_up
    from whydrop.recording.recording import Recording

    recording = Recording.open(finished.folder)
    verdict = _verdict(recording)
    if as_json:
        ending.write_json(
            {
                "recording": str(finished.folder),
                "status": finished.status,
                "failures": [{"flow": one.flow, "reason": one.reason} for one in finished.failures],
                "warnings": finished.warnings,
                "verdict": verdict,
                "summary": summary(recording),
            }
        )
    else:
        if verdict is not None:
            print(f"Verdict: {ending.printable(verdict)}\n")
        print_summary(recording)
        print(f"Recording: {ending.printable(str(finished.folder))}")
        if picture is not None:
            print(f"Picture:   {ending.printable(str(picture))}")
        sys.stdout.flush()
    # The summary lists failures too; on a terminal that shows both streams, once is enough.
    on_one_screen = not as_json and sys.stdout.isatty() and sys.stderr.isatty()
    for line in (*finished.warnings, *(() if on_one_screen else summed_up(finished.failures))):
        ending.note(line)


def _verdict(recording: Recording) -> str | None:
    """The headline of the explanation, in a sentence; ``None`` where there is none."""
    try:
        verdicts = whydrop.explain(recording, tables=False).verdicts
    except (Error, OSError):
        return None
    return verdicts[0].sentence if verdicts else None


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    from whydrop.cli.tests import flows_of
    from whydrop.show.document import Document

    if as_json:
        ending.write_json(plan.as_dict())
    else:
        ending.show(Document("Plan", flows_of(plan)))
