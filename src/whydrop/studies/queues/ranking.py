"""Ranks of queues over several conditions, from a mixed model: only what the data distinguish gets different ranks.

The logarithm of a measure is the queue's effect, an intercept of the conditions (line, congestion control, scene) and
one of the block (repetition) within them. What is compared is the mean effect over these conditions: a queue
may still be worse than another under some of them, which the table of differences shows.

Queues vary unequally: the runs of one within 2 %, those of another by a factor. So what distinguishes two queues, and
the interval of their ratio, comes from the runs of these two alone: the differences within blocks that have both, which
is what the model of these two gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop.recording.statistics.differences import GROUP_FROM, Difference, holm
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.differences import SIGNIFICANCE, by_queue, exp, paired
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import MEASURES
from whydrop.studies.queues.mixed import Mixed, reml

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

ALL = "all"
# Measures that are ranked.
RANKED = tuple(key for key, measure in MEASURES.items() if measure.floor is not None)
RANKS = {
    **dict.fromkeys(("by", "group", "metric", "queue"), pl.String()), "rank": pl.Int64(), "mean": pl.Float64(),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "adjusted_p"), pl.Float64()),
    "runs": pl.Int64(), "strata": pl.Int64(), "floored": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True)
class _Model:
    queues: list[str]
    fitted: Mixed


def ranks(runs: pl.DataFrame, values: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """A frame of `RANKS`: for all conditions together, and for each value of the first variable (each line).

    ``mean`` is the geometric mean that the model gives, ``ratio`` that to the best queue with its 95 % interval, of the
    blocks that have both, ``rank`` one more than the number of queues that are better and distinguished (Holm, at 5 %).
    """
    strata = list(parameters.strata)
    joined = values.filter(pl.col("metric").is_in(RANKED)).join(
        runs.select("recording", "repetition", "seed", *strata, "queue"), on="recording"
    )
    rows: list[dict[str, Any]] = []
    groups: list[tuple[str, str, pl.DataFrame]] = [(ALL, ALL, joined)]
    if strata:
        parts = joined.partition_by(strata[0], as_dict=True)
        groups += [(strata[0], str(key[0]), parts[key]) for key in sorted(parts, key=lambda one: line_key(str(one[0])))]
    for by, group, frame in groups:
        for metric in RANKED:
            own = frame.filter(pl.col("metric") == metric)
            rows += [{"by": by, "group": group, "metric": metric, **row} for row in _ranked(own, metric, strata)]
    return pl.DataFrame(rows, schema=RANKS)


def _ranked(frame: pl.DataFrame, metric: str, strata: list[str]) -> list[dict[str, Any]]:
    floor = MEASURES[metric].floor or 0.0
    logs = np.log(np.maximum(frame["value"].to_numpy(), floor))
    model = _fitted(frame, logs, strata)
    if model is None:
        return []
    queues, fitted = model.queues, model.fitted
    count = len(queues)
    # A contrast for each queue: its mean over the conditions.
    means = np.eye(count)
    means[:, 0] = 1.0
    effects = means @ fitted.effects
    sign = 1 if MEASURES[metric].better == "lower" else -1
    apart = _apart(frame.with_columns(value=pl.Series(logs)), queues, strata)
    adjusted = dict(zip(apart, holm([one.p for one in apart.values()]), strict=True))
    if all(p is None or math.isnan(p) for p in adjusted.values()):
        return []
    behind = _behind(apart, adjusted, sign)
    best = int(np.argmin(sign * effects))
    rows = []
    for place in np.argsort(sign * effects, kind="stable"):
        own = frame.filter(pl.col("queue") == queues[place])
        rows.append(
            {
                "queue": queues[place], "rank": behind.count(place) + 1, "mean": math.exp(effects[place]),
                **_to_best(apart, adjusted, best, int(place), effects),
                "runs": own.height, "strata": own.select(strata).unique().height if strata else 1,
                "floored": own.filter(pl.col("value") < floor).height,
            }
        )  # fmt: skip
    return rows


# Two queues by their places, the first being the smaller.
Pair = tuple[int, int]


def _apart(frame: pl.DataFrame, queues: list[str], strata: list[str]) -> dict[Pair, Difference]:
    """How much every two queues are apart; without an interval where fewer than three blocks have both."""
    blocks = by_queue(frame, strata)
    rows = {key: row for row, key in enumerate(dict.fromkeys(key for own in blocks.values() for key in own))}
    table = np.full((len(rows), len(queues)), math.nan)
    for column, queue in enumerate(queues):
        table[[rows[key] for key in blocks[queue]], column] = list(blocks[queue].values())
    found = {}
    for one, other in combinations(range(len(queues)), 2):
        both = np.isfinite(table[:, one]) & np.isfinite(table[:, other])
        if both.sum() >= GROUP_FROM:
            found[one, other] = paired(table[both, one], table[both, other])
        else:
            found[one, other] = Difference(math.nan, math.nan, math.nan, math.nan, "fewer than three blocks")
    return found


def _behind(apart: Mapping[Pair, Difference], adjusted: Mapping[Pair, float | None], sign: int) -> list[int]:
    """The worse queue of each two that are distinguished."""
    found = []
    for (one, other), difference in apart.items():
        p = adjusted[one, other]
        if p is not None and p < SIGNIFICANCE:
            found.append(other if sign * difference.value > 0 else one)
    return found


def _to_best(
    apart: Mapping[Pair, Difference], adjusted: Mapping[Pair, float | None], best: int, place: int,
    effects: np.ndarray[Any, Any],
) -> dict[str, float | None]:  # fmt: skip
    """The ratio to the best queue; where no blocks have both, as the model has it, without an interval."""
    nothing = {"ratio_low": None, "ratio_high": None, "adjusted_p": None}
    if place == best:
        return {"ratio": 1.0, **nothing}
    pair = (min(best, place), max(best, place))
    found, p = apart[pair], adjusted[pair]
    if p is None or math.isnan(p):
        return {"ratio": math.exp(effects[place] - effects[best]), **nothing}
    sign = 1 if place > best else -1
    ends = sorted((sign * found.low, sign * found.high))
    return {"ratio": math.exp(sign * found.value), "ratio_low": exp(ends[0]), "ratio_high": exp(ends[1]),
            "adjusted_p": p}  # fmt: skip


def _fitted(frame: pl.DataFrame, logs: np.ndarray[Any, np.dtype[np.float64]], strata: list[str]) -> _Model | None:
    queues = sorted(frame["queue"].unique(), key=sort_key)
    if len(queues) < 2:
        return None
    place = {queue: number for number, queue in enumerate(queues)}
    x = np.eye(len(queues))[[place[queue] for queue in frame["queue"]]]
    x[:, 0] = 1.0
    # A run without a repetition is a block of its own, and shows nothing within one.
    alone = pl.when(pl.col("repetition").is_null()).then("recording")
    numbered = frame.with_columns(
        stratum=pl.struct(strata).rank("dense") if strata else pl.lit(1),
        block=pl.struct(*strata, "repetition", "seed", alone.alias("alone")).rank("dense"),
    )
    stratum, block = (numbered[name].cast(pl.Int64).to_numpy() for name in ("stratum", "block"))
    fitted = reml(logs, x, stratum, block)
    return None if fitted is None or not np.isfinite(fitted.covariance).all() else _Model(queues, fitted)
