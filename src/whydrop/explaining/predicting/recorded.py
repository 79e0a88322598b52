"""Recorded values of the quantities that are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop import _core
from whydrop.explaining.explained import ArrowTable, Explained

if TYPE_CHECKING:
    from polars import DataFrame

# Arrivals are counted in intervals of this length to find the greatest load.
_LOAD_INTERVAL_NS = 100_000_000
# Of longer captures only the beginning is simulated.
MOST_PACKETS = 200_000
# Payload of a full segment over Ethernet.
_SEGMENT_BYTES = 1448


@dataclass(frozen=True)
class Quantities:
    """Quantities of a run, recorded or simulated.

    Attributes:
        goodput_bps: at each moment the sum over the connections that carry data then, averaged over all payload; of
            each connection its payload over the time from its first data to the acknowledgment of the last.
        loss_rate: lost data packets of those sent.
        delay_p95_s: 95th percentile of the time in the path beyond the least; ``None`` where it was not captured.
        delay_greatest_s: the greatest of these times.
        packets: data packets that were sent, in segments of full size: captures may have several joined in one.
    """

    goodput_bps: float
    loss_rate: float
    delay_p95_s: float | None = None
    delay_greatest_s: float | None = None
    packets: int | None = None


def quantities(found: Explained) -> Quantities:
    """The quantities of captures."""
    segments = found.table("segments")
    goodput_bps = _core.together_bps(_carried(found, segments))
    if found.pair is None:
        lost = segments.filter(pl.col("fate") == "lost").height
        return Quantities(goodput_bps, lost / max(1, segments.height), packets=full_segments(segments))
    data = data_crossings(found)
    lost = data.filter(pl.col("crossing") == "lost").height
    loss_rate = lost / max(1, data.height)
    transits_s = (data["transit_ns"].drop_nulls() / 1e9).to_numpy()
    if not transits_s.size:
        return Quantities(goodput_bps, loss_rate, packets=full_segments(segments))
    p95_s, greatest_s = (float(one) for one in np.quantile(transits_s, [0.95, 1.0]) - transits_s.min())
    return Quantities(goodput_bps, loss_rate, p95_s, greatest_s, full_segments(segments))


def beginning(found: Explained) -> tuple[Explained, float | None]:
    """So much of captures as can be simulated in a short time, and how long that is, in s; ``None``: all."""
    segments = found.table("segments")
    if full_segments(segments) <= MOST_PACKETS:
        return found, None
    sent = segments.select("time_ns", bytes=pl.col("payload_bytes").cast(pl.Int64)).sort("time_ns")
    later = sent.filter(pl.col("bytes").cum_sum() > MOST_PACKETS * _SEGMENT_BYTES)
    first_ns, until_ns = int(sent["time_ns"][0]), int(later["time_ns"][0])
    return Explained(_Beginning(found, until_ns)), (until_ns - first_ns) / 1e9


def full_segments(segments: DataFrame) -> int:
    """The payload of segments, in segments of full size."""
    return int(segments["payload_bytes"].sum()) // _SEGMENT_BYTES


class _Beginning:
    """An analysis of which the tables of packets end at a moment."""

    def __init__(self, whole: Explained, until_ns: int) -> None:
        self._whole = whole
        self._until_ns = until_ns

    def document(self) -> dict[str, Any]:
        return self._whole.document

    def table(self, name: str) -> ArrowTable:
        frame = self._whole.table(name)
        moments = ["start_ns"] if name == "flows" else ["time_ns", "time_1_ns", "time_2_ns"]
        known = [pl.col(column) for column in moments if column in frame.columns]
        return frame.filter(pl.coalesce(known) < self._until_ns) if known else frame


def data_crossings(found: Explained) -> DataFrame:
    """The data packets of the connections between two captures, in the direction of most data."""
    crossings = found.table("crossings").filter(pl.col("payload_bytes") > 0)
    carried = crossings.group_by("direction").agg(pl.col("payload_bytes").sum()).sort("payload_bytes", descending=True)
    known = carried.filter(pl.col("direction") != "unknown")
    if known.is_empty():
        return crossings.clear()
    return crossings.filter(pl.col("direction") == known["direction"][0])


def arrivals(found: Explained) -> DataFrame:
    """Times and sizes of data packets before the path: ``time_ns`` and ``ip_bytes``, in order of time."""
    if found.pair is None:
        return found.table("segments").select("time_ns", "ip_bytes").sort("time_ns")
    data = data_crossings(found)
    entry = "time_1_ns" if data.height and data["direction"][0] == "1-to-2" else "time_2_ns"
    return data.select(pl.col(entry).alias("time_ns"), "ip_bytes").drop_nulls().sort("time_ns")


def departures(found: Explained) -> DataFrame:
    """Times and sizes of data packets behind the path, as :func:`arrivals` has them; empty without a second capture."""
    if found.pair is None:
        return arrivals(found).clear()
    data = data_crossings(found)
    exit = "time_2_ns" if data.height and data["direction"][0] == "1-to-2" else "time_1_ns"
    return data.select(pl.col(exit).alias("time_ns"), "ip_bytes").drop_nulls().sort("time_ns")


def greatest_load_bps(found: Explained) -> float:
    """The most that arrived before the path in 100 ms, as a rate of IP packets."""
    every = arrivals(found).group_by(pl.col("time_ns") // _LOAD_INTERVAL_NS).agg(pl.col("ip_bytes").sum())
    return float(every["ip_bytes"].max() or 0) * 8e9 / _LOAD_INTERVAL_NS  # type: ignore[arg-type]


def _carried(found: Explained, segments: DataFrame) -> list[tuple[int, int, int]]:
    """Each connection: times of its first data and of the acknowledgment of the last, in ns, and its payload."""
    first = segments.group_by("flow").agg(first_ns=pl.col("time_ns").min())
    most = found.table("acks").filter(pl.col("acknowledged") == pl.col("acknowledged").max().over("flow"))
    last = most.group_by("flow").agg(pl.col("acknowledged").first(), last_ns=pl.col("time_ns").min())
    return first.join(last, on="flow").select("first_ns", "last_ns", "acknowledged").rows()
