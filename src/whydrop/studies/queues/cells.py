"""Cells of the experiment: one queue under one set of conditions, and the median of each measure over its runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.recording.statistics.medians import median
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import MEASURES

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

MEDIANS = {
    "runs": pl.Int64(), "median": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(), "censored": pl.Boolean(),
    "method": pl.String(),
}  # fmt: skip


def cell_columns(parameters: Parameters) -> list[str]:
    """The columns that name a cell."""
    return [*parameters.strata, "queue"]


def cells(runs: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """One row for each cell: its runs, those that are used, and why others are not."""
    names = cell_columns(parameters)
    found = runs.drop_nulls("queue").group_by(names).agg(
        runs=pl.len().cast(pl.Int64),
        used=pl.col("left_out").is_null().sum().cast(pl.Int64),
        reasons=pl.col("left_out").drop_nulls().unique(maintain_order=True).head(3).str.join("; "),
    )  # fmt: skip
    return in_order(found, parameters)


def medians(runs: pl.DataFrame, values: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """One row for each cell and measure: the number of runs that have it, median, interval and its method."""
    names = cell_columns(parameters)
    joined = values.join(runs.select("recording", *names), on="recording")
    rows: list[dict[str, Any]] = []
    for key, own in joined.partition_by(*names, "metric", as_dict=True, maintain_order=True).items():
        measure = MEASURES[str(key[-1])]
        censored = own["censored"].to_numpy()
        found = median(own["value"].to_numpy(), censored, measure.least, measure.most, measure.floor)
        rows.append(
            {
                **dict(zip([*names, "metric"], key, strict=True)), "runs": own.height, "median": found.value,
                "low": _number(found.low), "high": _number(found.high), "censored": found.censored,
                "method": found.method,
            }
        )  # fmt: skip
    schema = {**dict.fromkeys([*names, "metric"], pl.String()), **MEDIANS}
    return in_order(pl.DataFrame(rows, schema=schema), parameters)


CONTAINED = {
    "runs": pl.Int64(), "contained": pl.Int64(), "calm": pl.Int64(), "above_share": pl.Float64(),
    "calm_s": pl.Float64(),
}  # fmt: skip


def contained(runs: pl.DataFrame, containment: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """One row for each cell: in how many runs the delay was contained, or only calm for one second.

    ``above_share`` is the median share of steps above the target after the last start, ``calm_s`` the median time until
    the first calm second, of those runs that have one.
    """
    names = cell_columns(parameters)
    joined = containment.join(runs.select("recording", *names), on="recording")
    found = joined.group_by(names).agg(
        runs=pl.len(),
        contained=pl.col("contained_ns").count(),
        calm=pl.col("calm_ns").count(),
        above_share=(pl.col("above") / pl.col("steps")).median(),
        calm_s=(pl.col("calm_ns") / 1e9).median(),
    )
    typed = found.select(*names, *(pl.col(name).cast(kind) for name, kind in CONTAINED.items()))
    return in_order(typed, parameters)


def in_order(frame: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """Rows by conditions, then queues without AQM, with AQM, with fair queueing, then measures."""
    if frame.is_empty():
        return frame
    order = {queue: sort_key(queue) for queue in frame["queue"].unique()}
    places = {queue: place for place, queue in enumerate(sorted(order, key=order.__getitem__))}
    lines = {
        name: {value: place for place, value in enumerate(sorted(frame[name].unique(), key=line_key))}
        for name in parameters.strata
    }
    keys = [pl.col(name).replace_strict(lines[name], return_dtype=pl.Int64) for name in parameters.strata]
    keys.append(pl.col("queue").replace_strict(places, return_dtype=pl.Int64))
    if "metric" in frame.columns:
        measures = {key: place for place, key in enumerate(MEASURES)}
        keys.append(pl.col("metric").replace_strict(measures, return_dtype=pl.Int64))
    return frame.sort(keys, maintain_order=True)


def line_key(text: str) -> tuple[Any, ...]:
    """The order of lines and other conditions: by the numbers in their names where they begin with one.

    >>> sorted(["100/100", "10/10", "10/1", "cubic"], key=line_key)
    ['10/1', '10/10', '100/100', 'cubic']
    """
    numbers = []
    for part in text.split("/"):
        try:
            numbers.append(float(part))
        except ValueError:
            return (1, (), text)
    return (0, tuple(numbers), text) if all(map(math.isfinite, numbers)) else (1, (), text)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
