"""``whydrop collect``: the counters of switches, polled by SNMP and kept in a store."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options, progress
from whydrop.cli.command import Command
from whydrop.text.quantities import count, duration, plural

if TYPE_CHECKING:
    from whydrop.monitoring.switches.collector import Collector
    from whydrop.monitoring.switches.config import Config
    from whydrop.monitoring.switches.delivery import Delivery
    from whydrop.show.document import Document

EXAMPLES = """
\b
Examples:
  whydrop collect check switches.toml
  whydrop collect once switches.toml
  whydrop collect switches.toml

\b
A file to begin with:
  store = "/var/lib/whydrop/store"
  [[switch]]
  name = "s1.dfw07"
  site = "dfw07"
  address = "192.0.2.7"
  community_file = "/etc/whydrop/community"
  ports = [{ name = "uplink", alias = "uplink*" }]
"""


_CONFIG = click.argument("path", metavar="CONFIG", type=options.FILE)


@click.command("collect", cls=Command, epilog=EXAMPLES)
@_CONFIG
@options.duration("Stop after TIME.  [default: never]")
def command(path: Path, duration_s: float | None) -> int:
    """Poll the switches of CONFIG by SNMP, and keep their counters in a store (docs/switches.md)."""
    options.above_zero("--duration", duration_s)
    return _collect(_loaded(path), duration_s)


@command.subcommand(
    "check",
    short_help="Check CONFIG, and list the ports of its switches.",
    epilog="Example: whydrop collect check my.toml",
)
@_CONFIG
def check(path: Path) -> int:
    """List the mistakes in CONFIG and the ports of its switches, without storing anything."""
    return _examine(path, poll=False)


@command.subcommand(
    "once", short_help="Poll once, and print the counters.", epilog="Example: whydrop collect once my.toml"
)
@_CONFIG
def once(path: Path) -> int:
    """Poll the switches of CONFIG once and print their counters, without storing them."""
    return _examine(path, poll=True)


def _examine(path: Path, *, poll: bool) -> int:
    from whydrop.cli import collect_once

    return collect_once.examine(_loaded(path), progress.Screen().say, poll=poll)


def _loaded(path: Path) -> Config:
    from whydrop.monitoring.switches import config, running

    say = progress.Screen().say
    found = config.load(path)
    for line in found.warnings:
        say(f"{line} (warning)")
    running.allow_sockets(len(found.switches), say)
    return found


def _collect(config: Config, duration_s: float | None) -> int:
    from whydrop.monitoring.switches import running

    with progress.screen(on_stderr=True) as screen:
        delivery = running.delivery(config, screen.say)
        try:
            collector = asyncio.run(_run(config, delivery, screen, duration_s))
        finally:
            # All readings are stored, whatever ends the polls.
            screen.draw(_text("storing the last readings"))
            kept = delivery.close()
    _out(_summary(collector))
    return 0 if kept else 1


async def _run(config: Config, delivery: Delivery, screen: progress.Screen, duration_s: float | None) -> Collector:
    from whydrop.monitoring.switches import running

    stop = asyncio.Event()
    _hear(asyncio.get_running_loop(), stop, screen)
    collector = running.collector(config, delivery, screen.say, lambda now: screen.draw(_text(state(now))))
    every = "every second" if config.interval_s == 1 else f"every {duration(config.interval_s)}"
    _out(f"polling {plural(len(config.switches), 'switch')} {every} into {config.store}")
    await collector.run(stop, duration_s)
    return collector


def _hear(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, screen: progress.Screen) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def hung_up() -> None:
        # A closed terminal ends the program; for a service, SIGHUP often means to read the configuration again.
        if sys.stdin is not None and sys.stdin.isatty():
            stop.set()
        else:
            screen.say("SIGHUP: the configuration is not read again; restart the collector (systemctl restart)")

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def _out(line: str) -> None:
    # The collector outlives the terminal that started it.
    with contextlib.suppress(OSError):
        print(ending.printable(line), flush=True)


def _text(line: str) -> Document:
    from whydrop.show.document import Document, Text

    return Document("Collector", (Text(line),))


def _summary(collector: Collector) -> str:
    """A line with the number of polls by status, and their delays."""
    counts = sorted(collector.standings.counts.items(), key=lambda item: item[0] != "ok")
    line = f"stopped; polls: {', '.join(f'{number} {status}' for status, number in counts) or 'none'}"
    quantiles = [collector.standings.quantile_ns(share) for share in (0.5, 0.99, 1.0)]
    if quantiles[0] is None:
        return line
    middle, late, worst = (duration((value or 0) / 1e9) for value in quantiles)
    return f"{line}; delay of their start: median {middle}, p99 {late}, worst {worst}"


# More than a short pause of the processor leaves.
_MANY_WAITING = 1000


def state(collector: Collector) -> str:
    """The state of the switches, in two lines at most."""
    standings = collector.standings
    parts = [f"{plural(standings.answering, 'switch')} ok"]
    if failing := standings.failing:
        names = ", ".join(failing[:5]) + (f" and {len(failing) - 5} more" if len(failing) > 5 else "")
        parts.append(f"{len(failing)} failing ({names})")
    worst_ns = standings.worst_lateness_ns()
    if worst_ns is not None:
        parts.append(f"last tick {duration(worst_ns / 1e9)} late at most")
    if collector.waiting > _MANY_WAITING:
        parts.append(f"{count(collector.waiting)} readings wait to be stored")
    if collector.next_due_ns is not None:
        due = time.strftime("%H:%M:%S", time.gmtime(collector.next_due_ns // 1_000_000_000))
        parts.append(f"next at {due} UTC")
    return "  ".join(parts)
