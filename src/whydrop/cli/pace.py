"""``whydrop pace``: pace the packets to one host, measure whether that helps, and undo it."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.act.changes import Change
    from whydrop.act.measuring import Meter
    from whydrop.act.pacing import Plan, Route
    from whydrop.act.proving import Proof

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
replace_root = click.option("--replace-root", is_flag=True, help="Replace a root queue that someone has configured.")


@click.command("pace", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--from", "source", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Take the rate from a capture or from `depth --json`.  [default: search]")  # fmt: skip
@click.option("--rate", type=quantities.RATE, metavar="RATE", help="Pace at RATE (of Ethernet frames), such as 950M.")
@click.option("--burst", type=quantities.SIZE, metavar="SIZE",
              help="Bytes that may leave at once.  [default: the least for RATE]")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE",
              help="Search up to RATE.  [default: the interface's]")  # fmt: skip
@for_option
@click.option("--keep", is_flag=True, help="Keep the change until `whydrop pace revert` or the next boot.")
@options.duration("Time of one measurement, at least.", default="4s", show_default=True)
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
    """Keep the changes on this host until they are reverted, or the next boot."""
    _end(lambda: _changes("keep"))


@command.subcommand("revert", short_help="Revert the changes on this host.", epilog="Example: whydrop pace revert")
def revert() -> None:
    """Revert the changes on this host: the queues are again as they were."""
    _end(lambda: _changes("revert"))


@command.subcommand(
    "forget", short_help="Forget changes that cannot be reverted.", epilog="Example: whydrop pace forget"
)
def forget() -> None:
    """Forget changes that cannot be reverted, such as those of an interface that is gone."""
    _end(lambda: _changes("forget"))


def _end(act: Callable[[], int]) -> None:
    """End the program with the status of what was done, or one line about why it was not."""
    try:
        status = act()
    except problems() as reason:
        status = ending.status(reason)
    sys.exit(status)


def problems() -> tuple[type[BaseException], ...]:
    """The exceptions that end the program with one line."""
    from whydrop._core import CaptureError
    from whydrop.act.applying import LostError
    from whydrop.act.changes import CannotChangeError
    from whydrop.act.measuring import NoMeasurementError
    from whydrop.act.planning import NoPlanError
    from whydrop.act.reverting import NotRevertedError
    from whydrop.act.state import StateError
    from whydrop.measure.engine import EngineError
    from whydrop.recording.errors import RecordingError

    return (
        CannotChangeError, LostError, NoMeasurementError, NoPlanError, NotRevertedError, EngineError, RecordingError,
        CaptureError, StateError, OSError,
    )  # fmt: skip


def meter_for(host: str, options: dict[str, Any], stack: ExitStack) -> Meter:
    """The meter of a host; its recordings are temporary unless a folder is named."""
    from whydrop.act.measuring import Meter
    from whydrop.cli.far_end import far_host

    far = far_host(host, options["port"], options["secret_file"])
    folder = options["output"] or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whydrop-")))
    folder.mkdir(parents=True, exist_ok=True)
    return Meter(far, folder, options["duration_s"], options["ip_version"], say=say)


def recovered() -> None:
    """Revert the changes that an earlier run left behind, where this process may, and say so."""
    from whydrop.act import reverting, state

    if not reverting.allowed():
        return
    with state.opened() as book:
        for words in reverting.recover(book):
            print(f"whydrop: {ending.printable(words)} (left by an earlier run)", file=sys.stderr)


def say(words: str) -> None:
    """Print the step in progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"whydrop: {ending.printable(words)}", file=sys.stderr)


