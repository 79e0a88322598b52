"""Goodput, data in flight and queueing delay over time: recorded, and of single runs."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from whydrop import _core
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting import recorded
from whydrop.explaining.predicting.running import Json

# Intervals of a course.
_INTERVALS = 150
# Goodput is the mean of so many: data are acknowledged once in a round trip.
_AVERAGED = 5


@dataclass(frozen=True)
class Course:
    """All connections together, in intervals of the same length.

    Attributes:
        of: ``recorded``, ``reproduced`` or ``changed``.
        rows: ``time_s`` (the end of the interval, after the first packet), ``goodput_bps`` (of five intervals),
            ``in_flight_bytes`` (as last seen) and ``delay_s`` (mean queueing delay; null where it is not known).
    """

    of: str
    rows: pl.DataFrame


def of_captures(found: Explained, duration_s: float) -> Course:
    """The course that captures show."""
    segments = found.table("segments")
    first_ns = int(segments["time_ns"].min() or 0)  # type: ignore[arg-type]
    sent = segments.select("flow", time_s=_since("time_ns", first_ns), in_flight_bytes="in_flight_bytes")
    acks = found.table("acks").select(
        "flow", time_s=_since("time_ns", first_ns), acknowledged_bytes=pl.col("acknowledged").cast(pl.Int64)
    )
    delays = None
    if found.pair is not None:
        data = recorded.data_crossings(found)
        entry = "time_1_ns" if data.height and data["direction"][0] == "1-to-2" else "time_2_ns"
        data = data.select(pl.col(entry).alias("time_ns"), "transit_ns").drop_nulls()
        delays = _delays(data, int(data["time_ns"].min() or 0))  # type: ignore[arg-type]
    return Course("recorded", _rows(sent, acks, delays, duration_s))


def of_run(of: str, setting: Json, seed: int, duration_s: float) -> Course:
    """One run of a setting."""
    course = json.loads(_core.predicted_course(json.dumps(setting), seed))
    packets = pl.DataFrame(course["packets"], schema_overrides={"transit_ns": pl.Int64})
    first_ns = int(packets["time_ns"].min() or 0)  # type: ignore[arg-type]
    acks = pl.DataFrame(course["acknowledgments"])
    return Course(
        of,
        _rows(
            packets.select("flow", "in_flight_bytes", time_s=_since("time_ns", first_ns)),
            acks.select("flow", "acknowledged_bytes", time_s=_since("time_ns", first_ns)),
            _delays(packets.select("time_ns", "transit_ns").drop_nulls(), first_ns),
            duration_s,
        ),
    )


def _since(name: str, first_ns: int) -> pl.Expr:
    return (pl.col(name).cast(pl.Int64) - first_ns) / 1e9


def _delays(data: pl.DataFrame, first_ns: int) -> pl.DataFrame:
    delay_s = (pl.col("transit_ns").cast(pl.Int64) - pl.col("transit_ns").cast(pl.Int64).min()) / 1e9
    return data.select(time_s=_since("time_ns", first_ns), delay_s=delay_s)


def _rows(sent: pl.DataFrame, acks: pl.DataFrame, delays: pl.DataFrame | None, duration_s: float) -> pl.DataFrame:
    ends_s = np.linspace(0.0, duration_s, _INTERVALS + 1)[1:]
    acknowledged = _last_of_all(acks, "acknowledged_bytes", ends_s, is_greatest=True)
    goodput_bps = np.diff(acknowledged, prepend=0.0) * 8 / (duration_s / _INTERVALS)
    rows = {
        "time_s": ends_s,
        "goodput_bps": pl.Series(goodput_bps).rolling_mean(_AVERAGED, center=True, min_samples=1),
        "in_flight_bytes": _last_of_all(sent, "in_flight_bytes", ends_s),
    }
    frame = pl.DataFrame(rows)
    if delays is None:
        return frame.with_columns(delay_s=pl.lit(None, pl.Float64))
    interval = (pl.col("time_s") / (duration_s / _INTERVALS)).floor().cast(pl.Int64).alias("interval")
    means = delays.group_by(interval).agg(pl.col("delay_s").mean())
    return frame.with_row_index("interval").with_columns(pl.col("interval").cast(pl.Int64)).join(
        means, on="interval", how="left", maintain_order="left"
    ).drop("interval")  # fmt: skip


def _last_of_all(frame: pl.DataFrame, name: str, ends_s: np.ndarray, *, is_greatest: bool = False) -> np.ndarray:
    """The last value of each flow before each moment, summed over the flows."""
    total = np.zeros(len(ends_s))
    for own in frame.sort("time_s", maintain_order=True).partition_by("flow"):
        values = np.concatenate([[0.0], own[name].cast(pl.Float64).fill_null(0.0).to_numpy()])
        if is_greatest:
            values = np.maximum.accumulate(values)
        total += values[np.searchsorted(own["time_s"].to_numpy(), ends_s, side="right")]
    return total
