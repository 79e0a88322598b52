"""``whydrop collect``: the counters of switches, polled by SNMP and kept in a store."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.monitoring.switches.collector import Collector
    from whydrop.monitoring.switches.config import Config
    from whydrop.monitoring.switches.delivery import Delivery

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


def complain(line: str) -> None:
    """Print a line on standard error, with control characters escaped."""
    # The collector outlives the terminal that started it.
    with contextlib.suppress(OSError):
        print(f"whydrop: {ending.printable(line)}", file=sys.stderr, flush=True)


_CONFIG = click.argument("path", metavar="CONFIG", type=options.FILE)


@click.command("collect", cls=Command, epilog=EXAMPLES)
@_CONFIG
@options.duration("Stop after TIME.  [default: never]")
def command(path: Path, duration_s: float | None) -> None:
    """Poll the switches of CONFIG by SNMP, and keep their counters in a store (docs/switches.md)."""
    if duration_s is not None and duration_s <= 0:
        raise click.UsageError("--duration: expected a time above zero.")
    sys.exit(_collect(_loaded(path), duration_s))


@command.subcommand(
    "check",
    short_help="Check CONFIG, and list the ports of its switches.",
    epilog="Example: whydrop collect check my.toml",
)
@_CONFIG
def check(path: Path) -> None:
    """List the mistakes in CONFIG and the ports of its switches, without storing anything."""
    _examine(path, poll=False)


@command.subcommand(
    "once", short_help="Poll once, and print the counters.", epilog="Example: whydrop collect once my.toml"
)
@_CONFIG
def once(path: Path) -> None:
    """Poll the switches of CONFIG once and print their counters, without storing them."""
    _examine(path, poll=True)


def _examine(path: Path, *, poll: bool) -> None:
    from whydrop.cli import collect_once

    sys.exit(collect_once.examine(_loaded(path), complain, poll=poll))


def _loaded(path: Path) -> Config:
    config = _load(path)
    from whydrop.monitoring.switches import running

    running.allow_sockets(len(config.switches), complain)
    return config


def _load(path: Path) -> Config:
    from whydrop.monitoring.switches import config
    from whydrop.runtime.user_files.problems import FileError

    try:
        found = config.load(path)
    except FileError as reason:
        for line in str(reason).splitlines():
            complain(line)
        sys.exit(2)
    for line in found.warnings:
        complain(f"{line} (warning)")
    return found


def _collect(config: Config, duration_s: float | None) -> int:
    from whydrop.monitoring.scraping import ExporterError
    from whydrop.monitoring.switches import running
    from whydrop.recording.errors import RecordingError

    with _display() as display:
        try:
            delivery = running.delivery(config, display.say)
        except (RecordingError, ExporterError, OSError, ValueError) as reason:
            return ending.status(reason)
        try:
            collector = asyncio.run(_run(config, delivery, display, duration_s))
        finally:
            # All readings are stored, whatever ends the polls.
            display.tell("storing the last readings")
            kept = delivery.close()
    _out(_summary(collector))
    return 0 if kept else 1


async def _run(config: Config, delivery: Delivery, display: _Display, duration_s: float | None) -> Collector:
    from whydrop.monitoring.switches import running

    stop = asyncio.Event()
    _hear(asyncio.get_running_loop(), stop, display)
    collector = running.collector(config, delivery, display.say, display.watch)
    every = "every second" if config.interval_s == 1 else f"every {config.interval_s} s"
    count = f"{len(config.switches)} switch{'es' if len(config.switches) != 1 else ''}"
    _out(f"polling {count} {every} into {config.store}")
    await collector.run(stop, duration_s)
    return collector


def _hear(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, display: _Display) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def hung_up() -> None:
        # A closed terminal ends the program; for a service, SIGHUP often means to read the configuration again.
        if sys.stdin is not None and sys.stdin.isatty():
            stop.set()
        else:
            display.say("SIGHUP: the configuration is not read again; restart the collector (systemctl restart)")

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def _out(line: str) -> None:
    with contextlib.suppress(OSError):
        print(ending.printable(line), flush=True)


def _summary(collector: Collector) -> str:
    """A line with the number of polls by status, and their delays."""
    from whydrop.text import quantities

    counts = collector.standings.counts
    polls = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), key=lambda item: item[0] != "ok"))
    line = f"stopped; polls: {polls or 'none'}"
    quantiles = [collector.standings.quantile_ns(share) for share in (0.5, 0.99, 1.0)]
    if quantiles[0] is None:
        return line
    middle, late, worst = (quantities.duration((value or 0) / 1e9) for value in quantiles)
    return f"{line}; delay of their start: median {middle}, p99 {late}, worst {worst}"


class _Display:
    """Lines for a journal; on a terminal also a live line."""

    def __init__(self, live: Any = None) -> None:
        self._live = live

    def say(self, line: str) -> None:
        """Print a line."""
        if self._live is None:
            complain(line)
        else:
            from rich.text import Text

            self._live.console.print(Text(f"whydrop: {ending.printable(line)}"))

    def tell(self, state: str) -> None:
        """Show the step in progress."""
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(ending.printable(state)))

    def watch(self, collector: Collector) -> None:
        """Show the state of the switches."""
        if self._live is not None:
            self.tell(state(collector))


# More than a short pause of the processor leaves.
_MANY_WAITING = 1000


def state(collector: Collector) -> str:
    """The state of the switches, in two lines at most."""
    import time

    from whydrop.text import quantities

    standings = collector.standings
    parts = [f"{standings.answering} switch{'es' if standings.answering != 1 else ''} ok"]
    if failing := standings.failing:
        names = ", ".join(failing[:5]) + (f" and {len(failing) - 5} more" if len(failing) > 5 else "")
        parts.append(f"{len(failing)} failing ({names})")
    worst_ns = standings.worst_lateness_ns()
    if worst_ns is not None:
        parts.append(f"last tick {quantities.duration(worst_ns / 1e9)} late at most")
    if collector.waiting > _MANY_WAITING:
        parts.append(f"{collector.waiting} readings wait to be stored")
    if collector.next_due_ns is not None:
        due = time.strftime("%H:%M:%S", time.gmtime(collector.next_due_ns // 1_000_000_000))
        parts.append(f"next at {due} UTC")
    return "  ".join(parts)


@contextlib.contextmanager
def _display() -> Iterator[_Display]:
    if not sys.stderr.isatty():
        yield _Display()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, refresh_per_second=2, redirect_stdout=True) as live:
        yield _Display(live)
