"""``whydrop fix``: measure, explain, try the mildest fix, and keep it only if it helps."""

from __future__ import annotations

import dataclasses
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, pace, quantities
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.act.fixing import Evidence, NoRemedy, Remedy
    from whydrop.act.measuring import Meter
    from whydrop.act.pacing import Route
    from whydrop.act.proving import Proof

EXAMPLES = """
\b
Examples:
  whydrop fix server.example
  whydrop fix server.example --apply --report fix.html
  whydrop fix server.example --from capture.pcap --apply
"""


@click.command("fix", cls=Command, epilog=EXAMPLES)
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--apply", "apply", is_flag=True, help="Try the fix.  [default: change nothing]")
@click.option("--from", "source", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="CAPTURE",
              help="Explain CAPTURE instead of measuring.")  # fmt: skip
@pace.for_option
@click.option("--keep", is_flag=True, help="Keep a fix that helps until `whydrop pace revert` or the next boot.")
@options.duration("Time of the load of one measurement.", default="6s", show_default=True)
@click.option("-P", "--flows", type=quantities.Whole(1, 1000), default=1, show_default=True, metavar="N",
              help="TCP flows of the load.")  # fmt: skip
@pace.replace_root
@options.far_end
@options.output_folder("Keep the recordings and the capture in DIR.", default=None)
@click.option("--report", type=options.FILE, metavar="FILE", help="Write one HTML page: verdict, fix and proof.")
@options.as_json
def command(host: str, as_json: bool, **given: Any) -> None:
    """Find out why packets to HOST are dropped or delayed, and try the mildest fix on this host."""
    try:
        status = _fix(host, as_json=as_json, options=given)
    except pace.problems() as reason:
        status = ending.status(reason)
    sys.exit(status)


def _fix(host: str, *, as_json: bool, options: dict[str, Any]) -> int:
    from whydrop.act import fixing, pacing

    pace.recovered()
    with ExitStack() as stack:
        meter = pace.meter_for(host, options, stack)
        meter.flows = options["flows"]
        route = pacing.route_to(meter.host.address or host, options["ip_version"])
        source = options["source"]
        evidence = fixing.of_capture(source) if source is not None else fixing.measured(meter, route)
        chosen = fixing.choose(evidence, route, replace_root=options["replace_root"])
        if not as_json:
            _print_chosen(evidence, chosen)
        proof = None
        if isinstance(chosen, fixing.NoRemedy):
            outcome, good = "Nothing was changed.", True
        elif not options["apply"]:
            outcome, good = "Nothing was changed. Try it: --apply.", True
        else:
            chosen, proof = _tried(meter, route, chosen, host, options)
            good = proof.holds
            outcome = _outcome(proof, chosen, options)
        if not as_json:
            print(f"\n{outcome}")
            if proof is not None:
                print(
                    f"\nTried:    {ending.printable(chosen.words)}." if not isinstance(chosen, fixing.NoRemedy) else ""
                )
                pace.print_proof(proof)
            _print_ticket(evidence, chosen)
        if options["report"] is not None:
            _write_report(options["report"], host, evidence, chosen, proof, outcome)
        if as_json:
            ending.write_document(json.dumps(_document(host, evidence, chosen, proof, outcome), ensure_ascii=False))
        sys.stdout.flush()
        return 0 if good else ending.NOT_ANALYSED


def _tried(meter: Meter, route: Route, remedy: Remedy, host: str, options: dict[str, Any]) -> tuple[Remedy, Proof]:
    """The fix with the rate that the search found, and the proof of it."""
    from whydrop.act import fixing, pacing
    from whydrop.act.applying import leased

    if remedy.change is None:
        return remedy, fixing.prove(meter, remedy, lambda: None, lambda: None)
    replacing = {"replace_root": options["replace_root"]}
    with leased(remedy.change, host) as lease:
        if remedy.highest_bps is not None:
            highest_bps = min(remedy.highest_bps, route.speed_bps)
            plan = pacing.searched(meter, route, lease, highest_bps=highest_bps, **replacing)
            change = pacing.change_for(plan, route, **replacing)
            lease.use(change)
            lease.off()
            remedy = dataclasses.replace(remedy, change=change, words=f"{change.words}; {plan.why}")
        proof = fixing.prove(meter, remedy, lease.on, lease.off)
        if proof.holds:
            lease.leave("kept" if options["keep"] else "until", options["for_s"])
    return remedy, proof


def _outcome(proof: Proof, remedy: Remedy, options: dict[str, Any]) -> str:
    from whydrop.text.quantities import duration

    result = proof.sentence()
    if not proof.holds:
        return f"{result} The fix was reverted: this host is as it was before."
    if remedy.change is None:
        return f"{result} This host was not changed. Make the fix permanent: {'; '.join(remedy.commands)}"
    if options["keep"]:
        return f"{result} The fix stays until `whydrop pace revert` or the next boot."
    return (
        f"{result} The fix stays for {duration(options['for_s'])}. "
        "Keep it: whydrop pace keep. Revert it: whydrop pace revert."
    )


def _print_chosen(evidence: Evidence, chosen: Remedy | NoRemedy) -> None:
    from whydrop.act.fixing import NoRemedy

    verdict = evidence.headline
    if verdict is not None:
        print(f"Verdict: {ending.printable(verdict['sentence'])}")
        for line in verdict["evidence"]:
            print(f"  - {ending.printable(line)}")
    for note in evidence.notes:
        print(f"Note: {ending.printable(note)}.")
    if isinstance(chosen, NoRemedy):
        print(f"\nNo fix: {chosen.why}.")
        return
    print(f"\nFix:      {ending.printable(chosen.words)}.")
    print(f"Expected: {chosen.expected}.")
    for line in chosen.change.commands() if chosen.change is not None else chosen.commands:
        print(f"  $ {line}")


def _print_ticket(evidence: Evidence, chosen: Remedy | NoRemedy) -> None:
    from whydrop.act.fixing import NoRemedy, for_the_other_side

    words = None if isinstance(chosen, NoRemedy) else for_the_other_side(evidence, chosen)
    if words is not None:
        print(f"\nThe lasting fix, for the operator of the bottleneck:\n{words}")


def _write_report(
    path: Path, host: str, evidence: Evidence, chosen: Remedy | NoRemedy, proof: Proof | None, outcome: str
) -> None:
    from whydrop.act import fix_page
    from whydrop.runtime import durable
    from whydrop.show import html

    durable.write_bytes(path, html.page(fix_page.document(host, evidence, chosen, proof, outcome)).encode())
    print(f"Report: {ending.printable(str(path))}", file=sys.stderr)


def _document(
    host: str, evidence: Evidence, chosen: Remedy | NoRemedy, proof: Proof | None, outcome: str
) -> dict[str, Any]:
    from whydrop.act.fixing import NoRemedy, for_the_other_side

    fix, ticket = None, None
    if not isinstance(chosen, NoRemedy):
        commands = chosen.change.commands() if chosen.change is not None else list(chosen.commands)
        ticket = for_the_other_side(evidence, chosen)
        fix = {"words": chosen.words, "expected": chosen.expected, "aim": chosen.aim, "commands": commands}
    return {
        "host": host,
        "verdict": evidence.headline,
        "recording": None if evidence.recording is None else str(evidence.recording),
        "notes": list(evidence.notes),
        "fix": fix,
        "why_not": chosen.why if isinstance(chosen, NoRemedy) else None,
        "proof": None if proof is None else pace.proof_document(proof),
        "for_the_other_side": ticket,
        "kept": proof is not None and proof.holds,
        "outcome": outcome,
    }
