"""A fix as a document: the verdict, the fix, and its proof."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from whydrop.act.fixing import Evidence, NoRemedy, Remedy, for_the_other_side
from whydrop.act.proving import Effect, Proof
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
from whydrop.text.quantities import significant


def document(host: str, evidence: Evidence, chosen: Remedy | NoRemedy, proof: Proof | None, outcome: str) -> Document:
    """A fix for people.

    Args:
        host: the host that was measured.
        evidence: the verdict and what supports it.
        chosen: the fix, or why there is none.
        proof: the results of the runs with and without it; None where none was tried.
        outcome: the end of it, a sentence.
    """
    verdict = evidence.headline
    sentence = verdict["sentence"] if verdict else "There is no verdict."
    against = verdict["against"] if verdict else ()
    shown = (
        Section(
            sentence,
            parts(
                Section(
                    "Evidence",
                    parts(Items.of(map(capital, [*(verdict["evidence"] if verdict else ()), *evidence.notes]))),
                ),
                Section("Why not something else", parts(Facts(tuple((one["cause"], one["why"]) for one in against)))),
            ),
            key="verdict",
            cause=verdict["cause"] if verdict else "unknown",
        ),
        *parts(
            Section("Fix", parts(*_fix(evidence, chosen), Text(outcome, "strong")), key="fix"),
            Section("Proof", tuple(_proof(proof)) if proof is not None else (), key="proof"),
        ),
    )
    return Document(f"{host}: {outcome}", shown, source=host)


def _fix(evidence: Evidence, chosen: Remedy | NoRemedy) -> Iterator[Part]:
    if isinstance(chosen, NoRemedy):
        yield Text(f"Nothing is tried: {chosen.why}.")
        return
    yield Text(f"{capital(chosen.words)}.")
    yield Text(f"Expected: {chosen.expected}.")
    yield from map(Command, chosen.change.commands() if chosen.change is not None else chosen.commands)
    if ticket := for_the_other_side(evidence, chosen):
        yield Section("For the operator of the bottleneck", (Text(ticket),))


def _proof(proof: Proof) -> Iterator[Part]:
    columns: Columns[Effect] = {
        Column("Metric"): lambda one: METRICS[one.key].name,
        Column("Without", number=True): lambda one: _value(one, one.without),
        Column("With", number=True): lambda one: _value(one, one.with_it),
        Column("Difference", number=True): lambda one: _value(one, one.difference.value),
        Column("95 % interval", number=True): _interval,
    }
    yield Text(f"Runs in turns: {', '.join(proof.order)}.")
    yield Table.of("", columns, proof.effects)
    yield Section("Runs", (Figures((Choice([figure(proof)]),), "runs"),), key="runs")


def _value(effect: Effect, value: float) -> str:
    return f"{significant(value)} {METRICS[effect.key].units}"


def _interval(effect: Effect) -> str:
    found = effect.difference
    return f"{significant(found.low)} to {significant(found.high)}" if found.low == found.low else "unknown"


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
