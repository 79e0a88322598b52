"""``whydrop fix``: measure, explain, try the mildest fix, and keep it only if it helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.api import changing
from whydrop.cli import ending, options, pace, quantities
from whydrop.cli.command import Command
from whydrop.errors import Error

if TYPE_CHECKING:
    from whydrop.act.fixing import Evidence, NoRemedy, Remedy
    from whydrop.act.proving import Proof
    from whydrop.api.changing import Fixed

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
@options.duration("Duration of the load in each measurement.", default="6s", show_default=True)
@click.option("-P", "--flows", type=quantities.Whole(1, 1000), default=1, show_default=True, metavar="N",
              help="Number of TCP flows in the load.")  # fmt: skip
@pace.replace_root
@options.far_end
@options.output_folder("Keep the recordings and the capture in DIR.", default=None)
@click.option("--report", type=options.FILE, metavar="FILE", help="Write one HTML page: verdict, fix and proof.")
@options.as_json
def command(host: str, as_json: bool, **given: Any) -> None:
    """Find out why packets to HOST are dropped or delayed, and try the mildest fix on this host."""
    try:
        status = _fix(host, as_json=as_json, options=given)
    except (Error, OSError) as reason:
        status = ending.status(reason)
    sys.exit(status)


def _fix(host: str, *, as_json: bool, options: dict[str, Any]) -> int:
    def chosen(evidence: Evidence, remedy: Remedy | NoRemedy) -> None:
        if not as_json:
            _print_chosen(evidence, remedy)

    changing.recover(pace.note)
    found = whydrop.fix(
        host,
        apply=options["apply"],
        source=options["source"],
        for_s=options["for_s"],
        keep=options["keep"],
        flows=options["flows"],
        replace_root=options["replace_root"],
        chosen=chosen,
        **pace.measuring(host, options),
    )
    evidence, remedy, proof, outcome = found.evidence, found.remedy, found.proof, _outcome(found, options)
    if not as_json:
        print(f"\n{outcome}")
        if proof is not None:
            print(f"\nTried:    {ending.printable(found.words)}.")
            pace.print_proof(proof)
        _print_ticket(evidence, remedy)
    if options["report"] is not None:
        _write_report(options["report"], host, evidence, remedy, proof, outcome)
    if as_json:
        ending.write_document(json.dumps(_document(host, evidence, remedy, proof, outcome), ensure_ascii=False))
    sys.stdout.flush()
    return 0 if found.helps else ending.NOT_ANALYSED


def _outcome(found: Fixed, options: dict[str, Any]) -> str:
    from whydrop.act.fixing import NoRemedy
    from whydrop.text.quantities import duration

    remedy, proof = found.remedy, found.proof
    if isinstance(remedy, NoRemedy):
        return "Nothing was changed."
    if proof is None:
        return "Nothing was changed. Try it: --apply."
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
