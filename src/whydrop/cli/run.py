"""``whydrop run``: measure a path with a test."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.places import FarEnd
    from whydrop.measure.plan import Plan
    from whydrop.measure.run import Finished
    from whydrop.measure.settings import Settings

EXAMPLES = """
\b
Examples:
  whydrop run rrul --to server.example
  whydrop run tcp --to server.example -t 30 -P 4 -R
  whydrop run udp --to server.example -b 50M
  whydrop run tcp_download --with iperf3 --to a.example
  whydrop run rtt_fair --to a.example --to b.example
  whydrop run ./mine.toml --to [2001:db8::7]:4000
"""


@click.command("run", cls=Command, epilog=EXAMPLES)
@click.argument("test")
@click.option("--to", "-c", "-H", "hosts", multiple=True, metavar="HOST[:PORT]",
              help="Far end, where `whydrop responder` runs. Repeatable.")  # fmt: skip
@options.duration("Time of the load.  [default: the test's]")
@click.option("-P", "--flows", type=quantities.Whole(1), metavar="N", help="Parallel flows, as `--set flows=N`.")
@click.option("-R", "--reverse", is_flag=True, help="Swap up and down: HOST sends.")
@click.option("-b", "--rate", type=quantities.RATE, metavar="RATE",
              help="Rate of each flow, such as 50M.  [default: as fast as possible]")  # fmt: skip
@options.interval("Print a line every TIME.  [default: 1s if piped]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="Parameter of the test (see `whydrop tests TEST`). Repeatable.")  # fmt: skip
@click.option("--with", "with_runner", metavar="PROGRAM",
              help="Measure with the server of another program, such as iperf3.")  # fmt: skip
@options.far_end
@click.option("-B", "--bind", "bind", metavar="ADDRESS", help="Send from this address of this host.")
@click.option("--interface", metavar="NAME", help="Send through this interface of this host.")
@options.title
@options.note
@options.output_folder()
@click.option("--fallback", type=options.FOLDER, metavar="DIR",
              help="Folder if the disk is full.  [default: the temporary folder]")  # fmt: skip
@click.option("--plot", "picture", type=options.FILE, metavar="FILE",
              help="Draw the test's plot into FILE (.png, .svg, .pdf, .html).")  # fmt: skip
@click.option("--no-plot", is_flag=True, help="Draw no plot.  [default: a .png with the recording]")
@click.option("--redact", is_flag=True, help="Hide host names and addresses in the recording.")
@click.option("--no-counters", is_flag=True, help="Do not sample this host's queues, interfaces and processors.")
@click.option("--dry-run", is_flag=True, help="Show the flows of the test, and run nothing.")
@options.quiet
@options.as_json
def command(test: str, hosts: tuple[str, ...], as_json: bool, dry_run: bool, **given: Any) -> None:
    """Measure a path: run TEST (a name from `whydrop tests`, or a file), and write a recording."""
    far = _places(hosts)
    plan = planned(
        test, [place.name for place in far], given["settings"], given["duration_s"], given["with_runner"],
        given["ip_version"], given["title"], {**_short_options(given), **_leaving(far, given)},
    )  # fmt: skip
    _check_picture(given["picture"])
    if dry_run:
        _print_plan(plan, as_json=as_json)
        return
    settings = _settings(far, given)
    from whydrop.measure.engine import EngineError
    from whydrop.measure.local_ends import CannotLeaveError
    from whydrop.recording.errors import RecordingError

    try:
        finished = _run(plan, settings, given["interval_s"], quiet=as_json or given["quiet"])
    except CannotLeaveError as reason:
        ending.status(reason)
        sys.exit(2)
    except (EngineError, RecordingError) as reason:
        sys.exit(ending.status(reason))
    try:
        with cancelling.noted(f"the recording is complete: {finished.folder}"):
            picture = _draw(finished, given["picture"], wanted=not given["no_plot"])
            _report(finished, picture, as_json=as_json)
    except BrokenPipeError as reason:
        # The reader closed the pipe; the exit status still says how the test went.
        ending.status(reason)
    except (RecordingError, OSError) as reason:
        sys.exit(ending.status(reason))
    statuses = {"complete": 0, "failed": ending.NOT_ANALYSED, "interrupted": cancelling.exit_status()}
    sys.exit(statuses[finished.status])


def planned(
    test: str,
    hosts: list[str],
    settings: tuple[str, ...] = (),
    length_s: float | None = None,
    with_runner: str | None = None,
    ip_version: int | None = None,
    title: str = "",
    chosen: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a test; mistakes in the test or the command line end the program with status 2."""
    from whydrop.measure.tests.loading import UnknownTestError
    from whydrop.measure.tests.resolving import SettingError, resolve
    from whydrop.runtime.user_files.problems import FileError

    parameters: dict[str, Any] = dict(chosen or {})
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {ending.printable(setting)!r}: expected NAME=VALUE, such as flows=4.")
        parameters[name.strip()] = value
    if length_s is not None:
        parameters["length_s"] = length_s
    try:
        plan = resolve(test, hosts, parameters, with_runner, title=title)
    except (FileError, SettingError, UnknownTestError) as reason:
        for line in str(reason).splitlines():
            click.echo(f"whydrop: {ending.printable(line)}", err=True)
        sys.exit(2)
    return plan.by_ip_version(ip_version)


