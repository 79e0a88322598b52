"""``whydrop emulate``: a path made real on this machine, for a program between two hosts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.errors import Error

if TYPE_CHECKING:
    from whydrop.explaining.predicting.described import Described

EXAMPLES = """
\b
Examples:
  whydrop emulate path.toml --rtt 40ms
  whydrop emulate policer:rate=20M,burst=80kB -- ./program
  whydrop emulate fifo:rate=50M,limit=90kB \\
    --far "iperf3 -s" -- sh -c 'iperf3 -c $WHYDROP_FAR'
  whydrop emulate sender.pcap receiver.pcap -- ./program
  whydrop emulate --trace cellular.trace -- ./program
"""
_COMMAND = "whydrop.emulate.command"


class Emulate(Command):
    """A command with another program and its arguments behind ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words behind ``--`` for the program."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[place + 1 :]
        return super().parse_args(ctx, args[:place])


@click.command("emulate", cls=Emulate, epilog=EXAMPLES)
@click.argument("sources", metavar="PATH|CAPTURE... [-- COMMAND...]", nargs=-1)
@click.option("--rtt", "rtt_s", type=quantities.DURATION, metavar="TIME",
              help="Delay on the return path.  [default: of the file or the capture, else 0]")  # fmt: skip
@click.option("--mtu", "mtu_bytes", type=quantities.Whole(1280, 9216), metavar="BYTES",
              help="Largest IP packet.  [default: of the file, else 1500]")  # fmt: skip
@click.option("--trace", type=options.FILE, metavar="FILE",
              help="A link behind the path, from a trace of mahimahi.")  # fmt: skip
@click.option("-R", "--reverse", "is_reverse", is_flag=True, help="The path is for packets from far to near.")
@click.option("--far", multiple=True, metavar="COMMAND", help="Run a program in the far host meanwhile.")
@click.option("--seed", type=quantities.Whole(0, 10**18 - 1), default="1", metavar="NUMBER", show_default=True,
              help="Of the path's random numbers.")  # fmt: skip
@options.as_json
@click.pass_context
def command(ctx: click.Context, /, sources: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Run COMMAND, or a shell, in a host that reaches another one over an emulated path (docs/emulation.md)."""
    from whydrop.emulating import reporting
    from whydrop.emulating.emulation import Emulation

    try:
        setting = _setting(sources, given["trace"])
        trace = _trace(given["trace"])
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, [Path(source) for source in sources])
    rtt_s = given["rtt_s"] if given["rtt_s"] is not None else setting.rtt_s
    found = Emulation(
        setting.path,
        ctx.meta[_COMMAND] or [os.environ.get("SHELL") or "/bin/sh"],
        far=given["far"],
        trace_ms=trace,
        is_reverse=given["is_reverse"],
        round_trip_ns=round((rtt_s or 0.0) * 1e9),
        mtu_bytes=given["mtu_bytes"] or setting.mtu_bytes or 1500,
        seed=given["seed"],
        is_quiet=as_json,
    ).run()
    if as_json:
        ending.write_json(found, indent=2 if sys.stdout.isatty() else None)
    else:
        for line in reporting.lines(found):
            ending.note(line)
    status: int = found["status"]
    return status


def _setting(sources: Sequence[str], trace: Path | None) -> Described:
    from whydrop.cli.explain import explained
    from whydrop.emulating.setting import of_sources

    if not sources and trace is None:
        raise click.UsageError("Give a path, a capture, or a trace by --trace.")
    setting = of_sources(sources, lambda captures: explained(captures, tables=True))
    if setting.is_fitted:
        from whydrop.explaining.replaying import readable
        from whydrop.text.quantities import duration

        ending.note(f"path of the capture: {readable(setting.path)}, round trip {duration(setting.rtt_s or 0.0)}")
    return setting


def _trace(file: Path | None) -> list[int]:
    from whydrop.emulating.setting import trace_of

    return [] if file is None else trace_of(file)
