"""Charts of one flow: sequence numbers, data in flight, round-trip times, rates, and what limits the sender."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from whydrop.show.charts.scene import (
    TIME,
    Scene,
    as_float,
    cut,
    heaviest,
    lost_packets,
    marks,
    needed,
    over_time,
    points,
    readable,
    rule,
)
from whydrop.show.figure import Axis, Figure, NothingToDraw
from whydrop.text import quantities

SEE_SEQUENCE = (
    "Each blue mark is a segment of data; steeper means faster. The thin green line is what the receiver "
    "has acknowledged. A cross is a packet that never arrived: the green line stops below it until the packet is "
    "retransmitted (triangles and squares)."
)
SEE_CLOSE_UP = (
    "Each blue bar is one packet, as high as its data is long. Crosses are packets that never arrived. The green line "
    "stops at the first of them; faint bars show data after the gap that the receiver already has, until "
    "retransmissions (triangles and squares) fill the gap."
)
SEE_IN_FLIGHT = (
    "The blue line is the data in flight. TCP lets it grow until packets are lost (crosses) and then "
    "cuts it. Losses always at one height mean a full queue; losses at any height mean a policer or a bad link. Where "
    "the line lies along the dashed one, the receiver allows no more."
)
SEE_RTT = (
    "Each dot is the round-trip time of one packet, from its departure to its acknowledgment. Dots that climb before "
    "losses (crosses, on the base line) show a queue that fills up; dots that stay flat while packets are lost show "
    "that nothing queues, as with a policer."
)
SEE_THROUGHPUT = (
    "The solid line is the rate of the sent data, the dashed line that of the acknowledged data. Where the solid line "
    "is above, the difference was lost or queued. A level dashed line shows a fixed limit, of the path or of an end."
)
SEE_SENT_RATE = (
    "The line is the rate of the sent data. The capture holds no acknowledgments of it, so how much arrived is unknown."
)
SEE_LIMITS = (
    "Each row is one limit of the sender, and its bars show when that limit applied. The limit that applied longest is "
    "on top. A bar in the row of the congestion window: the path sets the rate. A bar in any other row: the named "
    "limit sets it."
)

# The kind in the segment table, the name in the legend, the style.
_RETRANSMISSIONS = (
    ("fast", "fast retransmission", "fast"),
    ("timeout", "retransmission after a timeout", "timeout"),
    ("tail-loss-probe", "tail-loss probe", "probe"),
    ("other", "other retransmission", "other"),
)
# Enough windows to show how the rate moves, long enough that one holds several packets.
_WINDOWS = 120
_SPANS = {"from": pl.Float64, "until": pl.Float64, "limiter": pl.String}


def time_sequence(scene: Scene) -> Figure:
    """Draw sequence number over time in the vocabulary of tcptrace's graphs.

    Data are bars of their length, the acknowledged line is below them, the receive window's edge above.
    """
    scene.need_segments()
    segments = scene.segments
    end = pl.col("sequence") + pl.col("payload_bytes")
    scale, unit = readable(segments.select(end.max()).item(), "bytes")
    middle = (pl.col("sequence") + pl.col("payload_bytes") / 2) / scale
    acks = scene.acks.filter(pl.col("acknowledged") >= 0)
    edge = (pl.col("acknowledged") + pl.col("window_bytes")) / scale
    # A duplicate SACK (RFC 2883) repeats data below the acknowledged line: it is not out of order.
    sacks, first = scene.sacks.filter(~pl.col("duplicate")), segments.filter(pl.col("kind") == "new")
    layers = [
        marks("edge of the receive window", "window", "step", acks, edge, stretch=False),
        marks("acknowledged", "acknowledged", "step", acks, pl.col("acknowledged") / scale),
        marks(
            "received out of order (SACK)", "sack", "spans", sacks, pl.col("start") / scale, y2=pl.col("end") / scale
        ),
        marks("data sent", "segment", "spans", first, pl.col("sequence") / scale, y2=end / scale),
        *(
            marks(name, style, "points", segments.filter(pl.col("kind") == kind), middle, rare=True)
            for kind, name, style in _RETRANSMISSIONS
        ),
        marks(
            "needless (spurious) retransmission", "spurious", "points", segments.filter("spurious"), middle, rare=True
        ),
        lost_packets(segments, middle),
    ]
    y = Axis(f"Sequence number ({unit})", from_zero="whole")
    return over_time(scene, "time-sequence", "Data sent, acknowledged and lost", y, layers, SEE_SEQUENCE)


def time_sequence_close_up(scene: Scene) -> Figure:
    """Draw sequence number over time around the most losses."""
    whole = time_sequence(scene)
    (panel,) = whole.panels
    window = needed(heaviest(scene), scene.flow.flow)
    panel = cut(replace(panel, y=replace(panel.y, from_zero="never")), window)
    return replace(whole, key="close-up", title="The heaviest loss, close up", panels=(panel,), see=SEE_CLOSE_UP)


def in_flight(scene: Scene) -> Figure:
    """Draw the bytes that were sent and not yet acknowledged, with the losses on them."""
    scene.need_segments()
    # A packet just sent is itself in flight: a zero means that the capture missed it.
    known = scene.segments.filter(pl.col("in_flight_bytes") > 0)
    scale, unit = readable(known["in_flight_bytes"].max(), "bytes")
    level = pl.col("in_flight_bytes") / scale
    layers = [
        marks("receive window", "window", "step", scene.acks, pl.col("window_bytes") / scale, stretch=False),
        marks("bytes in flight", "level", "line", known, level),
        lost_packets(known, level),
    ]
    y = Axis(f"Bytes in flight ({unit})", from_zero="always")
    return over_time(scene, "in-flight", "Bytes in flight, and where packets were lost", y, layers, SEE_IN_FLIGHT)


def rtt(scene: Scene) -> Figure:
    """Draw the round-trip time of each segment: whether packets wait before they are lost."""
    scene.need_segments()
    if scene.flow.vantage == "receiver":
        raise NothingToDraw(
            f"{scene.flow.flow}: captured at its receiver, where acknowledgments show no round-trip time"
        )
    dots = marks("round-trip time of a packet", "segment", "points", scene.segments, pl.col("rtt_ns") / 1e6)
    if dots.data.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no acknowledgment gives a round-trip time")
    shortest = scene.flow.rtt_min_s
    layers = [
        dots,
        *([] if shortest is None else [rule("shortest", "limit", shortest * 1e3)]),
        lost_packets(scene.segments, pl.lit(0.0)),
    ]
    return over_time(scene, "rtt", "Round-trip time", Axis("Round-trip time (ms)", from_zero="always"), layers, SEE_RTT)


def limits(scene: Scene) -> Figure:
    """Draw the limiter of the sender at each moment, a lane for each."""
    scene.need_segments()
    found = scene.flow.limits
    if not found or not found["spans"]:
        raise NothingToDraw(
            f"{scene.flow.flow}: the capture holds no acknowledgments, so the sender's limits are unknown"
        )
    shares: dict[str, float] = found["shares"]
    lanes = {name: float(lane) for lane, name in enumerate(sorted(shares, key=lambda name: shares[name]))}
    spans = pl.DataFrame(found["spans"], schema=_SPANS, orient="row").with_columns(
        pl.col("from", "until") - scene.origin_s,
        y=pl.col("limiter").replace_strict(lanes, default=None, return_dtype=pl.Float64),
    )
    y = pl.col("y")
    layers = [
        marks("limited by", "lane", "slants", spans, y, pl.col("from"), rare=True, x2=pl.col("until"), y2=y),
        lost_packets(scene.segments, pl.lit(-0.5)),
    ]
    words = tuple(
        (lane, f"{quantities.spaced(name)} {quantities.percent(shares[name])}") for name, lane in lanes.items()
    )
    return over_time(
        scene,
        "limits",
        "The limit of the sender, at each moment",
        Axis("Limiter (share of the time)", ends=(-0.8, len(lanes) - 0.4), words=words),
        layers,
        SEE_LIMITS,
        x=Axis(f"{TIME.title}, on the sender's clock"),
    )


def throughput(scene: Scene) -> Figure:
    """Draw sent and acknowledged rate, each an average over equal windows, beside the rate of the fitted model."""
    scene.need_segments()
    window = _window_s(scene)
    sent = _rates(scene.segments.select("t", amount=pl.col("ip_bytes")), window)
    acknowledged = _rates(_in_time(scene).select("t", amount=_newly_acknowledged()), window)
    limit = scene.fitted_rate_bps
    if sent.height < 2:
        raise NothingToDraw(f"{scene.flow.flow}: the flow is too short for a rate")
    largest = max(as_float(sent["y"].max()), as_float(acknowledged["y"].max()), limit or 0.0)
    scale, unit = readable(largest, "bit/s")
    layers = [
        marks("sent (IP bytes)", "segment", "line", sent, pl.col("y") / scale, pl.col("x")),
        lost_packets(scene.segments, pl.lit(0.0)),
    ]
    if acknowledged.height:
        rate, at = pl.col("y") / scale, pl.col("x")
        layers.insert(1, marks("acknowledged (payload)", "arrived", "line", acknowledged, rate, at))
    if limit is not None and scene.verdict is not None:
        name = f"fitted {scene.verdict.cause} rate: {quantities.rate(limit)}"
        layers.append(rule(name, "limit", limit / scale))
    return over_time(
        scene,
        "throughput",
        "Throughput, sent and acknowledged",
        Axis(f"Throughput ({unit})", from_zero="always"),
        layers,
        SEE_THROUGHPUT if acknowledged.height else SEE_SENT_RATE,
        x=Axis(f"{TIME.title}, averages over {quantities.duration(window)}"),
    )


def _window_s(scene: Scene) -> float:
    """A whole number of round trips, where the round trip is known: bursts repeat with it, and would beat otherwise."""
    shortest = max(as_float(scene.segments["t"].max()) / _WINDOWS, 1e-3)
    rtt_s = scene.flow.rtt_min_s or 0.0
    return math.ceil(shortest / rtt_s) * rtt_s if rtt_s >= 1e-3 else shortest


def _in_time(scene: Scene) -> pl.DataFrame:
    """The acknowledgments until as long after the last packet as the flow sent for: what comes days later is none."""
    return scene.acks.filter(pl.col("t") <= 2 * as_float(scene.segments["t"].max()) + 1.0)


def _newly_acknowledged() -> pl.Expr:
    """Payload bytes that each acknowledgment adds; an old one that arrives late adds nothing."""
    return pl.col("acknowledged").cum_max().diff().fill_null(0)


def _rates(amounts: pl.DataFrame, window: float) -> pl.DataFrame:
    """Bit/s in each whole window, at its middle; a window without packets is a zero and not a gap."""
    bins = amounts.group_by((pl.col("t") / window).floor().cast(pl.Int64).alias("bin")).agg(pl.col("amount").sum())
    last = bins["bin"].max()
    # The flow ends within the last window, so an average over all of it would say too little.
    every = pl.DataFrame({"bin": range(last if isinstance(last, int) else 0)}, schema={"bin": pl.Int64})
    full = every.join(bins, on="bin", how="left").fill_null(0).sort("bin")
    return points(full, (pl.col("bin") + 0.5) * window, pl.col("amount") * 8 / window)
