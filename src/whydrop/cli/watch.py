"""``whydrop watch``: record what the kernel knows of this host's connections."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, progress, quantities
from whydrop.cli.command import Command as CliCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from whydrop.cli.started import Command
    from whydrop.monitoring.sockets.sampler import Taken
    from whydrop.monitoring.sockets.selection import Wanted
    from whydrop.monitoring.sockets.watch import Settings, Watch, Watched

EXAMPLES = """
\b
Examples:
  whydrop watch --port 443
  whydrop watch --to 192.0.2.0/24 -i 10ms -t 1min
  whydrop watch --port 443 --events
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
@click.option("--udp", "datagrams", is_flag=True, help="Also record the queues and drops of UDP sockets.")
@options.interval("Time between polls, 1ms to 1h.", "every_s", default="100ms", show_default=True)
@options.duration("Stop after TIME.  [default: at Ctrl-C, or with COMMAND]")
@click.option("--counters", "counters_every_s", type=quantities.DURATION, default="1s", show_default=True,
              metavar="TIME", help="Time between readings of drop counters; 0 reads none.")  # fmt: skip
@click.option("--drops", type=click.Choice(_DROPS), default="auto", metavar="HOW", show_default=True,
              help="Drops: auto, program, tracepoint, drop-monitor or off.")  # fmt: skip
@click.option("--events", is_flag=True, help="Also record TCP's events in the kernel (root or CAP_BPF).")
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
def command(
    words: tuple[str, ...],
    ports: tuple[int, ...],
    destinations: tuple[str, ...],
    pids: tuple[int, ...],
    cgroups: tuple[str, ...],
    duration_s: float | None,
    exporter: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Record the kernel's state of this host's TCP connections, until Ctrl-C or COMMAND ends (docs/watching.md)."""
    from whydrop.cli.started import Command
    from whydrop.monitoring.sockets.selection import wanted
    from whydrop.monitoring.sockets.watch import Settings

    _check(given)
    options.above_zero("--duration", duration_s)
    place, chosen = _place(exporter), wanted(ports, destinations, pids, cgroups)
    with Command(words) as started:
        settings = Settings(_with_command(chosen, started), **given)
        watched = _watch(settings, started, duration_s, place, shown=not (quiet or as_json))
    _report(watched, as_json=as_json)
    return started.status if watched.whole else ending.NOT_ANALYSED


def _check(options: dict[str, Any]) -> None:
    if not _LEAST_S <= options["every_s"] <= _MOST_S:
        raise click.UsageError("--interval: expected a time from 1ms to 1h.")
    if options["rotate_s"] is not None and options["rotate_s"] < 1:
        raise click.UsageError("--rotate: expected a time of at least 1s.")


def _with_command(wanted: Wanted, started: Command) -> Wanted:
    """The connections of COMMAND where no others are asked for; what is asked for is said with it."""
    if started.pid is None:
        return wanted
    chosen = wanted.ports or wanted.networks or wanted.cgroups or wanted.processes
    processes = wanted.processes if chosen else (started.pid,)
    return replace(wanted, processes=processes, said=(*wanted.said, ("command", started.shown)))


def _place(text: str | None) -> tuple[str, int] | None:
    """An address and a port to listen at."""
    if text is None:
        return None
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise click.UsageError(f"--exporter: expected ADDRESS:PORT, such as 127.0.0.1:9797, not {text!r}.")
    return address.removeprefix("[").removesuffix("]"), int(port)


def _watch(
    settings: Settings, started: Command, duration_s: float | None, place: tuple[str, int] | None, *, shown: bool
) -> Watched:
    from whydrop.cli.watch_view import View
    from whydrop.monitoring.sockets.watch import Watch

    if os.geteuid() != 0:
        ending.note(
            "not root: connections of other users have no process names and marks, and packets that "
            "this host drops are not seen"
        )
    until_s = None if duration_s is None else time.monotonic() + duration_s
    # COMMAND uses the terminal, if there is one.
    shown = shown and started.pid is None
    with progress.screen() if shown else contextlib.nullcontext(progress.Screen()) as screen, _exported(place) as tell:
        watch = Watch(settings, screen.say)
        show = View(screen).show if shown else _nothing

        def tick(watch: Watch, taken: Taken) -> None:
            show(watch, taken)
            tell(watch, taken)

        def begun() -> None:
            dropped = watch.host.dropped
            if os.geteuid() == 0 and settings.drops != "off" and dropped.shortfall is not None:
                what = {"off": "is not watched", "drop-monitor": "covers all of the machine, without retransmissions"}
                how = what.get(dropped.method, "covers all of the machine, without addresses")
                screen.say(f"watching drops {how}: {dropped.shortfall}")
            if watch.events.shortfall is not None:
                screen.say(watch.events.shortfall)
            started.go()

        def over() -> bool:
            ended = started.has_ended() or (until_s is not None and time.monotonic() >= until_s)
            # Processes that have ended, with all connections closed, open no more.
            return ended or watch.is_alone()

        return watch.run(over, begun=begun, tick=tick)


def _nothing(_watch: Watch, _taken: Taken) -> None:
    pass


@contextlib.contextmanager
def _exported(place: tuple[str, int] | None) -> Iterator[Callable[[Watch, Taken], None]]:
    """The exporter's ear, where there is one."""
    if place is None:
        yield _nothing
        return
    from whydrop.monitoring.sockets.connections import place as written
    from whydrop.monitoring.sockets.exporter import WatchExporter

    with WatchExporter(*place) as exporter:
        ending.note(f"metrics at http://{written(place[0], exporter.port)}/metrics")
        yield exporter.observe


def _report(watched: Watched, *, as_json: bool) -> None:
    # Problems were reported when they occurred.
    if as_json:
        ending.write_json(_document(watched))
        return
    from whydrop.cli.watch_view import summary

    ending.show(summary(watched))
    for folder in watched.folders:
        print(f"Recording: {ending.printable(str(folder))}")


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
        "events": watched.events.document(),
        "warnings": watched.warnings,
    }
