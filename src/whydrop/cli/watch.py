"""``whydrop watch``: what this host's kernel knows of its connections, beside whatever runs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, quantities

if TYPE_CHECKING:
    from whydrop.cli.watch_command import Command
    from whydrop.cli.watch_view import View
    from whydrop.collect.sockets.sampling import Taken
    from whydrop.collect.sockets.wanted import Wanted
    from whydrop.collect.sockets.watching import Settings, Watch, Watched

EXAMPLES = """
\b
Examples:
  whydrop watch --port 443
  whydrop watch --dst 192.0.2.0/24 --every 10ms --for 1min
  whydrop watch --pid 4711 --pid 4712 --for 8h --output /var/tmp --no-live
  whydrop watch --cgroup system.slice/nginx.service --rotate 1h --keep 24
  whydrop watch --every 20ms -- curl -sO https://example.org/large.iso
"""

_LEAST_S, _MOST_S = 0.001, 3600.0


@click.command("watch", epilog=EXAMPLES)
@click.option("--port", "ports", type=click.IntRange(1, 65535), multiple=True, metavar="PORT",
              help="Connections with this port at either end; may be given again.")  # fmt: skip
@click.option("--dst", "destinations", multiple=True, metavar="ADDRESS",
              help="Connections to this address, prefix (192.0.2.0/24) or host; may be given again.")  # fmt: skip
@click.option("--pid", "pids", type=click.IntRange(min=1), multiple=True, metavar="PID",
              help="Connections of this process and those that it starts; may be given again.")  # fmt: skip
@click.option("--cgroup", "cgroups", multiple=True, metavar="PATH",
              help="Connections of this control group, such as system.slice/a.service; also several.")  # fmt: skip
@click.option("--udp", is_flag=True, help="The queues and drops of UDP sockets too.")
@click.option("--every", "every_s", type=quantities.DURATION, default="100ms", metavar="TIME", show_default=True,
              help="From one poll of the sockets to the next; from 1ms on.")  # fmt: skip
@click.option("--counters", "counters_every_s", type=quantities.DURATION, default="1s", show_default=True,
              metavar="TIME",
              help="Read this host's counters of drops and errors so often; 0: not at all.")  # fmt: skip
@click.option("--drops", type=click.Choice(("auto", "program", "drop-monitor", "tracepoint", "off")), default="auto",
              show_default=True,
              help="How the packets that this host drops are watched; auto: as well as the kernel allows.")  # fmt: skip
@click.option("--for", "for_s", type=quantities.DURATION, metavar="TIME",
              help="Stop after this time.  [default: at Ctrl-C, or when COMMAND ends]")  # fmt: skip
@click.option("--title", default="", help="Distinguishes this recording from others.")
@click.option("--note", default="", help="Kept with the recording.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="DIR",
              help="Where the recording's folder is made.  [default: here]")  # fmt: skip
@click.option("--rotate", "rotate_s", type=quantities.DURATION, metavar="TIME",
              help="Begin a new recording so often.  [default: after a million rows]")  # fmt: skip
@click.option("--keep", type=click.IntRange(min=1), metavar="COUNT",
              help="Keep so many recordings of this watch, and remove older ones.  [default: all]")  # fmt: skip
@click.option("--exporter", metavar="ADDRESS:PORT",
              help="Let Prometheus scrape totals there, such as 127.0.0.1:9797; [::1]:9797 for IPv6.")  # fmt: skip
@click.option("--no-live", is_flag=True, help="Show nothing while it runs.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output, and nothing else.")
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...], as_json: bool, for_s: float | None, **options: Any) -> None:
    """Record what this host's kernel knows of its TCP connections, until Ctrl-C.

    Every poll of the sockets has each connection's congestion window, round-trip time, retransmissions, rates, buffers,
    and for how long the receive window, the send buffer or the application held it (docs/watching.md). The recording is
    one like that of a test: `whydrop explain`, `show`, `plot`, `stats` and `export` take it.

    With COMMAND, the connections are those that it makes, unless options choose others; the watch ends when it does.

    Without root it sees every connection, too, but not which processes other users' connections belong to.

    Exits with 0 when it was asked to stop, with COMMAND's status where there is one, 1 when the kernel does not tell or
    the recording could not be written, and 2 when the command line is wrong.
    """
    from whydrop.cli.watch_command import Command, CommandError
    from whydrop.collect.scraping import ExporterError
    from whydrop.collect.sockets.sampling import SamplingError
    from whydrop.recording.errors import RecordingError

    _check(options, for_s)
    wanted = _wanted(options)
    try:
        with Command(words) as started:
            settings = _settings(wanted, started, options)
            live = not (options["no_live"] or as_json)
            watched = _watch(settings, started, for_s, _place(options["exporter"]), live=live)
    except CommandError as reason:
        print(f"whydrop: {ending.printable(str(reason))}", file=sys.stderr)
        sys.exit(reason.status)
    except (SamplingError, RecordingError, ExporterError) as reason:
        sys.exit(ending.status(reason))
    _report(watched, as_json=as_json)
    sys.exit(ending.NOT_ANALYSED if not watched.whole else started.status)


def _check(options: dict[str, Any], for_s: float | None) -> None:
    if not _LEAST_S <= options["every_s"] <= _MOST_S:
        raise click.UsageError("--every: expected a time from 1ms to 1h.")
    if for_s is not None and for_s <= 0:
        raise click.UsageError("--for: expected a time of more than 0.")
    if options["rotate_s"] is not None and options["rotate_s"] < 1:
        raise click.UsageError("--rotate: expected a time of at least 1s.")


def _wanted(options: dict[str, Any]) -> Wanted:
    from whydrop.collect.sockets.wanted import WantedError, wanted

    try:
        return wanted(options["ports"], options["destinations"], options["pids"], options["cgroups"])
    except WantedError as reason:
        print(f"whydrop: {ending.printable(str(reason))}", file=sys.stderr)
        sys.exit(2)


def _settings(wanted: Wanted, started: Command, options: dict[str, Any]) -> Settings:
    import dataclasses

    from whydrop.collect.sockets.watching import Settings

    if started.pid is not None:
        chosen = wanted.ports or wanted.networks or wanted.cgroups or wanted.processes
        said = (*wanted.said, ("command", started.shown))
        processes = wanted.processes if chosen else (started.pid,)
        wanted = dataclasses.replace(wanted, processes=processes, said=said)
    return Settings(
        wanted,
        every_s=options["every_s"],
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
    settings: Settings, started: Command, for_s: float | None, place: tuple[str, int] | None, *, live: bool
) -> Watched:
    from whydrop.cli.watch_view import viewing
    from whydrop.collect.sockets.watching import Watch

    if os.geteuid() != 0:
        _say(
            "not root: connections of other users are watched without their processes' names (and marks), and what "
            "this host drops is not seen"
        )
    # COMMAND has the terminal, if there is one.
    with viewing(live=live and started.pid is None) as view, contextlib.ExitStack() as opened:
        watch = Watch(settings, view.say)
        tick: Callable[[Watch, Taken], None] = view.show
        if place is not None:
            from whydrop.collect.sockets.connections import place as written
            from whydrop.collect.sockets.exporter import WatchExporter

            exporter = opened.enter_context(WatchExporter(*place))
            _say(f"metrics at http://{written(place[0], exporter.port)}/metrics")

            def both(watch: Watch, taken: Taken) -> None:
                view.show(watch, taken)
                exporter.observe(watch, taken)

            tick = both
        return watch.run(_over(watch, started, for_s), begun=_begun(watch, started, view), tick=tick)


def _begun(watch: Watch, started: Command, view: View) -> Callable[[], None]:
    def begun() -> None:
        dropped = watch.host.dropped
        if os.geteuid() == 0 and watch.settings.drops != "off" and dropped.shortfall is not None:
            what = {"off": "is not watched", "drop-monitor": "is told of all of the machine, without retransmissions"}
            how = what.get(dropped.way, "is told without addresses, of all of the machine")
            view.say(f"what this host drops {how}: {dropped.shortfall}")
        started.go()

    return begun


def _over(watch: Watch, started: Command, for_s: float | None) -> Callable[[], bool]:
    until_s = None if for_s is None else time.monotonic() + for_s

    def over() -> bool:
        if started.has_ended() or (until_s is not None and time.monotonic() >= until_s):
            return True
        # Of processes that are gone nothing more will come, once their connections are closed.
        return watch.is_alone()

    return over


def _say(line: str) -> None:
    print(f"whydrop: {ending.printable(line)}", file=sys.stderr)


def _report(watched: Watched, *, as_json: bool) -> None:
    # What went wrong was said as it did.
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
            "way": watched.dropped.way,
            "shortfall": watched.dropped.shortfall,
            "reasons": dict(watched.dropped.reasons.most_common()),
            "lost_events": watched.dropped.lost,
            "not_looked_at": watched.dropped.not_looked_at,
            "sent_again": watched.dropped.sent_again,
            "sent_again_laid_here": watched.dropped.laid,
        },
        "warnings": watched.warnings,
    }
