"""``whydrop run``: measure a path by a test."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, quantities
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.places import FarEnd
    from whydrop.measure.plan import Plan
    from whydrop.measure.run import Finished
    from whydrop.measure.settings import Settings

EXAMPLES = """
\b
Examples:
  whydrop run rrul --to server.example --secret-file secret
  whydrop run ndown --to server.example --set flows=4 --length 10s
  whydrop run rtt_fair --to 192.0.2.1 --to 192.0.2.2 --to a.net --to b.net
  whydrop run tcp_download --with iperf3 --to iperf.example
  whydrop run rrul --to server.example --local-bind 192.0.2.7
  whydrop run ./mine.toml --to [2001:db8::7]:4000 --plot rrul.png
"""


@click.command(
    "run",
    epilog=EXAMPLES,
)
@click.argument("test")
@click.option("--to", "hosts", multiple=True, metavar="HOST[:PORT]",
              help="The far end, where `whydrop responder` runs; may be given again.")  # fmt: skip
@click.option("--secret-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The secret that the responder asks for.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), help="Of the responder.  [default: 17370]")
@click.option("--length", type=quantities.DURATION, metavar="TIME", help="How long the load lasts.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the test (`whydrop tests TEST` lists them); may be given again.")  # fmt: skip
@click.option("--with", "with_runner", metavar="PROGRAM",
              help="Measure with another program's server at the far end, such as iperf3.")  # fmt: skip
@click.option("-4", "ip_version", flag_value=4, type=int, help="Use IPv4.")
@click.option("-6", "ip_version", flag_value=6, type=int, help="Use IPv6.")
@click.option("--local-bind", metavar="ADDRESS", help="The address of this host that packets leave from.")
@click.option("--interface", metavar="NAME", help="The interface of this host that packets leave by.")
@click.option("--title", default="", help="Distinguishes this recording from others.")
@click.option("--note", default="", help="Kept with the recording.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="DIR",
              help="Where the recording's folder is made.  [default: here]")  # fmt: skip
@click.option("--fallback", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Where it goes if the disk is full.  [default: the folder for temporary files]")  # fmt: skip
@click.option("--plot", "picture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Draw the test's own plot into FILE: .png, .svg, .pdf or .html.")  # fmt: skip
@click.option("--no-plot", is_flag=True, help="Draw none.  [default: a .png in the recording's folder]")
@click.option("--redact", is_flag=True, help="Hide host names and addresses in what is written.")
@click.option("--no-counters", is_flag=True, help="Do not sample this host's queues, interfaces and processors.")
@click.option("--dry-run", is_flag=True, help="Show what would be run, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output, and nothing else.")
def command(test: str, hosts: tuple[str, ...], as_json: bool, dry_run: bool, **options: Any) -> None:
    """Run a test and write its recording.

    TEST is the name of a test (`whydrop tests` lists them) or a file of your own. Prints a summary at the end.

    Exits with 0 when every flow measured what it should, 1 when the test could not begin or a flow failed or yielded
    nothing (what was measured is kept), 2 when the command line or the test's file is wrong, and 130 after Ctrl-C, 143
    after SIGTERM, 129 after SIGHUP (what was measured until then is kept).
    """
    far = _places(hosts)
    plan = planned(
        test, [place.name for place in far], options["settings"], options["length"], options["with_runner"],
        options["ip_version"], options["title"], _leaving(far, options),
    )  # fmt: skip
    _check_picture(options["picture"])
    if dry_run:
        _print_plan(plan, as_json=as_json)
        return
    settings = _settings(far, options)
    from whydrop.measure.engine import EngineError
    from whydrop.measure.leaving import CannotLeaveError
    from whydrop.recording.errors import RecordingError

    try:
        finished = _run(plan, settings, quiet=as_json)
    except CannotLeaveError as reason:
        ending.status(reason)
        sys.exit(2)
    except (EngineError, RecordingError) as reason:
        sys.exit(ending.status(reason))
    try:
        with cancelling.noted(f"the recording is complete: {finished.folder}"):
            picture = _draw(finished, options["picture"], wanted=not options["no_plot"])
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
    leaving: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a test; what is wrong with the test or the command line ends the program with status 2."""
    import dataclasses

    from whydrop.measure.tests.loading import UnknownTestError
    from whydrop.measure.tests.resolving import SettingError, resolve
    from whydrop.runtime.user_files.problems import FileError

    parameters: dict[str, Any] = dict(leaving or {})
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
    if ip_version is not None:
        flows = tuple(dataclasses.replace(flow, ip_version=flow.ip_version or ip_version) for flow in plan.flows)
        plan = dataclasses.replace(plan, flows=flows)
    return plan


def _places(hosts: tuple[str, ...]) -> list[FarEnd]:
    from whydrop.measure.places import places

    try:
        return places(hosts)
    except ValueError as reason:
        raise click.UsageError(f"--to {ending.printable(str(reason))}.") from None


def _leaving(far: list[FarEnd], options: dict[str, Any]) -> dict[str, str]:
    """Where packets leave this host, as parameters of the test."""
    asked = {"local_address": options["local_bind"], "interface": options["interface"]}
    if options["local_bind"] is not None:
        from whydrop.measure import leaving

        problem = leaving.complaint(options["local_bind"], [place.host for place in far], options["ip_version"])
        if problem is not None:
            click.echo(f"whydrop: --local-bind {ending.printable(problem)}", err=True)
            sys.exit(2)
    return {key: value for key, value in asked.items() if value is not None}


def _settings(far: list[FarEnd], options: dict[str, Any]) -> Settings:
    from whydrop.cli.responder import secret_or_leave
    from whydrop.measure.engine import FarHost
    from whydrop.measure.settings import Settings

    secret = secret_or_leave(options["secret_file"])
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


def _run(plan: Plan, settings: Settings, *, quiet: bool) -> Finished:
    from whydrop.cli.run_progress import watching
    from whydrop.measure.run import run

    with watching(plan, quiet=quiet) as watcher:
        return run(plan, settings, tell=watcher.tell, tick=watcher.tick)


def _draw(finished: Finished, path: Path | None, *, wanted: bool) -> Path | None:
    """Draw the test's own plot; what cannot be drawn is said, and does not make a run fail that has been measured."""
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
            "summary": summary_document(finished.folder),
        }
        ending.write_document(json.dumps(document, ensure_ascii=False))
    else:
        print_summary(finished.folder)
        print(f"Recording: {ending.printable(str(finished.folder))}")
        if picture is not None:
            print(f"Picture:   {ending.printable(str(picture))}")
        sys.stdout.flush()
    for warning in finished.warnings:
        print(f"whydrop: {ending.printable(warning)}", file=sys.stderr)
    # The summary has them too: on a terminal that shows both they are read once.
    on_one_screen = not as_json and sys.stdout.isatty() and sys.stderr.isatty()
    for failure in () if on_one_screen else finished.failures:
        print(f"whydrop: {ending.printable(str(failure))}", file=sys.stderr)


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        ending.write_document(json.dumps(plan.as_dict(), ensure_ascii=False))
        return
    from whydrop.cli.tests import print_flows

    print_flows(plan)