def _places(hosts: tuple[str, ...]) -> list[FarEnd]:
    from whydrop.measure.places import places

    try:
        return places(hosts)
    except ValueError as reason:
        raise click.UsageError(f"--to {ending.printable(str(reason))}.") from None


def _short_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of iperf3 as parameters of the test."""
    chosen = {"flows": given["flows"], "rate": given["rate"], "swap_directions": given["reverse"] or None}
    return {name: value for name, value in chosen.items() if value is not None}


def _leaving(far: list[FarEnd], options: dict[str, Any]) -> dict[str, str]:
    """Where packets leave this host, as parameters of the test."""
    asked = {"local_address": options["bind"], "interface": options["interface"]}
    if options["bind"] is not None:
        from whydrop.measure import local_ends

        problem = local_ends.complaint(options["bind"], [place.host for place in far], options["ip_version"])
        if problem is not None:
            click.echo(f"whydrop: --bind {ending.printable(problem)}", err=True)
            sys.exit(2)
    return {key: value for key, value in asked.items() if value is not None}


def _settings(far: list[FarEnd], options: dict[str, Any]) -> Settings:
    from whydrop.cli import far_end
    from whydrop.measure.engine import FarHost
    from whydrop.measure.settings import Settings

    secret = far_end.secret(options["secret_file"])
    return Settings(
        output=options["output"],
        hosts=[FarHost(place.name, place.host, place.port or options["port"], secret) for place in far],
        title=options["title"],
        note=options["note"],
        redact=options["redact"],
        counters=not options["no_counters"],
        fallback=options["fallback"],
    )


def _check_picture(picture: Path | None) -> None:
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf", ".html"):
        raise click.UsageError(f"--plot {ending.printable(str(picture))!r}: expected .png, .svg, .pdf or .html.")


def _run(plan: Plan, settings: Settings, interval_s: float | None, *, quiet: bool) -> Finished:
    from whydrop.cli import interval_lines
    from whydrop.cli.run_progress import watching
    from whydrop.measure.run import run

    every_s = None if quiet else interval_lines.interval_s(interval_s)
    with watching(plan, quiet=quiet or interval_s is not None) as watcher:
        if every_s is not None:
            lines = interval_lines.IntervalLines(watcher.state, every_s)
            return run(plan, settings, say=watcher.say, tick=lines.tick)
        return run(plan, settings, say=watcher.say, tick=watcher.tick)


def _draw(finished: Finished, path: Path | None, *, wanted: bool) -> Path | None:
    """Draw the test's own plot; a plot that fails is a warning, as the measurement is complete."""
    if not wanted and path is None:
        return None
    from whydrop.recording.recording import Recording
    from whydrop.runtime import durable
    from whydrop.show.figure import NothingToDraw
    from whydrop.show.plots import building, catalogue
    from whydrop.show.writing import rendered

    path = path or finished.folder / "plot.png"
    try:
        opened = [Recording.open(finished.folder)]
        name = building.default(opened)
        figure = building.build(name, catalogue.find(name), opened, building.PlotOptions())
        durable.write_bytes(path, rendered(figure, path.suffix.removeprefix(".")))
    except (NothingToDraw, catalogue.PlotError, OSError) as reason:
        finished.warnings.append(f"no picture: {ending.one_line(reason)}")
        return None
    return path


def _report(finished: Finished, picture: Path | None, *, as_json: bool) -> None:
    from whydrop.cli.show import print_summary, summary_document

    if as_json:
        document = {
            "recording": str(finished.folder),
            "status": finished.status,
            "failures": [{"flow": one.flow, "reason": one.reason} for one in finished.failures],
            "warnings": finished.warnings,
            "verdict": _verdict(finished),
            "summary": summary_document(finished.folder),
        }
        ending.write_document(json.dumps(document, ensure_ascii=False))
    else:
        verdict = _verdict(finished)
        if verdict is not None:
            print(f"Verdict: {ending.printable(verdict)}\n")
        print_summary(finished.folder)
        print(f"Recording: {ending.printable(str(finished.folder))}")
        if picture is not None:
            print(f"Picture:   {ending.printable(str(picture))}")
        sys.stdout.flush()
    for warning in finished.warnings:
        print(f"whydrop: {ending.printable(warning)}", file=sys.stderr)
    # The summary lists them too; on a terminal that shows both streams, once is enough.
    on_one_screen = not as_json and sys.stdout.isatty() and sys.stderr.isatty()
    for failure in () if on_one_screen else finished.failures:
        print(f"whydrop: {ending.printable(str(failure))}", file=sys.stderr)


def _verdict(finished: Finished) -> str | None:
    """The headline of the explanation, in a sentence; ``None`` where there is none."""
    import whydrop

    try:
        verdicts = whydrop.explain(finished.folder, tables=False).verdicts
    except ending.problems():
        return None
    return verdicts[0].sentence if verdicts else None


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        ending.write_document(json.dumps(plan.as_dict(), ensure_ascii=False))
        return
    from whydrop.cli.tests import flows_of
    from whydrop.show import terminal
    from whydrop.show.document import Document

    terminal.print_document(Document("Plan", flows_of(plan)))
