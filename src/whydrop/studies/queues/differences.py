"""Differences between queues under the same conditions, with intervals and a correction for many comparisons.

Runs of the same repetition and seed are blocks: they begin alike. Where three or more blocks have both queues, the
differences within them are compared (Student's t); else runs are (Welch's t, from six on ranks).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop.recording.statistics import differences
from whydrop.recording.statistics.differences import Difference, Values
from whydrop.recording.statistics.medians import ORDERED_FROM
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import CONTAIN, MEASURES, Measure

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

SIGNIFICANCE = 0.05
_LARGEST_LOG = 700.0
# A measure of which values may be lower bounds has no differences of means.
COMPARED = tuple(key for key in MEASURES if key != CONTAIN and MEASURES[key].better)

DIFFERENCES = {
    **dict.fromkeys(("metric", "first", "second"), pl.String()),
    "runs_first": pl.Int64(), "runs_second": pl.Int64(), "pairs": pl.Int64(),
    **dict.fromkeys(
        ("difference", "low", "high", "ratio", "ratio_low", "ratio_high", "effect", "p", "adjusted_p"), pl.Float64()
    ),
    **dict.fromkeys(("effect_kind", "effect_size", "method", "conclusion"), pl.String()),
}  # fmt: skip

# The values of one queue, by block: repetition and seed, or the recording where it has no repetition.
Blocks = Mapping[Any, float]


def by_queue(frame: pl.DataFrame, strata: Sequence[str] = ()) -> dict[str, Blocks]:
    """Of rows with ``queue``, ``repetition``, ``seed``, ``recording``, ``value``: the blocks of each queue.

    Of rows of several conditions, ``strata`` names them: a block lies within one of them.
    """
    found: dict[str, dict[Any, float]] = {}
    names = dict.fromkeys((*strata, "queue", "repetition", "seed", "recording", "value"))
    for row in frame.select(*names).iter_rows(named=True):
        blocks = found.setdefault(row["queue"], {})
        key = (*(row[name] for name in strata), row["repetition"], row["seed"])
        # Without a repetition, or with two runs of one, a run is a block of its own.
        blocks[row["recording"] if row["repetition"] is None or key in blocks else key] = row["value"]
    return dict(sorted(found.items(), key=lambda item: sort_key(item[0])))


def difference(first: Blocks, second: Blocks) -> tuple[Difference, int]:
    """The second less the first, and how many blocks have both (0: runs are compared)."""
    common = [key for key in first if key in second]
    if len(common) >= differences.GROUP_FROM:
        return paired(_array(first, common), _array(second, common)), len(common)
    ones, others = _array(first, first), _array(second, second)
    if min(len(ones), len(others)) < differences.GROUP_FROM:
        value = float(others.mean() - ones.mean())
        return Difference(value, math.nan, math.nan, math.nan, "fewer than three runs: no interval"), 0
    found = differences.of_groups(ones, others)
    # Runs that agree to the last digit show nothing of how runs vary.
    is_empty = found.low == found.high
    return (Difference(found.value, math.nan, math.nan, math.nan, found.method) if is_empty else found), 0


def paired(first: Values, second: Values) -> Difference:
    """The second less the first, of three blocks or more that have both."""
    found = differences.of_pairs(first, second)
    return _of_equal(second - first) if math.isnan(found.p) else found


def _of_equal(apart: Values) -> Difference:
    """Differences that are all the same: from six on the sign test decides, and order statistics give the interval."""
    value = float(apart.mean())
    if len(apart) < ORDERED_FROM:
        return Difference(value, math.nan, math.nan, math.nan, "fewer than six differences, all the same: no interval")
    p = 1.0 if value == 0 else 2 * 0.5 ** len(apart)
    return Difference(value, value, value, p, "differences of pairs that are all the same (sign test)")


def _array(blocks: Blocks, keys: Any) -> Values:
    return np.array([blocks[key] for key in keys], dtype=float)


def compared(runs: pl.DataFrame, values: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """A frame of the strata and `DIFFERENCES`: every two queues of each stratum, by measure.

    Holm's correction is over the pairs of a stratum and measure.
    """
    strata = list(parameters.strata)
    joined = values.filter(pl.col("metric").is_in(COMPARED)).join(
        runs.select("recording", "repetition", "seed", *strata, "queue"), on="recording"
    )
    rows: list[dict[str, Any]] = []
    for key, own in joined.partition_by(*strata, "metric", as_dict=True, maintain_order=True).items():
        where = dict(zip(strata, key, strict=False))
        measure = MEASURES[str(key[-1])]
        found = [{**where, "metric": measure.key, **row} for row in _pairs(by_queue(own), measure)]
        adjusted = differences.holm([row["p"] for row in found])
        for row, p in zip(found, adjusted, strict=True):
            row["adjusted_p"] = p
            row["conclusion"] = _conclusion(row["difference"], p, measure)
        rows += found
    schema = {**dict.fromkeys(strata, pl.String()), **DIFFERENCES}
    return pl.DataFrame(rows, schema=schema).fill_nan(None)


def _pairs(queues: Mapping[str, Blocks], measure: Measure) -> Iterator[dict[str, Any]]:
    for first, second in combinations(queues, 2):
        one, other = queues[first], queues[second]
        found, pairs = difference(one, other)
        ones, others = _array(one, one), _array(other, other)
        ranks = min(len(ones), len(others)) >= differences.RANKS_FROM
        effect = differences.cliffs_delta(ones, others) if ranks else differences.hedges_g(ones, others)
        kind = "cliffs-delta" if ranks else "hedges-g"
        yield {
            "first": first, "second": second, "runs_first": len(one), "runs_second": len(other), "pairs": pairs,
            "difference": found.value, "low": found.low, "high": found.high, "p": _known(found.p),
            "method": found.method, "effect": effect if math.isfinite(effect) else None, "effect_kind": kind,
            "effect_size": differences.size_in_words(kind, effect), **_ratio(one, other, measure),
        }  # fmt: skip


def _ratio(one: Blocks, other: Blocks, measure: Measure) -> dict[str, Any]:
    """The ratio of geometric means with its interval, which then decides instead of the difference's."""
    if measure.floor is None:
        return {}
    found, _ = difference(logarithms(one, measure.floor), logarithms(other, measure.floor))
    return {
        "low": None, "high": None, "ratio": math.exp(found.value), "ratio_low": exp(found.low),
        "ratio_high": exp(found.high), "p": _known(found.p), "method": f"{found.method}, of logarithms",
    }  # fmt: skip


def logarithms(blocks: Blocks, floor: float) -> Blocks:
    """The logarithm of each value; values below the floor count as it."""
    return {key: math.log(max(value, floor)) for key, value in blocks.items()}


def exp(value: float) -> float | None:
    """The number with this logarithm; ``None`` where it is not known."""
    return math.exp(value) if math.isfinite(value) and value < _LARGEST_LOG else None


def _known(p: float) -> float | None:
    return None if math.isnan(p) else p


def _conclusion(value: float, p: float | None, measure: Measure) -> str:
    """Of the second queue, against the first."""
    if p is None:
        return "unknown"
    if p >= SIGNIFICANCE:
        return "not distinguished"
    return "better" if (value < 0) == (measure.better == "lower") else "worse"
