"""Bytes in flight: how much was sent and not yet acknowledged, with the losses on it."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.scene import TIME, Scene, byte_unit, layer, points, present
from whydrop.show.figure import Axis, Figure, Panel

SEE = (
    "The blue line is the data in flight. TCP lets it grow until packets are lost (crosses) and then "
    "cuts it. Losses always at one height mean a full queue; losses at any height mean a policer or a bad link. Where "
    "the line lies along the dashed one, the receiver allows no more."
)


def figure(scene: Scene) -> Figure:
    """Draw bytes in flight over time."""
    scene.need_segments()
    # A packet just sent is itself in flight: a zero means that the capture missed it.
    known = scene.segments.filter(pl.col("in_flight_bytes") > 0)
    largest = known["in_flight_bytes"].max()
    scale, unit = byte_unit(float(largest) if isinstance(largest, int) else 0.0)
    in_flight = pl.col("in_flight_bytes") / scale
    layers = [
        layer(
            "receive window",
            "window",
            "step",
            points(scene.acks, pl.col("t"), pl.col("window_bytes") / scale),
            stretch=False,
        ),
        layer("bytes in flight", "level", "line", points(known, pl.col("t"), in_flight)),
        losses.lost(known, in_flight),
    ]
    return Figure(
        "in-flight",
        "Bytes in flight, and where packets were lost",
        scene.flow.flow,
        (Panel(TIME, Axis(f"Bytes in flight ({unit})", from_zero="always"), present(layers), zoom="time"),),
        see=SEE,
    )
