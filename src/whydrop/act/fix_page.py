"""The one page of a fix: evidence, verdict, fix, proof."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from whydrop.act.fixing import Evidence, NoRemedy, Remedy, for_the_other_side
from whydrop.act.proving import Effect, Proof
from whydrop.recording.metrics.definitions import METRICS
from whydrop.show import page
from whydrop.show.embedding import Choice
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.show.page import text
from whydrop.show.theme import STYLES
from whydrop.text.quantities import significant


def page_of(host: str, evidence: Evidence, chosen: Remedy | NoRemedy, proof: Proof | None, outcome: str) -> str:
    """The whole page.

    Args:
        host: that was measured.
        evidence: what was found.
        chosen: the fix, or why there is none.
        proof: what the runs with and without it showed; None where none was tried.
        outcome: what became of it, a sentence.
    """
    verdict = evidence.headline
    sentence = verdict["sentence"] if verdict else "There is no verdict."
    body = [
        f'<header><p class="brand">whydrop</p><p class="source"><strong>{text(host)}</strong></p></header>',
        "<main>",
        f'<section class="verdict" aria-label="Verdict"><h1>{text(sentence)}</h1>',
        _list("Evidence", [*(verdict["evidence"] if verdict else ()), *evidence.notes]),
        _list("Others that were weighed", [f"{one['cause']}: {one['why']}" for one in _against(evidence)]),
        "</section>",
        f'<section id="fix"><h2>Fix</h2>{_fix(evidence, chosen)}<p><strong>{text(outcome)}</strong></p></section>',
        *(_proof(proof) if proof is not None else ()),
        "</main>",
    ]
    parts = {} if proof is None else {"runs": [Choice([figure(proof)])]}
    return page.document(f"{host}: {outcome}", body, parts)


def _against(evidence: Evidence) -> list[dict[str, str]]:
    return list(evidence.headline["against"]) if evidence.headline else []


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"<h3>{text(title)}</h3><ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def _fix(evidence: Evidence, chosen: Remedy | NoRemedy) -> str:
    if isinstance(chosen, NoRemedy):
        return f"<p>Nothing is tried: {text(chosen.why)}.</p>"
    ticket = for_the_other_side(evidence, chosen)
    commands = chosen.change.commands() if chosen.change is not None else chosen.commands
    return (
        f"<p>{text(chosen.words)}.</p><p>Expected: {text(chosen.expected)}.</p>"
        f"<pre>{text(chr(10).join(commands)) if commands else ''}</pre>"
        + (f"<h3>For whoever runs the bottleneck</h3><p>{text(ticket)}</p>" if ticket else "")
    )


def _proof(proof: Proof) -> list[str]:
    heads = [("Metric", False), ("Without", True), ("With", True), ("Difference", True), ("95 % interval", True)]
    rows = [[METRICS[one.key].name, *_numbers(one)] for one in proof.effects]
    order = ", ".join(proof.order)
    return [
        f'<section id="proof"><h2>Proof</h2><p>Measured in turns: {text(order)}.</p>',
        page.table("Proof", heads, rows),
        "</section>",
        page.section("runs", "Runs", "runs"),
    ]


def _numbers(one: Effect) -> list[str]:
    unit, found = METRICS[one.key].units, one.difference
    ends = f"{significant(found.low)} to {significant(found.high)}" if found.low == found.low else "not known"
    return [*(f"{significant(value)} {unit}" for value in (one.without, one.with_it, found.value)), ends]


def figure(proof: Proof) -> Figure:
    """Every run's value of each metric, without and with the change, in the order in which they were made."""
    panels = [_panel(proof, one) for one in proof.effects]
    return Figure(
        "proof",
        "Runs without and with the fix",
        ", ".join(proof.order),
        tuple(panels),
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
