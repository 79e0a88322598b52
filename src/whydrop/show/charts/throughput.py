"""Throughput: what was sent and what arrived, beside the rate of the fitted model."""

from __future__ import annotations

import math

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.scene import Scene, layer, points, present, rate_unit, rule
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

SEE = (
    "The solid line is the rate of the sent data, the dashed line that of the acknowledged data. Where the solid line "
    "is above, the difference was lost or queued. A level dashed line shows a fixed limit on the path."
)

# Enough windows to show how the rate moves, long enough that one holds several packets.
_WINDOWS = 120
_RATES = ("rate_bps", "drain_rate_bps")


def figure(scene: Scene) -> Figure:
    """Draw sent and acknowledged rate over time, each an average over equal windows."""
    scene.need_segments()
    window = _window_s(scene)
    sent = _binned(scene.segments.select("t", amount=pl.col("ip_bytes")), window)
    acknowledged = _binned(_in_time(scene).select("t", amount=_newly_acknowledged()), window)
    limit = next((value for name in _RATES if (value := scene.parameter(name)) is not None), None)
    if sent.height < 2:
        raise NothingToDraw(f"{scene.flow.flow}: the flow is too short for a rate")
    ends = [rates["y"].max() for rates in (sent, acknowledged) if not rates.is_empty()]
    scale, unit = rate_unit(max([*(float(end) for end in ends if isinstance(end, float)), limit or 0.0]))
    layers = [
        layer("sent (IP bytes)", "segment", "line", _in_unit(sent, scale)),
        layer("acknowledged (payload)", "arrived", "line", _in_unit(acknowledged, scale)),
        losses.rug(scene.segments, 0.0),
    ]
    if limit is not None and scene.verdict is not None:
        name = f"fitted {scene.verdict.cause} rate: {quantities.rate(limit)}"
        layers.append(rule(name, "limit", limit / scale))
    return Figure(
        "throughput",
        "Throughput, sent and acknowledged",
        scene.flow.flow,
        (
            Panel(
                Axis(f"Time since the flow's first packet (s), averages over {quantities.duration(window)}"),
                Axis(f"Throughput ({unit})", from_zero="always"),
                present(layers),
                zoom="time",
            ),
        ),
        see=SEE,
    )


def _window_s(scene: Scene) -> float:
    """A whole number of round trips, where the round trip is known: bursts repeat with it, and would beat otherwise."""
    last = scene.segments["t"].max()
    shortest = max((float(last) if isinstance(last, float) else 0.0) / _WINDOWS, 1e-3)
    rtt = scene.flow.rtt_min_s or 0.0
    return math.ceil(shortest / rtt) * rtt if rtt >= 1e-3 else shortest


def _in_time(scene: Scene) -> pl.DataFrame:
    """The acknowledgments until as long after the last packet as the flow sent for: what comes days later is none."""
    last = scene.segments["t"].max()
    return scene.acks.filter(pl.col("t") <= 2 * (float(last) if isinstance(last, float) else 0.0) + 1.0)


def _newly_acknowledged() -> pl.Expr:
    """Payload bytes that each acknowledgment adds; an old one that arrives late adds nothing."""
    best = pl.col("acknowledged").cum_max()
    return best.diff().fill_null(0)


def _binned(amounts: pl.DataFrame, window: float) -> pl.DataFrame:
    """Bit/s in each whole window, at its middle; a window without packets is a zero and not a gap."""
    bins = amounts.group_by((pl.col("t") / window).floor().cast(pl.Int64).alias("bin")).agg(pl.col("amount").sum())
    last = bins["bin"].max()
    # The flow ends within the last window, so an average over all of it would say too little.
    every = pl.DataFrame({"bin": range(last if isinstance(last, int) else 0)}, schema={"bin": pl.Int64})
    full = every.join(bins, on="bin", how="left").fill_null(0).sort("bin")
    return points(full, (pl.col("bin") + 0.5) * window, pl.col("amount") * 8 / window)


def _in_unit(rates: pl.DataFrame, scale: float) -> pl.DataFrame:
    return rates.with_columns(pl.col("y") / scale)
