"""``whydrop pace``: pace the packets to one host, measure whether that helps, and undo it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.text.quantities import long_duration

if TYPE_CHECKING:
    from whydrop.act.changes import Change
    from whydrop.act.pacing import Plan

EXAMPLES = """
\b
Examples:
  whydrop pace server.example --dry-run
  whydrop pace server.example --for 30min
  whydrop pace server.example --far-end iperf3
  whydrop pace a.example --far-end http://a.example/up
  whydrop pace server.example --from depth.json
  whydrop pace server.example --from capture.pcap --keep
  whydrop pace server.example --rate 950M --burst 30kB
  whydrop pace status
  whydrop pace keep
  whydrop pace revert
"""

SOURCE = click.Path(path_type=Path, dir_okay=False, exists=True)
for_option = click.option(
    "--for", "for_s", type=quantities.DURATION, default="10min", metavar="TIME", show_default=True,
    help="Revert the change after TIME.",
)  # fmt: skip
far_end = click.option(
    "--far-end", default="responder", metavar="KIND",
    help="iperf3, nuttcp, ssh or a URL.  [default: responder]",
)  # fmt: skip
connections = click.option("--connections", is_flag=True, help="Send nothing: judge by existing connections to HOST.")
replace_root = click.option(
    "--replace-root", is_flag=True, help="Replace the interface's queue (root qdisc) even if it was configured by hand."
)


@click.command("pace", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--from", "source", type=SOURCE, metavar="FILE",
              help="Take the rate from a capture or from `depth --json`.  [default: search]")  # fmt: skip
@click.option("--rate", "rate_bps", type=quantities.RATE, metavar="RATE",
              help="Pace at RATE (of Ethernet frames), such as 950M.")  # fmt: skip
@click.option("--burst", "burst_bytes", type=quantities.SIZE, metavar="SIZE",
              help="Bytes that may leave at once.  [default: the smallest burst that allows RATE]")  # fmt: skip
@click.option("--mtu", "mtu_bytes", type=quantities.SIZE, metavar="SIZE",
              help="Keep packets to HOST to SIZE bytes, and do not pace.")  # fmt: skip
@click.option("--max-rate", "highest_bps", type=quantities.RATE, metavar="RATE",
              help="Search up to RATE.  [default: the interface's]")  # fmt: skip
@for_option
@click.option("--keep", is_flag=True, help="Keep the change until `whydrop pace revert` or the next boot.")
@options.duration("Shortest time of one measurement.", default="4s", show_default=True)
@click.option("--no-proof", "prove", is_flag=True, flag_value=False, default=True,
              help="Apply the rate without measuring whether it helps.")  # fmt: skip
@replace_root
@click.option("--dry-run", is_flag=True, help="Print the commands, and change nothing.")
@far_end
@connections
@options.far_end
@options.output_folder("Keep the recordings of all measurements in DIR.", default=None)
@options.as_json
def command(host: str, keep: bool, for_s: float, as_json: bool, **given: Any) -> int:
    """Find the best pacing rate to HOST, apply it, and measure whether it helps."""
    from whydrop.act import documents
    from whydrop.api.changing import recover

    def planned(plan: Plan, change: Change) -> None:
        if not as_json:
            ending.show(documents.of_plan(plan, change))

    _check_usage(given)
    recover(ending.note)
    found = whydrop.pace(host, keep=keep, for_s=for_s, planned=planned, say=say, **given)
    if as_json:
        ending.write_json(documents.pacing_as_json(found, host))
    else:
        print()
        ending.show(documents.of_pacing(found, keep=keep, for_s=for_s))
    return 0 if found.helps else ending.NOT_ANALYSED


def _check_usage(given: dict[str, Any]) -> None:
    """Refuse a rate beside --mtu, which does not pace."""
    options_of_rates = {"--rate": "rate_bps", "--burst": "burst_bytes", "--max-rate": "highest_bps", "--from": "source"}
    named = [option for option, name in options_of_rates.items() if given[name] is not None]
    if given["mtu_bytes"] is not None and named:
        raise click.UsageError(f"--mtu keeps packets small and does not pace: leave out {', '.join(named)}.")


@command.subcommand("status", short_help="Show the changes on this host.", epilog="Example: whydrop pace status --json")
@options.as_json
def status(as_json: bool) -> None:
    """Show the changes that whydrop has made on this host."""
    from whydrop.act.reverting import NotRevertedError
    from whydrop.api.changing import recover
    from whydrop.show.document import Document, Text

    try:
        recover(ending.note)
    except NotRevertedError as reason:
        ending.note(reason)
    found = whydrop.pace_status()
    if as_json:
        ending.write_json({"changes": found})
        return
    lines = map(_line, found) if found else ["There are no changes on this host."]
    ending.show(Document("Changes", tuple(map(Text, lines))))


def _line(change: dict[str, Any]) -> str:
    until = {"kept": "kept until `whydrop pace revert`", "tried": f"on trial by process {change['process']}"}
    return f"{change['words']}; {until.get(change['phase']) or 'reverted in ' + long_duration(change['left_s'])}."


@command.subcommand("keep", short_help="Keep the changes on this host.", epilog="Example: whydrop pace keep")
def keep() -> int:
    """Keep the changes on this host until `whydrop pace revert` or the next boot."""
    return 0 if _each("Kept", whydrop.pace_keep) else ending.NOT_ANALYSED


@command.subcommand("revert", short_help="Revert the changes on this host.", epilog="Example: whydrop pace revert")
def revert() -> None:
    """Revert the changes on this host: restore the queues as they were."""
    _each("Reverted", whydrop.pace_revert)


@command.subcommand(
    "forget", short_help="Delete records of changes that cannot be reverted.", epilog="Example: whydrop pace forget"
)
def forget() -> None:
    """Delete the records of changes that cannot be reverted, such as those of a removed interface."""
    _each("Forgotten", whydrop.pace_forget, recovering=False)


def _each(done: str, do: Callable[[], list[str]], *, recovering: bool = True) -> int:
    """Do something with all changes, and say so; the number of them."""
    from whydrop.api.changing import recover

    if recovering:
        recover(ending.note)
    changes = do()
    for words in changes:
        print(f"{done}: {ending.printable(words)}.")
    if not changes:
        ending.note("there are no changes on this host.")
    return len(changes)


def say(words: str) -> None:
    """Print the step in progress, on a terminal only."""
    if sys.stderr.isatty():
        ending.note(words)
