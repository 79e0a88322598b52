"""Hypotheses against the data: one row for each check, and what follows for the hypothesis.

A check compares two queues under one set of conditions (by the difference's 95 % interval), or one queue with limits
(by how many of its runs lie within them: a sign test, which lower bounds do not disturb). A hypothesis claims each of
its checks: it is supported if all of them are, contradicted if one is after a correction for their number, and else
open. Nothing measured that it is about: not measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.recording.statistics.differences import holm
from whydrop.recording.statistics.medians import median
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.differences import by_queue, difference, exp, logarithms
from whydrop.studies.queues.hypotheses import BASELINE, HYPOTHESES, Hypothesis
from whydrop.studies.queues.measures import MEASURES

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

# In place of a condition: all of those for which the statement is made.
ALL = "all"
SUPPORTED, CONTRADICTED, OPEN, NOT_MEASURED = "supported", "contradicted", "open", "not measured"
RATIO, DIFFERENCE = "ratio", "difference"
LEVEL = 0.05

CHECKS = {
    "hypothesis": pl.String(), "queue": pl.String(), "against": pl.String(), "decides": pl.Boolean(),
    "conclusion": pl.String(), "runs": pl.Int64(), "runs_against": pl.Int64(), "median": pl.Float64(),
    "median_against": pl.Float64(), "censored": pl.Boolean(), "estimate": pl.Float64(), "estimate_of": pl.String(),
    "claimed": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(),
    "within": pl.Int64(), "p_for": pl.Float64(), "p_not": pl.Float64(),
    "method": pl.String(),
}  # fmt: skip
FOUND = {
    **dict.fromkeys(("hypothesis", "title", "source", "metric", "conclusion"), pl.String()),
    **dict.fromkeys(("checks", "supported", "contradicted", "open"), pl.Int64()), "missing": pl.String(),
    "conditions": pl.String(),
}  # fmt: skip


def judged(
    runs: pl.DataFrame, values: pl.DataFrame, parameters: Parameters, hypotheses: Sequence[Hypothesis] = HYPOTHESES
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A frame of `FOUND`, a row for each hypothesis, and one of the strata and `CHECKS`."""
    strata = list(parameters.strata)
    joined = values.join(runs.select("recording", "repetition", "seed", *strata, "queue"), on="recording")
    rows, checks = [], []
    for one in hypotheses:
        against = tuple(parameters.baseline if queue == BASELINE else queue for queue in one.against)
        own = replace(one, against=against)
        unknown = [name for name in one.where if name not in strata]
        if unknown:
            rows.append({**_concluded(own, []), "missing": "", "conditions": f"unknown: {', '.join(unknown)}"})
            continue
        frame = joined.filter(pl.col("metric") == own.metric)
        found = list(_checked(own, frame, strata))
        is_measured = any(check["decides"] for check in found)
        conditions = _conditions(own, frame, strata) if is_measured else ""
        rows.append({**_concluded(own, found), "conditions": conditions})
        checks += found
    return (
        pl.DataFrame(rows, schema=FOUND),
        pl.DataFrame(checks, schema={**dict.fromkeys(strata, pl.String()), **CHECKS}).fill_nan(None),
    )


def _checked(one: Hypothesis, frame: pl.DataFrame, strata: list[str]) -> Iterator[dict[str, Any]]:
    if not one.against:
        yield from _limited(one, frame, strata)
        return
    parts = frame.partition_by(*strata, as_dict=True) if strata else {(): frame}
    for key in sorted(parts, key=lambda key: [line_key(str(part)) for part in key]):
        where = dict(zip(strata, map(str, key), strict=True))
        # Conditions other than those of the statement are of interest where the scene is the one it is about.
        if not _is_scene(one, where):
            continue
        queues = by_queue(parts[key])
        for queue in one.queues:
            for against in one.against:
                if queue in queues and against in queues:
                    found = _compared(one, queues[queue], queues[against])
                    yield {**_base(one, queue, against, where), **found}


def _base(one: Hypothesis, queue: str, against: str, where: Mapping[str, str]) -> dict[str, Any]:
    return {
        "hypothesis": one.key, **where, "queue": queue, "against": against, "decides": _is_stated(one, where),
        "censored": False,
    }  # fmt: skip


def _is_stated(one: Hypothesis, where: Mapping[str, str]) -> bool:
    return all(where[name] in values for name, values in one.where.items())


