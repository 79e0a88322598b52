"""Rows of pictures: distributions of delay, and delay over time, each over a cell's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from whydrop.studies.queues.cells import cell_columns, in_order

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters


def distributions(runs: pl.DataFrame, counts: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """The distribution of induced delay of each cell: ``upper_ms`` of a bin, and the ``share`` of probes up to it.

    Each run counts the same, however many probes it had.
    """
    names = cell_columns(parameters)
    joined = counts.join(runs.select("recording", *names), on="recording")
    joined = joined.with_columns(part=pl.col("samples") / pl.col("samples").sum().over("recording"))
    sizes = joined.group_by(names).agg(runs=pl.col("recording").n_unique())
    found = joined.group_by(*names, "bin").agg(upper_ns=pl.col("upper_ns").max(), part=pl.col("part").sum())
    found = found.join(sizes, on=names).sort(*names, "bin")
    share = (pl.col("part").cum_sum().over(names) / pl.col("runs")).clip(0.0, 1.0)
    found = found.select(
        *names, "bin", upper_ms=pl.col("upper_ns") / 1e6, share=share, runs=pl.col("runs").cast(pl.Int64)
    )
    return in_order(found, parameters)


def delays(runs: pl.DataFrame, steps: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """Induced delay by time after the last start: ``time_s``, and the ``median_ms`` over the runs of each cell.

    A step of which all probes were lost counts as higher than any other: the median over the runs is unknown where most
    lost theirs.
    """
    names = cell_columns(parameters)
    joined = steps.join(runs.select("recording", *names), on="recording")
    known = pl.col("median_ns").cast(pl.Float64).fill_null(float("inf"))
    found = joined.group_by(*names, "step").agg(
        time_s=(pl.col("step") * pl.col("step_ns") / 1e9).first(),
        median_ms=known.median() / 1e6,
        runs=pl.len().cast(pl.Int64),
    )
    found = found.with_columns(median_ms=pl.when(pl.col("median_ms").is_finite()).then("median_ms"))
    return in_order(found.sort(*names, "step").drop("step"), parameters)
