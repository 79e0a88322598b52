"""When packets come: the time between them, what a model's entrance sees, and how long acknowledgments take."""

from __future__ import annotations

import polars as pl

from whydrop.explaining import bursts
from whydrop.show.charts.pair_scene import PairScene, is_offloaded, matched
from whydrop.show.charts.scene import (
    TIME,
    Scene,
    as_float,
    lost_packets,
    marks,
    over_time,
    points,
    present,
    readable,
    rule,
)
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel
from whydrop.text import quantities

SEE_INTERARRIVAL = (
    "Each dot is the time from one data packet to the next. The lowest dense row is the time between packets of one "
    "burst: the rate of the line before the capture point, unless the capturing host reads several packets at once. "
    "Dots near the round-trip time are pauses between bursts. Rows at other heights show a queue or a timer that "
    "spaces the packets."
)
SEE_ARRIVALS = (
    "Above: the rate at which packets come to the hop that drops or delays them, in short intervals, against the rate "
    "of the fitted model (dotted line). Where the rate is above that line, tokens are used up or a queue grows. Below: "
    "the number of packets that came in each interval, and of them those that were lost."
)
SEE_ACK_DELAY = (
    "Each dot is the time from a data packet's arrival to the acknowledgment that covers it, at the receiver. A "
    "receiver may wait for a second packet, or for data of its own (RFC 9293: less than 500 ms; Linux: mostly 40 ms, "
    "at most 200 ms). Dots far above that show a receiver that is late, and not the path."
)
SEE_JITTER = (
    "Each dot is the difference between the transit times of a packet and of the one before it (RFC 3393): above zero, "
    "the packet needed more time. The line is the interarrival jitter of RFC 3550, a moving average of these "
    "differences without their sign."
)

_OFFLOADED = (
    "Packets were captured as large segments (segmentation offload) and left one after the other: that part of the "
    "variation is not the path's."
)

# Beside the data on a logarithmic axis.
_ROOM = 1.5
_INTERVALS = 4000
# The weight of one packet in the average of RFC 3550, section 6.4.1.
_JITTER_GAIN = 1 / 16


def interarrival(scene: Scene) -> Figure:
    """Draw the time between each data packet and the one before it."""
    scene.need_segments()
    captured = bursts.captured(scene.segments)
    rows = captured.with_columns(gap=pl.col("t").diff()).filter(pl.col("gap") > 0)
    if rows.height < 2:
        raise NothingToDraw(f"{scene.flow.flow}: too few packets at different times for the time between them")
    shortest = scene.flow.rtt_min_s
    layers = [
        marks("time since the packet before", "segment", "points", rows, pl.col("gap") * 1e3),
        *([] if not shortest else [rule("shortest round-trip time", "limit", shortest * 1e3)]),
    ]
    low, high = as_float(rows["gap"].min()) * 1e3, max(as_float(rows["gap"].max()), shortest or 0.0) * 1e3
    y = Axis("Time between packets (ms)", scale="log", ends=(low / _ROOM, high * _ROOM))
    title = "The time between data packets, at the capture point"
    drawn = over_time(scene, "interarrival", title, y, layers, SEE_INTERARRIVAL)
    same = captured.height - rows.height - 1
    note = (
        f"{quantities.plural(same, 'packet')} captured at the time of the packet before: not drawn." if same else None
    )
    return drawn.noted(note).noted(_sending_in_words(scene))


def _sending_in_words(scene: Scene) -> str | None:
    found = bursts.Sending.of(scene.segments, scene.flow.rtt_min_s)
    if found is None:
        return None
    rate = f"; within a burst packets come at {quantities.rate(found.rate_bps)}" if found.rate_bps else ""
    line = f", back to back at {quantities.rate(found.line_bps)}" if found.line_bps else ""
    pause = f", {quantities.duration(found.pause_s)} apart" if found.pause_s is not None else ""
    return (
        f"Bursts have {bursts.packets_in_words(found.packets_median)} (median; 95 % have at most "
        f"{bursts.packets_in_words(found.packets_most)})"
        f"{pause}{rate}{line}."
    )


def arrivals(scene: Scene) -> Figure:
    """Draw rate and number of the packets that enter the fitted model."""
    if scene.verdict is None or scene.model.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no verdict with a model of the path concerns this flow")
    width_s = _interval_s(scene)
    bins = _binned(scene.model, width_s)
    limit = scene.fitted_rate_bps
    scale, unit = readable(max(as_float(bins["rate"].max()), limit or 0.0), "bit/s")
    middle = pl.col("x") + width_s / 2
    rates = [
        marks("arriving (IP bytes)", "segment", "line", bins, pl.col("rate") / scale, middle),
        *([] if limit is None else [rule(f"fitted rate: {quantities.rate(limit)}", "limit", limit / scale)]),
    ]
    counts = [
        _bars("packets", "count-bar", bins, pl.col("packets"), width_s),
        _bars("of them lost", "lost-bar", bins.filter(pl.col("lost") > 0), pl.col("lost"), width_s),
    ]
    every = quantities.duration(width_s)
    x = Axis(f"{TIME.title}, intervals of {every}")
    panels = (
        Panel(x, Axis(f"Arrival rate ({unit})", from_zero="always"), present(rates), zoom="time"),
        Panel(x, Axis(f"Packets (in {every})", from_zero="always"), present(counts), zoom="time"),
    )
    over = "" if scene.verdict_flows == 1 else f", {quantities.plural(scene.verdict_flows, 'flow')} together"
    title = f"What arrives where packets are dropped or delayed{over}"
    return Figure("arrivals", title, scene.flow.flow, panels, see=SEE_ARRIVALS)