def _stated(one: Hypothesis, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows under the conditions of the statement."""
    conditions = [pl.col(name).is_in(list(values)) for name, values in one.where.items()]
    return frame.filter(*conditions) if conditions else frame


def _is_scene(one: Hypothesis, where: Mapping[str, str]) -> bool:
    return "scene" not in one.where or where["scene"] in one.where["scene"]


def _compared(one: Hypothesis, own: Mapping[Any, float], others: Mapping[Any, float]) -> dict[str, Any]:
    """By how much the queue is ahead of the other: as a ratio, or as a difference."""
    measure = MEASURES[one.metric]
    less, more = (own, others) if one.comparison == "below" else (others, own)
    if measure.floor is None:
        found, _ = difference(less, more)
        estimate = {"estimate_of": DIFFERENCE, "claimed": 0.0, "estimate": found.value, "low": found.low,
                    "high": found.high}  # fmt: skip
    else:
        # The claimed factor is taken off before the test, and put back into what is shown.
        factor = math.log(one.factor)
        least = {key: value + factor for key, value in logarithms(less, measure.floor).items()}
        found, _ = difference(least, logarithms(more, measure.floor))
        ends = {name: exp(end + factor) for name, end in (("low", found.low), ("high", found.high))}
        estimate = {"estimate_of": RATIO, "claimed": one.factor, "estimate": math.exp(found.value + factor), **ends}
    p_for, p_not = _one_sided(found.p, found.value)
    medians = [statistics.median(blocks.values()) for blocks in (own, others)]
    return {
        "runs": len(own), "runs_against": len(others), "median": medians[0], "median_against": medians[1], **estimate,
        "p_for": p_for, "p_not": p_not, "method": found.method, "conclusion": _decided(p_for, p_not),
    }  # fmt: skip


def _one_sided(p: float, towards: float) -> tuple[float | None, float | None]:
    """p of the claim's opposite, and of the claim, from a two-sided one; ``towards`` is above 0 if it looks right."""
    if math.isnan(p):
        return None, None
    small, large = p / 2, 1 - p / 2
    return (small, large) if towards > 0 else (large, small)


def _decided(p_for: float | None, p_not: float | None) -> str:
    """By the 95 % interval, which lies on one side if one of both is at most 2.5 %."""
    if p_for is not None and p_for <= LEVEL / 2:
        return SUPPORTED
    return CONTRADICTED if p_not is not None and p_not <= LEVEL / 2 else OPEN


def _limited(one: Hypothesis, frame: pl.DataFrame, strata: list[str]) -> Iterator[dict[str, Any]]:
    """Each queue: first over all conditions that are stated, which decides, then each by itself."""
    stated = _stated(one, frame)
    parts = frame.partition_by(*strata, as_dict=True) if strata else {}
    for queue in one.queues:
        own = stated.filter(pl.col("queue") == queue)
        if own.height:
            together = {**dict.fromkeys(strata, ALL), "hypothesis": one.key, "queue": queue, "against": ""}
            yield {**together, "decides": True, **_counted(one, own)}
        for key in sorted(parts, key=lambda key: [line_key(str(part)) for part in key]):
            where = dict(zip(strata, map(str, key), strict=True))
            own = parts[key].filter(pl.col("queue") == queue)
            if own.height and _is_scene(one, where):
                yield {**_base(one, queue, "", where), **_counted(one, own), "decides": False}


def _counted(one: Hypothesis, own: pl.DataFrame) -> dict[str, Any]:
    """How many runs lie within the limits, and whether that is more than chance about a median at the limit."""
    from scipy import special

    least, most = one.limits
    value, censored = pl.col("value"), pl.col("censored")
    above_least = pl.lit(value=True) if least is None else value >= least
    # A lower bound that is below the upper limit is neither within nor beyond it.
    below_most = pl.lit(value=True) if most is None else (value <= most) & ~censored
    beyond_most = pl.lit(value=False) if most is None else value > most
    below_least = pl.lit(value=False) if least is None else (value < least) & ~censored
    within = own.filter(above_least & below_most).height
    outside = own.filter(beyond_most | below_least).height
    # A bound that decides nothing may lie on either side: it counts against both.
    p_for = float(special.bdtrc(within - 1, own.height, 0.5)) if within else 1.0
    p_not = float(special.bdtrc(outside - 1, own.height, 0.5)) if outside else 1.0
    measure = MEASURES[one.metric]
    middle = median(own["value"].to_numpy(), own["censored"].to_numpy(), measure.least, measure.most, measure.floor)
    return {
        "runs": own.height, "within": within, "median": middle.value, "censored": middle.censored,
        "low": middle.low if math.isfinite(middle.low) else None,
        "high": middle.high if math.isfinite(middle.high) else None, "p_for": p_for, "p_not": p_not,
        "method": "share of runs within the limits (sign test)", "conclusion": _decided(p_for, p_not),
    }  # fmt: skip


def _concluded(one: Hypothesis, checks: list[dict[str, Any]]) -> dict[str, Any]:
    deciding = [check for check in checks if check["decides"]]
    adjusted = holm([check["p_not"] for check in deciding])
    contradicted = sum(p is not None and p <= LEVEL / 2 for p in adjusted)
    supported = sum(check["conclusion"] == SUPPORTED for check in deciding)
    missing = _missing(one, deciding)
    if not deciding:
        conclusion = NOT_MEASURED
    elif contradicted:
        conclusion = CONTRADICTED
    else:
        conclusion = SUPPORTED if supported == len(deciding) and not missing else OPEN
    return {
        "hypothesis": one.key, "title": one.title, "source": one.source, "metric": one.metric,
        "conclusion": conclusion, "checks": len(deciding), "supported": supported, "contradicted": contradicted,
        "open": len(deciding) - supported - contradicted, "missing": "; ".join(missing),
    }  # fmt: skip


def _conditions(one: Hypothesis, frame: pl.DataFrame, strata: list[str]) -> str:
    """Conditions of the statement under which its queues were measured."""
    queues = pl.col("queue").is_in([*one.queues, *one.against])
    rows = _stated(one, frame).filter(queues).select(strata).unique().rows() if strata else []
    rows.sort(key=lambda row: [line_key(str(part)) for part in row])
    return "; ".join(" ".join(row) for row in rows)


def _missing(one: Hypothesis, deciding: Iterable[Mapping[str, Any]]) -> list[str]:
    """Queues that the statement names and nothing was measured of: it cannot be supported without them."""
    rows = list(deciding)
    lacking = [queue for queue in one.queues if all(row["queue"] != queue for row in rows)]
    return lacking + [queue for queue in one.against if all(row["against"] != queue for row in rows)]
