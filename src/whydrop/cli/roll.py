"""``whydrop roll``: hold the packets of the last seconds, and keep and explain them when a trigger fires."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import whydrop
from whydrop.cli import ending, options, progress, quantities
from whydrop.cli.command import Command
from whydrop.runtime.cancelling import Deferred, deferred

_EXAMPLES = """
\b
Examples:
  whydrop roll --loss 3
  whydrop roll eth0 --delay 200ms --filter 'port 443'
  whydrop roll --verdict network -o /var/tmp
"""
_LINE_EVERY_S = 5.0
_STEP_S = 0.2


@click.command("roll", cls=Command, epilog=_EXAMPLES)
@click.argument("interface", default="any")
@click.option("--filter", "filter_", default="", metavar="FILTER", help="Only packets such as 'tcp and port 443'.")
@click.option("--seconds", type=quantities.DURATION, default="30s", show_default=True, metavar="TIME",
              help="Time to hold.")  # fmt: skip
@click.option("--bytes", "max_bytes", type=quantities.SIZE, default="256MB", show_default=True, metavar="SIZE",
              help="Bytes to hold on disk.")  # fmt: skip
@click.option("--snap", "snap_bytes", type=quantities.Whole(64, 262_144), default=256, show_default=True,
              metavar="BYTES", help="Bytes of each packet.")  # fmt: skip
@click.option("--loss", "loss_packets", type=quantities.Whole(1), metavar="N",
              help="Keep when N segments are retransmitted in 1 s.")  # fmt: skip
@click.option("--delay", "delay_s", type=quantities.DURATION, metavar="TIME", help="Keep when an RTT is above TIME.")
@click.option("--verdict", "limits", multiple=True, metavar="LIMIT",
              help="Keep when LIMIT holds, such as network. Repeatable.")  # fmt: skip
@click.option("--after", "after_s", type=quantities.DURATION, default="3s", show_default=True, metavar="TIME",
              help="Time to go on after a trigger.")  # fmt: skip
@click.option("--hold-off", "hold_off_s", type=quantities.DURATION, default="1min", show_default=True,
              metavar="TIME", help="Time between triggers.")  # fmt: skip
@click.option("--keep", "max_kept", type=quantities.Whole(1), default=20, show_default=True, metavar="N",
              help="Most captures to keep.")  # fmt: skip
@click.option("--keep-bytes", "max_kept_bytes", type=quantities.SIZE, default="2GB", show_default=True,
              metavar="SIZE", help="Most bytes to keep.")  # fmt: skip
@options.duration("Stop after TIME.  [default: at Ctrl-C]")
@options.output_folder("Folder for kept captures.  [default: here]")
@options.quiet
@options.as_json
def command(
    interface: str,
    filter_: str,
    duration_s: float | None,
    output: Path,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Hold the last seconds of INTERFACE (any), and keep and explain them when a trigger fires (docs/rolling.md).

    Enter, or the signal SIGUSR1, keeps them at once.
    """
    options.above_zero("--duration", duration_s)
    given |= {name: round(given[name]) for name in ("max_bytes", "max_kept_bytes")}
    with progress.screen(on_stderr=True) if not quiet else contextlib.nullcontext(progress.Screen()) as screen:

        def event(of: dict[str, Any]) -> None:
            if "message" in of:
                screen.say(of["message"])
            elif not as_json and of["kept"]["state"] != "explaining":
                print(line(of["kept"]), flush=True)

        rolling = whydrop.roll(interface, filter=filter_, output=output, on_event=event, **given)
        with deferred() as signals:
            with signals.ending_block(), _signalled(rolling):
                _follow(rolling, screen, duration_s, signals)
            # What is kept is explained, also after Ctrl-C.
            rolling.stop()
    state = rolling.status()
    if as_json:
        ending.write_json(state)
    else:
        ending.note(summary(state))
    return ending.NOT_ANALYSED if state["problem"] else 0


def _follow(rolling: whydrop.Roll, screen: progress.Screen, duration_s: float | None, signals: Deferred) -> None:
    from whydrop.show.document import Document, Section, Text

    until_s = None if duration_s is None else time.monotonic() + duration_s
    while until_s is None or time.monotonic() < until_s:
        with signals.allowed():
            if rolling.wait(_STEP_S):
                return
        if screen.height:
            state = rolling.status()
            shown = [summary(state), *([f"Trigger: {state['pending']}"] if state["pending"] else [])]
            screen.draw(Document("Rolling capture", (Section("Rolling capture", tuple(map(Text, shown))),)))
        if sys.stdin is not None and sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            rolling.keep()


@contextlib.contextmanager
def _signalled(rolling: whydrop.Roll) -> Iterator[None]:
    """SIGUSR1 keeps a capture."""
    # The flag is read by a thread: a handler must not wait for locks that the code below it may hold.
    wanted, over = threading.Event(), threading.Event()

    def serve() -> None:
        while not over.is_set():
            if wanted.wait(_STEP_S):
                wanted.clear()
                rolling.keep("by a signal")

    before = signal.signal(signal.SIGUSR1, lambda *_: wanted.set())
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
        over.set()
        thread.join()


def line(kept: dict[str, Any]) -> str:
    """A kept capture in lines: what fired, the verdict and how long it took, and the file."""
    from whydrop.text.quantities import duration

    moment = time.strftime("%H:%M:%S", time.gmtime(kept["time_s"]))
    verdict = kept["verdict"] or f"no verdict: {kept['problem']}"
    took = "" if kept["took_s"] is None else f" [{duration(kept['took_s'])} after the trigger]"
    lines = [f"{moment}  {kept['kind']}: {kept['why']}", f"  {verdict}{took}", *(f"  {one}" for one in kept["paths"])]
    return "\n".join(map(ending.printable, lines))


def summary(state: dict[str, Any]) -> str:
    """The state in a line."""
    from whydrop.text.quantities import count, duration, percent, plural, size

    parts = [
        f"{state['interface']}: {duration(state['buffered_s'])} and {size(state['buffered_bytes'])} buffered",
        f"{plural(state['packets'], 'packet')} captured",
        f"{count(state['dropped'])} dropped by the kernel",
        *([f"{count(state['unwritten'])} not written"] if state["unwritten"] else []),
        f"{plural(len(state['kept']), 'capture')} kept",
        *([f"{plural(state['skipped'], 'trigger')} skipped"] if state["skipped"] else []),
        f"{percent(state['cpu_share'])} of a processor for capturing",
        *([state["problem"]] if state["problem"] else []),
    ]
    return ", ".join(parts)