def _bars(name: str, style: str, bins: pl.DataFrame, height: pl.Expr, width_s: float) -> Layer:
    """A bar for each interval, as wide as it."""
    return marks(name, style, "bars", bins, height, pl.col("x"), x2=pl.col("x") + width_s, y2=pl.lit(0.0))


def _interval_s(scene: Scene) -> float:
    """A quarter of a round trip, in which a burst stands out; longer where there would be too many."""
    whole = as_float(scene.model["t"].max()) - as_float(scene.model["t"].min())
    return max((scene.flow.rtt_min_s or 0.0) / 4, whole / _INTERVALS, 1e-4)


def _binned(rows: pl.DataFrame, width_s: float) -> pl.DataFrame:
    """Rate, packets and losses in each interval; intervals without packets are zeros."""
    place = (pl.col("t") / width_s).floor().cast(pl.Int64).alias("place")
    found = rows.group_by(place).agg(
        size=pl.col("ip_bytes").cast(pl.Int64).sum(), packets=pl.len().cast(pl.Int64), lost=pl.col("seen_lost").sum()
    )
    first, last = (int(as_float(end)) for end in (found["place"].min(), found["place"].max()))
    every = pl.DataFrame({"place": range(first, last + 1)}, schema={"place": pl.Int64})
    full = every.join(found, on="place", how="left").fill_null(0).sort("place")
    return full.select("packets", "lost", x=pl.col("place") * width_s, rate=pl.col("size") * 8 / width_s)


def ack_delay(scene: Scene) -> Figure:
    """Draw how long the receiver took to acknowledge each packet, where the capture is of the receiver."""
    scene.need_segments()
    if scene.flow.vantage != "receiver":
        raise NothingToDraw(f"{scene.flow.flow}: only a capture at the receiver shows how long acknowledgments take")
    rows = scene.segments.drop_nulls("rtt_ns")
    if rows.height < 2:
        raise NothingToDraw(f"{scene.flow.flow}: fewer than two acknowledgments show how long they took")
    scale, unit = readable(rows["rtt_ns"].max(), "ns")
    dots = marks("time to the acknowledgment", "segment", "points", rows, pl.col("rtt_ns") / scale)
    y = Axis(f"Acknowledgment delay ({unit})", from_zero="always")
    layers = [dots, lost_packets(scene.segments, pl.lit(0.0))]
    title = "How long the receiver took to acknowledge"
    return over_time(scene, "ack-delay", title, y, layers, SEE_ACK_DELAY).noted(_delays_in_words(rows["rtt_ns"] / 1e9))


def _delays_in_words(delays_s: pl.Series) -> str:
    median, high = as_float(delays_s.median()), as_float(delays_s.quantile(0.95))
    most = quantities.duration(as_float(delays_s.max()))
    return f"Median {quantities.duration(median)}, 95th percentile {quantities.duration(high)}, at most {most}."


def jitter(scene: PairScene) -> Figure:
    """Draw the variation of the transit time from each packet of a flow to the next, and its moving average."""
    rows = matched(scene.own).select("t", change=pl.col("transit_ns").diff() / 1e6).drop_nulls()
    if rows.is_empty():
        raise NothingToDraw(f"{scene.scene.flow.flow}: fewer than two data packets of this flow passed both captures")
    average = pl.col("change").abs().ewm_mean(alpha=_JITTER_GAIN, adjust=False)
    smooth = points(rows, pl.col("t"), average)
    panel = Panel(
        Axis("Time since the flow's first data packet (s)"),
        Axis("Change of the transit time (ms)"),
        present(
            [
                marks("change from the packet before", "segment", "points", rows, pl.col("change")),
                marks("interarrival jitter (RFC 3550)", "fit", "line", smooth, pl.col("y"), pl.col("x")),
            ]
        ),
        zoom="time",
    )
    last = quantities.duration(as_float(smooth["y"][-1]) / 1e3)
    mean = quantities.duration(as_float(smooth["y"].mean()) / 1e3)
    return (
        Figure(
            "jitter",
            "Delay variation between the captures, packet by packet",
            scene.scene.flow.flow,
            (panel,),
            see=SEE_JITTER,
        )
        .noted(_OFFLOADED if is_offloaded(scene.own) else None)
        .noted(f"Interarrival jitter: {mean} on average, {last} at the end.")
    )
