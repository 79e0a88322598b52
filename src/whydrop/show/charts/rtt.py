"""Round-trip time over time: whether packets wait before they are lost."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.figure import Figure, Layer, NothingToDraw, Scene, points, present

SEE = (
    "Each dot is how long one packet and its confirmation took. Dots that climb before the losses (crosses, on the "
    "base line) show a queue that fills up; dots that stay flat while packets are lost show that nothing queues, as "
    "with a policer."
)


def figure(scene: Scene) -> Figure:
    """Draw the round-trip time of each segment over time."""
    scene.need_segments()
    rtt = points(scene.segments, pl.col("t"), pl.col("rtt_ns") / 1e6)
    if rtt.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no acknowledgment tells a round-trip time")
    shortest = scene.flow.rtt_min_s
    layers = [
        Layer("round-trip time of a packet", "segment", "points", rtt),
        losses.rug(scene.segments, 0.0),
    ]
    if shortest is not None:
        layers.insert(1, Layer("shortest", "limit", "rule", pl.DataFrame({"y": [shortest * 1e3]})))
    return Figure(
        key="rtt",
        title="Round-trip time",
        flow=scene.flow.flow,
        x_title="Time since the flow's first packet (s)",
        y_title="Round-trip time (ms)",
        see=SEE,
        layers=present(layers),
    )
