"""Bursts of a flow: their length, the pauses between them, their rate, and what is lost once losses begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from whydrop.text import quantities

# Packets closer together than this share of the round trip belong to one burst, as in a window sent at once.
_GAP_OF_RTT = 0.25
SHORTEST_GAP_S = 0.001
# The rate within a burst needs this many packets; of fewer, one late packet decides.
_FEWEST_FOR_RATE = 5
# Flows of fewer packets say little about how their sender sends.
FEWEST_PACKETS = 100


def gap_s(rtt_min_s: float | None) -> float:
    """Find the pause that ends a burst, in seconds."""
    return max((rtt_min_s or 0.0) * _GAP_OF_RTT, SHORTEST_GAP_S)


def is_behind_losses(segments: pl.DataFrame) -> bool:
    """Know if a flow was captured behind the place where it loses packets, by rows in the order of their times ``t``.

    Packets that were lost before the capture point have no time of their own, but that of the next packet that came.
    """
    lost = pl.col("fate") == "lost"
    first_of_its_time = lost.cast(pl.Int8).cum_min().over("t") == 1
    unseen = segments.select(unseen=lost & first_of_its_time & (~lost).any().over("t"), lost=lost)
    return int(unseen["unseen"].sum()) * 2 > int(unseen["lost"].sum())


def captured(segments: pl.DataFrame) -> pl.DataFrame:
    """Select the packets that reached the capture point."""
    return segments.filter(pl.col("fate") != "lost") if is_behind_losses(segments) else segments


def without_unplaced(packets: pl.DataFrame) -> pl.DataFrame:
    """Leave out of numbered packets the lost ones between two bursts, if they were lost before the capture point.

    They were the end of the one burst, or the start of the other.
    """
    if not is_behind_losses(packets):
        return packets
    at_start = (pl.col("fate") == "lost").cast(pl.Int8).cum_min().over("burst") == 1
    return packets.filter(~at_start)


def numbered(segments: pl.DataFrame, gap_s: float) -> pl.DataFrame:
    """Add the column ``burst``: the number of the burst of each packet; ``t`` is its time in seconds."""
    return segments.with_columns(burst=(pl.col("t").diff().fill_null(math.inf) > gap_s).cum_sum())


def each(packets: pl.DataFrame) -> pl.DataFrame:
    """Reduce numbered packets to one row for each burst.

    Returns:
        ``packets``, ``lost``; ``begin``, ``until``: seconds; ``following_bytes``: all but the first packet;
        ``before_loss``: packets before the first loss; ``after_onset``, ``lost_after``: packets after the first loss,
        and those of them that were lost.
    """
    is_lost = pl.col("fate") == "lost"
    size = pl.col("ip_bytes").cast(pl.Int64)
    first = is_lost.arg_max().cast(pl.Int64)
    rows = packets.group_by("burst", maintain_order=True).agg(
        packets=pl.len().cast(pl.Int64),
        lost=is_lost.sum().cast(pl.Int64),
        begin=pl.col("t").first(),
        until=pl.col("t").last(),
        following_bytes=size.sum() - size.first(),
        before_loss=first,
    )
    has_loss = pl.col("lost") > 0
    return rows.with_columns(
        before_loss=pl.when(has_loss).then("before_loss"),
        after_onset=pl.when(has_loss).then(pl.col("packets") - pl.col("before_loss") - 1).otherwise(0),
        lost_after=pl.when(has_loss).then(pl.col("lost") - 1).otherwise(0),
    )


def onset_in_words(found: pl.DataFrame) -> str | None:
    """Say where in its bursts a flow begins to lose packets, and the share lost from there on; ``None``: no losses."""
    lossy = found.filter(pl.col("lost") > 0)
    if lossy.is_empty():
        return None
    after, lost = int(lossy["after_onset"].sum()), int(lossy["lost_after"].sum())
    median = _number(lossy["before_loss"].median()) or 0.0
    first = (
        f"{quantities.count(lossy.height)} of {quantities.plural(found.height, 'burst')} lost packets; "
        f"before the first loss came {packets_in_words(median)} of the burst (median)."
    )
    if not after:
        return f"{first} It was always the last packet of its burst."
    return (
        f"{first} Of the {quantities.plural(after, 'packet')} after the first loss of their burst, "
        f"{quantities.percent(lost / after)} were lost."
    )


def many(number: float) -> str:
    """Write a count, or a median of counts.

    >>> many(9.0), many(2.5)
    ('9', '2.5')
    """
    return quantities.count(round(number)) if number == round(number) else quantities.significant(number, 2)


def packets_in_words(number: float) -> str:
    """Write a number of packets, which may be a median.

    >>> packets_in_words(1.0), packets_in_words(2.5)
    ('1 packet', '2.5 packets')
    """
    return f"{many(number)} packet" if number == 1 else f"{many(number)} packets"


@dataclass(frozen=True)
class Sending:
    """How a flow sends.

    Attributes:
        packets_median, packets_most: in a burst; ``most`` is the 95th percentile.
        pause_s: between the bursts, median; ``None`` where there is one burst.
        rate_bps: within bursts of five packets or more, of IP packets, median; ``None`` where there is none, or where
            packets of one burst have one timestamp (segmentation offload), or timestamps are too coarse.
        line_bps: the rate at which full packets follow each other most closely; ``None`` where they have no such rate
            in common, or timestamps are too coarse for it.
    """

    packets_median: float
    packets_most: float
    pause_s: float | None
    rate_bps: float | None
    line_bps: float | None

    @classmethod
    def of(cls, segments: pl.DataFrame, rtt_min_s: float | None) -> Sending | None:
        """Measure the bursts of the packets of one flow, with their times ``t``; ``None`` where there are too few."""
        segments = captured(segments)
        if segments.height < FEWEST_PACKETS:
            return None
        found = each(numbered(segments, gap_s(rtt_min_s)))
        pauses = (found["begin"].shift(-1) - found["until"]).drop_nulls()
        shortest_s = _FINE * _resolution_s(segments)
        is_timed = pl.col("until") - pl.col("begin") > shortest_s
        long = found.filter(pl.col("packets") >= _FEWEST_FOR_RATE, is_timed)
        rates = long.select(pl.col("following_bytes") * 8 / (pl.col("until") - pl.col("begin"))).to_series()
        offloaded = _is_offloaded(segments)
        return cls(
            _number(found["packets"].median()) or 0.0,
            _number(found["packets"].quantile(0.95)) or 0.0,
            _number(pauses.median()),
            None if offloaded else _number(rates.median()),
            None if offloaded else _line_bps(segments, shortest_s),
        )


# Where so many packets were captured at the time of the one before them, they were cut apart after the capture.
_OFFLOADED = 0.1


# Back-to-back packets: the closest tenth and the closest quarter have one gap in common.
_CLOSEST, _CLOSE, _SAME = 0.1, 0.25, 1.1
# A shorter time than so many steps of the capture's timestamps is known too roughly for a rate.
_FINE = 10
# A packet this large counts as full.
_FULL = 0.9


def _line_bps(segments: pl.DataFrame, shortest_s: float) -> float | None:
    """The rate of full packets that follow each other back to back."""
    sizes = segments["ip_bytes"].cast(pl.Float64)
    full = segments.filter(sizes >= _FULL * (_number(sizes.max()) or 0.0))
    gaps = segments.select("t", gap=pl.col("t").diff(), size=sizes).join(full.select("t"), on="t", how="semi")
    gaps = gaps.filter(pl.col("gap") > 0)
    closest, close = (_number(gaps["gap"].quantile(share)) for share in (_CLOSEST, _CLOSE))
    if not closest or not close or closest < shortest_s or close > closest * _SAME:
        return None
    return (_number(gaps["size"].median()) or 0.0) * 8 / closest


def _resolution_s(segments: pl.DataFrame) -> float:
    """The step of the timestamps, a power of ten; 0: unknown."""
    if "time_ns" not in segments.columns:
        return 0.0
    steps_ns = (int(10**power) for power in range(9, -1, -1))
    return next(step for step in steps_ns if (segments["time_ns"] % step == 0).all()) / 1e9


def _is_offloaded(segments: pl.DataFrame) -> bool:
    return int(segments["t"].diff().eq(0).sum()) > _OFFLOADED * segments.height


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