def _pace(host: str, *, as_json: bool, options: dict[str, Any]) -> int:
    from whydrop.act import pacing, reverting
    from whydrop.act.applying import leased
    from whydrop.act.changes import CannotChangeError
    from whydrop.act.measuring import read
    from whydrop.recording.recording import Recording

    recovered()
    if not options["dry_run"] and not reverting.allowed():
        raise CannotChangeError(
            "changing queues needs CAP_NET_ADMIN: run as root, or print the commands with --dry-run"
        )
    replacing = {"replace_root": options["replace_root"]}
    with ExitStack() as stack:
        meter = meter_for(host, options, stack)
        route = pacing.route_to(meter.host.address or host, options["ip_version"])
        known, highest_bps = _known_plan(route, options)
        lease = None
        if known is None and not options["dry_run"]:
            lease = stack.enter_context(leased(pacing.to_be_tried(route, **replacing), host))
        plan = known or pacing.searched(meter, route, lease, highest_bps=highest_bps, **replacing)
        change = pacing.change_for(plan, route, **replacing)
        document = _document(plan, change, host)
        if not as_json:
            _print_plan(plan, change)
        if options["dry_run"] or not plan.helps:
            if not plan.helps and not as_json:
                print("\nPacing does not help on this path: nothing was changed.")
            return _ended(document, "planned" if plan.helps else "does not help", as_json=as_json, good=plan.helps)
        if lease is None:
            lease = stack.enter_context(leased(change, host))
        lease.use(change)
        outcome, good = "applied, not proved", True
        if not options["no_proof"]:
            lease.off()
            proof = pacing.proved(meter, lease)
            first = read(Recording.open(proof.recordings[0]))
            plan = dataclasses.replace(plan, round_trip_s=first.min_rtt_s, mss_bytes=first.mss_bytes)
            document |= {"proof": proof_document(proof), "for_the_other_side": _ticket(plan)}
            good = proof.holds
            outcome = "better" if good else "not better: reverted"
            if not as_json:
                print(f"\n{proof.sentence()}")
                print_proof(proof)
        if good:
            lease.leave("kept" if options["keep"] else "until", options["for_s"])
        else:
            lease.end()
        if not as_json:
            _print_outcome(good=good, keep=options["keep"], for_s=options["for_s"])
            _print_ticket(plan)
        return _ended(document, outcome, as_json=as_json, good=good)


def _ended(document: dict[str, Any], outcome: str, *, as_json: bool, good: bool) -> int:
    if as_json:
        ending.write_document(json.dumps({**document, "outcome": outcome}, ensure_ascii=False))
    sys.stdout.flush()
    return 0 if good else ending.NOT_ANALYSED


def _known_plan(route: Route, options: dict[str, Any]) -> tuple[Plan | None, float | None]:
    """The plan where the rate is known; ``None`` and the highest rate where it must be searched for."""
    from whydrop.act import pacing, planning
    from whydrop.act.changes import Pace

    if options["rate"] is not None:
        rate = options["rate"]
        given = planning.Bottleneck("unknown", planning.Estimate(rate), found="the rate was given")
        burst = options["burst"]
        return pacing.known(given, Pace(rate, round(burst) if burst else planning.burst_for(rate)), route), None
    if options["source"] is not None:
        bottleneck = _known(options["source"])
        if bottleneck.is_uncertain:
            say("the interval of the rate is wide: searching for the rate")
            return None, options["max_rate"] or bottleneck.rate_bps.high
        return pacing.known(bottleneck, planning.pace_for(bottleneck), route), None
    return None, options["max_rate"]


def _known(source: Path) -> Any:
    import whydrop
    from whydrop.act import planning

    with source.open("rb") as file:
        if file.read(64).lstrip().startswith(b"{"):
            return planning.from_depth(source.read_text(errors="replace"), str(source))
    document = whydrop.explain(source).document
    for verdict in document["verdicts"]:
        found = planning.from_verdict(verdict)
        if found is not None:
            return found
    headline = document["verdicts"][0]["sentence"] if document["verdicts"] else "no verdict"
    raise planning.NoPlanError(f"{source}: no verdict in it gives a rate to pace at ({headline})")


def _document(plan: Plan, change: Change, host: str) -> dict[str, Any]:
    pace = plan.pace
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


def _print_ticket(plan: Plan) -> None:
    words = _ticket(plan)
    if words is not None:
        print(f"\nThe lasting fix, for the operator of the bottleneck:\n{words}")


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
