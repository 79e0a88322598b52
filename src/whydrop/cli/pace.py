"""``whydrop pace``: pace the packets to one host, measure whether that helps, and undo it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.api import changing
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.errors import Error

if TYPE_CHECKING:
    from whydrop.act.changes import Change
    from whydrop.act.pacing import Plan
    from whydrop.act.proving import Proof
    from whydrop.api.changing import Paced

EXAMPLES = """
\b
Examples:
  whydrop pace server.example --dry-run
  whydrop pace server.example --for 30min
  whydrop pace server.example --from depth.json
  whydrop pace server.example --from capture.pcap --keep
  whydrop pace server.example --rate 950M --burst 30kB
  whydrop pace status
  whydrop pace keep
  whydrop pace revert
"""

for_option = click.option(
    "--for", "for_s", type=quantities.DURATION, default="10min", metavar="TIME", show_default=True,
    help="Revert the change after TIME.",
)  # fmt: skip
replace_root = click.option(
    "--replace-root", is_flag=True, help="Replace the interface's queue (root qdisc) even if it was configured by hand."
)


@click.command("pace", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--from", "source", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Take the rate from a capture or from `depth --json`.  [default: search]")  # fmt: skip
@click.option("--rate", type=quantities.RATE, metavar="RATE", help="Pace at RATE (of Ethernet frames), such as 950M.")
@click.option("--burst", type=quantities.SIZE, metavar="SIZE",
              help="Bytes that may leave at once.  [default: the smallest burst that allows RATE]")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE",
              help="Search up to RATE.  [default: the interface's]")  # fmt: skip
@for_option
@click.option("--keep", is_flag=True, help="Keep the change until `whydrop pace revert` or the next boot.")
@options.duration("Shortest time of one measurement.", default="4s", show_default=True)
@click.option("--no-proof", is_flag=True, help="Apply the rate without measuring whether it helps.")
@replace_root
@click.option("--dry-run", is_flag=True, help="Print the tc commands, and change nothing.")
@options.far_end
@options.output_folder("Keep the recordings of all measurements in DIR.", default=None)
@options.as_json
def command(host: str, as_json: bool, **given: Any) -> None:
    """Find the best pacing rate to HOST, apply it, and measure that it helps."""
    _end(lambda: _pace(host, as_json=as_json, options=given))


@command.subcommand("status", short_help="Show the changes on this host.", epilog="Example: whydrop pace status --json")
@options.as_json
def status(as_json: bool) -> None:
    """Show the changes that whydrop has made on this host."""
    _end(lambda: _changes("status", as_json=as_json))


@command.subcommand("keep", short_help="Keep the changes on this host.", epilog="Example: whydrop pace keep")
def keep() -> None:
    """Keep the changes on this host until `whydrop pace revert` or the next boot."""
    _end(lambda: _changes("keep"))


@command.subcommand("revert", short_help="Revert the changes on this host.", epilog="Example: whydrop pace revert")
def revert() -> None:
    """Revert the changes on this host: restore the queues as they were."""
    _end(lambda: _changes("revert"))


@command.subcommand(
    "forget", short_help="Delete records of changes that cannot be reverted.", epilog="Example: whydrop pace forget"
)
def forget() -> None:
    """Delete the records of changes that cannot be reverted, such as those of a removed interface."""
    _end(lambda: _changes("forget"))


def _end(act: Callable[[], int]) -> None:
    """End the program with the status of what was done, or one line about why it was not."""
    try:
        status = act()
    except (Error, OSError) as reason:
        status = ending.status(reason)
    sys.exit(status)


def note(words: str) -> None:
    """Print what was done with changes of an earlier run."""
    print(f"whydrop: {ending.printable(words)}", file=sys.stderr)


def say(words: str) -> None:
    """Print the step in progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"whydrop: {ending.printable(words)}", file=sys.stderr)


def _pace(host: str, *, as_json: bool, options: dict[str, Any]) -> int:
    def planned(plan: Plan, change: Change) -> None:
        if not as_json:
            _print_plan(plan, change)

    changing.recover(note)
    found = whydrop.pace(
        host,
        source=options["source"],
        rate_bps=options["rate"],
        burst_bytes=options["burst"],
        highest_bps=options["max_rate"],
        for_s=options["for_s"],
        keep=options["keep"],
        prove=not options["no_proof"],
        dry_run=options["dry_run"],
        replace_root=options["replace_root"],
        planned=planned,
        **measuring(host, options),
    )
    if as_json:
        ending.write_document(json.dumps(_document(found, host), ensure_ascii=False))
    else:
        _print_found(found, keep=options["keep"], for_s=options["for_s"])
    sys.stdout.flush()
    return 0 if found.helps else ending.NOT_ANALYSED


