"""Differences between recordings, or groups of them: each metric with its difference and how certain it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from whydrop.recording.comparing.grouping import Side
from whydrop.recording.comparing.metadata_difference import Different, differences
from whydrop.recording.metrics.definitions import Measured, Metric, measure
from whydrop.recording.statistics.differences import (
    GROUP_FROM,
    RANKS_FROM,
    Difference,
    Estimate,
    cliffs_delta,
    cohens_h,
    hedges_g,
    holm,
    of_groups,
    of_single_runs,
    resampled,
)
from whydrop.recording.statistics.resampling import SEED

Verdict = Literal["established", "apart", "too small to matter", "not resolved"]
LEVEL = 0.05
# Of a metric that is not known of one side.
_NO_DIFFERENCE = Difference(math.nan, math.nan, math.nan, math.nan, "")
# From this Cliff's delta on, samples of two runs are apart: hardly one of the one side lies among those of the other.
_APART = 0.999


@dataclass(frozen=True)
class Row:
    """One metric of two sides, the second compared with the first.

    Attributes:
        effect, effect_kind: Cliff's delta (``cliffs-delta``), Hedges' g (``hedges-g``), or of losses Cohen's h
            (``cohens-h``); NaN where there is none.
        p: adjusted by Holm over all metrics and pairs of sides; NaN where it cannot be given.
        verdict: ``apart`` if no error is known, but the samples of these runs hardly overlap: so it was in
            these runs, whatever others would bring.
        why: why nothing could be said, where it could not; how the values were had, where that is not obvious.
    """

    metric: Metric
    first: str
    second: str
    values: tuple[float, float]
    difference: Difference
    effect: float
    effect_kind: str
    why: str
    p: float = math.nan
    verdict: Verdict = "not resolved"

    @property
    def margin(self) -> float:
        """The largest difference that is too small to matter."""
        return max(self.metric.negligible, self.metric.negligible_share * abs(self.values[0]))

    @property
    def better(self) -> bool | None:
        """True if the second is better; ``None`` where that is neither established nor plain to see."""
        if self.verdict not in ("established", "apart"):
            return None
        return (self.difference.value > 0) == (self.metric.better == "higher")


@dataclass(frozen=True)
class Comparison:
    """Everything that ``whydrop compare`` prints."""

    sides: tuple[Side, ...]
    metadata: tuple[Different, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    seed: int


def compare(sides: Sequence[Side], seed: int = SEED) -> Comparison:
    """Compare every side with the first one."""
    random = np.random.default_rng(seed)
    measured = [[measure(recording) for recording in side.recordings] for side in sides]
    estimated: dict[tuple[int, int, str], Estimate] = {}
    rows: list[Row] = []
    for number in range(1, len(sides)):
        for key in measured[0][0] if measured[0] else ():
            one = [metrics[key] for metrics in measured[0] if key in metrics]
            other = [metrics[key] for metrics in measured[number] if key in metrics]
            if not one or not other:
                continue
            rows.append(_compared(sides, number, one, other, estimated, random))
    adjusted = holm([row.difference.p for row in rows])
    return Comparison(
        tuple(sides),
        tuple(differing(sides)),
        tuple(judged(row, p) for row, p in zip(rows, adjusted, strict=True)),
        tuple(_notes(sides)),
        seed,
    )


def differing(sides: Sequence[Side]) -> list[Different]:
    """Metadata with one value for each side; several different ones within a side are said to be so."""
    made = []
    for one in differences([recording.metadata for side in sides for recording in side.recordings]):
        values: list[str | None] = []
        place = 0
        for side in sides:
            own = list(dict.fromkeys(one.values[place : place + len(side.recordings)]))
            place += len(side.recordings)
            values.append(own[0] if len(own) == 1 else "(differs)")
        if len(set(values)) > 1:
            made.append(Different(one.key, tuple(values)))
    return made


def _compared(
    sides: Sequence[Side],
    number: int,
    one: Sequence[Measured],
    other: Sequence[Measured],
    estimated: dict[tuple[int, int, str], Estimate],
    random: np.random.Generator,
) -> Row:
    metric, first, second = one[0].metric, sides[0].label, sides[number].label
    bases = list(dict.fromkeys(run.basis for run in (*one, *other) if run.basis))
    why = "; ".join(bases)
    every = len(one) + len(other)
    one, other = ([run for run in runs if math.isfinite(run.value)] for runs in (one, other))
    values = _mean(one), _mean(other)
    if not one or not other:
        return Row(metric, first, second, values, _NO_DIFFERENCE, math.nan, "cliffs-delta", why)
    if len(one) + len(other) < every:
        why += f" ({every - len(one) - len(other)} of {every} recordings left out)"
    if min(len(one), len(other)) >= GROUP_FROM:
        groups = np.array([run.value for run in one]), np.array([run.value for run in other])
        ranks = min(len(one), len(other)) >= RANKS_FROM
        kind = "cliffs-delta" if ranks else "hedges-g"
        effect = cliffs_delta(*groups) if ranks else hedges_g(*groups)
        return Row(metric, first, second, values, of_groups(*groups), effect, kind, why)
    difference = _within_runs(one, other, (0, number), estimated, random)
    kind, effect = _effect_within_runs(metric, values, one, other)
    if math.isnan(difference.p):
        reasons = [why, _unresolved(one, other)]
        why = "; ".join(reason for reason in reasons if reason)
    return Row(metric, first, second, values, difference, effect, kind, why)


def _effect_within_runs(
    metric: Metric, values: tuple[float, float], one: Sequence[Measured], other: Sequence[Measured]
) -> tuple[str, float]:
    """The effect in samples of runs, with its kind."""
    if metric.key.startswith("loss"):
        # Nearly all packets of both arrive: by their ranks even a grave loss is a small effect.
        return "cohens-h", cohens_h(*(min(1.0, max(0.0, value / 100)) for value in values))
    samples = [np.concatenate([run.samples for run in runs]) for runs in (one, other)]
    known = all(len(part) > 1 for part in samples)
    return "cliffs-delta", cliffs_delta(samples[0], samples[1]) if known else math.nan


def _mean(runs: Sequence[Measured]) -> float:
    return float(np.mean([run.value for run in runs])) if runs else math.nan


def _within_runs(
    one: Sequence[Measured],
    other: Sequence[Measured],
    sides: tuple[int, int],
    estimated: dict[tuple[int, int, str], Estimate],
    random: np.random.Generator,
) -> Difference:
    found = []
    for side, runs in zip(sides, (one, other), strict=True):
        known = []
        for number, run in enumerate(runs):
            place = side, number, run.metric.key
            if place not in estimated:
                estimated[place] = _estimate(run, random)
            known.append(estimated[place])
        found.append(known)
    return of_single_runs(found[0], found[1])


def _estimate(run: Measured, random: np.random.Generator) -> Estimate:
    if run.statistic is None:
        return Estimate(run.value, math.nan, 0.0)
    found = resampled(run.statistic, run.lead, random, run.rare)
    error, freedom = found.error, found.freedom
    if run.base is not None:
        idle = resampled(*run.base, random)
        if math.isfinite(idle.error):
            error = math.hypot(error, idle.error)
    if run.metric.key.startswith("loss") and len(run.samples):
        error = max(error, _least_error(run))
    return Estimate(run.value, error, freedom)


def _least_error(run: Measured) -> float:
    """Of a share of few events or none, which resampling would call certain: one more success and one more failure.

    A. Agresti and B. Caffo, "Simple and Effective Confidence Intervals for Proportions", Am. Statistician 54 (2000).
    """
    n = len(run.samples)
    share = (run.samples.sum() / 100 + 1) / (n + 2)
    return 100 * math.sqrt(share * (1 - share) / (n + 2))


def _unresolved(one: Sequence[Measured], other: Sequence[Measured]) -> str:
    if any(run.statistic is None for run in (*one, *other)):
        return "one number a run, without a measure of its uncertainty; repeat the runs"
    if all(np.ptp(run.lead) == 0 for run in (*one, *other)):
        return "the samples do not vary at all"
    return "too few independent samples, because they change slowly compared with the length of the run: measure longer"


def judged(row: Row, p: float | None) -> Row:
    """The row with its adjusted p, and what that means."""
    p = math.nan if p is None else p
    found = row.difference
    verdict: Verdict = "not resolved"
    if math.isfinite(found.low) and -row.margin <= found.low and found.high <= row.margin:
        verdict = "too small to matter"
    elif p < LEVEL:
        verdict = "established"
    elif (
        not math.isfinite(p)
        and row.effect_kind != "cohens-h"
        and abs(row.effect) >= _APART
        and abs(found.value) > row.margin
    ):
        verdict = "apart"
    return replace(row, p=p, verdict=verdict)


def _notes(sides: Sequence[Side]) -> list[str]:
    notes = []
    if any(len(side.recordings) < GROUP_FROM for side in sides):
        notes.append(
            f"Fewer than {GROUP_FROM} recordings on a side: intervals show the uncertainty within these runs, not how "
            "much runs vary. A difference holds for these runs only: repeat them to draw conclusions about the path."
        )
    durations = [
        {(recording.metadata.get("test") or {}).get("length_s") for recording in side.recordings} for side in sides
    ]
    if len(set().union(*durations)) > 1:
        notes.append("The runs are of different lengths.")
    tests = {(recording.metadata.get("test") or {}).get("test") for side in sides for recording in side.recordings}
    if len(tests) > 1:
        notes.append(f"Different tests are compared ({', '.join(sorted(str(test) for test in tests))}).")
    return notes
