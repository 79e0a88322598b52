"""Induced delay: the round-trip times of probes, less what their own stream had before the load.

Streams to hosts at different distances can be put together so. The base is that of the metric induced-latency: the
median of the idle time before the load or, where there is too little of it, the smallest round-trip time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from whydrop.recording.metrics.definitions import FEWEST_IDLE, Stream, to_far_ends
from whydrop.recording.metrics.load import Window

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

STEP_NS = 100_000_000
# Bins of histograms: of 0.1 ms up to 10 ms, then each 1 % wider than the one before; the last one is for all above.
_FINE_NS, _FINE_BINS, _RATIO, _COARSE_BINS = 100_000, 100, 1.01, 1000


def _edges() -> pl.Series:
    fine = np.arange(_FINE_BINS, dtype=np.int64) * _FINE_NS
    coarse = np.rint(_FINE_NS * _FINE_BINS * _RATIO ** np.arange(_COARSE_BINS + 1)).astype(np.int64)
    return pl.Series(np.concatenate([fine, coarse]))


EDGES_NS = _edges()


def delays(recording: Recording, span: Window, streams: Sequence[Stream]) -> pl.DataFrame:
    """The delay that the load induced, of each answered probe of the streams until the end of the load.

    Columns: ``time_ns``, ``induced_ns``; in order of time.
    """
    parts = []
    for one in streams:
        base = base_ms(one)
        samples = recording.samples(one.name).drop_nulls("value").filter(pl.col("time_ns") < span.end_ns)
        induced = ((pl.col("value") - base) * 1e6).round().cast(pl.Int64)
        parts.append(samples.select("time_ns", induced_ns=induced))
    empty = pl.DataFrame(schema={"time_ns": pl.Int64, "induced_ns": pl.Int64})
    return pl.concat([empty, *parts]).sort("time_ns")


def base_ms(stream: Stream) -> float:
    """The round-trip time of a stream without load."""
    return float(np.median(stream.idle)) if len(stream.idle) >= FEWEST_IDLE else stream.smallest


def by_step(recording: Recording, span: Window, induced: pl.DataFrame) -> pl.DataFrame:
    """Induced delays in steps of `STEP_NS`, of which one begins at the start of the load, and lost probes.

    Columns: ``time_ns``, ``after_load_ns``, ``samples``, ``lost``, ``min_ns``, ``median_ns``, ``max_ns``.
    """
    at = (pl.col("time_ns") - span.start_ns).floordiv(STEP_NS) * STEP_NS
    answered = induced.group_by(after_load_ns=at).agg(
        samples=pl.len(),
        min_ns=pl.col("induced_ns").min(),
        median_ns=pl.col("induced_ns").median().round().cast(pl.Int64),
        max_ns=pl.col("induced_ns").max(),
    )
    sent = pl.coalesce("sent_ns", "scheduled_ns").alias("time_ns")
    probes = to_far_ends(recording, recording.table("probes").select("flow", sent, "fate"))
    probes = probes.filter(pl.col("time_ns") < span.end_ns)
    lost = pl.col("fate").is_in(["lost", "lost-up", "lost-down"])
    losses = probes.filter(lost).group_by(after_load_ns=at).agg(lost=pl.len())
    found = answered.join(losses, on="after_load_ns", how="full", coalesce=True)
    return found.select(
        (pl.col("after_load_ns") + span.start_ns).alias("time_ns"),
        "after_load_ns",
        pl.col("samples").fill_null(0),
        pl.col("lost").fill_null(0),
        "min_ns", "median_ns", "max_ns",
    ).sort("after_load_ns")  # fmt: skip


def histogram(span: Window, induced: pl.DataFrame) -> pl.DataFrame:
    """Counts of induced delays, idle and under load; bins are the same for all recordings.

    Columns: ``load``, ``lower_ns``, ``upper_ns``, ``samples``. Delays below zero count in the first bin.
    """
    places = EDGES_NS.search_sorted(induced["induced_ns"], side="right").cast(pl.Int64) - 1
    places = places.clip(0, EDGES_NS.len() - 2)
    rows = induced.select(load=pl.col("time_ns") >= span.start_ns).with_columns(place=places)
    counts = rows.group_by("load", "place").agg(samples=pl.len()).sort("load", "place")
    return counts.select(
        "load",
        lower_ns=EDGES_NS.gather(counts["place"]),
        upper_ns=EDGES_NS.gather(counts["place"] + 1),
        samples="samples",
    )