def measuring(host: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the measurements, as :func:`whydrop.pace` and :func:`whydrop.fix` take them."""
    from whydrop.cli.far_end import far_host

    far = far_host(host, options["port"], options["secret_file"])
    same = {name: options[name] for name in ("duration_s", "port", "ip_version", "output")}
    return {**same, "secret": far.secret, "say": say}


def _print_found(found: Paced, *, keep: bool, for_s: float) -> None:
    if found.outcome == "does not help":
        print("\nPacing does not help on this path: nothing was changed.")
    if found.outcome in ("planned", "does not help"):
        return
    if found.proof is not None:
        print(f"\n{found.proof.sentence()}")
        print_proof(found.proof)
    _print_outcome(good=found.helps, keep=keep, for_s=for_s)
    words = _ticket(found.plan)
    if words is not None:
        print(f"\nThe lasting fix, for the operator of the bottleneck:\n{words}")


_OUTCOMES = {"applied": "applied, not proved", "not better": "not better: reverted"}


def _document(found: Paced, host: str) -> dict[str, Any]:
    plan, change, pace = found.plan, found.change, found.plan.pace
    tried = [] if plan.search is None else plan.search.tried
    return {
        "host": host,
        "interface": change.interface,
        "addresses": [str(address) for address in pace.addresses],
        "rate_bps": pace.rate_bps,
        "burst_bytes": pace.burst_bytes,
        "why": plan.why,
        "measurements": [
            {
                "rate_bps": None if one.rate_bps == float("inf") else one.rate_bps,
                "goodput_bps": one.goodput_bps,
                "sent_again": None if one.retransmitted != one.retransmitted else one.retransmitted,
            }
            for one in tried
        ],
        "commands": change.commands(),
        "notes": list(change.notes),
        "for_the_other_side": _ticket(plan),
        **({} if found.proof is None else {"proof": proof_document(found.proof)}),
        "outcome": _OUTCOMES.get(found.outcome, found.outcome),
    }


def _ticket(plan: Plan) -> str | None:
    from whydrop.act.planning import for_the_other_side

    known = plan.round_trip_s == plan.round_trip_s
    return for_the_other_side(plan.bottleneck, plan.round_trip_s, plan.mss_bytes) if known else None


def proof_document(proof: Proof) -> dict[str, Any]:
    """The proof as JSON; unknown ends of intervals are null."""
    from whydrop.recording.metrics.definitions import METRICS

    def number(value: float) -> float | None:
        return value if value == value else None

    return {
        "aim": proof.aim,
        "holds": proof.holds,
        "sentence": proof.sentence(),
        "price": [{"metric": one.key, "share": -one.gain_share} for one in proof.price],
        "order": list(proof.order),
        "recordings": list(map(str, proof.recordings)),
        "effects": [
            {
                "metric": one.key,
                "units": METRICS[one.key].units,
                "without": one.without,
                "with": one.with_it,
                "difference": {"value": one.difference.value, "low": number(one.difference.low),
                               "high": number(one.difference.high)},
                "better": one.is_better,
                "worse": one.is_worse,
            }
            for one in proof.effects
        ],
    }  # fmt: skip


def print_proof(proof: Proof) -> None:
    """Print each metric without and with the change."""
    from whydrop.recording.metrics.definitions import METRICS
    from whydrop.text.quantities import significant

    print(f"\nMeasured in turns ({', '.join(proof.order)}):")
    for one in proof.effects:
        metric, found = METRICS[one.key], one.difference
        interval = (
            f" (95 % interval {significant(found.low)} to {significant(found.high)})" if found.low == found.low else ""
        )
        change = f"{'+' if found.value >= 0 else ''}{significant(found.value)} {metric.units}{interval}"
        print(f"  {metric.name}: {significant(one.without)} -> {significant(one.with_it)} {metric.units}, {change}")


def _print_plan(plan: Plan, change: Change) -> None:
    print(f"Plan: {ending.printable(change.words)}.")
    print(f"Why:  {ending.printable(plan.why)}.")
    for note in change.notes:
        print(f"Note: {ending.printable(note)}.")
    print("\n".join(["", *change.commands()]))


def _print_outcome(*, good: bool, keep: bool, for_s: float) -> None:
    from whydrop.text.quantities import duration

    if not good:
        print("\nPacing was reverted: the queues are as they were.")
    elif keep:
        print("\nPacing stays until `whydrop pace revert` or the next boot.")
    else:
        print(f"\nPacing stays for {duration(for_s)}. Keep it: whydrop pace keep. Revert it: whydrop pace revert.")


def _changes(do: str, *, as_json: bool = False) -> int:
    """Show, keep, revert or forget the changes on this host."""
    from whydrop.act import reverting, state

    with state.opened() as book:
        try:
            for words in reverting.recover(book) if do != "forget" else ():
                print(f"whydrop: {ending.printable(words)}", file=sys.stderr)
        except reverting.NotRevertedError as reason:
            if do != "status":
                raise
            print(f"whydrop: {ending.printable(str(reason))}", file=sys.stderr)
        entries = book.ours()
        if do == "status":
            _print_status(entries, as_json=as_json)
            return 0
        if not entries:
            print("whydrop: there are no changes on this host.", file=sys.stderr)
            return ending.NOT_ANALYSED if do == "keep" else 0
        for entry in entries:
            if do == "keep":
                book.update(entry, phase="kept")
                print(f"Kept: {ending.printable(entry.words)}.")
            elif do == "revert":
                reverting.revert(book, entry)
                print(f"Reverted: {ending.printable(entry.words)}.")
            else:
                book.drop(entry)
                print(f"Forgotten: {ending.printable(entry.words)}.")
    return 0


def _print_status(entries: list[Any], *, as_json: bool) -> None:
    from whydrop.text.quantities import duration

    if as_json:
        rows = [
            {"interface": one.interface, "host": one.host, "words": one.words, "phase": one.phase,
             "left_s": None if one.phase == "kept" else one.left_s(), "commands": one.commands}
            for one in entries
        ]  # fmt: skip
        ending.write_document(json.dumps({"changes": rows}, ensure_ascii=False))
        return
    if not entries:
        print("There are no changes on this host.")
    for one in entries:
        until = {
            "kept": "kept until `whydrop pace revert`",
            "until": f"reverted in {duration(one.left_s())}",
            "tried": f"on trial by process {one.owner[0]}",
        }[one.phase]
        print(f"{ending.printable(one.words)}; {until}.")
