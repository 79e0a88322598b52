"""``whydrop watch``: record what the kernel knows of this host's connections."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command as CliCommand

if TYPE_CHECKING:
    from whydrop.cli.watch_command import Command
    from whydrop.cli.watch_view import View
    from whydrop.monitoring.sockets.sampler import Taken
    from whydrop.monitoring.sockets.selection import Wanted
    from whydrop.monitoring.sockets.watch import Settings, Watch, Watched

EXAMPLES = """
\b
Examples:
  whydrop watch --port 443
  whydrop watch --to 192.0.2.0/24 -i 10ms -t 1min
  whydrop watch --pid 4711 -t 8h -o /var/tmp --quiet
  whydrop watch --cgroup system.slice/nginx.service
  whydrop watch -- curl -sO https://example.org/large.iso
"""

_LEAST_S, _MOST_S = 0.001, 3600.0
_DROPS = ("auto", "program", "drop-monitor", "tracepoint", "off")


@click.command("watch", cls=CliCommand, epilog=EXAMPLES)
@click.option("-p", "--port", "ports", type=quantities.PORT, multiple=True, metavar="PORT",
              help="Only connections with this port at either end. Repeatable.")  # fmt: skip
@click.option("--to", "destinations", multiple=True, metavar="ADDRESS",
              help="Only connections to this address, prefix or host. Repeatable.")  # fmt: skip
@click.option("--pid", "pids", type=quantities.Whole(1), multiple=True, metavar="PID",
              help="Only connections of this process and its children. Repeatable.")  # fmt: skip
@click.option("--cgroup", "cgroups", multiple=True, metavar="PATH",
              help="Only connections of this control group. Repeatable.")  # fmt: skip
@click.option("--udp", is_flag=True, help="Also record the queues and drops of UDP sockets.")
@options.interval("Time between polls, 1ms to 1h.", default="100ms", show_default=True)
@options.duration("Stop after TIME.  [default: at Ctrl-C, or with COMMAND]")
@click.option("--counters", "counters_every_s", type=quantities.DURATION, default="1s", show_default=True,
              metavar="TIME", help="Time between readings of drop counters; 0 reads none.")  # fmt: skip
@click.option("--drops", type=click.Choice(_DROPS), default="auto", metavar="HOW", show_default=True,
              help="Drops: auto, program, tracepoint, drop-monitor or off.")  # fmt: skip
@options.title
@options.note
@options.output_folder()
@click.option("--rotate", "rotate_s", type=quantities.DURATION, metavar="TIME",
              help="Begin a new recording every TIME.  [default: every million rows]")  # fmt: skip
@click.option("--keep", type=quantities.Whole(1), metavar="N",
              help="Keep only the last N recordings of this watch.  [default: all]")  # fmt: skip
@click.option("--exporter", metavar="ADDRESS:PORT", help="Serve totals to Prometheus, such as at 127.0.0.1:9797.")
@options.quiet
@options.as_json
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...], as_json: bool, duration_s: float | None, quiet: bool, **given: Any) -> None:
    """Record the kernel's state of this host's TCP connections, until Ctrl-C or COMMAND ends (docs/watching.md)."""
    from whydrop.cli.watch_command import Command, CommandError
    from whydrop.monitoring.scraping import ExporterError
    from whydrop.monitoring.sockets.sampler import SamplingError
    from whydrop.recording.errors import RecordingError

    _check(given, duration_s)
    wanted = _wanted(given)
    try:
        with Command(words) as started:
            settings = _settings(wanted, started, given)
            live = not (quiet or as_json)
            watched = _watch(settings, started, duration_s, _place(given["exporter"]), live=live)
    except CommandError as reason:
        print(f"whydrop: {ending.printable(str(reason))}", file=sys.stderr)
        sys.exit(reason.status)
    except (SamplingError, RecordingError, ExporterError) as reason:
        sys.exit(ending.status(reason))
    _report(watched, as_json=as_json)
    sys.exit(ending.NOT_ANALYSED if not watched.whole else started.status)


def _check(options: dict[str, Any], duration_s: float | None) -> None:
    if not _LEAST_S <= options["interval_s"] <= _MOST_S:
        raise click.UsageError("--interval: expected a time from 1ms to 1h.")
    if duration_s is not None and duration_s <= 0:
        raise click.UsageError("--duration: expected a time above zero.")
    if options["rotate_s"] is not None and options["rotate_s"] < 1:
        raise click.UsageError("--rotate: expected a time of at least 1s.")


def _wanted(options: dict[str, Any]) -> Wanted:
    from whydrop.monitoring.sockets.selection import WantedError, wanted

    try:
        return wanted(options["ports"], options["destinations"], options["pids"], options["cgroups"])
    except WantedError as reason:
        print(f"whydrop: {ending.printable(str(reason))}", file=sys.stderr)
        sys.exit(2)


def _settings(wanted: Wanted, started: Command, options: dict[str, Any]) -> Settings:
    import dataclasses

    from whydrop.monitoring.sockets.watch import Settings

    if started.pid is not None:
        chosen = wanted.ports or wanted.networks or wanted.cgroups or wanted.processes
        said = (*wanted.said, ("command", started.shown))
        processes = wanted.processes if chosen else (started.pid,)
        wanted = dataclasses.replace(wanted, processes=processes, said=said)
    return Settings(
        wanted,
        every_s=options["interval_s"],
        output=options["output"],
        title=options["title"],
        note=options["note"],
        datagrams=options["udp"],
        counters_every_s=options["counters_every_s"],
        drops=options["drops"],
        rotate_s=options["rotate_s"],
        keep=options["keep"],
    )


def _place(text: str | None) -> tuple[str, int] | None:
    """An address and a port to listen at."""
    if text is None:
        return None
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise click.UsageError(f"--exporter: expected ADDRESS:PORT, such as 127.0.0.1:9797, not {text!r}.")
    return address.removeprefix("[").removesuffix("]"), int(port)


def _watch(
    settings: Settings, started: Command, duration_s: float | None, place: tuple[str, int] | None, *, live: bool
) -> Watched:
    from whydrop.cli.watch_view import viewing
    from whydrop.monitoring.sockets.watch import Watch

    if os.geteuid() != 0:
        _say(
            "not root: connections of other users have no process names and marks, and packets that "
            "this host drops are not seen"
        )
    # COMMAND uses the terminal, if there is one.
    with viewing(live=live and started.pid is None) as view, contextlib.ExitStack() as opened:
        watch = Watch(settings, view.say)
        tick: Callable[[Watch, Taken], None] = view.show
        if place is not None:
            from whydrop.monitoring.sockets.connections import place as written
            from whydrop.monitoring.sockets.exporter import WatchExporter

            exporter = opened.enter_context(WatchExporter(*place))
            _say(f"metrics at http://{written(place[0], exporter.port)}/metrics")

            def both(watch: Watch, taken: Taken) -> None:
                view.show(watch, taken)
                exporter.observe(watch, taken)

            tick = both
        return watch.run(_over(watch, started, duration_s), begun=_begun(watch, started, view), tick=tick)


def _begun(watch: Watch, started: Command, view: View) -> Callable[[], None]:
    def begun() -> None:
        dropped = watch.host.dropped
        if os.geteuid() == 0 and watch.settings.drops != "off" and dropped.shortfall is not None:
            what = {"off": "is not watched", "drop-monitor": "covers all of the machine, without retransmissions"}
            how = what.get(dropped.method, "covers all of the machine, without addresses")
            view.say(f"watching drops {how}: {dropped.shortfall}")
        started.go()

    return begun


def _over(watch: Watch, started: Command, duration_s: float | None) -> Callable[[], bool]:
    until_s = None if duration_s is None else time.monotonic() + duration_s

    def over() -> bool:
        if started.has_ended() or (until_s is not None and time.monotonic() >= until_s):
            return True
        # Processes that have ended, with all connections closed, open no more.
        return watch.is_alone()

    return over


def _say(line: str) -> None:
    print(f"whydrop: {ending.printable(line)}", file=sys.stderr)


def _report(watched: Watched, *, as_json: bool) -> None:
    # Problems were reported when they occurred.
    if as_json:
        ending.write_document(json.dumps(_document(watched), ensure_ascii=False))
    else:
        from whydrop.cli.watch_view import summary

        for line in summary(watched):
            print(ending.printable(line))
        for folder in watched.folders:
            print(f"Recording: {ending.printable(str(folder))}")
        sys.stdout.flush()


def _document(watched: Watched) -> dict[str, Any]:
    tally = watched.tally
    return {
        "recordings": [str(folder) for folder in watched.folders],
        "connections": watched.connections,
        "polls": tally.polls,
        "missed": tally.missed,
        "cpu_share": tally.cpu_share,
        "lost_rows": tally.lost_rows,
        "dropped": {
            "way": watched.dropped.method,
            "shortfall": watched.dropped.shortfall,
            "reasons": dict(watched.dropped.reasons.most_common()),
            "lost_events": watched.dropped.lost,
            "not_looked_at": watched.dropped.not_looked_at,
            "sent_again": watched.dropped.retransmitted,
            "sent_again_laid_here": watched.dropped.retransmitted_after_drop,
        },
        "warnings": watched.warnings,
    }
