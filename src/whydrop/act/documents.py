"""Pacing and fixing as documents: the plan, the fix, the proof and the outcome, for people and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from whydrop.act import planning
from whydrop.act.alternatives import Alternative, alternatives
from whydrop.act.changes import Change
from whydrop.act.fixing import Evidence, Fixed, NoRemedy, Remedy
from whydrop.act.pacing import Paced, Plan
from whydrop.act.proving import Effect, Proof
from whydrop.recording.document import plain
from whydrop.recording.metrics.definitions import METRICS
from whydrop.show.document import (
    Choice,
    Column,
    Columns,
    Command,
    Document,
    Facts,
    Figures,
    Items,
    Part,
    Section,
    Table,
    Text,
    parts,
)
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.show.theme import STYLES
from whydrop.text.phrases import capital
from whydrop.text.quantities import exact_size, interval, long_duration, signed, significant, with_unit

_FOR_LARGE_PACKETS = (
    "A hop on the path drops large packets where it forwards as many bytes in packets of {size}: a queue or a policer "
    "takes a few of them at once. Please raise the buffer of that port (or the policer's burst), or lower the MTU of "
    "the path where it begins."
)
_OUTCOMES = {"applied": "applied, not proved", "not better": "not better: reverted"}


def stays(*, keep: bool, for_s: float) -> str:
    """How long a change stays."""
    if keep:
        return "stays until `whydrop pace revert` or the next boot."
    return f"stays for {long_duration(for_s)}. Keep it: whydrop pace keep. Revert it: whydrop pace revert."


# --- pacing ---


def of_plan(plan: Plan, change: Change) -> Document:
    """A plan for people, before it is proved."""
    title = f"Plan: {change.words}."
    notes = (Text(f"Note: {note}.", "warning") for note in change.notes)
    shown: tuple[Part, ...] = (Text(f"Why: {plan.why}."), *notes, *map(Command, change.commands()))
    others: tuple[Part, ...] = tuple(_others(alternatives(plan, change)))
    return Document(title, parts(Section(title, shown), Section("Or, in its place", others)))


def _others(found: Iterable[Alternative]) -> Iterator[Text | Command]:
    for one in found:
        yield Text(f"{capital(one.words)}.")
        yield from map(Command, one.commands)


def of_pacing(found: Paced, *, keep: bool, for_s: float) -> Document:
    """The outcome for people, after the plan."""
    if found.outcome == "planned":
        return Document("Planned", ())
    if found.outcome == "does not help":
        text = Text("Pacing does not help on this path: nothing was changed.")
        return Document("", parts(text, Text(_sizes(found))))
    what = "Pacing" if found.plan.mtu_bytes is None else "The route"
    outcome = f"{what} {stays(keep=keep, for_s=for_s)}"
    if not found.helps:
        outcome = f"{what} was reverted: this host is as it was."
    title = outcome if found.proof is None else found.proof.sentence()
    shown = parts(
        Text("" if found.proof is None else outcome),
        Text("" if found.proof is None else found.judged.words),
        Text("" if found.plan.mtu_bytes is not None else _sizes(found)),
        None if found.proof is None else Section("Proof", tuple(_effects(found.proof))),
        _lasting_fix(_ticket(found)),
    )
    return Document(title, (Section(title, shown),))


def _sizes(found: Paced) -> str:
    return "" if found.sizes is None else f"{capital(found.sizes.words)}."


def _ticket(found: Paced) -> str | None:
    plan = found.plan
    if math.isnan(plan.round_trip_s):
        return None
    if plan.mtu_bytes is not None:
        return _FOR_LARGE_PACKETS.format(size=exact_size(plan.mtu_bytes)) if found.helps else None
    return planning.for_the_other_side(plan.bottleneck, plan.round_trip_s, plan.mss_bytes)


def pacing_as_json(found: Paced, host: str) -> dict[str, Any]:
    """The outcome as ``whydrop pace --json`` prints it."""
    plan, change = found.plan, found.change
    return {
        "host": host,
        "interface": change.interface,
        "addresses": [str(address) for address in change.addresses],
        "rate_bps": plan.rate_bps if plan.mtu_bytes is None else None,
        "burst_bytes": plan.burst_bytes if plan.mtu_bytes is None else None,
        "mtu_bytes": plan.mtu_bytes,
        "why": plan.why,
        "larger_burst": None if plan.larger_burst is None else plain(dataclasses.asdict(plan.larger_burst)),
        # What is not finite is null: the rate of a flow that is not paced.
        "measurements": plain(
            [
                {"rate_bps": one.rate_bps, "goodput_bps": one.goodput_bps, "sent_again": one.retransmitted}
                for one in (plan.search.tried if plan.search is not None else ())
            ]
        ),
        "packet_sizes": None if found.sizes is None else plain(found.sizes.as_json()),
        "commands": change.commands(),
        "alternatives": [one.as_json() for one in alternatives(plan, change)],
        "notes": list(change.notes),
        "for_the_other_side": _ticket(found),
        **({} if found.proof is None else {"proof": _proof_as_json(found.proof)}),
        **found.judged.as_json(),
        "outcome": _OUTCOMES.get(found.outcome, found.outcome),
    }


# --- fixing ---


def outcome_of(found: Fixed, *, keep: bool, for_s: float) -> str:
    """The end of a fix in a sentence or two."""
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
    return f"{result} The fix {stays(keep=keep, for_s=for_s)}"


def of_choice(evidence: Evidence, remedy: Remedy | NoRemedy) -> Document:
    """The verdict, and the fix that follows from it, before it is tried."""
    verdict, fix = _verdict(evidence), Section("Fix", tuple(_fix(remedy)), key="fix")
    return Document(verdict.title, (verdict, fix))


def of_outcome(found: Fixed, outcome: str) -> Document:
    """The outcome for people, after the choice."""
    return Document(outcome, (Section(outcome, _after(found)),))


def of_fix(host: str, found: Fixed, outcome: str) -> Document:
    """A fix on one page: the verdict, the fix, its proof with every run, and the outcome."""
    fix = Section("Fix", (*_fix(found.remedy), Text(outcome, "strong")), key="fix")
    runs = () if found.proof is None else (Figures((Choice([figure(found.proof)]),), "runs"),)
    shown = parts(*_after(found), Section("Runs", runs, key="runs"))
    return Document(f"{host}: {outcome}", (_verdict(found.evidence), fix, *shown), source=host)


def _verdict(evidence: Evidence) -> Section:
    verdict = evidence.headline or {
        "sentence": "There is no verdict.", "cause": "unknown", "evidence": (), "against": (),
    }  # fmt: skip
    reasons = Facts(tuple((one["cause"], one["why"]) for one in verdict["against"]))
    shown = parts(
        Section("Evidence", parts(Items.of(map(capital, [*verdict["evidence"], *evidence.notes])))),
        Section("Why not something else", parts(reasons)),
    )
    return Section(verdict["sentence"], shown, key="verdict", cause=verdict["cause"])


def _fix(remedy: Remedy | NoRemedy) -> Iterator[Part]:
    if isinstance(remedy, NoRemedy):
        yield Text(f"No fix is tried: {remedy.why}.")
        return
    yield Text(f"{capital(remedy.words)}.")
    yield Text(f"Expected: {remedy.expected}.")
    if remedy.change is not None:
        yield from (Text(f"Note: {note}.", "warning") for note in remedy.change.notes)
    yield from map(Command, remedy.all_commands())
    if remedy.others:
        yield Section("Or, in its place", tuple(_others(remedy.others)))


def _after(found: Fixed) -> tuple[Part, ...]:
    proof = () if found.proof is None else (*parts(Text(found.judged.words)), *_effects(found.proof))
    return parts(Section("Proof", proof, key="proof"), _lasting_fix(found.ticket))


def _lasting_fix(ticket: str | None) -> Section | None:
    return Section("Lasting fix, for the operator of the bottleneck", (Text(ticket),)) if ticket else None


def fix_as_json(host: str, found: Fixed, outcome: str) -> dict[str, Any]:
    """A fix as ``whydrop fix --json`` prints it."""
    evidence, remedy, proof = found.evidence, found.remedy, found.proof
    fix = None
    if isinstance(remedy, Remedy):
        fix = {
            "words": remedy.words,
            "expected": remedy.expected,
            "aim": remedy.aim,
            "commands": remedy.all_commands(),
            "notes": [] if remedy.change is None else list(remedy.change.notes),
            "alternatives": [one.as_json() for one in remedy.others],
        }
    return {
        "host": host,
        "verdict": evidence.headline,
        "recording": None if evidence.recording is None else str(evidence.recording),
        "notes": list(evidence.notes),
        "fix": fix,
        "why_not": remedy.why if isinstance(remedy, NoRemedy) else None,
        "proof": None if proof is None else _proof_as_json(proof),
        "for_the_other_side": found.ticket,
        **found.judged.as_json(),
        "kept": proof is not None and proof.holds,
        "outcome": outcome,
    }


# --- the proof ---


def _effects(proof: Proof) -> Iterator[Part]:
    columns: Columns[Effect] = {
        Column("Metric"): lambda one: METRICS[one.key].name,
        Column("Without", number=True): lambda one: _value(one, one.without),
        Column("With", number=True): lambda one: _value(one, one.with_it),
        Column("Difference", number=True): lambda one: signed(lambda value: _value(one, value), one.difference.value),
        Column("95 % interval", number=True): _interval,
    }
    yield Text(f"Runs in turns: {', '.join(proof.order)}.")
    yield Table.of("", columns, proof.effects)


def _value(effect: Effect, value: float) -> str:
    return with_unit(significant(value), METRICS[effect.key].units)


def _interval(effect: Effect) -> str:
    found = effect.difference
    if math.isnan(found.low):
        return "unknown"
    return interval(lambda value: signed(significant, value) if value else "0", found.low, found.high)


def _proof_as_json(proof: Proof) -> dict[str, Any]:
    """The proof as JSON; unknown ends of intervals are null."""
    shown: dict[str, Any] = plain(
        {
            "aim": proof.aim,
            "holds": proof.holds,
            "sentence": proof.sentence(),
            "price": [{"metric": one.key, "share": -one.gain_share} for one in proof.price],
            "order": proof.order,
            "recordings": proof.recordings,
            "effects": [
                {
                    "metric": one.key,
                    "units": METRICS[one.key].units,
                    "without": one.without,
                    "with": one.with_it,
                    "difference": {name: getattr(one.difference, name) for name in ("value", "low", "high")},
                    "better": one.is_better,
                    "worse": one.is_worse,
                }
                for one in proof.effects
            ],
        }
    )
    return shown


def figure(proof: Proof) -> Figure:
    """Every run's value of each metric, without and with the change, in the order in which they were made."""
    return Figure(
        "proof",
        "Runs without and with the fix",
        ", ".join(proof.order),
        tuple(_panel(proof, one) for one in proof.effects),
        see="Where the fix helps, its runs lie apart from those without it.",
    )


def _panel(proof: Proof, effect: Effect) -> Panel:
    values = {"without": iter(effect.runs_without), "with": iter(effect.runs_with)}
    rows = [(number, kind, next(values[kind])) for number, kind in enumerate(proof.order, 1)]
    layers = []
    for kind, style in (("without", "point-1"), ("with", "point-2")):
        own = [(float(number), value) for number, which, value in rows if which == kind]
        data = pl.DataFrame(own, schema={"x": pl.Float64, "y": pl.Float64}, orient="row")
        layers.append(Layer(f"{kind} the fix", STYLES[style], "points", data, rare=True))
    metric = METRICS[effect.key]
    ends = (0.5, len(rows) + 0.5)
    return Panel(Axis("Run", ends=ends), Axis(metric.name, metric.units, from_zero="always"), tuple(layers))
