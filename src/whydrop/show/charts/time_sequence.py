"""Time-sequence: which byte was sent when, which was lost, what the receiver had acknowledged.

The vocabulary is that of tcptrace's graphs: data as bars of their length, the acknowledged line below, the receive
window's edge above.
"""

from __future__ import annotations

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.scene import TIME, Scene, byte_unit, layer, points, present
from whydrop.show.figure import Axis, Figure, Panel

SEE = (
    "Each blue mark is a segment of data; steeper means faster. The thin green line is what the receiver "
    "has acknowledged. A cross is a packet that never arrived: the green line stops below it until the packet is "
    "retransmitted (triangles and squares)."
)


def figure(scene: Scene) -> Figure:
    """Draw sequence number over time."""
    scene.need_segments()
    end = pl.col("sequence") + pl.col("payload_bytes")
    largest = scene.segments.select(end.max()).item()
    scale, unit = byte_unit(float(largest))
    first = scene.segments.filter(pl.col("kind") == "new")
    middle = (pl.col("sequence") + pl.col("payload_bytes") / 2) / scale
    acks = scene.acks.filter(pl.col("acknowledged") >= 0)
    edge = (pl.col("acknowledged") + pl.col("window_bytes")) / scale
    # A duplicate SACK (RFC 2883) repeats data below the acknowledged line: it is not out of order.
    sacks = scene.sacks.filter(~pl.col("duplicate"))
    layers = [
        layer("edge of the receive window", "window", "step", points(acks, pl.col("t"), edge), stretch=False),
        layer("acknowledged", "acknowledged", "step", points(acks, pl.col("t"), pl.col("acknowledged") / scale)),
        layer(
            "received out of order (SACK)",
            "sack",
            "spans",
            points(sacks, pl.col("t"), pl.col("start") / scale, y2=pl.col("end") / scale),
        ),
        layer(
            "data sent",
            "segment",
            "spans",
            points(first, pl.col("t"), pl.col("sequence") / scale, y2=end / scale),
        ),
        *losses.retransmissions(scene.segments, middle),
        losses.lost(scene.segments, middle),
    ]
    return Figure(
        "time-sequence",
        "Data sent, acknowledged and lost",
        scene.flow.flow,
        (Panel(TIME, Axis(f"Sequence number ({unit})", from_zero="whole"), present(layers), zoom="time"),),
        see=SEE,
    )
