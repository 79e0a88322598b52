"""Ranks of queues over several conditions, from a mixed model: only what the data distinguish gets different ranks.

The logarithm of a measure is the queue's effect, an intercept of the conditions (line, congestion control, scene) and
one of the block (repetition) within them. What is compared is the mean effect over these conditions: a queue
may still be worse than another under some of them, which the table of differences shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop.recording.statistics.differences import holm
from whydrop.recording.statistics.mixed import Mixed, reml
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.differences import SIGNIFICANCE
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import MEASURES

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

    ``mean`` is the geometric mean that the model gives, ``ratio`` that over the best queue's with its 95 % interval,
    ``rank`` one more than the number of queues that are better and distinguished (Holm, at 5 %).
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
    best = int(np.argmin(sign * effects))
    apart, adjusted = _distinguished(means, fitted)
    rows = []
    for place in np.argsort(sign * effects, kind="stable"):
        better = sum(apart[other, place] and sign * effects[other] < sign * effects[place] for other in range(count))
        own = frame.filter(pl.col("queue") == queues[place])
        ratio, low, high = _interval(means[place] - means[best], fitted)
        rows.append(
            {
                "queue": queues[place], "rank": int(better) + 1, "mean": math.exp(effects[place]), "ratio": ratio,
                "ratio_low": None if place == best else low, "ratio_high": None if place == best else high,
                "adjusted_p": None if place == best else float(adjusted[best, place]),
                "runs": own.height, "strata": own.select(strata).unique().height if strata else 1,
                "floored": own.filter(pl.col("value") < floor).height,
            }
        )  # fmt: skip
    return rows


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


def _distinguished(means: np.ndarray[Any, Any], fitted: Mixed) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which two queues are distinguished, and the adjusted p of each two."""
    from scipy import special

    count = len(means)
    pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
    found: list[float | None] = []
    for one, other in pairs:
        contrast = means[other] - means[one]
        error = math.sqrt(max(0.0, float(contrast @ fitted.covariance @ contrast)))
        value = abs(float(contrast @ fitted.effects))
        found.append(2 * float(special.stdtr(fitted.freedom, -value / error)) if error > 0 else None)
    adjusted = np.full((count, count), np.nan)
    for (one, other), p in zip(pairs, holm(found), strict=True):
        adjusted[one, other] = adjusted[other, one] = math.nan if p is None else p
    return adjusted < SIGNIFICANCE, adjusted


def _interval(contrast: np.ndarray[Any, Any], fitted: Mixed) -> tuple[float, float, float]:
    from scipy import special

    value = float(contrast @ fitted.effects)
    half = float(special.stdtrit(fitted.freedom, 0.975)) * math.sqrt(max(0.0, contrast @ fitted.covariance @ contrast))
    return math.exp(value), math.exp(min(700.0, value - half)), math.exp(min(700.0, value + half))
