"""Round-trip time over time: whether packets wait before they are lost."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.scene import TIME, Scene, layer, points, present, rule
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel

SEE = (
    "Each dot is the round-trip time of one packet: until its acknowledgment came. Dots that climb before losses "
    "(crosses, on the base line) show a queue that fills up; dots that stay flat while packets are lost show that "
    "nothing queues, as with a policer."
)


def figure(scene: Scene) -> Figure:
    """Draw the round-trip time of each segment over time."""
    scene.need_segments()
    if scene.flow.vantage == "receiver":
        raise NothingToDraw(
            f"{scene.flow.flow}: captured at its receiver, where acknowledgments show no round-trip time"
        )
    rtt = points(scene.segments, pl.col("t"), pl.col("rtt_ns") / 1e6)
    if rtt.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no acknowledgment gives a round-trip time")
    shortest = scene.flow.rtt_min_s
    layers = [
        layer("round-trip time of a packet", "segment", "points", rtt),
        losses.rug(scene.segments, 0.0),
    ]
    if shortest is not None:
        layers.insert(1, rule("shortest", "limit", shortest * 1e3))
    return Figure(
        "rtt",
        "Round-trip time",
        scene.flow.flow,
        (Panel(TIME, Axis("Round-trip time (ms)", from_zero="always"), present(layers), zoom="time"),),
        see=SEE,
    )
